"""One pass over a tree that is to stay: look, compare, journal, write, read back.

Groups are made and removed below our own root only. Groups of others, such as those reserved
for the system, are written where the plan asks for it and they stand; they are never made,
never removed, and none of their files is touched that the plan does not name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.reconcile.drift import Cause, Difference, compare
from qoslet.core.reconcile.give_back import give_back, written_files
from qoslet.core.reconcile.journal import (
    Adopted,
    Entry,
    JournalState,
    Key,
    ReadBack,
    Released,
    Verified,
)
from qoslet.core.reconcile.limit_shrink import Shrink, Waiting, eased, with_cache
from qoslet.core.reconcile.steps import Outcome, Step, ordered
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.errors import CannotDo

if TYPE_CHECKING:
    from qoslet.agent.ports import Driver

MAX_SAME_FAILURES = 3
"""Failures of one file with one errno after which that file is tried no more in this pass."""
MAX_FAILURES = 60
"""Failures after which a pass gives up."""


class Book(Protocol):
    """The journal of the tree, open."""

    ledger: JournalState

    def seen(self, values: Mapping[Key, str]) -> None:
        """What stands in files that are about to be written: their value of before."""

    def record(self, entries: Sequence[Entry]) -> None:
        """Append entries. Raises QosletError or OSError."""

    def rewrite(self) -> None:
        """Replace what is written by the least that says the same. Raises as ``record``."""


class Sight(Protocol):
    """Reads a kernel: a subtree, one group, or only what was planned."""

    def observe(self, root: str) -> Observed:
        """The subtree below and including ``root``; an absent root gives no cgroups."""

    def look(self, path: str) -> ObservedCgroup | None:
        """One group, None where it is absent."""

    def glance(self, paths: Iterable[str]) -> Observed | None:
        """The settings of these groups if all of them are there, else None."""

    def cache(self, path: str) -> int:
        """Bytes of page cache in a group that can be taken back without a kill."""


class ApplyPlan(Struct, frozen=True):
    """What a pass found: all differences that are its business, and the steps that end them.

    ``others`` are the planned groups that somebody else made and that stand, with their inode;
    ``waiting`` are limits that wait for the usage to fall; ``skipped`` the names of containers
    without a known id; ``left`` are files of others with nothing of ours in them any more, and
    ``notes`` say what is in them instead.
    """

    root: str
    observed: Observed
    differences: tuple[Difference, ...]
    steps: tuple[Step, ...]
    others: Mapping[str, int] = {}
    waiting: tuple[Waiting, ...] = ()
    skipped: tuple[str, ...] = ()
    left: tuple[Released, ...] = ()
    notes: tuple[str, ...] = ()


class ApplyResult(Struct, frozen=True):
    """What one pass did, and what is still off."""

    before: ApplyPlan
    outcomes: tuple[Outcome, ...]
    left: tuple[Difference, ...]

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


def prepare(
    plan: Plan, root: str, ledger: JournalState, sight: Sight, shrink: Shrink = "converge"
) -> ApplyPlan:
    """Look and compare. Raises CannotDo where a planned group below the root is another's."""
    planned = [
        one.path for one in plan.cgroups if one.path is not None and is_at_or_below(one.path, root)
    ]
    if ledger.cgroups.keys() <= {root, *planned}:
        kept = [root] if written_files(ledger, root) and root not in planned else []
        observed = sight.glance([*kept, *planned])
        if observed is not None:
            work = _compared(plan, root, ledger, observed, sight, shrink)
            if not work.differences:
                return work
    return _compared(plan, root, ledger, sight.observe(root), sight, shrink)


def _compared(
    plan: Plan, root: str, ledger: JournalState, observed: Observed, sight: Sight, shrink: Shrink
) -> ApplyPlan:
    """The differences between the plan and what was seen below the root."""
    others = _others(plan, root, ledger, observed, sight)
    merged = Observed(observed.at, {**observed.cgroups, **others})
    theirs = {
        one.path: one.path in others
        for one in plan.cgroups
        if one.path is not None and (one.path in others or not is_at_or_below(one.path, root))
    }
    differences = compare(plan, merged)
    planned = {one.path for one in plan.cgroups} | others.keys()
    apart = _apart(root, ledger, observed, sight, planned)
    others |= {path: one for path, one in apart.items() if path in ledger.adopted}
    merged = Observed(observed.at, {**observed.cgroups, **others})
    ours = [row for row in differences if _is_business(row, theirs, ledger, observed)]
    page = plan.node.host.page_size
    back = give_back(ledger, {**others, **apart}, plan.cgroups, plan.node.hierarchy, page)
    ours += back.rows
    blocked = _blocked(differences, ledger, observed)
    mended = [row for row in ours if row.path not in theirs or row.verdict == "differs"]
    merged = with_cache(mended, merged, sight.cache) if mended else merged
    steps = [
        step
        for step in ordered(mended, merged, shrink)
        if step.kind != "remove" or step.path not in blocked
    ]
    return ApplyPlan(
        root,
        merged,
        tuple(ours),
        tuple(steps),
        {path: one.identity for path, one in others.items()},
        tuple(eased(mended, merged, shrink)[1]),
        tuple(one.name for one in plan.cgroups if one.path is None and one.level == "container"),
        back.left,
        back.notes,
    )


def perform(
    work: ApplyPlan, again: Callable[[], ApplyPlan], driver: Driver, book: Book
) -> ApplyResult:
    """Do the steps, each after it was journalled; ``again`` looks anew after it."""
    if work.left:
        book.record(work.left)
    if not work.steps:
        return ApplyResult(work, (), work.differences)
    touched = {step.path for step in work.steps} & work.others.keys()
    met = [Adopted(path, work.others[path]) for path in sorted(touched)]
    book.record([one for one in met if book.ledger.adopted.get(one.path) != one.inode])
    book.seen(_standing(work))
    outcomes = _all(work.steps, driver)
    after = again()
    _settle(work, outcomes, after, book)
    if after.left:
        book.record(after.left)
    return ApplyResult(work, tuple(outcomes), after.differences)


def _others(
    plan: Plan, root: str, ledger: JournalState, observed: Observed, sight: Sight
) -> dict[str, ObservedCgroup]:
    """Planned groups that stand and that we did not make: outside the root, and containers that
    a runtime made. Raises CannotDo for any other below the root."""
    found: dict[str, ObservedCgroup] = {}
    for group in plan.cgroups:
        path = group.path
        if path is None:
            continue
        if not is_at_or_below(path, root):
            seen = sight.look(path)
            if seen is not None:
                found[path] = seen
            continue
        standing = observed.cgroups.get(path)
        if standing is None or ledger.is_owned(path, standing.identity):
            continue
        if group.level not in ("container", "sandbox") and path not in ledger.adopted:
            raise CannotDo(
                "somebody else made this group: it is not in our journal",
                where=path,
                hint="give another --cgroup-root; if nobody needs it, rmdir it",
            )
        found[path] = standing
    return found


def _apart(
    root: str,
    ledger: JournalState,
    observed: Observed,
    sight: Sight,
    planned: Collection[str | None],
) -> dict[str, ObservedCgroup]:
    """Groups that are not planned and in which something of ours stands: of others, and the
    root."""
    found = {}
    for path in sorted({*ledger.adopted, root}):
        if path not in planned and written_files(ledger, path):
            within = is_at_or_below(path, root)
            seen = observed.cgroups.get(path) if within else sight.look(path)
            if seen is not None:
                found[path] = seen
    return found


def _is_business(
    row: Difference, theirs: Mapping[str, bool], ledger: JournalState, observed: Observed
) -> bool:
    """Whether a difference is a pass's business. ``theirs`` are planned groups of others, with
    whether they stand: in them only what is planned counts, and one that is absent counts as
    one difference."""
    if row.verdict == "surplus":
        return ledger.is_owned(row.path, observed.cgroups[row.path].identity)
    stands = theirs.get(row.path)
    if stands is None:
        return True
    return row.cause is Cause.PLANNED and (row.verdict == "absent") is not stands


def _blocked(
    differences: Sequence[Difference], ledger: JournalState, observed: Observed
) -> set[str]:
    """Groups that cannot be removed: others' ones, and those above them."""
    found: set[str] = set()
    for row in differences:
        path = row.path
        if row.verdict != "surplus" or ledger.is_owned(path, observed.cgroups[path].identity):
            continue
        while path:
            found.add(path)
            path = path.rpartition("/")[0]
    return found


def _standing(work: ApplyPlan) -> dict[Key, str]:
    """The values in front of the steps."""
    found = {}
    for step in work.steps:
        group = work.observed.cgroups.get(step.path)
        if step.kind == "set" and group is not None and step.file in group.values:
            found[step.path, step.file] = group.values[step.file]
    return found


def _all(steps: Sequence[Step], driver: Driver) -> list[Outcome]:
    """Every step that can be tried. What lies in a group that could not be made is not; nor is
    a file that was refused often enough."""
    outcomes: list[Outcome] = []
    refused: Counter[tuple[str, str | None]] = Counter()
    left = list(steps)
    while left and refused.total() < MAX_FAILURES:
        tried = driver.perform(left)
        outcomes += tried
        left = left[len(tried) :]
        if not tried or tried[-1].error is None:
            break
        wrong = tried[-1].step
        alike = wrong.file, tried[-1].errno_name
        refused[alike] += 1
        if wrong.kind == "create":
            left = [step for step in left if not is_at_or_below(step.path, wrong.path)]
        elif wrong.file and refused[alike] >= MAX_SAME_FAILURES:
            left = [step for step in left if step.file != wrong.file]
    return outcomes


def _settle(work: ApplyPlan, outcomes: Sequence[Outcome], after: ApplyPlan, book: Book) -> None:
    """Write down what the kernel made of the values, and that they were read back: then what
    led there need not be read by the next process."""
    off = {(row.path, row.file) for row in after.differences}
    kept: list[Entry] = []
    seen = True
    keys = {(one.step.path, one.step.file) for one in outcomes if one.step.kind == "set"}
    for key in sorted(keys):
        path, file = key
        group = after.observed.cgroups.get(path)
        found = group.values.get(file) if group is not None else None
        if found is None or key in off or key not in book.ledger.files:
            seen = False
        elif not same(file, book.ledger.files[key][1], found):
            kept.append(ReadBack(path, file, found))
    settled = seen and keys >= book.ledger.earlier.keys()
    if settled and not any(one.error for one in outcomes):
        kept.append(Verified())
    if kept:
        book.record(kept)
    if Verified() in kept:
        book.rewrite()
