"""What pods use and how near they are to their limits."""

from __future__ import annotations

from qoslet.core.status.snapshot import GroupRow
from qoslet.core.status.usage import usage_of
from qoslet.core.workload.pod_status import PodUsage

MIB = 1 << 20


def group(container: str, **more: object) -> GroupRow:
    level = "container" if container else "pod"
    return GroupRow(f"/p/{container}", "", level, "", container=container, exists=True, **more)  # type: ignore[arg-type]


def test_a_share_is_that_of_the_nearest_limit() -> None:
    pod = group("", cpu=0.3, memory=90 * MIB, throttled_seconds=1.0, found={"memory.max": "max"})
    hog = group("hog", cpu=0.19, memory=16 * MIB, throttled_seconds=5.0,
                found={"cpu.max": "20000 100000", "memory.max": str(32 * MIB)})  # fmt: skip
    free = group(
        "free", cpu=0.11, memory=74 * MIB, throttled_seconds=0.0, found={"cpu.max": "max 100000"}
    )
    used = usage_of([pod, hog, free], 2.0)
    assert used["hog"] == PodUsage(2.0, 0.19, 0.2, 0.95, 5.0, 16 * MIB, 32 * MIB, 0.5)
    assert used["free"].cpu_share is None
    whole = used[""]
    assert (whole.cpu, whole.cpu_limit, whole.cpu_share) == (0.3, None, 0.95)
    assert (whole.memory, whole.memory_limit, whole.memory_share) == (90 * MIB, None, 0.5)
    assert whole.throttled == 5.0


def test_v1_prints_no_limit_as_a_number() -> None:
    one = group("c", memory=MIB, found={"memory.limit_in_bytes": str((1 << 63) - 4096),
                                        "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"})  # fmt: skip
    assert usage_of([one], None)["c"] == PodUsage(memory=MIB)


def test_a_pod_without_a_cgroup_of_its_own_uses_what_its_containers_do() -> None:
    used = usage_of([group("a", cpu=0.1, memory=1), group("b", cpu=0.2, memory=2)], 1.0)[""]
    assert (round(used.cpu or 0, 3), used.memory) == (0.3, 3)


def test_nothing_is_known_of_what_does_not_exist() -> None:
    assert usage_of([GroupRow("/p", "", "pod", "")], 1.0) == {}
