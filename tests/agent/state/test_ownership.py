"""What an executor may do: below its root, in adopted cgroups, in the files it is given."""

from __future__ import annotations

from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.ownership import Ownership, ownership_of
from qoslet.core.reconcile.journal import Adopted, Created, CreateIntent, JournalState
from qoslet.sim.kernel import SimKernel
from tests.core.reconcile.trees import plan_of

TREE = {
    "/q/kubepods": {"pids.max": "500"},
    "/q/kubepods/poda": {"memory.high": "1048576", "memory.max": "8388608"},
}


def test_a_root_that_was_handed_over_is_foreign_and_all_below_it_is_not() -> None:
    state = JournalState()
    own = ownership_of("/q", state)
    assert [own.is_foreign(path) for path in ("/q", "/q/a", "/qq", "/")] == [
        False,
        False,
        True,
        True,
    ]
    state.add([Adopted("/q", 7)])
    assert [own.is_foreign(path) for path in ("/q", "/q/a")] == [True, False]


def test_what_the_journal_names_is_owned_by_its_inode_and_while_it_is_created() -> None:
    state = JournalState()
    state.add([Created("/q/a", 3), CreateIntent("/q/b")])
    own = ownership_of("/q", state)
    assert [own.is_owned(*one) for one in (("/q/a", 3), ("/q/a", 4), ("/q/b", 9), ("/q/c", 3))] == [
        True,
        False,
        True,
        False,
    ]
    assert ownership_of("/q", state, everything=True).is_owned("/q/c", 3)


def test_a_guest_writes_its_files_only_and_creates_nothing() -> None:
    kernel = SimKernel("v2")
    plan = plan_of("v2", TREE)
    host = CgroupExecutor(Ownership("/q"), kernel, kernel, lambda: 0.0)
    assert not host.perform(host.diff(plan.node, plan.cgroups).steps).failed
    kernel.write("/q/kubepods/poda", "memory.high", "max")
    kernel.write("/q/kubepods/poda", "memory.max", "max")
    guest = CgroupExecutor(
        Ownership("/q", files=frozenset({"memory.high"})), kernel, kernel, lambda: 0.0
    )
    diff = guest.diff(plan.node, plan.cgroups)
    assert [(step.path, step.file) for step in diff.steps] == [("/q/kubepods/poda", "memory.high")]
    assert len(diff.differences) == 1
    kernel = SimKernel("v2")
    guest = CgroupExecutor(
        Ownership("/q", files=frozenset({"memory.high"})), kernel, kernel, lambda: 0.0
    )
    assert not guest.diff(plan.node, plan.cgroups).steps
