"""The numbers of the design documents: CPU, tiers, reservations, names."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.cgroup import names
from qoslet.core.resources.windows import windows_settings
from qoslet.core.rules import cpu
from tests.core.vectors.fixtures import block_rows, files, node_of, pod_of, policy_for
from tests.core.vectors.test_designs import (
    ALLOCATABLE,
    GI,
    POD1,
    POD2,
    POD3,
    POD4,
    POD5,
    planned,
    pod,
    read,
)


def hierarchy(**kubelet: Any) -> dict[str, dict[str, str]]:
    """The example's node with its five pods."""
    capacity = {"memory": str(ALLOCATABLE)}
    node = node_of("design", capacity=capacity, host={"hierarchy": "v1"}, **kubelet)
    return planned(node, read(POD1, POD2, POD3, POD4, POD5))


def shares(milli: int) -> str:
    """cpu.shares: the document writes millicores and means this."""
    return str(cpu.shares(milli))


@pytest.mark.parametrize(
    ("milli", "amount"), [(110, 112), (20, 20), (120, 122), (10, 10), (130, 133)]
)
def test_shares_that_the_example_writes_as_millicores(milli: int, amount: int) -> None:
    assert cpu.shares(milli) == amount == milli * 1024 // 1000


@pytest.mark.parametrize("milli", [10, 20, 100, 110, 150, 500, 1000, 1500, 64_000])
def test_conversion_of_millicores(milli: int) -> None:
    assert cpu.shares(milli) == milli * 1024 // 1000
    assert cpu.QUOTA_PERIOD_US == 100_000
    assert cpu.quota(milli, cpu.QUOTA_PERIOD_US) == milli * 100_000 // 1000


@pytest.mark.parametrize(
    ("group", "milli", "quota", "memory"),
    [
        ("/pod1", 110, 110, 3 * GI),
        ("/pod2", 20, 20, 2 * GI),
        ("/burstable/pod3", 120, 150, 3 * GI),
        ("/burstable/pod4", 10, 20, 2 * GI),
    ],
)
def test_pods_of_the_example(group: str, milli: int, quota: int, memory: int) -> None:
    assert hierarchy()[group] == {
        "memory.limit_in_bytes": str(memory),
        "cpu.shares": shares(milli),
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": str(quota * 100),
    }


def test_besteffort_pod_and_tier_of_the_example() -> None:
    found = hierarchy()
    assert found["/besteffort/pod5"] == {"cpu.shares": "2"}
    assert found["/besteffort"] == {"cpu.shares": "2"}


def test_burstable_tier_of_the_example() -> None:
    assert hierarchy()["/burstable"] == {"cpu.shares": shares(130)}
    empty = planned(node_of("design", host={"hierarchy": "v1"}), read(POD1, POD5))
    assert empty["/burstable"] == {"cpu.shares": "2"}


def test_reservation_of_the_example() -> None:
    """The tiers' limits are printed although the example says that the flag is off. Allocatable
    - 7Gi counts no memory request where Pod3 has only the limit, of which its CPU counts 100m."""
    found = hierarchy(qos_reserved=100)
    limit = "memory.limit_in_bytes"
    assert found["/burstable"][limit] == str(ALLOCATABLE - 5 * GI)
    assert found["/besteffort"][limit] == str(ALLOCATABLE - 7 * GI)
    assert limit not in hierarchy()["/burstable"]
    assert limit not in hierarchy()["/besteffort"]


def test_reservation_of_zero_percent_is_allocatable() -> None:
    found = hierarchy(qos_reserved=0)
    for tier in ("/burstable", "/besteffort"):
        assert found[tier]["memory.limit_in_bytes"] == str(ALLOCATABLE)


def test_reservation_joins_before_the_percentage() -> None:
    """The formula sums requests first; the code of every release cuts each term."""
    cores = {"cpu": "1", "memory": "3"}
    pods = read(pod("G", (cores, cores)), pod("B", ({"memory": "3"}, {})))
    amounts = []
    for release in ("design", "1.36"):
        node = node_of(
            release,
            capacity={"memory": "1000"},
            host={"hierarchy": "v1"},
            gates={"QOSReserved": True},
            qos_reserved=50,
        )
        amounts.append(planned(node, pods)["/besteffort"]["memory.limit_in_bytes"])
    assert amounts == ["997", "998"]


def test_burstable_limits_only_where_every_container_has_one() -> None:
    some = pod("S", ({}, {"cpu": "1", "memory": "1Gi"}), ({"cpu": "1"}, {"memory": "1Gi"}))
    node = node_of("design", host={"hierarchy": "v1"})
    found = planned(node, read(some))["/burstable/podS"]
    assert found == {"cpu.shares": "2048", "memory.limit_in_bytes": str(2 * GI)}


def test_naming_example() -> None:
    name = names.from_cgroupfs("/burstable/pod123-456")
    assert names.unit_of(name) == "burstable-pod123_456.slice"
    assert names.to_systemd(name) == "/burstable.slice/burstable-pod123_456.slice"


def test_cgroup_root_is_the_hierarchys_root() -> None:
    assert names.to_cgroupfs(names.root_of("/", True)) == "/kubepods"
    assert node_of("design").kubelet.cgroup_root == "/"


def test_reserve_needs_no_gate() -> None:
    assert policy_for("design", qos_reserved=10).reserve_percent == 10


# KEP-2254: cgroups v2

DISK = {"major": 8, "minor": 0}


@pytest.mark.parametrize(
    ("block", "file", "value"),
    [
        ({"memory": {"limit": 1000}}, "memory.max", "1000"),
        ({"memory": {"limit": 1000, "swap": 1500}}, "memory.swap.max", "1500"),
        ({"memory": {"reservation": 500}}, "memory.low", "500"),
        ({"pids": {"limit": 100}}, "pids.max", "100"),
        ({"cpu": {"shares": 2}}, "cpu.weight", "1"),
        ({"cpu": {"shares": 1024}}, "cpu.weight", "39"),
        ({"cpu": {"shares": 262144}}, "cpu.weight", "10000"),
        ({"cpu": {"quota": 5000, "period": 20000}}, "cpu.max", "5000 20000"),
        ({"blockIO": {"weight": 10}}, "io.bfq.weight", "1"),
        ({"blockIO": {"weight": 108}}, "io.bfq.weight", "990"),
        (
            {"blockIO": {"weightDevice": [{**DISK, "weight": 100}]}},
            "io.bfq.weight",
            "8:0 910",
        ),
        ({"blockIO": {"throttleReadBpsDevice": [{**DISK, "rate": 1}]}}, "io.max", "8:0 rbps=1"),
        ({"blockIO": {"throttleWriteBpsDevice": [{**DISK, "rate": 2}]}}, "io.max", "8:0 wbps=2"),
        ({"blockIO": {"throttleReadIOPSDevice": [{**DISK, "rate": 3}]}}, "io.max", "8:0 riops=3"),
        ({"blockIO": {"throttleWriteIOPSDevice": [{**DISK, "rate": 4}]}}, "io.max", "8:0 wiops=4"),
        ({"cpu": {"cpus": "0-3"}}, "cpuset.cpus", "0-3"),
        ({"cpu": {"mems": "0"}}, "cpuset.mems", "0"),
        ({"hugepageLimits": [{"pageSize": "2MB", "limit": 9}]}, "hugetlb.2MB.max", "9"),
    ],
)
def test_conversion_of_an_oci_block(block: dict[str, Any], file: str, value: str) -> None:
    assert files(block_rows(policy_for("design"), block))[file] == value


def test_what_runtimes_write_differently_today() -> None:
    block = {
        "blockIO": {"weight": 500},
        "cpu": {"shares": 1024},
        "memory": {"limit": 1000, "swap": 1500},
    }
    found = files(block_rows(policy_for("1.36"), block))
    assert found["io.bfq.weight"] == "500"
    assert found["cpu.weight"] == "100"
    assert found["memory.swap.max"] == "500"


@pytest.mark.parametrize("amount", [2, 3, 51, 102, 1024, 2048, 10240, 262143, 262144])
def test_line_of_shares_and_weight(amount: int) -> None:
    assert cpu.weight_linear(amount) == 1 + ((amount - 2) * 9999) // 262142
    assert policy_for("design").runtime.weight(amount) == cpu.weight_linear(amount)


# CRI: Windows container configuration

PROCESSORS = 4


def windows(limits: dict[str, str], isolation: str, **requests: str) -> dict[str, str]:
    """The message of a container on a machine of four processors."""
    found = pod_of({"containers": [{"name": "c", "limits": limits, "requests": requests}]})
    policy = policy_for("design", os="windows", capacity={"cpu": PROCESSORS}, isolation=isolation)
    return files(windows_settings(policy, found, found.containers[0]))


@pytest.mark.parametrize("isolation", ["process", "hyperv"])
@pytest.mark.parametrize("milli", [100, 500, 999, 1500, 2500, 4000])
def test_windows_table(milli: int, isolation: str) -> None:
    """cpu_maximum is multiplied before it is divided: as written it would be 0 in integers."""
    found = windows({"cpu": f"{milli}m", "memory": "1Gi"}, isolation)
    count = (milli + 1000) // 1000
    per = count if isolation == "hyperv" else PROCESSORS
    assert found == {
        "cpu_count": str(count),
        "cpu_shares": str(milli * 10_000 // (PROCESSORS * 1000)),
        "cpu_maximum": str(milli * 10_000 // per // 1000),
        "memory_limit_in_bytes": str(GI),
    }


def test_windows_count_of_one_cpu_is_two() -> None:
    """(milli + 1000) / 1000 over-counts whole CPUs; shipped code rounded up with 999."""
    assert windows({"cpu": "1"}, "process")["cpu_count"] == "2"


def test_windows_shares_fall_back_to_the_request() -> None:
    assert windows({}, "process", cpu="500m") == {"cpu_shares": "1250"}
    assert windows({}, "process") == {}


def test_windows_hyperv_example() -> None:
    """ "CPUCount=2, CPUMaximum=5000 would limit each CPU to 50%": 1000m under the formulas."""
    found = windows({"cpu": "1"}, "hyperv")
    assert (found["cpu_count"], found["cpu_maximum"]) == ("2", "5000")
