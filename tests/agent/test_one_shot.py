"""One pass on a kernel made of values: journalled, read back, others left alone, faults named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from qoslet.agent.one_shot import (
    ApplyPlan,
    ApplyResult,
    perform,
    prepare,
)
from qoslet.agent.ports import Journal
from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.ownership import ownership_of
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.journal import (
    Adopted,
    Created,
    CreateIntent,
    Entry,
    JournalState,
    Key,
    Removed,
    Set,
)
from qoslet.core.reconcile.restore import TreeState, restore
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.errors import CannotDo
from qoslet.sim.kernel import Fault, SimKernel
from tests.core.reconcile.trees import plan_of

ROOT = "/q"
TREE = {
    "/q/kubepods": {"pids.max": "500", "memory.limit_in_bytes": "104857600"},
    "/q/kubepods/poda": {"cpu.shares": "512", "memory.limit_in_bytes": "8388608"},
    "/q/kubepods/podb": {"cpu.shares": "256"},
}
SYSTEM = {"/system": {"cpu.shares": "204"}}


class Sight:
    """The simulated kernel as a pass reads it."""

    def __init__(self, kernel: SimKernel) -> None:
        self.kernel = kernel

    def watch(self, files: Iterable[str]) -> None:
        raise AssertionError("a pass is told the files before")

    def observe(self, root: str, *, values: bool = True) -> Observed:
        return self.kernel.observe(root, values=values)

    def read_cgroup(self, path: str) -> ObservedCgroup | None:
        return self.kernel.observe(path).cgroups.get(path)

    def read_planned(self, paths: Iterable[str]) -> Observed | None:
        seen = self.kernel.observe("/").cgroups
        named = {path: seen[path] for path in paths if path in seen}
        return Observed(0.0, named) if len(named) == len(list(paths)) else None

    def identity(self, path: str) -> int | None:
        return self.kernel.identity(path)

    def reclaimable_cache(self, path: str) -> int:
        return 0


class Book:
    """A journal made of values."""

    wants_before = False

    def __init__(self) -> None:
        self.ledger = JournalState()
        self.entries: list[Entry] = []
        self._seen: Mapping[Key, str] = {}

    def seen(self, values: Mapping[Key, str]) -> None:
        self._seen = values

    def record(self, entries: Sequence[Entry]) -> None:
        self.entries += entries
        self.ledger.add(entries)

    record_later = record

    def rewrite(self) -> None:
        self.entries = self.ledger.entries()

    def before(self, step: Step) -> str | None:
        return self._seen.get((step.path, step.file))


class Killed(BaseException):
    """The process is gone."""


class Driver:
    """Journals like the real one, then lets the kernel do it; ``kill_after`` so many steps."""

    def __init__(self, kernel: SimKernel, book: Book) -> None:
        self.kernel = kernel
        self.book = book
        self.kill_after: int | None = None
        self.meanwhile: Callable[[], None] = lambda: None

    def perform(self, steps: Sequence[Step]) -> list[Outcome]:
        self.book.record([self._intent(step) for step in steps])
        self.meanwhile()
        outcomes: list[Outcome] = []
        done: list[Entry] = []
        for step in steps:
            if self.kill_after is not None:
                if self.kill_after == 0:
                    raise Killed
                self.kill_after -= 1
            outcomes += self.kernel.perform([step])
            if outcomes[-1].error is not None:
                break
            if step.kind == "create":
                given = ROOT in self.book.ledger.adopted
                done += [self._made(path) for path in (ROOT, step.path)[given:]]
            elif step.kind == "remove":
                done.append(Removed(step.path, done=True))
        self.book.record(done)
        return outcomes

    def _intent(self, step: Step) -> Entry:
        if step.kind == "create":
            if ROOT not in {**self.book.ledger.cgroups, **self.book.ledger.adopted}:
                self.book.record([CreateIntent(ROOT)])
            return CreateIntent(step.path)
        if step.kind == "remove":
            return Removed(step.path)
        return Set(step.path, step.file, self.book.before(step), step.value)

    def _made(self, path: str) -> Entry:
        return Created(path, self.kernel.observe(path).cgroups[path].identity)

    def poll_pending(self) -> list[Outcome]:
        return []

    def shell(self, step: Step) -> str:
        return self.kernel.shell(step)


def executor_of(driver: Driver, journal: Journal) -> CgroupExecutor:
    """The executor of a root of ours."""
    return CgroupExecutor(
        ownership_of(ROOT, journal.ledger),
        driver,
        Sight(driver.kernel),
        lambda: 0.0,
        journal=journal,
    )


class Machine:
    """All parts of one pass."""

    def __init__(self, hierarchy: Hierarchy = "v1", faults: Sequence[Fault] = ()) -> None:
        self.kernel = SimKernel(hierarchy, faults=faults)
        self.book = Book()
        self.driver = Driver(self.kernel, self.book)
        self.executor = executor_of(self.driver, self.book)

    def work(self, plan: Plan) -> ApplyPlan:
        return prepare(plan, self.executor, Sight(self.kernel).read_planned)

    def apply(self, groups: Mapping[str, dict[str, str]] = TREE) -> ApplyResult:
        plan = plan_of(self.kernel.hierarchy, dict(groups))
        return perform(self.work(plan), lambda: self.work(plan), self.executor)

    def release(self) -> list[str]:
        """Undo; what was refused."""
        seen = self.kernel.observe(ROOT)
        others = {
            p: one for p in self.book.ledger.adopted if (one := Sight(self.kernel).read_cgroup(p))
        }
        now = TreeState(ROOT, seen, others)
        what = restore(self.book.ledger, now, hierarchy=self.kernel.hierarchy)
        if not what.refusals:
            assert all(one.error is None for one in self.driver.perform(what.steps))
        return [row.message for row in what.refusals]

    def value(self, path: str, file: str) -> str:
        return self.kernel.observe(path).cgroups[path].values[file]


def test_a_tree_is_made_adopted_and_undone() -> None:
    machine = Machine()
    first = machine.apply()
    assert (first.done("create"), first.done("set"), first.remaining) == (4, 5, ())
    second = machine.apply()
    assert (second.outcomes, second.remaining) == ((), ())
    kinds = Counter(type(one).__name__ for one in machine.book.entries)
    assert kinds == {"Created": 4, "Set": 5}, "what was read back needs no other lines"
    assert machine.release() == []
    assert not machine.kernel.observe(ROOT).cgroups


def test_a_pod_that_left_is_removed_unless_something_is_in_it() -> None:
    machine = Machine()
    machine.apply()
    machine.kernel.spawn("/q/kubepods/podb")
    fewer = {path: files for path, files in TREE.items() if not path.endswith(("a", "b"))}
    done = machine.apply(fewer)
    assert done.done("remove") == 1
    assert [(row.path, row.verdict) for row in done.remaining] == [("/q/kubepods/podb", "surplus")]


def test_groups_that_a_runtime_made_in_ours_are_left_alone() -> None:
    machine = Machine()
    machine.apply()
    machine.kernel.perform([Step("create", "/q/kubepods/podb/x")])
    assert machine.apply().outcomes == ()
    fewer = {path: files for path, files in TREE.items() if not path.endswith("b")}
    done = machine.apply(fewer)
    assert [row.path for row in done.remaining] == ["/q/kubepods/podb"]
    assert "/q/kubepods/podb/x" in machine.kernel.observe(ROOT).cgroups


def test_a_planned_group_of_somebody_else_is_refused() -> None:
    machine = Machine()
    machine.kernel.perform([Step("create", "/q/kubepods")])
    with pytest.raises(CannotDo, match="/q/kubepods: another process created this cgroup"):
        machine.apply()


def test_a_container_that_a_runtime_made_is_written_and_restored() -> None:
    machine = Machine()
    machine.apply()
    machine.kernel.perform([Step("create", "/q/kubepods/poda/c1")])
    done = machine.apply({**TREE, "/q/kubepods/poda/c1": {"cpu.shares": "99"}})
    assert (done.done("set"), done.remaining) == (1, ())
    (refusal,) = machine.release()
    assert refusal.startswith("/q/kubepods/poda/c1: another process created this cgroup")


def test_a_reserved_group_is_written_where_it_stands_and_restored() -> None:
    machine = Machine()
    absent = machine.apply({**TREE, **SYSTEM})
    assert [(row.path, row.verdict) for row in absent.remaining] == [("/system", "absent")]
    assert "/system" not in machine.kernel.groups
    machine.kernel.perform([Step("create", "/system"), Step("set", "/system", "pids.max", "7")])
    machine.kernel.write("/system", "cpu.shares", "777")
    assert machine.apply({**TREE, **SYSTEM}).remaining == ()
    assert machine.value("/system", "cpu.shares") == "204"
    assert machine.value("/system", "pids.max") == "7"
    assert Adopted("/system", machine.kernel.observe("/system").cgroups["/system"].identity) in (
        machine.book.entries
    )
    assert machine.release() == []
    assert machine.value("/system", "cpu.shares") == "777"
