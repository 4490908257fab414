"""What undoes a tree: the journal against what stands now gives steps, or why it may not be.

Groups that were made are removed, children first; files of other groups get the value of before
back. Everything is judged before anything is done: with one refusal there is no step to do.
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
from qoslet.core.reconcile.steps import Step, ordered

Kind = Literal["written", "process", "foreign", "held"]


class RestoreConflict(Struct, frozen=True):
    """One thing that stands in the way.

    ``written``: ``found`` is in the file, not ``ours``; ``before`` would be restored.
    ``process``: ``pids`` are in a group that we made. ``foreign``: somebody else made the group
    inside one of ours. ``held``: the limit of before is below the
    bytes in use, which are ``found``.
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
    """``steps`` in their order, to be done only if there are no ``refusals``; ``notes`` say what
    needs or gets nothing; ``left`` are values of others that stay because of ``force``."""

    steps: tuple[Step, ...]
    refusals: tuple[RestoreConflict, ...] = ()
    notes: tuple[str, ...] = ()
    left: tuple[RestoreConflict, ...] = ()


class TreeState(Struct, frozen=True):
    """What was read: ``tree`` from ``root`` down with every process over all hierarchies,
    ``others`` the groups of others that the journal names, ``beside`` by the path of a group
    whose controllers we enabled: the groups below it that are not ours."""

    root: str
    tree: Observed
    others: Mapping[str, ObservedCgroup] = {}
    beside: Mapping[str, Sequence[ObservedCgroup]] = {}


def restore(
    ledger: JournalState,
    now: TreeState,
    *,
    hierarchy: Hierarchy,
    page_size: int = 4096,
    force: bool = False,
) -> RestorePlan:
    """The steps that undo the journal. ``force`` lets go of what others have written: their
    values stay in their groups, and go with groups that we made."""
    own = [path for path, one in now.tree.cgroups.items() if ledger.is_owned(path, one.identity)]
    refusals = [
        RestoreConflict("process", path, pids=tuple(sorted(now.tree.cgroups[path].pids)))
        for path in own
        if now.tree.cgroups[path].pids
    ]
    refusals += _foreign(own, now)
    made = set(own)
    written = [
        _written(ledger, key, value, now.root, owned=True)
        for key in ledger.files
        if key[0] in made
        and (value := now.tree.cgroups[key[0]].values.get(key[1])) is not None
        and not is_ours(ledger, key, value, page_size)
        and not _untouched(key, value, now.tree, hierarchy)
    ]
    back, theirs, notes = _values(ledger, now, page_size, hierarchy)
    written += theirs
    seen = Observed(now.tree.at, dict(now.others))
    _, waiting = eased(back, seen, "refuse")
    refusals += [
        RestoreConflict("held", row.path, row.file, found=str(row.used), before=row.wanted)
        for row in waiting
    ]
    steps = ordered(back, seen)
    steps += [Step("remove", path, why="made by us") for path in sorted(own, key=_deepest)]
    restored = {(row.path, row.file): row.wanted or "" for row in back}
    steps += _controls(ledger, now, hierarchy, notes, restored)
    if force:
        return RestorePlan(tuple(steps), tuple(refusals), tuple(notes), tuple(written))
    return RestorePlan(tuple(steps), (*written, *refusals), tuple(notes))


def _deepest(path: str) -> tuple[int, str]:
    """Orders groups, those below others first."""
    return 0 if path == "/" else -path.count("/"), path


def _untouched(key: tuple[str, str], found: str, tree: Observed, hierarchy: Hierarchy) -> bool:
    """Whether a file of a group that we made holds what a new group has: the write that was
    written down was not done."""
    path, file = key
    fresh = released(file, hierarchy)
    if fresh is not None:
        return same(file, fresh, found)
    above = tree.cgroups.get(path.rpartition("/")[0])
    return above is None or above.values.get(file) == found


def _written(
    ledger: JournalState, key: tuple[str, str], found: str, root: str, *, owned: bool
) -> RestoreConflict:
    """The refusal of a file that somebody else has written."""
    path, file = key
    before, ours = ledger.files[key]
    who = resets_at(path, file, root, owned)
    return RestoreConflict("written", path, file, ours, found, before, who)


def _foreign(own: Iterable[str], now: TreeState) -> list[RestoreConflict]:
    """Groups of others inside groups of ours, the topmost of each."""
    ours = set(own)
    return [
        RestoreConflict("foreign", path)
        for path in now.tree.cgroups
        if path not in ours and path.rpartition("/")[0] in ours
    ]


def _values(
    ledger: JournalState, now: TreeState, page: int, hierarchy: Hierarchy
) -> tuple[list[Difference], list[RestoreConflict], list[str]]:
    """What is to be written back in groups of others, what somebody else has written there, and
    what can no longer be restored."""
    back: list[Difference] = []
    theirs: list[RestoreConflict] = []
    notes: list[str] = []
    for path, inode in ledger.adopted.items():
        group = now.others.get(path)
        files = [key for key in ledger.files if key[0] == path and key[1] != CONTROL]
        if group is None or group.identity != inode:
            if files:
                what = "is gone" if group is None else "was recreated"
                notes.append(f"{path} {what} meanwhile: nothing to restore in it")
            continue
        for key in files:
            # a file that came with its controller held what a new group has
            before = ledger.files[key][0]
            before = released(key[1], hierarchy) if before is None else before
            found = group.values.get(key[1])
            if found is None or before is None:
                notes.append(f"{path}/{key[1]} cannot be read: leaving it")
            elif found == before or same(key[1], before, found, page):
                continue
            elif is_ours(ledger, key, found, page):
                back.append(Difference(path, "differs", key[1], before, found, "was there before"))
            else:
                theirs.append(_written(ledger, key, found, now.root, owned=False))
    return back, theirs, notes


def _controls(
    ledger: JournalState,
    now: TreeState,
    hierarchy: Hierarchy,
    notes: list[str],
    restored: dict[Key, str],
) -> list[Step]:
    """Controllers that were enabled above the root and reserved cgroups, off again from below where
    nobody else uses them with the values that are ``restored`` before."""
    steps = []
    switched = [path for path, file in ledger.files if file == CONTROL]
    for path in sorted(switched, key=_deepest):
        group = now.others.get(path)
        before, file = ledger.files[path, CONTROL][0], CONTROL
        if group is None or group.identity != ledger.adopted.get(path):
            continue
        # a release that was killed has written down "-name" already
        ours = {
            word.lstrip("+-")
            for text in ledger.possible_values((path, file))
            for word in text.split()
        }
        added = ours - set((before or "").split())
        there = set(group.values.get(CONTROL, "").split()) & added
        used = there & _used(now.beside.get(path, ()), hierarchy, restored)
        if used:
            names = ", ".join(sorted(used))
            notes.append(f"{path}: {names} left enabled: other cgroups below use it")
        if there - used:
            text = " ".join(f"-{name}" for name in sorted(there - used))
            steps.append(Step("set", path, CONTROL, text, why="was not enabled before"))
            left = [word for word in group.values[CONTROL].split() if word not in there - used]
            restored[path, CONTROL] = " ".join(left)
    return steps


def _used(
    groups: Iterable[ObservedCgroup], hierarchy: Hierarchy, restored: Mapping[Key, str]
) -> set[str]:
    """The controllers that groups hand on, or of which a value is not a new group's."""
    found: set[str] = set()
    for group in groups:
        for file, found_there in group.values.items():
            value = restored.get((group.path, file), found_there)
            fresh = released(file, hierarchy)
            if file == CONTROL:
                found.update(value.split())
            elif fresh is not None and not same(file, fresh, value):
                found.add(controller(file))
    return found
