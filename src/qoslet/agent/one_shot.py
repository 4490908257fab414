"""One sync without a runtime: observe, compare, journal, write, read back; the tree stays.

Cgroups are created and removed below our own root only. Cgroups of others, such as those reserved
for the system, are written where the plan asks for it and they exist; they are never created,
never removed, and none of their files is touched that the plan does not name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.ownership import Ownership
from qoslet.agent.state.step_results import FailureLimit
from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.names import parents
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.reconcile.drift import Cause, Difference, compare
from qoslet.core.reconcile.give_back import written_files
from qoslet.core.reconcile.journal import Entry, Key, ReadBack, Released, Verified
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.errors import CannotDo

if TYPE_CHECKING:
    from qoslet.core.reconcile.limit_shrink import Waiting
    from qoslet.core.reconcile.steps import Outcome, Step

LIMIT = FailureLimit(same=3, total=60)
"""When a pass gives a file up, and when itself."""


class ApplyPlan(Struct, frozen=True):
    """What a pass found: all differences that are its business, and the steps that end them.

    ``foreign`` are the planned groups that somebody else made and that stand, with their inode;
    ``waiting`` are limits that wait for the usage to fall; ``skipped`` the names of containers
    without a known id; ``released`` are files of others with nothing of ours in them any more, and
    ``notes`` say what is in them instead.
    """

    root: str
    observed: Observed
    differences: tuple[Difference, ...]
    steps: tuple[Step, ...]
    foreign: Mapping[str, int] = {}
    waiting: tuple[Waiting, ...] = ()
    skipped: tuple[str, ...] = ()
    released: tuple[Released, ...] = ()
    notes: tuple[str, ...] = ()


class ApplyResult(Struct, frozen=True):
    """What one pass did, and what is still off."""

    before: ApplyPlan
    outcomes: tuple[Outcome, ...]
    remaining: tuple[Difference, ...]

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """Steps that did not work."""
        return tuple(one for one in self.outcomes if one.error is not None)

    def done(self, kind: str) -> int:
        """How many steps of a kind worked; the root comes with the first group."""
        count = sum(one.error is None and one.step.kind == kind for one in self.outcomes)
        root = kind == "create" and count and self.before.root not in self.before.observed.cgroups
        return count + bool(root)


def without_missing_controllers(
    plan: Plan, missing: Iterable[str]
) -> tuple[Plan, tuple[Difference, ...]]:
    """The plan without the values of controllers that are missing here, and those values."""
    lost = frozenset(missing)
    if not lost:
        return plan, ()
    groups, rows = [], []
    for group in plan.cgroups:
        kept = tuple(row for row in group.settings if controller(row.file) not in lost)
        if len(kept) != len(group.settings) and group.path is not None:
            rows += [
                Difference(group.path, "unread", row.file, row.value, None, row.rule)
                for row in group.settings
                if controller(row.file) in lost
            ]
        groups.append(replace(group, settings=kept) if len(kept) != len(group.settings) else group)
    return replace(plan, cgroups=tuple(groups)), tuple(rows)


def without_unstarted_scopes(plan: Plan, stands: Callable[[str], bool]) -> Plan:
    """The plan where containers' groups cannot be made without a process, as systemd's scopes:
    those that do not stand are left to whoever starts the containers."""
    groups = [
        replace(one, path=None)
        if one.level in ("container", "sandbox") and one.path is not None and not stands(one.path)
        else one
        for one in plan.cgroups
    ]
    return replace(plan, cgroups=tuple(groups))


FastRead = Callable[[Iterable[str]], Observed | None]
"""Reads the settings of cgroups if all of them exist, else returns None."""


def prepare(plan: Plan, executor: CgroupExecutor, fast_read: FastRead) -> ApplyPlan:
    """Observe and compare. Raises CannotDo where a planned cgroup below the root is another's."""
    own, state = executor.ownership, executor.journal.ledger
    planned = [one.path for one in plan.cgroups if one.path is not None and own.contains(one.path)]
    if state.cgroups.keys() <= {own.root, *planned}:
        root = [own.root] if written_files(state, own.root) and own.root not in planned else []
        observed = fast_read([*root, *planned])
        if observed is not None:
            work = _compared(plan, executor, observed)
            if not work.differences:
                return work
    return _compared(plan, executor, executor.observer.observe(own.root))


def _compared(plan: Plan, executor: CgroupExecutor, observed: Observed) -> ApplyPlan:
    """The differences between the plan and what was observed below the root."""
    own = executor.ownership

    def read(path: str) -> ObservedCgroup | None:
        return (
            observed.cgroups.get(path)
            if own.contains(path)
            else executor.observer.read_cgroup(path)
        )

    others = _others(plan, executor, observed)
    exists = {
        one.path: one.path in others
        for one in plan.cgroups
        if one.path is not None and (one.path in others or not own.contains(one.path))
    }
    differences = compare(plan, Observed(observed.at, {**observed.cgroups, **others}))
    planned = {one.path for one in plan.cgroups} | others.keys()
    apart = dict(sorted(executor.observe_written(planned, read).items()))
    others |= {path: one for path, one in apart.items() if path in own.adopted}
    ours = [row for row in differences if _in_scope(row, exists, own, observed)]
    back = executor.give_back(plan.node, {**others, **apart}, plan.cgroups)
    ours += back.rows
    blocked = _blocked(differences, own, observed)
    diff = executor.order(
        [row for row in ours if row.path not in exists or row.verdict == "differs"],
        Observed(observed.at, {**observed.cgroups, **others}),
    )
    return ApplyPlan(
        own.root,
        Observed(observed.at, diff.cgroups),
        tuple(ours),
        tuple(one for one in diff.steps if one.kind != "remove" or one.path not in blocked),
        {path: one.identity for path, one in others.items()},
        tuple(diff.waiting),
        tuple(one.name for one in plan.cgroups if one.path is None and one.level == "container"),
        back.released,
        back.notes,
    )


def perform(
    work: ApplyPlan, again: Callable[[], ApplyPlan], executor: CgroupExecutor
) -> ApplyResult:
    """Do the steps, each after it was journalled; ``again`` observes after it."""
    journal = executor.journal
    if work.released:
        journal.record(work.released)
    if not work.steps:
        return ApplyResult(work, (), work.differences)
    written = {step.path for step in work.steps} & work.foreign.keys()
    executor.adopt({path: work.foreign[path] for path in written})
    journal.seen(_values_before(work))
    outcomes = executor.perform(work.steps, limit=LIMIT).outcomes
    after = again()
    _verify(outcomes, after, executor)
    if after.released:
        journal.record(after.released)
    return ApplyResult(work, tuple(outcomes), after.differences)


def _others(plan: Plan, executor: CgroupExecutor, observed: Observed) -> dict[str, ObservedCgroup]:
    """Planned cgroups that exist and that we did not create: outside the root, and containers
    that a runtime created. Raises CannotDo for any other below the root."""
    own = executor.ownership
    found: dict[str, ObservedCgroup] = {}
    for group in plan.cgroups:
        path = group.path
        if path is None:
            continue
        if not own.contains(path):
            seen = executor.observer.read_cgroup(path)
            if seen is not None:
                found[path] = seen
            continue
        existing = observed.cgroups.get(path)
        if existing is None or own.is_owned(path, existing.identity):
            continue
        if group.level not in ("container", "sandbox") and path not in own.adopted:
            from qoslet.core.cgroup.tree_owner import advice

            raise CannotDo(
                "another process created this cgroup: it is not in the journal",
                where=path,
                hint=advice(executor.ownership.root, observed.cgroups),
            )
        found[path] = existing
    return found


def _in_scope(
    row: Difference, exists: Mapping[str, bool], own: Ownership, observed: Observed
) -> bool:
    """Whether a difference is ours to report. ``exists`` names planned cgroups of others: one
    that does not exist counts once, in one that does only what is planned."""
    if row.verdict == "surplus":
        return own.is_owned(row.path, observed.cgroups[row.path].identity)
    if row.path not in exists:
        return True
    if row.cause is not Cause.PLANNED:
        return False
    return row.verdict != "absent" if exists[row.path] else row.verdict == "absent"


def _blocked(differences: Sequence[Difference], own: Ownership, observed: Observed) -> set[str]:
    """Cgroups that cannot be removed: those of others, and those above them."""
    found: set[str] = set()
    for row in differences:
        path = row.path
        if row.verdict != "surplus" or own.is_owned(path, observed.cgroups[path].identity):
            continue
        found.update((path, *parents(path)))
    return found


def _values_before(work: ApplyPlan) -> dict[Key, str]:
    """The values that the steps replace."""
    found = {}
    for step in work.steps:
        group = work.observed.cgroups.get(step.path)
        if step.kind == "set" and group is not None and step.file in group.values:
            found[step.path, step.file] = group.values[step.file]
    return found


def _verify(outcomes: Sequence[Outcome], after: ApplyPlan, executor: CgroupExecutor) -> None:
    """Write down what the kernel made of the values, and that they were read back: then what
    led there need not be read by the next process."""
    journal, state = executor.journal, executor.journal.ledger
    differing = {(row.path, row.file) for row in after.differences}
    entries: list[Entry] = []
    complete = True
    keys = {(one.step.path, one.step.file) for one in outcomes if one.step.kind == "set"}
    for key in sorted(keys):
        path, file = key
        group = after.observed.cgroups.get(path)
        value = group.values.get(file) if group is not None else None
        if value is None or key in differing or key not in state.files:
            complete = False
        elif not same(file, state.files[key][1], value):
            entries.append(ReadBack(path, file, value))
    verified = complete and keys >= state.earlier.keys() and not any(one.error for one in outcomes)
    if verified:
        entries.append(Verified())
    if entries:
        journal.record(entries)
    if verified:
        journal.rewrite()
