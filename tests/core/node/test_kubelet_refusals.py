"""What a kubelet would refuse of a node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.node import fields as node_fields
from qoslet.core.node import flags as node_flags
from qoslet.core.node.faults import Faults
from qoslet.core.node.resolve import FLAG_ROWS, NO_FLAGS, Flags, node_from
from qoslet.errors import BadInputs
from tests.core.node.test_resolve import MACHINE, OWN, config, faults, own, read, texts


def test_refusals_are_errors_only_with_a_kubelet_configuration():
    host = {**OWN["host"], "hierarchy": "v1"}
    _, problems = read(own(host=host))
    assert {p.severity for p in problems} == {"warning"}
    _, problems = read(own(host=host), config())
    found = texts(problems)
    assert {p.severity for p in problems} == {"error"}
    assert [where for _, where, _ in found] == ["node.yaml: host.hierarchy", "node.yaml: swap"]


@pytest.mark.parametrize(
    ("fields", "release", "where"),
    [
        ({"qosReserved": {"memory": "50%"}}, "1.36", "qosReserved"),
        ({"cgroupsPerQOS": False}, "1.36", "cgroupsPerQOS"),
        ({"cpuCFSQuotaPeriod": "50ms"}, "1.30", "cpuCFSQuotaPeriod"),
        ({"cpuManagerPolicy": "static"}, "1.36", "cpuManagerPolicy"),
        ({"memorySwap": {"swapBehavior": "LimitedSwap"}}, "1.25", "memorySwap"),
        ({"featureGates": {"PodLevelResources": False}}, "1.36", "featureGates.PodLevelResources"),
    ],
)
def test_what_a_kubelet_refuses_at_start(fields, release, where):
    _, problems = read(own(swap=0, kubernetes=release), config(**fields))
    assert ("error", f"kubelet.yaml: {where}") in [(p.severity, p.where) for p in problems]


def test_gate_of_another_release_warns():
    _, problems = read(own(swap=0, kubernetes="1.20"), feature_gates="MemoryQoS=true")
    assert texts(problems)[0][:2] == ("warning", "--feature-gates.MemoryQoS")


def test_swap_of_the_older_releases():
    document = config(memorySwap={"swapBehavior": "UnlimitedSwap"}, failSwapOn=False)
    assert read(own(kubernetes="1.28"), document)[0].kubelet.swap_behavior == "UnlimitedSwap"


def test_kernels_and_memory_qos():
    host = {**OWN["host"], "kernel": "5.7"}
    _, problems = read(own(swap=0, host=host), feature_gates="MemoryQoS=true")
    assert [p.where for p in problems] == ["node.yaml: host.kernel"] * 2
    host = {**OWN["host"], "hierarchy": "v1"}
    _, problems = read(own(swap=0, host=host, kubernetes="1.30"), feature_gates="MemoryQoS=true")
    assert [p.message for p in problems] == ["Memory QoS has no effect on cgroup v1"]


def test_a_null_factor():
    gates = {"MemoryQoS": True}
    document = config(memoryThrottlingFactor=None, featureGates=gates)
    assert faults(own(), document)[0][0] == "kubelet.yaml: memoryThrottlingFactor"
    node, _ = read(own(kubernetes="1.37"), document)
    assert node.kubelet.memory_throttling_factor is None
    assert node.origins["memoryThrottlingFactor"] == "kubelet.yaml: memoryThrottlingFactor"


def test_names_that_systemd_reads_otherwise():
    document = config(
        cgroupDriver="systemd",
        cgroupRoot="/my_root.slice",
        kubeReservedCgroup="/runtime.slice/kubelet.service",
    )
    _, problems = read(own(swap=0), document)
    assert [p.where for p in problems] == [
        "kubelet.yaml: cgroupRoot",
        "kubelet.yaml: cgroupRoot",
        "kubelet.yaml: kubeReservedCgroup",
        "kubelet.yaml: kubeReservedCgroup",
    ]


def test_defaults_that_do_not_fit_are_refused_not_bad_input():
    small = {"cpu": "1", "memory": "64Mi", "pid": "100"}
    _, problems = read(own(swap=0, capacity=small))
    assert [p.severity for p in problems] == ["warning"]
    assert "exceed the capacity 64Mi" in problems[0].message


def test_garbage_costs_little_and_is_shown_harmlessly():
    gates = {f"Gate{at}\x1b[31m": True for at in range(20000)}
    capacity = {f"{at}\n": "1" for at in range(20000)}
    found = faults(own(capacity=capacity), config(featureGates=gates), probe=lambda: MACHINE)
    assert len(found) == Faults.limit
    assert all(where.isprintable() and message.isprintable() for where, message in found)
    _, problems = read(own(swap=0), config(**{f"kubeReserved{at}": 1 for at in range(5000)}))
    assert len(problems) == 20


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("100ms", 10**8),
        ("1m2.5s", 62_500_000_000),
        ("0", 0),
        ("-1.5h", -5_400_000_000_000),
        ("1us", 1000),
        ("1µs", 1000),
        (".5s", 500_000_000),
        ("1.s", 10**9),
        ("", None),
        ("1", None),
        ("ms", None),
        (".s", None),
        ("1.2.3s", None),
        ("1d", None),
        ("1 s", None),
        ("+", None),
    ],
)
def test_durations(text, nano):
    assert node_fields.nanoseconds(text) == nano


def test_every_flag_has_a_row_and_a_field():
    assert [row.field for row in FLAG_ROWS] == list(Flags.__struct_fields__)
    names = [name for row in FLAG_ROWS for name in row.names]
    assert len(names) == len(set(names))
    assert {"--experimental-qos-reserved", "--qos-reserve-requests"} <= set(names)


def test_flags():
    node, _ = read(
        own(swap=0),
        cgroups_per_qos="true",
        cgroup_root="/custom",
        qos_reserved="memory=50%",
        system_reserved="cpu=1, memory=1Gi",
        system_reserved_cgroup="/system.slice",
        enforce_node_allocatable="pods,system-reserved",
        eviction_hard="memory.available<5%,nodefs.available<1Gi",
        cpu_cfs_quota="false",
        cpu_cfs_quota_period="50ms",
        cpu_manager_policy="none",
        memory_swap_behavior="LimitedSwap",
        memory_qos="1.27",
    )
    kubelet = node.kubelet
    assert kubelet.cgroup_root == "/custom"
    assert kubelet.qos_reserved == 50
    assert {k: str(v) for k, v in kubelet.system_reserved.items()} == {"cpu": "1", "memory": "1Gi"}
    assert kubelet.enforce_node_allocatable == ("pods", "system-reserved")
    assert kubelet.eviction_hard == {"memory.available": "5%", "nodefs.available": "1Gi"}
    assert (kubelet.cpu_cfs_quota, kubelet.cpu_cfs_quota_period_us) == (False, 50_000)
    assert kubelet.swap_behavior == "LimitedSwap"
    assert (node.profile.memory_qos, node.origins["memoryQos"]) == ("1.27", "--memory-qos")


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("cgroups_per_qos", "maybe"),
        ("pod_max_pids", "1e3"),
        ("kube_reserved", "cpu"),
        ("kube_reserved", "cpu=1,cpu=2"),
        ("eviction_hard", "memory.available=1Gi"),
        ("feature_gates", "MemoryQoS=maybe"),
        ("feature_gates", "Nonsense=true"),
        ("memory_qos", "1.99"),
        ("isolation", "jail"),
        ("cgroup_driver", "cgroupv2"),
        ("memory_swap_behavior", "Swap"),
        ("kubernetes", ""),
        ("kubernetes", "9" * 5000),
        ("runtime", "x" * 5000),
    ],
)
def test_bad_flags(field, text):
    row = next(row for row in FLAG_ROWS if row.field == field)
    found = faults(own(), **{field: text})
    assert found[0][0].startswith(row.names[0])
    assert all(len(message) < 500 for _, message in found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
HOST_FIELDS = ("hierarchy", "kernel", "pageSize", "hugepageSizes", "systemd", "mounts", "psi")
KUBELET_FIELDS = (
    "cgroupRoot",
    "cpuCFSQuotaPeriod",
    "enforceNodeAllocatable",
    "kubeReserved",
    "evictionHard",
    "featureGates",
    "memorySwap",
    "memoryThrottlingFactor",
    "qosReserved",
    "reservedSystemCPUs",
    "podPidsLimit",
)


def faults_or_none(documents, flags):
    try:
        node_from(documents, flags, lambda: MACHINE)
    except BadInputs as error:
        return error.faults
    return []


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(KUBELET_FIELDS, JSON)),
    st.fixed_dictionaries({}, optional=dict.fromkeys(HOST_FIELDS, JSON)),
    st.fixed_dictionaries({}, optional=dict.fromkeys(("capacity", "swap", "numa", "os"), JSON)),
)
def test_any_value_is_read_or_is_a_fault(kubelet, host, rest):
    documents = [config(**kubelet), ("own", {**OWN, "host": host, **rest}), ("any", host)]
    for some in (documents[:2], documents):
        assert all(fault.where for fault in faults_or_none(some, NO_FLAGS))


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(Flags.__struct_fields__, st.text())))
def test_any_flag_is_read_or_is_a_fault(given_flags):
    places = {name for row in FLAG_ROWS for name in row.names}
    for fault in faults_or_none([own()], Flags(**given_flags)):
        assert fault.where.split(".")[0].split("[")[0] in places


def test_flag_rows_override_real_fields():
    found = Faults()
    texts_of = {row.field: "1" for row in FLAG_ROWS if row.shape == "int"}
    overrides = node_flags.overrides(found, Flags(**texts_of))
    assert overrides == {"podPidsLimit": (1, "--pod-max-pids"), "maxPods": (1, "--max-pods")}
    assert not found.found


def test_what_memory_qos_loses_on_a_poor_host():
    host = {**OWN["host"], "psi": False, "controllers": ["cpu", "pids"]}
    _, problems = read(own(swap=0, host=host), feature_gates="MemoryQoS=true")
    found = [(p.severity, p.where) for p in problems if "host." in p.where]
    missing = ("warning", "node.yaml: host.controllers")
    assert found == [("info", "node.yaml: host.psi"), missing, missing, missing]
    _, problems = read(own(swap=0, host=host))
    assert "node.yaml: host.psi" not in {p.where for p in problems}
