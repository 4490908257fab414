"""Every number that the five design documents print, under the profile ``design``.

Where a document's number contradicts its own formula, the test names the misprint.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from qoslet.core.api import manifest
from qoslet.core.api.documents import json_documents
from qoslet.core.api.pod import Pod
from qoslet.core.cgroup import names
from qoslet.core.node.node import Node
from qoslet.core.plan.plan import plan
from qoslet.core.resources.windows import windows_settings
from qoslet.core.rules import cpu
from qoslet.core.versions import kubernetes
from tests.core.vectors.fixtures import block_rows, files, node_of, pod_of, policy_for, quantities

MI, GI = 1 << 20, 1 << 30
GATE = {"MemoryQoS": True}
"""KEP-2570: "Set --feature-gates=MemoryQoS=true to enable the feature.\""""


def pod(name: str, *containers: tuple[dict[str, str], dict[str, str]]) -> dict[str, Any]:
    """A manifest with (requests, limits) for each container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name.lower(), "uid": name},
        "spec": {
            "containers": [
                {"name": f"c{at}", "resources": {"requests": asked, "limits": most}}
                for at, (asked, most) in enumerate(containers)
            ]
        },
    }


def read(*documents: dict[str, Any]) -> list[Pod]:
    """Manifests as the reader gives them: requests defaulted from limits."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}).encode()
    loaded = manifest.pods_from(json_documents(text, "doc.json"), manifest.Options())
    assert not loaded.faults
    return loaded.pods


def planned(node: Node, pods: list[Pod]) -> dict[str, dict[str, str]]:
    """Group name below the root to its files."""
    found = {}
    for group in plan(pods, node).cgroups:
        found[group.name.removeprefix("/kubepods") or "/"] = files(group.settings)
    return found


# KEP-2570: Memory QoS


def memory_high(
    request: int, limit: int, factor: float | None = None, form: str | None = None, **node: Any
) -> int | None:
    """``memory.high`` of the one container of a Burstable pod, in Mi; amounts in Mi."""
    # An explicit request of 0 is not defaulted from the limit.
    given = {"requests": {"memory": f"{request}Mi"}}
    if limit:
        given["limits"] = {"memory": f"{limit}Mi"}
    made = node_of(
        "design", host={"page_size": MI}, gates=GATE, memory_throttling_factor=factor, **node
    )
    made = structs.replace(made, profile=kubernetes.resolve("design", memory_qos=form))
    (found,) = read({**pod("P"), "spec": {"containers": [{"name": "c0", "resources": given}]}})
    text = planned(made, [found])
    (container,) = (rows for name, rows in text.items() if name.endswith("/c0"))
    high = container.get("memory.high")
    return None if high is None else int(high) // MI


@pytest.mark.parametrize(
    ("request_mi", "high"),
    [
        (0, 900),
        (100, 910),
        (200, 920),
        (300, 930),
        (400, 940),
        (500, 950),
        (600, 960),
        (700, 970),
        pytest.param(800, 980, id="800: the copy misprints 960"),
        pytest.param(900, 990, id="900: the copy misprints 980"),
        pytest.param(1000, None, id="1000: the copy prints the limit, which no file needs"),
    ],
)
def test_first_table_of_memory_qos(request_mi: int, high: int | None) -> None:
    assert memory_high(request_mi, 1000) == high


@pytest.mark.parametrize(
    ("request_mi", "factor", "first", "second"),
    [
        (500, 0.6, 600, 800),
        (800, 0.6, None, 920),
        pytest.param(1000, 0.6, None, None, id="1000Mi: the copy misprints 1Gi"),
        (500, 0.8, 800, 900),
        (850, 0.8, None, 970),
        pytest.param(500, 0.4, None, 700, id="500Mi: the copy misprints 500Gi and 800 < 400"),
    ],
)
def test_second_table_of_memory_qos(
    request_mi: int, factor: float, first: int | None, second: int | None
) -> None:
    assert memory_high(request_mi, 1000, factor, "1.22") == first
    assert memory_high(request_mi, 1000, factor) == second


def test_prose_examples_of_the_first_formula() -> None:
    assert memory_high(50, 100, 0.8, "1.22") == 80
    assert memory_high(85, 100, 0.8, "1.22") is None
    assert memory_high(500, 1000, 0.6, "1.22") == 600
    default = policy_for("1.22", gates={"MemoryQoS": True})
    assert default.factor == 0.8


def test_prose_example_that_writes_nothing() -> None:
    """ "early throttling at 800Mi" with request 800Mi: high is to be above the request."""
    assert memory_high(800, 1000, 0.8, "1.22") is None


def test_second_formula_has_the_factor_of_its_text() -> None:
    assert policy_for("design", gates=GATE).factor == 0.9


def test_cases_of_burstable_and_besteffort() -> None:
    node: dict[str, Any] = {"capacity": {"memory": f"{10_000 * MI}"}}
    assert memory_high(500, 1000, **node) == 500 + (1000 - 500) * 9 // 10  # case I
    assert memory_high(500, 0, **node) == 500 + (10_000 - 500) * 9 // 10  # case II
    assert memory_high(0, 1000, **node) == 1000 * 9 // 10  # case III
    assert memory_high(0, 0, **node) == 10_000 * 9 // 10  # BestEffort


def test_case_of_guaranteed_and_of_a_limit_alone() -> None:
    memory = {"memory": "1000Mi"}
    both = {"memory": "1000Mi", "cpu": "1"}
    node = node_of("design", capacity={"memory": "10Gi"}, host={"page_size": MI}, gates=GATE)
    equal = pod_of({"uid": "g", "containers": [{"name": "c", "requests": both, "limits": both}]})
    only = pod_of({"uid": "b", "containers": [{"name": "c", "limits": memory}]})
    found = planned(node, [equal, only])
    assert "memory.high" not in found["/podg/c"]
    assert found["/burstable/podb/c"]["memory.high"] == str(900 * MI)
    assert "memory.min" not in found["/burstable/podb/c"]


def test_mapping_of_container_pod_and_node() -> None:
    """Both mapping tables; the second's node row has its columns shifted (min, not high)."""
    node = node_of(
        "design",
        gates=GATE,
        capacity={"cpu": "8", "memory": "64Gi"},
        kube_reserved=quantities({"memory": "2Gi"}),
        system_reserved=quantities({"memory": "1Gi"}),
        kube_reserved_cgroup="/kube",
        system_reserved_cgroup="/system",
        enforce_node_allocatable=("pods", "kube-reserved", "system-reserved"),
    )
    one, two = {"cpu": "1", "memory": "1Gi"}, {"memory": "2Gi"}
    found = planned(
        node,
        read(
            pod("G", (one, one), (one, one)), pod("B", (two, {"memory": "4Gi"})), pod("E", ({}, {}))
        ),
    )
    assert found["/podG/c0"]["memory.min"] == found["/podG/c1"]["memory.min"] == str(GI)
    assert found["/podG"]["memory.min"] == str(2 * GI)
    assert found["/burstable/podB"]["memory.min"] == str(2 * GI)
    assert found["/burstable"]["memory.min"] == str(2 * GI)
    assert found["/"]["memory.min"] == str(4 * GI)
    assert found["/kube"]["memory.min"] == str(2 * GI)
    assert found["/system"]["memory.min"] == str(GI)
    assert found["/burstable/podB/c0"]["memory.max"] == str(4 * GI)
    above = [rows for name, rows in found.items() if not name.endswith(("/c0", "/c1"))]
    assert not any("memory.high" in rows for rows in above)
    assert found["/besteffort/podE/c0"]["memory.high"] == str(61 * GI * 9 // 10 // 4096 * 4096)


# pod-resource-management

POD1 = pod("1", ({}, {"cpu": "10m", "memory": "1Gi"}), ({}, {"cpu": "100m", "memory": "2Gi"}))
POD2 = pod("2", ({}, {"cpu": "20m", "memory": "2Gi"}))  # the document misspells 2Gii
POD3 = pod(
    "3",
    ({"cpu": "20m", "memory": "1Gi"}, {"cpu": "50m", "memory": "2Gi"}),
    ({}, {"cpu": "100m", "memory": "1Gi"}),
)
POD4 = pod("4", ({"cpu": "10m", "memory": "1Gi"}, {"cpu": "20m", "memory": "2Gi"}))
POD5 = pod("5", ({}, {}), ({}, {}))
ALLOCATABLE = 64 * GI


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
