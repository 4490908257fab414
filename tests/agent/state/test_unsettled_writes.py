"""A value that another process changed is named; what the agent itself did to a file is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.ownership import Ownership
from qoslet.agent.state.unsettled_writes import UnsettledWrites
from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.drift import Difference
from qoslet.core.reconcile.journal import Created, CreateIntent, JournalState, Set
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.sim.kernel import SimKernel
from tests.agent.fixtures import node
from tests.agent.test_one_shot import ROOT, Book, Driver
from tests.agent.world import Agent, World, pod
from tests.core.reconcile.trees import plan_of

FILES = {"v1": ("cpu.shares", "999"), "v2": ("cpu.weight", "999")}


def agent_on(world: World, folder: Path, hierarchy: Hierarchy, cpu: str = "500m") -> Agent:
    pods = [pod("a", request=f"cpu={cpu} memory=64Mi")]
    return Agent(world, folder, node(hierarchy), pods)


def changed(agent: Agent) -> list[str]:
    return [line for line in agent.said if "another process changed" in line]


def pod_group(world: World) -> str:
    return next(path for path in world.kernel.groups if path.endswith("/poda"))


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_value_that_another_process_changed_is_named_once(
    tmp_path: Path, hierarchy: Hierarchy
) -> None:
    world = World(hierarchy)
    agent = agent_on(world, tmp_path, hierarchy)
    agent.settle()
    assert changed(agent) == []
    file, value = FILES[hierarchy]
    path = pod_group(world)
    planned = world.kernel.read(path, file)
    world.kernel.write(path, file, value)
    agent.settle()
    agent.turn(whole=True)
    (line,) = changed(agent)
    assert line.startswith(f"{path}/{file}: another process changed '{planned}' to '{value}'")
    assert world.kernel.read(path, file) == planned


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_what_an_earlier_agent_wrote_and_another_process_changed_is_named(
    tmp_path: Path, hierarchy: Hierarchy
) -> None:
    world = World(hierarchy)
    first = agent_on(world, tmp_path, hierarchy)
    first.settle()
    world.journal = first.close()
    file, value = FILES[hierarchy]
    world.kernel.write(pod_group(world), file, value)
    second = agent_on(world, tmp_path, hierarchy)
    second.settle()
    assert len(changed(second)) == 1


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_resize_and_a_cgroup_made_anew_are_no_such_change(
    tmp_path: Path, hierarchy: Hierarchy
) -> None:
    world = World(hierarchy)
    agent = agent_on(world, tmp_path, hierarchy)
    agent.settle()
    agent.want({"a": pod("a", request="cpu=700m memory=80Mi")})
    agent.settle()
    path = pod_group(world)
    for one in [at for at in sorted(world.kernel.groups, reverse=True) if at.startswith(path)]:
        for process in world.kernel.members(one):
            world.kernel.end(process.pid, 137)
        world.kernel.rmdir(one)
    if hierarchy == "v2":
        world.kernel.mkdir(path)
    agent.settle()
    assert changed(agent) == []


def test_what_a_cgroup_that_was_made_anew_begins_with_is_no_such_change() -> None:
    """A scope that systemd ended and the agent makes again has systemd's own values where no step of the
    same batch sets them."""
    writes, journal = UnsettledWrites({}), JournalState()
    high, pids = Step("set", "/p", "memory.high", "4096"), Step("set", "/p", "pids.max", "max")
    journal.add(
        [
            Created("/p", 7),
            Set("/p", "memory.high", None, "4096"),
            Set("/p", "pids.max", None, "max"),
        ]
    )
    writes.begin([high, pids], journal)
    writes.settle([Outcome(high), Outcome(pids)])
    row = Difference("/p", "differs", "pids.max", "max", "4655")
    assert len(writes.changed([row], journal, ["/p"])) == 1
    writes.forget("/p", journal)
    begun = [Step("create", "/p"), high]
    writes.begin(begun, journal)
    writes.settle([Outcome(one) for one in begun])
    assert writes.changed([row], journal, ["/p"]) == []
    writes.begin([pids], journal)
    writes.settle([Outcome(pids)])
    assert len(writes.changed([row], journal, ["/p"])) == 1, "from then on it is"


def test_what_a_runtime_makes_anew_for_a_container_begins_with_is_no_such_change() -> None:
    """The scope of a container that starts again has systemd's number of tasks."""
    kernel, book, group = SimKernel("v2"), Book(), f"{ROOT}/poda/c"
    driver = Driver(kernel, book)
    executor = CgroupExecutor(Ownership(ROOT), driver, kernel, lambda: 0.0, journal=book)
    plan = plan_of("v2", {f"{ROOT}/poda": {}, group: {"pids.max": "max"}}, writer="runtime")

    def turn() -> list[str]:
        executor.notes.clear()
        steps = executor.diff(plan.node, plan.cgroups[1:]).steps
        assert [(one.path, one.file) for one in steps] == [(group, "pids.max")]
        assert not executor.perform(steps).failed
        return executor.notes

    for path in (ROOT, f"{ROOT}/poda", group):
        kernel.mkdir(path)
    for path in ("/", ROOT, f"{ROOT}/poda"):
        kernel.write(path, "cgroup.subtree_control", "+pids")
    kernel.write(group, "pids.max", "2348")
    assert turn() == []
    kernel.rmdir(group)
    kernel.mkdir(group)
    kernel.write(group, "pids.max", "2348")
    assert turn() == []
    kernel.write(group, "pids.max", "2348")
    assert len(turn()) == 1, "from then on it is"


def test_what_is_written_after_all_was_read_is_no_such_change() -> None:
    """The guard raises memory.high between the observation of a sync and its comparison."""
    kernel, book, group = SimKernel("v2"), Book(), f"{ROOT}/poda"
    executor = CgroupExecutor(
        Ownership(ROOT), Driver(kernel, book), kernel, lambda: 0.0, journal=book
    )
    plan = plan_of("v2", {group: {"memory.high": "8192"}})
    for path in (ROOT, group):
        kernel.mkdir(path)
    for path in ("/", ROOT):
        kernel.write(path, "cgroup.subtree_control", "+memory")
    book.record([Created(group, executor.observer.identity(group) or 0)])
    assert not executor.perform(executor.diff(plan.node, plan.cgroups).steps).failed
    executor.observe_all()
    executor.overrides[group, "memory.high"] = "max"
    assert not executor.perform([Step("set", group, "memory.high", "max")]).failed
    assert not executor.diff(plan.node, plan.cgroups).steps
    assert executor.notes == []


@pytest.mark.parametrize("outcome", ["failed", "pending", "not reached"])
def test_a_write_that_has_not_succeeded_is_no_such_change(outcome: str) -> None:
    """The journal has the value before it is written."""
    writes, journal, step = UnsettledWrites({}), JournalState(), Step("set", "/p", "pids.max", "9")
    journal.add([Set("/p", "pids.max", None, "9")])
    writes.begin([step], journal)
    if outcome != "not reached":
        error = "EBUSY" if outcome == "failed" else None
        writes.settle([Outcome(step, error=error, pending=error is None)])
    row = Difference("/p", "differs", "pids.max", "9", "max")
    assert writes.changed([row], journal, ["/p"]) == []
    writes.settle([Outcome(step)])
    assert len(writes.changed([row], journal, ["/p"])) == 1


def test_what_an_earlier_agent_did_not_get_to_write_is_no_such_change() -> None:
    """Its journal has the new value, the file the one before; a third one is another's."""
    journal = JournalState()
    journal.add([Set("/p", "pids.max", None, value) for value in ("8", "9")])
    row = Difference("/p", "differs", "pids.max", "9", "8")
    other = Difference("/p", "differs", "pids.max", "9", "7")
    writes = UnsettledWrites(journal.values_before())
    assert writes.changed([row], journal, []) == [], "somebody else's turn"
    assert writes.changed([row], journal, ["/p"]) == []
    assert len(writes.changed([other], journal, ["/p"])) == 1
    assert writes.changed([], journal, ["/p"]) == [], "it is there"
    assert len(writes.changed([row], journal, ["/p"])) == 1, "from then on it is"
    writes, step = UnsettledWrites(journal.values_before()), Step("set", "/p", "pids.max", "9")
    writes.begin([step], journal)
    writes.settle([Outcome(step)])
    assert len(writes.changed([row], journal, ["/p"])) == 1, "it was written"


@pytest.mark.parametrize("before", [None, "max"])
def test_a_first_write_that_an_earlier_agent_did_not_get_to_is_no_such_change(
    before: str | None,
) -> None:
    """Its journal has the value, the file what a new cgroup begins with; that it made what it had begun
    is written after it."""
    journal = JournalState()
    journal.add([CreateIntent("/p"), Set("/p", "pids.max", before, "9")])
    row = Difference("/p", "differs", "pids.max", "9", "max")
    other = Difference("/p", "differs", "pids.max", "9", "7")
    for known in (journal, compacted(journal)):
        writes = UnsettledWrites(known.values_before())
        assert writes.changed([row], known, ["/p"]) == []
        assert len(writes.changed([other], known, ["/p"])) == (before is not None)
    journal.add([Created("/p", 5)])
    for known in (journal, compacted(journal)):
        assert len(UnsettledWrites(known.values_before()).changed([row], known, ["/p"])) == 1
    journal.add([Set("/p", "memory.high", None, "4096")])
    late = Difference("/p", "differs", "memory.high", "4096", "max")
    for known in (journal, compacted(journal)):
        found = UnsettledWrites(known.values_before()).changed([row, late], known, ["/p"])
        assert ["pids.max" in line for line in found] == [True]


def compacted(journal: JournalState) -> JournalState:
    """What is read of a journal that was written anew."""
    made = JournalState()
    made.add(journal.entries())
    return made


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_resize_that_an_agent_did_not_get_to_write_is_no_such_change(
    tmp_path: Path, hierarchy: Hierarchy
) -> None:
    world = World(hierarchy)
    first = agent_on(world, tmp_path, hierarchy)
    first.settle()
    file, _ = FILES[hierarchy]
    path = pod_group(world)
    before = world.kernel.read(path, file)
    first.want({"a": pod("a", request="cpu=700m memory=64Mi")})
    first.settle()
    world.journal = first.close()
    planned = world.kernel.read(path, file)
    world.kernel.write(path, file, before)
    second = agent_on(world, tmp_path, hierarchy, cpu="700m")
    second.settle()
    assert (changed(second), world.kernel.read(path, file)) == ([], planned)
    assert planned != before


def test_many_changes_are_counted() -> None:
    writes, journal = UnsettledWrites({}), JournalState()
    journal.add([Set(f"/p{at}", "pids.max", None, "9") for at in range(8)])
    rows = [Difference(f"/p{at}", "differs", "pids.max", "9", "max") for at in range(8)]
    *named, more = writes.changed(rows, journal, {row.path for row in rows})
    assert (len(named), more) == (5, "another process changed 3 more values")
