"""The managers together: who gets which CPUs and nodes, and what must always hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from qoslet.core.api.pod import Container, Pod, Resources, Role
from qoslet.core.managers.container_manager import Managers, PodAssignment, managers_of
from qoslet.core.managers.cpu_manager import CpuRefusal
from qoslet.core.node.topology import Layout, listed
from qoslet.core.plan.plan import plan
from qoslet.core.quantity import from_int, parse
from qoslet.core.resources.node_policy import node_policy
from tests.core.managers.fixtures import container, gib, managers, node_of, pod

THREADS = Layout(("0-7",), ("0,4", "1,5", "2,6", "3,7"))
TWO_SOCKETS = Layout(("0-3", "4-7"), ("0,1", "2,3", "4,5", "6,7"))


def cpus(found: PodAssignment | CpuRefusal, name: str = "c") -> str:
    assert isinstance(found, PodAssignment), found
    return listed(found.cpus[name])


def nodes(found: PodAssignment | CpuRefusal, name: str = "c") -> tuple[int, ...]:
    assert isinstance(found, PodAssignment), found
    (own,) = {block.nodes for block in found.memory[name]}
    return own


def reason(found: PodAssignment | CpuRefusal) -> str:
    assert isinstance(found, CpuRefusal), found
    return found.reason


def admit(made: Managers, one: Pod) -> PodAssignment | CpuRefusal:
    return made.admit(one, "Guaranteed")


def test_whole_cores_come_first() -> None:
    made = managers(layout=THREADS, numa=("0-7",), sizes=(gib(8),))
    assert cpus(admit(made, pod("a", "2", 1))) == "1,5"
    assert made.shared() == "0,2-4,6-7"
    assert cpus(admit(made, pod("b", "1", 1))) == "4"
    assert cpus(admit(made, pod("c", "3", 1))) == "2-3,6"


def test_reserved_amounts_take_whole_cores() -> None:
    made = managers(
        layout=THREADS,
        numa=("0-7",),
        sizes=(gib(8),),
        reserved_system_cpus="",
        kube_reserved={"cpu": parse("1200m")},
    )
    assert made.cpu is not None
    assert listed(made.cpu.reserved) == "0,4"


def test_what_ends_is_given_back() -> None:
    made = managers(memory=True)
    fresh = made.kept()
    admit(made, pod("a", "2", gib(1)))
    assert made.shared() == "0,3-7"
    assert made.release("a")
    assert not made.release("a")
    assert made.kept() == fresh
    assert made.shared() == "0-7"


def test_init_containers_hand_on_what_they_had() -> None:
    made = managers(memory=True)
    first = container("first", "3", gib(2), "init")
    second = container("second", "1", gib(1), "init")
    found = admit(made, pod("a", "2", gib(1), first, second))
    assert (cpus(found, "first"), cpus(found, "second"), cpus(found)) == ("1-3", "1", "1-2")
    assert made.memory is not None
    assert made.memory.nodes[0].tables["memory"].reserved == gib(2)
    made.release("a")
    assert made.memory.nodes[0].tables["memory"].reserved == 0


def test_sidecars_keep_what_they_have() -> None:
    made = managers()
    found = admit(made, pod("a", "2", 1, container("side", "1", 1, "sidecar")))
    assert (cpus(found, "side"), cpus(found)) == ("1", "2-3")


def test_pods_that_are_not_guaranteed_share() -> None:
    made = managers(memory=True)
    assert made.admit(pod("a", "2", gib(1)), "Burstable") == PodAssignment()
    assert admit(made, pod("b", "1500m", gib(1))).cpus == {}  # type: ignore[union-attr]


def test_ephemeral_containers_share() -> None:
    """The kubelet hands every container that it makes its CPUs or the pool's: PreCreateContainer."""
    made = managers(memory=True)
    debugger = Container("debug", "ephemeral", "spec.ephemeralContainers[0]")
    one = pod("a", "2", gib(1))
    both = replace(one, containers=(*one.containers, debugger))
    admit(made, both)
    (row,) = made.settings(both, debugger)
    assert (row.file, row.value, row.rule) == ("cpuset.cpus", "0,3-7", "cpuset.shared")


def test_pods_with_resources_of_their_own_share() -> None:
    made = managers(memory=True)
    amounts = {"cpu": from_int(2), "memory": from_int(1 << 30)}
    own = Pod("d", "a", "a", "f", (container("c", "2", 1),), resources=Resources(amounts, amounts))
    assert admit(made, own) == PodAssignment()


def test_too_few_cpus_are_refused_and_nothing_is_kept() -> None:
    made = managers(memory=True)
    found = admit(made, pod("b", "8", gib(1), container("i", "1", gib(1), "init")))
    assert reason(found) == "UnexpectedAdmissionError"
    assert made.given("b") == PodAssignment()
    assert "b" in made.refused
    made.release("b")
    assert "b" not in made.refused


def test_full_cores_only() -> None:
    options = {"full-pcpus-only": True}
    made = managers(layout=THREADS, numa=("0-7",), sizes=(gib(8),), cpu_manager_options=options)
    assert reason(admit(made, pod("a", "1", 1))) == "SMTAlignmentError"
    assert cpus(admit(made, pod("b", "6", 1))) == "1-3,5-7"
    assert reason(admit(made, pod("c", "2", 1))) == "SMTAlignmentError"


def test_strictly_reserved_cpus_are_nobodys() -> None:
    made = managers(cpu_manager_options={"strict-cpu-reservation": True})
    assert made.shared() == "1-7"
    assert cpus(admit(made, pod("a", "7", 1))) == "1-7"
    assert made.shared() == ""


def test_memory_lies_on_one_node_where_it_fits() -> None:
    made = managers(memory=True)
    assert nodes(admit(made, pod("a", "500m", gib(2)))) == (0,)
    assert nodes(admit(made, pod("b", "500m", gib(2)))) == (1,)
    assert nodes(admit(made, pod("c", "500m", gib(1)))) == (0,)


def test_memory_beyond_a_node_makes_a_group_of_them() -> None:
    made = managers(memory=True)
    assert nodes(admit(made, pod("a", "500m", gib(5)))) == (0, 1)
    assert nodes(admit(made, pod("b", "500m", gib(1)))) == (0, 1)
    alone = managers(memory=True)
    admit(alone, pod("a", "500m", gib(1)))
    assert reason(admit(alone, pod("b", "500m", gib(5)))) == "UnexpectedAdmissionError"
    alone.release("a")
    assert nodes(admit(alone, pod("b", "500m", gib(5)))) == (0, 1)


def test_the_topology_manager_puts_cpus_beside_their_memory() -> None:
    given: dict[str, Any] = {"layout": TWO_SOCKETS, "memory": True}
    made = managers(**given, topology_manager_policy="best-effort")
    admit(made, pod("fills", "500m", gib(3)))
    found = admit(made, pod("a", "2", gib(2)))
    assert (cpus(found), nodes(found)) == ("4-5", (1,))
    without = managers(**given)
    admit(without, pod("fills", "500m", gib(3)))
    found = admit(without, pod("a", "2", gib(2)))
    assert (cpus(found), nodes(found)) == ("2-3", (1,))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("none", ""),
        ("best-effort", ""),
        ("restricted", "TopologyAffinityError"),
        ("single-numa-node", "TopologyAffinityError"),
    ],
)
def test_what_one_node_could_hold_but_has_not_free(policy: str, expected: str) -> None:
    """3 of 4 CPUs would fit on one node, but each has only 2 left."""
    made = managers(layout=TWO_SOCKETS, reserved_system_cpus="0,4", topology_manager_policy=policy)
    admit(made, pod("a", "1", 1))
    made.admit(pod("b", "1", 1), "Guaranteed")
    found = admit(made, pod("c", "4", 1))
    if expected:
        assert reason(found) == expected
    else:
        assert len(cpus(found)) > 0


def test_more_than_a_node_holds_suits_restricted_not_single() -> None:
    given: dict[str, Any] = {"layout": TWO_SOCKETS}
    assert cpus(admit(managers(**given, topology_manager_policy="restricted"), pod("a", "6", 1)))
    single = managers(**given, topology_manager_policy="single-numa-node")
    assert reason(admit(single, pod("a", "6", 1))) == "TopologyAffinityError"


def test_the_scope_pod_counts_all_its_containers() -> None:
    def two(scope: str) -> PodAssignment | CpuRefusal:
        made = managers(
            layout=TWO_SOCKETS,
            topology_manager_policy="single-numa-node",
            topology_manager_scope=scope,
        )
        return admit(made, pod("a", "3", 1, container("d", "2", 1)))

    assert cpus(two("container"), "d") == "2-3"
    assert reason(two("pod")) == "TopologyAffinityError"


def test_hugepages_lie_by_node() -> None:
    node = node_of(memory=True, numa=("0-7",), sizes=(gib(8),))
    capacity = {**node.capacity, "hugepages-2Mi": parse("64Mi")}
    made = managers_of(node_policy(replace(node, capacity=capacity)))
    assert made is not None
    one = container("c", "500m", gib(1), pages={"2Mi": 48 << 20})
    found = admit(made, Pod("d", "a", "a", "f", (one,)))
    assert isinstance(found, PodAssignment)
    assert [(b.resource, b.size) for b in found.memory["c"]] == [
        ("hugepages-2Mi", 48 << 20),
        ("memory", gib(1)),
    ]
    assert reason(admit(made, Pod("d", "b", "b", "f", (one,)))) == "UnexpectedAdmissionError"


def test_a_refused_pod_is_an_error_of_the_plan() -> None:
    node = node_of(layout=TWO_SOCKETS, topology_manager_policy="single-numa-node")
    made = plan([pod("a", "6", 1), pod("b", "2", 1)], node)
    (row,) = [problem for problem in made.problems if problem.severity == "error"]
    assert "TopologyAffinityError" in row.message
    assert row.where == "a.yaml"
    files = {g.pod.name: {r.file: r.value for r in g.settings} for g in made.cgroups
             if g.level == "container" and g.pod is not None}  # fmt: skip
    assert files["a"]["cpuset.cpus"] == "0-1,4-7"
    assert files["b"]["cpuset.cpus"] == "2-3"


def test_a_plan_names_the_nodes_as_the_kubelet_writes_them() -> None:
    made = plan([pod("a", "2", gib(5))], node_of(memory=True))
    (group,) = [one for one in made.cgroups if one.level == "container"]
    rows = {row.file: row for row in group.settings}
    assert (rows["cpuset.mems"].value, rows["cpuset.mems"].applied) == ("0,1", "0-1")
    assert "a group of 2 NUMA nodes" in rows["cpuset.mems"].because
    assert (
        "NUMA node"
        in plan([pod("a", "2", 1)], node_of(layout=TWO_SOCKETS)).cgroups[-1].settings[-1].because
    )


@st.composite
def made_managers(draw: st.DrawFn) -> Managers:
    layout = draw(st.sampled_from([None, THREADS, TWO_SOCKETS]))
    return managers(
        layout=layout,
        memory=draw(st.booleans()),
        reserved_system_cpus=draw(st.sampled_from(["0", "0,4", "3"])),
        topology_manager_policy=draw(
            st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"])
        ),
        topology_manager_scope=draw(st.sampled_from(["container", "pod"])),
        cpu_manager_options={
            name: draw(st.booleans())
            for name in ("full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket")
        },
    )


@st.composite
def some_pods(draw: st.DrawFn) -> Pod:
    roles: list[Role] = draw(st.lists(st.sampled_from(["init", "sidecar"]), max_size=2))
    first: list[Container] = [
        container(f"i{at}", draw(_CPU), draw(_MEMORY), role) for at, role in enumerate(roles)
    ]
    return pod(draw(st.sampled_from("abcdef")), draw(_CPU), draw(_MEMORY), *first)


_CPU = st.sampled_from(["500m", "1", "2", "3", "5"])
_MEMORY = st.sampled_from([1 << 20, 1 << 30, 3 << 30, 5 << 30])


@settings(max_examples=300, deadline=None)
@given(made_managers(), st.lists(st.one_of(some_pods(), st.sampled_from("abcdef")), max_size=14))
def test_what_always_holds(made: Managers, moves: list[Pod | str]) -> None:
    assert made.cpu is not None
    fresh = made.kept(), made.shared()
    for move in moves:
        before = {uid: made.given(uid) for uid in "abcdef"}
        if isinstance(move, str):
            made.release(move)
            assert made.given(move) == PodAssignment()
        else:
            found = made.admit(move, "Guaranteed")
            assert made.admit(move, "Guaranteed") == found
            assert made.given(move.uid) == (
                found if isinstance(found, PodAssignment) else PodAssignment()
            )
        own = move if isinstance(move, str) else move.uid
        assert all(made.given(uid) == before[uid] for uid in "abcdef" if uid != own)
        _consistent(made)
    for uid in "abcdef":
        made.release(uid)
    assert (made.kept(), made.shared()) == fresh
    if made.memory is not None:
        for number, books in made.memory.nodes.items():
            assert (books.assignments, books.cells) == (0, (number,))
            assert all(table.free == table.allocatable for table in books.tables.values())


def _consistent(made: Managers) -> None:
    """No CPU twice, none that is reserved, the pool never empty; the books add up."""
    assert made.cpu is not None
    owner: dict[int, str] = {}
    for (uid, _), own in made.kept().cpus.items():
        assert not own & made.cpu.reserved
        for cpu in own:
            assert owner.setdefault(cpu, uid) == uid
    assert made.cpu.reserved <= made.cpu.shared()
    assert not made.cpu.shared() & owner.keys()
    if made.memory is None:
        return
    blocks = [block for own in made.kept().memory.values() for block in own]
    tables = [books.tables["memory"] for books in made.memory.nodes.values()]
    assert sum(block.size for block in blocks) == sum(table.reserved for table in tables)
    for table in tables:
        assert table.free >= 0
        assert table.free + table.reserved == table.allocatable
