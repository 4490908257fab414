"""Two looks at memory to what happened; records of a kernel's log to who died. No machine."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.events import (
    UNPROTECTED,
    OomKill,
    ProtectedBytes,
    Reclaimed,
    change_between,
    zone,
)
from qoslet.core.memory.rows import TrackedCgroup
from qoslet.core.memory.sample import MemorySample
from qoslet.core.memory.stat_parser import kill_of, node_memory, number, pairs, pressure, stat_v1

MIB = 1 << 20
REQUEST = 100 * MIB


def sample(path: str = "/q/a", at: float = 0.0, used: int = 50, **more: Any) -> MemorySample:
    """A look; ``used`` and limits in MiB."""
    for name in ("high", "low", "min", "max"):
        if name in more and more[name] != UNLIMITED:
            more[name] *= MIB
    return MemorySample(path, at, more.pop("identity", 1), used * MIB, **more)


def pages(taken: int, scanned: int = 0, refaults: int = 0) -> dict[str, int]:
    return {"pgsteal": taken, "pgscan": scanned or taken, "workingset_refault_file": refaults}


def test_counters_grow_and_a_new_group_begins_at_zero() -> None:
    before = sample(events={"oom_kill": 2, "high": 5})
    after = sample(events={"oom_kill": 3, "high": 5})
    assert change_between(before, after, 0, UNPROTECTED).events == {"oom_kill": 1}
    assert change_between(None, after, 0, UNPROTECTED).events == {"oom_kill": 3, "high": 5}
    anew = sample(events={"oom_kill": 1}, identity=2)
    assert change_between(before, anew, 0, UNPROTECTED).events == {"oom_kill": 1}
    back = sample(events={"oom_kill": 1})
    assert change_between(before, back, 0, UNPROTECTED).events == {}


@pytest.mark.parametrize(
    ("used", "high", "events", "where"),
    [
        (50, UNLIMITED, {}, "below_request"),
        (100, 200, {}, "below_request"),
        (101, 200, {}, "above_request"),
        (200, 200, {}, "above_high"),
        (199, 200, {"high": 1}, "above_high"),
        (150, None, {}, "above_request"),
    ],
)
def test_pages_are_taken_in_a_zone(
    used: int, high: int | None, events: dict[str, int], where: str
) -> None:
    more: dict[str, Any] = {} if high is None else {"high": high}
    before = sample(used=used - 1, stat=pages(10, 20, 1), **more)
    after = sample(used=used, stat=pages(14, 30, 3), events=events, **more)
    found = change_between(before, after, REQUEST, UNPROTECTED)
    assert (found.zone, found.reclaimed) == (where, Reclaimed(10, 4, 2))


def test_the_higher_of_two_usages_says_the_zone() -> None:
    before = sample(used=210, high=200)
    after = sample(used=90, high=200, stat=pages(40))
    assert change_between(before, after, REQUEST, UNPROTECTED).zone == "above_high"
    assert zone(90 * MIB, REQUEST, 200 * MIB) == "below_request"


@pytest.mark.parametrize(
    ("before", "after", "taken", "low", "least", "found"),
    [
        (50, 50, 1, 60, 0, "below_low"),
        (50, 50, 1, 60, 55, "below_min"),
        (50, 50, 0, 60, 55, None),
        (70, 50, 1, 60, 0, None),
        (50, 70, 1, 60, 0, None),
        (60, 60, 1, 60, 60, "below_min"),
        (61, 60, 1, 60, 60, None),
    ],
)
def test_a_breach_is_pages_taken_below_the_effective_protection(
    before: int, after: int, taken: int, low: int, least: int, found: str | None
) -> None:
    kept = ProtectedBytes(low * MIB, least * MIB)
    events = change_between(
        sample(used=before), sample(used=after, stat=pages(taken)), REQUEST, kept
    ).events
    assert events == ({} if found is None else {found: 1})


def test_what_is_protected_may_differ_between_two_looks() -> None:
    before, after = sample(used=50), sample(used=40, stat=pages(9))
    now, then = ProtectedBytes(40 * MIB, 0), ProtectedBytes(50 * MIB, 0)
    assert change_between(before, after, REQUEST, now, then).events == {"below_low": 1}
    assert change_between(before, after, REQUEST, now, UNPROTECTED).events == {}
    assert change_between(None, sample(used=0, stat=pages(9)), REQUEST, UNPROTECTED).events == {}


def test_time_stalled_is_what_the_kernel_counts() -> None:
    some = pressure(
        "some avg10=1.50 avg60=0.00 avg300=0.00 total=700\n"
        "full avg10=0.25 avg60=0.00 avg300=0.00 total=300\n"
    )
    assert some is not None
    assert (some.some_avg10, some.some_total, some.full_avg10, some.full_total) == (
        (1.5, 700, 0.25, 300)
    )
    looks = [(sample(), 300, 700), (sample(pressure=some), 0, 0)]
    for before, full, least in looks:
        found = change_between(before, sample(pressure=some), 0, UNPROTECTED)
        assert (found.stalled, found.waited) == (full, least)
    assert change_between(sample(), sample(), 0, UNPROTECTED).waited == 0


@pytest.mark.parametrize(
    "text",
    [None, "", "some", "some avg10=1", "some avg10=x total=1\nfull avg10=1 total=1", "\n\n"],
)
def test_pressure_that_is_none(text: str | None) -> None:
    assert pressure(text) is None


def test_hostile_numbers_are_absent() -> None:
    assert number("max\n") == UNLIMITED
    assert number("12\n") == 12
    for text in (None, "", "-1", "1e3", "9" * 30, "१२", "0x10"):
        assert number(text) is None
    assert pairs("a 1\nb\nc x\nd -2\ne 3 4\nf 7") == {"a": 1, "f": 7}
    assert stat_v1("rss 1\ntotal_rss 5\ntotal_cache 7\nhierarchical_memory_limit 9") == {
        "anon": 5,
        "file": 7,
    }


def test_the_machine_as_one_value() -> None:
    found = node_memory(
        1.0,
        "MemTotal: 2048 kB\nMemFree: 512 kB\nMemAvailable: 1024 kB\nSwapTotal: 4 kB\nSwapFree: 2 kB\nShmem: 3 kB",
        "pgscan_kswapd 3\npgscan_direct 4\npgscan_anon 7\npgsteal_kswapd 2\npgsteal_file 2\n",
        None,
    )
    assert (found.total, found.available, found.swap_free) == (2 * MIB, MIB, 2048)
    assert found.shmem == 3072
    assert (found.scanned, found.stolen) == (7, 2), "the same pages by type are not added again"
    assert node_memory(1.0, "", "", "").stolen is None


def test_what_lies_on_the_lists_of_cpus_is_free() -> None:
    """A process of 137 MiB was killed: 6 MiB more were free on Linux 6.18, and 133 on these lists."""
    lists = "".join(
        f"    cpu: {one}\n              count:    {count}\n              high:     0\n"
        for one, count in enumerate((30, 12))
    )
    zones = f"Node 0, zone   Normal\n  pages free     77\n  pagesets\n{lists}  start_pfn: 1\n"
    meminfo = "MemTotal: 2048 kB\nMemFree: 512 kB\nMemAvailable: 1024 kB"
    found = node_memory(1.0, meminfo, "", None, zones * 2, 4096)
    assert found.free == 512 * 1024 + 84 * 4096
    assert found.available == MIB + 84 * 4096


LINE = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=app,mems_allowed=0,"
    "oom_memcg=/q/kubepods/podu,task_memcg=/q/kubepods/podu/app,task={},pid=31,uid=0"
)
KILLED = (
    "Memory cgroup out of memory: Killed process 31 ({}) total-vm:112364kB, anon-rss:61440kB, "
    "file-rss:8192kB, shmem-rss:0kB, UID:0 pgtables:240kB oom_score_adj:996"
)


@pytest.mark.parametrize(
    "name", ["hog", "a b", "x,pid=7,uid=0", "), anon-rss:1kB", ",task=y", "é\\x0a", ""]
)
def test_a_record_of_a_kill_whatever_the_process_is_called(name: str) -> None:
    one = kill_of(f"6,812,99,-;{LINE.format(name)}\n SUBSYSTEM=x\n")
    assert one == OomKill(31, name, "/q/kubepods/podu/app", "/q/kubepods/podu")
    two = kill_of(f"3,813,99,-;{KILLED.format(name)}")
    assert two is not None
    assert (two.pid, two.name, two.resident) == (31, name, 68 * MIB)


def test_a_record_of_the_machine_s_memory_has_no_limit() -> None:
    text = LINE.format("x").replace("oom_memcg=/q/kubepods/podu", "global_oom")
    assert kill_of(f"6,1,2,-;{text}") == OomKill(31, "x", "/q/kubepods/podu/app")


@pytest.mark.parametrize(
    "record",
    [
        "",
        ";",
        "6",
        "x,1,2,-;",
        f"12,1,2,-;{LINE.format('x')}",
        f";{LINE.format('x')}",
        "6,1,2,-;oom-kill:",
    ],
)
def test_a_record_of_somebody_else_is_none(record: str) -> None:
    assert kill_of(record) is None


GROUP = TrackedCgroup("/q/p/app", "container", "d/p/app", "u", "d/p", "app", "Burstable", REQUEST)
POD = TrackedCgroup("/q/p", "pod", "d/p", "u", "d/p", "", "Burstable", REQUEST)
TOP = TrackedCgroup("/q", "node", "q")
GROUPS = {one.path: one for one in (TOP, POD, GROUP)}
