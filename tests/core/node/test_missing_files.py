"""Controllers and files that a host lacks: told, explained, not planned, and not simulated."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.cgroup.kernel_files import COMPLETE, ROWS, older
from qoslet.core.explain.explain import explain
from qoslet.core.node.missing_files import MissingFiles, without_undelegated
from qoslet.core.node.node import PLANNED_CONTROLLERS, Node
from qoslet.core.node.resolve import Flags, Probed, node_from
from qoslet.core.plan.plan import plan
from qoslet.core.problem import Problem
from qoslet.render.documents.plan import cri_document
from qoslet.sim.cgroups import CONTROLLERS
from qoslet.sim.kernel import SimKernel, controllers_of, facts_of
from tests.core.vectors.fixtures import pod_of

ALL = ("cpu", "cpuset", "hugetlb", "memory", "pids")
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "failCgroupV1": False,
    "podPidsLimit": 100,
    "featureGates": {"MemoryQoS": True},
    "memoryReservationPolicy": "TieredReservation",
}
POD = pod_of(
    {
        "uid": "u",
        "containers": [
            {
                "name": "c",
                "requests": {"cpu": "1", "memory": "64Mi", "hugepages-2Mi": "4Mi"},
                "limits": {"cpu": "1", "memory": "128Mi", "hugepages-2Mi": "4Mi"},
            }
        ],
    }
)


def read(kubelet: bool = True, **host: Any) -> tuple[Node, list[Problem]]:
    own = {
        "apiVersion": "qoslet/v1",
        "kind": "Node",
        "kubernetes": "1.36",
        "swap": 0,
        "capacity": {"cpu": "4", "memory": "8Gi", "pid": "1000", "hugepages-2Mi": "64Mi"},
        "host": {"hierarchy": "v2", "kernel": "6.12", "controllers": list(ALL), **host},
    }
    documents = [("node.yaml", own), ("kubelet.yaml", KUBELET)]
    return node_from(documents if kubelet else documents[:1], Flags(), Probed)


def without(*names: str) -> list[str]:
    return [name for name in ALL if name not in names]


def written(node: Node) -> set[str]:
    return {row.file for group in plan([POD], node).cgroups for row in group.settings}


def rows(problems: list[Problem], place: str) -> list[tuple[str, str]]:
    return [
        (row.severity, row.message)
        for row in problems
        if row.where == f"node.yaml: host.{place}" and "not written" in row.message
    ]


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
@pytest.mark.parametrize("name", ["cpu", "cpuset", "memory", "pids", "hugetlb"])
def test_a_missing_controller_is_told_and_its_files_are_not_planned(
    name: str, hierarchy: str
) -> None:
    whole, nothing = read(hierarchy=hierarchy)
    assert rows(nothing, "controllers") == []
    prefix = f"{name}."
    assert any(file.startswith(prefix) for file in written(whole))
    node, problems = read(hierarchy=hierarchy, controllers=without(name))
    assert {file for file in written(whole) if not file.startswith(prefix)} == written(node)
    ((severity, message),) = rows(problems, "controllers")
    assert f"the host has no {name} controller" in message
    assert severity == ("warning" if name == "hugetlb" else "error")
    assert ("a kubelet refuses to start" in message) == (severity == "error")
    ((alone, _),) = rows(
        read(False, hierarchy=hierarchy, controllers=without(name))[1], "controllers"
    )
    assert alone == "warning"


def test_controllers_that_a_root_does_not_get_are_told_and_their_files_are_not_planned() -> None:
    node, _ = read()
    reasons = {
        "hugetlb": "not delegated to /user",
        "memory": "/user has processes (7)",
        "cpuset": "not delegated to /user",
    }
    there, said = without_undelegated(node, reasons)
    assert {file.partition(".")[0] for file in written(node)} == set(ALL)
    assert {file.partition(".")[0] for file in written(there)} == {"cpu", "pids"}
    assert [(row.severity, row.message) for row in said] == [
        ("warning", "cpuset, hugetlb files are not written: not delegated to /user"),
        ("warning", "memory files are not written: /user has processes (7)"),
    ]
    unknown = replace(node, host=replace(node.host, controllers=None))
    assert without_undelegated(unknown, reasons)[0].host.controllers == frozenset(("cpu", "pids"))


def test_every_missing_controller_has_its_row() -> None:
    node, problems = read(controllers=["io"])
    assert len(rows(problems, "controllers")) == len(PLANNED_CONTROLLERS)
    assert written(node) == set()


@pytest.mark.parametrize(
    ("release", "severity"), [("1.31", "warning"), ("1.32", "error"), ("1.36", "error")]
)
def test_cpuset_of_v2_is_needed_since_kubepods_has_a_list(release: str, severity: str) -> None:
    own = {
        "apiVersion": "qoslet/v1",
        "kind": "Node",
        "kubernetes": release,
        "swap": 0,
        "capacity": {"cpu": "4", "memory": "8Gi", "pid": "1000"},
        "host": {"hierarchy": "v2", "kernel": "6.12", "controllers": without("cpuset")},
    }
    kubelet = {key: KUBELET[key] for key in ("apiVersion", "kind")}
    for policy, expected in ((("none"), severity), ("static", "error")):
        more = {"cpuManagerPolicy": policy, "reservedSystemCPUs": "0"}
        documents = [("node.yaml", own), ("kubelet.yaml", kubelet | more)]
        _, problems = node_from(documents, Flags(), Probed)
        assert [one for one, _ in rows(problems, "controllers")] == [expected]


@pytest.mark.parametrize(
    ("kernel", "absent"),
    [
        ("6.12", ()),
        ("5.19", ()),
        ("5.7", ()),
        ("5.6", (".rsvd.",)),
        ("5.5.7-arch1", ("hugetlb.",)),
        ("5.0", ("hugetlb.",)),
        ("4.19", ("hugetlb.", "cpuset.")),
        ("4.18", ("hugetlb.", "cpuset.", "memory.oom.group")),
        ("4.17", ("hugetlb.", "cpuset.", "memory.oom.group", "memory.min")),
        ("4.14", ("hugetlb.", "cpuset.", "memory.oom.group", "memory.min", "cpu.")),
        ("4.18.0-553.el8_10.x86_64", (".rsvd.",)),
    ],
)
def test_files_that_a_kernel_lacks_are_left_out_with_a_row(
    kernel: str, absent: tuple[str, ...]
) -> None:
    whole = written(read()[0])
    node, problems = read(kernel=kernel)
    gone = {file for file in whole if any(part in file for part in absent)}
    assert written(node) == whole - gone
    told = " ".join(message for _, message in rows(problems, "kernel"))
    for part in absent if ".el" not in kernel else ():
        assert part.strip(".") in told
    if ".el" not in kernel:
        assert bool(told) == bool(absent)


def test_v1_has_its_controllers_in_every_kernel() -> None:
    node, problems = read(hierarchy="v1", kernel="4.14")
    assert rows(problems, "controllers") == []
    assert {"cpu.shares", "cpuset.cpus", "hugetlb.2MB.limit_in_bytes"} <= written(node)
    assert not any(".rsvd." in file for file in written(node))
    assert not any(" controller" in message for _, message in rows(problems, "kernel"))


def test_explain_says_what_the_host_lacks() -> None:
    for host, file, words in (
        ({"controllers": without("memory")}, "memory.max", "the host has no memory controller"),
        ({"controllers": without("cpu")}, "cpu.weight", "the host has no cpu controller"),
        ({"kernel": "4.18"}, "memory.oom.group", "kernel 4.18 has no memory.oom.group (Linux 4.19"),
    ):
        made = plan([POD], read(**host)[0])
        (group,) = explain(made, "p/c", file).groups
        assert group.values[0].value is None
        assert words in group.values[0].because


def test_a_pod_with_huge_pages_is_told_what_lacks() -> None:
    made = plan([POD], read(controllers=without("hugetlb"))[0])
    (row,) = [row for row in made.problems if "no limit is written" in row.message]
    assert "no hugetlb controller" in row.message
    for sizes, said in ((["2Mi"], []), (["1Gi"], ["huge pages of this size"])):
        made = plan([POD], read(hugepageSizes=sizes)[0])
        rows = [row.message for row in made.problems if "no limit is written" in row.message]
        assert rows == [f"the host has no {what}: no limit is written" for what in said]


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
@pytest.mark.parametrize("name", ALL)
def test_the_simulated_kernel_has_no_files_of_what_is_missing(name: str, hierarchy: Any) -> None:
    node, _ = read(hierarchy=hierarchy, controllers=without(name))
    kernel = SimKernel(
        node.hierarchy,
        controllers=controllers_of(node),
        facts=facts_of(node, "0-3"),
        hugepages=("2MB",),
    )
    assert set(CONTROLLERS[hierarchy]) - set(kernel.controllers) == {name}
    kernel.mkdir("/a")
    if hierarchy == "v2":
        kernel.write("/", "cgroup.subtree_control", " ".join(f"+{c}" for c in kernel.controllers))
    assert kernel.groups["/a"].files
    assert not any(file.startswith(f"{name}.") for file in kernel.groups["/a"].files)


def test_the_simulated_kernel_is_as_old_as_the_nodes() -> None:
    node, _ = read(kernel="4.18")
    kernel = SimKernel("v2", controllers=controllers_of(node), facts=facts_of(node, "0-3"))
    assert set(kernel.controllers) == {"cpu", "memory", "pids"}
    kernel.write("/", "cgroup.subtree_control", "+cpu +memory +pids")
    kernel.mkdir("/a")
    assert "memory.oom.group" not in kernel.groups["/a"].files
    assert "memory.min" in kernel.groups["/a"].files


def test_the_table_is_sourced_and_ends_before_the_kernels_that_are_not_looked_up() -> None:
    assert all("commit" in row.source for row in ROWS)
    assert COMPLETE < (6, 0)
    assert older("memory.max", "v2", (4, 5)) is None
    assert older("cpu.idle", "v2", (5, 14)) is not None
    assert older("cpu.idle", "v1", (5, 15)) is None
    assert older("cpu.max.burst", "v2", None) is None
    assert not MissingFiles("v2", frozenset(), (5, 4)).why("cpu.max")


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_without_a_memory_controller_no_message_limits_swap(hierarchy: str) -> None:
    """A kubelet looks for the controller's file before it sends a limit of swap."""
    lacking, _ = read(hierarchy=hierarchy, controllers=without("memory"), swapController=True)
    whole, _ = read(hierarchy=hierarchy, swapController=True)
    texts = [str(cri_document(plan([POD], node))) for node in (lacking, whole)]
    keys = ("memory.swap.max", "memory_swap_limit_in_bytes")
    assert [any(key in text for key in keys) for text in texts] == [False, True]
    assert all("memory_limit_in_bytes" in text for text in texts)
