"""Undoes a tree: compares the journal with the existing cgroups, and returns steps or refusals.

Created cgroups are removed, children first; files of foreign cgroups get their earlier values. All
checks come before the first step: with a refusal no step is done. In a tree of another manager each
file is restored by itself: what is in the way of one leaves that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.interface_files import controller, released
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.drift import Difference
from qoslet.core.reconcile.file_writers import resets_at
from qoslet.core.reconcile.give_back import is_ours
from qoslet.core.reconcile.journal import CONTROL, JournalState, Key
from qoslet.core.reconcile.limit_shrink import eased
from qoslet.core.reconcile.step_order import ordered
from qoslet.core.reconcile.steps import Step

_KEPT = "memory.oom.group"
"""What the kernel keeps of a cgroup while memory is disabled, unlike the limits: it comes back as it was, which
nobody set since. Source: Linux mm/memcontrol.c mem_cgroup_css_reset; seen with 7.2."""

Kind = Literal["written", "process", "foreign", "held"]


class RestoreConflict(Struct, frozen=True):
    """A reason not to undo the tree.

    ``written``: the file holds ``found``, not ``ours``; ``before`` would be restored.
    ``process``: ``pids`` are in a cgroup that qoslet created. ``foreign``: another process created
    the cgroup inside one of ours. ``held``: the earlier limit is below the usage ``found``.
    ``resets`` says who would reset a value, and when.
    """

    kind: Kind
    path: str
    file: str = ""
    ours: str | None = None
    found: str | None = None
    before: str | None = None
    resets: str = ""
    pids: tuple[int, ...] = ()

    @property
    def message(self) -> str:
        """The refusal in one line: what, where, and what to do."""
        match self.kind:
            case "written":
                return f"{self.path}/{self.file}: another process wrote {self.found!r} over {self.ours!r}; {self.resets}"
            case "process":
                some = ", ".join(map(str, self.pids[:8]))
                more = f" and {len(self.pids) - 8} more" if len(self.pids) > 8 else ""
                return f"{self.path}: has processes ({some}{more}); stop or move them first"
            case "foreign":
                return f"{self.path}: another process created this cgroup; remove it first"
        return f"{self.path}/{self.file}: cannot restore {self.before} while {self.found} bytes are in use: the kernel would kill or reject; wait until usage falls"


class RestorePlan(Struct, frozen=True):
    """``steps`` in order, to be done only without ``refusals``. ``notes`` are messages about what
    is not restored. ``left`` are files that stay as they are: values of other processes, because of
    ``force`` or where each file is restored by itself; there also limits that cannot be restored yet."""

    steps: tuple[Step, ...]
    refusals: tuple[RestoreConflict, ...] = ()
    notes: tuple[str, ...] = ()
    left: tuple[RestoreConflict, ...] = ()


class TreeState(Struct, frozen=True):
    """The observed state: ``tree`` from ``root`` down, with the processes of all hierarchies;
    ``others`` are the foreign cgroups in the journal; ``beside`` are the foreign children of
    cgroups whose controllers qoslet enabled, by the parent's path."""

    root: str
    tree: Observed
    others: Mapping[str, ObservedCgroup] = {}
    beside: Mapping[str, Sequence[ObservedCgroup]] = {}


def restore(
    journal: JournalState,
    now: TreeState,
    *,
    hierarchy: Hierarchy,
    page_size: int = 4096,
    force: bool = False,
    by_file: bool = False,
) -> RestorePlan:
    """The steps that undo the journal. With ``force`` others' values are no refusal: they stay in
    foreign cgroups, and vanish with ours. ``by_file``: of another manager's tree, file by file."""
    owned = [
        path for path, cgroup in now.tree.cgroups.items() if journal.is_owned(path, cgroup.identity)
    ]
    refusals = [
        RestoreConflict("process", path, pids=tuple(sorted(now.tree.cgroups[path].pids)))
        for path in owned
        if now.tree.cgroups[path].pids
    ]
    refusals += _foreign(owned, now)
    owned_set = set(owned)
    written = [
        _written(journal, key, value, now.root, owned=True)
        for key in journal.files
        if key[0] in owned_set
        and (value := now.tree.cgroups[key[0]].values.get(key[1])) is not None
        and not is_ours(journal, key, value, page_size)
        and not _untouched(key, value, now.tree, hierarchy)
    ]
    to_restore, theirs, notes = _values(journal, now, page_size, hierarchy)
    written += theirs
    others = Observed(now.tree.at, dict(now.others))
    _, waiting = eased(to_restore, others, "refuse")
    held = [
        RestoreConflict("held", row.path, row.file, found=str(row.used), before=row.wanted)
        for row in waiting
    ]
    if by_file:
        stay = {(row.path, row.file) for row in held}
        to_restore = [row for row in to_restore if (row.path, row.file) not in stay]
        written += held
    else:
        refusals += held
    steps = ordered(to_restore, others)
    steps += [Step("remove", path, why="made by us") for path in sorted(owned, key=_deepest)]
    restored = {(row.path, row.file): row.wanted or "" for row in to_restore}
    steps += _controls(journal, now, hierarchy, notes, restored)
    if not (force or by_file):
        refusals, written = [*written, *refusals], []
    return RestorePlan(tuple(steps), tuple(refusals), tuple(notes), tuple(written))


def _deepest(path: str) -> tuple[int, str]:
    """Sort key: descendants first."""
    return 0 if path == "/" else -path.count("/"), path


def _untouched(key: tuple[str, str], actual: str, tree: Observed, hierarchy: Hierarchy) -> bool:
    """Whether a file of a created cgroup holds the value of a new one: the recorded write was never
    made."""
    path, file = key
    fresh = released(file, hierarchy)
    if fresh is not None:
        return same(file, fresh, actual)
    above = tree.cgroups.get(path.rpartition("/")[0])
    return above is None or above.values.get(file) == actual


def _written(
    journal: JournalState, key: tuple[str, str], actual: str, root: str, *, owned: bool
) -> RestoreConflict:
    """The refusal of a file that another process wrote."""
    path, file = key
    before, ours = journal.files[key]
    who = resets_at(path, file, root, owned)
    return RestoreConflict("written", path, file, ours, actual, before, who)


def _foreign(owned: Iterable[str], now: TreeState) -> list[RestoreConflict]:
    """The topmost foreign cgroups inside created ones."""
    ours = set(owned)
    return [
        RestoreConflict("foreign", path)
        for path in now.tree.cgroups
        if path not in ours and path.rpartition("/")[0] in ours
    ]


def _values(
    journal: JournalState, now: TreeState, page: int, hierarchy: Hierarchy
) -> tuple[list[Difference], list[RestoreConflict], list[str]]:
    """The values to restore in foreign cgroups, the conflicts there, and notes about values that
    can no longer be restored."""
    to_restore: list[Difference] = []
    conflicts: list[RestoreConflict] = []
    notes: list[str] = []
    for path, inode in journal.adopted.items():
        cgroup = now.others.get(path)
        files = [key for key in journal.files if key[0] == path and key[1] != CONTROL]
        if cgroup is None or cgroup.identity != inode:
            if files:
                event = "is gone" if cgroup is None else "was recreated"
                notes.append(f"{path} {event} meanwhile: nothing to restore in it")
            continue
        for key in files:
            # a file that came with its controller had the value of a new cgroup
            before = journal.files[key][0]
            before = released(key[1], hierarchy) if before is None else before
            actual = cgroup.values.get(key[1])
            if actual is None or before is None:
                notes.append(f"{path}/{key[1]} cannot be read: leaving it")
            elif actual == before or same(key[1], before, actual, page):
                continue
            elif is_ours(journal, key, actual, page):
                to_restore.append(
                    Difference(path, "differs", key[1], before, actual, "was there before")
                )
            else:
                conflicts.append(_written(journal, key, actual, now.root, owned=False))
    return to_restore, conflicts, notes


def _controls(
    journal: JournalState,
    now: TreeState,
    hierarchy: Hierarchy,
    notes: list[str],
    restored: dict[Key, str],
) -> list[Step]:
    """Steps that disable the controllers enabled above the root and reserved cgroups, deepest first,
    if no foreign cgroup uses them. ``restored`` are the values after the steps before these."""
    steps = []
    switched = [path for path, file in journal.files if file == CONTROL]
    for path in sorted(switched, key=_deepest):
        cgroup = now.others.get(path)
        before, file = journal.files[path, CONTROL][0], CONTROL
        if cgroup is None or cgroup.identity != journal.adopted.get(path):
            continue
        # a release that was killed has recorded "-name" already
        ours = {
            word.lstrip("+-")
            for text in journal.possible_values((path, file))
            for word in text.split()
        }
        added = ours - set((before or "").split())
        enabled = set(cgroup.values.get(CONTROL, "").split()) & added
        used = enabled & _used(now.beside.get(path, ()), hierarchy, restored, journal)
        if used:
            names = ", ".join(sorted(used))
            notes.append(f"{path}: {names} left enabled: other cgroups below use it")
        if enabled - used:
            text = " ".join(f"-{name}" for name in sorted(enabled - used))
            steps.append(Step("set", path, CONTROL, text, why="was not enabled before"))
            kept = [word for word in cgroup.values[CONTROL].split() if word not in enabled - used]
            restored[path, CONTROL] = " ".join(kept)
    return steps


def _used(
    cgroups: Iterable[ObservedCgroup],
    hierarchy: Hierarchy,
    restored: Mapping[Key, str],
    journal: JournalState,
) -> set[str]:
    """The controllers that cgroups enable for children, or of which a value is set."""
    controllers: set[str] = set()
    for cgroup in cgroups:
        was_there = journal.adopted.get(cgroup.path) == cgroup.identity
        for file, actual in cgroup.values.items():
            if was_there and file == _KEPT:
                continue
            value = restored.get((cgroup.path, file), actual)
            fresh = released(file, hierarchy)
            if file == CONTROL:
                controllers.update(value.split())
            elif fresh is not None and not same(file, fresh, value):
                controllers.add(controller(file))
    return controllers
