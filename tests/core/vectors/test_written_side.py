"""systemd properties, kernel texts, OCI blocks and resizes, where no vector of a release is."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core import quantity
from qoslet.core.cgroup import controllers, unit_properties
from qoslet.core.plan.plan import plan
from tests.core.vectors.fixtures import (
    block_rows,
    files,
    node_of,
    pairs,
    pod_of,
    policy_for,
)
from tests.core.vectors.resource_config import Config, read_config, update_settings

UNLIMITED = unit_properties.UNLIMITED


@pytest.mark.parametrize(
    ("unified", "version", "expected"),
    [
        ({"memory.min": "4096", "memory.high": "max"}, 257,
         [("MemoryMin", 4096), ("MemoryHigh", UNLIMITED)]),
        ({"memory.low": " 1 ", "memory.swap.max": "0"}, 257,
         [("MemoryLow", 1), ("MemorySwapMax", 0)]),
        ({"pids.max": "max"}, 257, [("TasksMax", UNLIMITED)]),
        ({"cpu.max": "1500"}, 257,
         [("CPUQuotaPeriodUSec", 100_000), ("CPUQuotaPerSecUSec", 20_000)]),
        ({"cpu.max": "max 5000"}, 241, [("CPUQuotaPerSecUSec", UNLIMITED)]),
        ({"cpuset.cpus": "0-1", "cpuset.mems": "0"}, 244,
         [("AllowedCPUs", b"\x03"), ("AllowedMemoryNodes", b"\x01")]),
        ({"cpuset.cpus": "0-1"}, 243, []),
        ({"cpu.idle": "1", "cpu.weight": "50"}, 251, [("CPUWeight", 50)]),
        ({"misc.max": "res_a 1"}, 257, []),
    ],
)  # fmt: skip
def test_properties_of_a_map(
    unified: dict[str, str], version: int, expected: list[tuple[str, object]]
) -> None:
    assert unit_properties.properties(unified, version) == expected


@pytest.mark.parametrize(
    "unified",
    [
        {"memory/max": "1"},
        {"memory": "1"},
        {".max": "1"},
        {"memory.max": "-1"},
        {"memory.max": ""},
        {"cpu.max": "1 2 3"},
        {"cpu.max": ""},
        {"cpu.weight": "max x"},
        {"cpuset.cpus": "3-1"},
    ],
)
def test_no_properties(unified: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        unit_properties.properties(unified, 257)


def test_no_bandwidth_is_no_property() -> None:
    assert unit_properties.bandwidth(0, 0, 257) == []


def test_hugepage_directories_that_name_no_size() -> None:
    found = controllers.hugepage_sizes(["hugepages-2048kB", "hugepages-akB", "hugepages-3069kB"])
    assert found.sizes == ("2MB",)
    assert found.unknown == ("hugepages-akB", "hugepages-3069kB")


BLOCK: dict[str, Any] = {
    "pids": {"limit": 0},
    "memory": {"limit": -1},
    "cpu": {"idle": 1, "burst": 100, "quota": 1000, "period": 0},
    "unified": {"memory.high": "4096"},
}


def test_runc_and_crun_differ() -> None:
    runc = files(block_rows(policy_for("1.36", runtime="runc-1.4.0"), BLOCK))
    crun = files(block_rows(policy_for("1.36", runtime="crun-1.23"), BLOCK))
    assert runc == {
        "pids.max": "1",
        "memory.swap.max": "max",
        "memory.max": "max",
        "cpu.idle": "1",
        "cpu.max": "1000 100000",
        "cpu.max.burst": "100",
        "memory.high": "4096",
    }
    assert crun == {k: v for k, v in runc.items() if k not in ("pids.max", "memory.swap.max")}
    huge = {"hugepageLimits": [{"pageSize": "2MB", "limit": 1}]}
    found = files(block_rows(policy_for("1.36", runtime="crun-1.23"), huge))
    assert found == {"hugetlb.2MB.max": "1"}


@pytest.mark.parametrize(
    "block",
    [
        {"memory": {"limit": 0, "swap": 5}},
        {"memory": {"limit": 10, "swap": 5}},
        {"unified": {"../cpu.max": "1"}},
    ],
)
def test_blocks_that_a_runtime_refuses(block: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        block_rows(policy_for("1.36"), block)


def test_block_of_several_devices() -> None:
    devices = [{"major": 8, "minor": n, "weight": 10 * n, "rate": n} for n in (1, 2)]
    io = {"weight": 100, "weightDevice": devices, "throttleReadBpsDevice": devices}
    found = files(block_rows(policy_for("1.36"), {"blockIO": io}))
    assert found["io.bfq.weight"] == "100\n8:1 10\n8:2 20"
    assert found["io.max"] == "8:1 rbps=1\n8:2 rbps=2"


GUARANTEED = {"cpu": "50m", "memory": "1Gi"}
POD = pod_of({"containers": [{"name": "c", "requests": GUARANTEED, "limits": GUARANTEED}]})


@pytest.mark.parametrize(("hierarchy", "shares"), [("v1", 51), ("v2", 28)])
def test_a_pods_group_read_back(hierarchy: str, shares: int) -> None:
    """Through cpu.weight shares come back with a loss: 50m is 51, weight 2 and then 28."""
    host = {"hierarchy": hierarchy, "hugepage_sizes": (2 << 20,)}
    (group,) = (
        g for g in plan([POD], node_of(36, host=host, pod_pids_limit=9)).cgroups if g.level == "pod"
    )
    assert read_config(pairs(group.settings)) == Config(
        memory=1 << 30,
        cpu_shares=shares,
        cpu_quota=5000,
        cpu_period=100_000,
        pids=9,
        hugepages={2 << 20: 0},
    )


def test_unlimited_is_read_as_minus_one() -> None:
    written = [("memory.max", "max"), ("cpu.max", "max 100000"), ("pids.max", "max")]
    found = read_config(written)
    assert (found.memory, found.cpu_quota, found.pids) == (-1, -1, -1)


def test_update_on_v1_writes_no_unified_entry() -> None:
    policy = policy_for(36, host={"hierarchy": "v1"})
    config = Config(cpu_quota=-1, cpu_period=5000, unified={"memory.low": "1"})
    found = files(update_settings(policy, config))
    assert found == {"cpu.cfs_period_us": "5000", "cpu.cfs_quota_us": "-1"}


@pytest.mark.parametrize(
    ("text", "value", "milli"), [("-1500m", -2, -1500), ("-0.1", -1, -100), ("-1u", -1, -1)]
)
def test_negative_parts_round_away_from_zero(text: str, value: int, milli: int) -> None:
    found = quantity.parse(text)
    assert (found.value, found.milli) == (value, milli)
