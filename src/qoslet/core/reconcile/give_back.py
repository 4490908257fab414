"""What of ours stands in groups of others, or in the root, though the plan no longer names it.

Such a file gets its value of before back, which the journal knows. What somebody else has written
since, and every file that we did not write, stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.interface_files import released
from qoslet.core.cgroup.observed import ObservedCgroup
from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.drift import Difference
from qoslet.core.reconcile.journal import CONTROL, JournalState, Key, Released
from qoslet.core.resources.cgroup_tree import Cgroup

WHY = "not planned any more: as it was before"


class GiveBack(Struct, frozen=True):
    """``rows`` are files that are to be written back; ``released`` are those that need it no more,
    to be written down; ``notes`` say what somebody else has written."""

    rows: tuple[Difference, ...] = ()
    released: tuple[Released, ...] = ()
    notes: tuple[str, ...] = ()


def written_files(ledger: JournalState, path: str) -> Collection[str]:
    """The files of a group that we have written, controllers aside."""
    return ledger.names.get(path, set()) - {CONTROL}


def give_back(
    ledger: JournalState,
    seen: Mapping[str, ObservedCgroup],
    planned: Iterable[Cgroup],
    hierarchy: Hierarchy,
    page_size: int,
) -> GiveBack:
    """What to give back in the groups that were ``seen``, which are others' or above all that is
    planned. A file that cannot be read is left for a time when it can."""
    if not seen:
        return GiveBack()
    names = {group.path: {row.file for row in group.settings} for group in planned}
    rows: list[Difference] = []
    left: list[Released] = []
    notes: list[str] = []
    for path, group in seen.items():
        if ledger.adopted.get(path, group.identity) != group.identity:
            continue
        for file in sorted(set(written_files(ledger, path)) - names.get(path, set())):
            found = group.values.get(file)
            before = ledger.files[path, file][0]
            before = released(file, hierarchy) if before is None else before
            if found is None or before is None:
                continue
            if same(file, before, found, page_size):
                left.append(Released(path, file))
            elif is_ours(ledger, (path, file), found, page_size):
                rows.append(Difference(path, "differs", file, before, found, WHY))
            else:
                left.append(Released(path, file))
                notes.append(
                    f"{path}/{file}: another process wrote {found!r} over {ledger.files[path, file][1]!r}; it is no longer planned and stays"
                )
    return GiveBack(tuple(rows), tuple(left), tuple(notes))


def is_ours(ledger: JournalState, key: Key, found: str, page_size: int) -> bool:
    """Whether a value is one that may stand by our hand, as the kernel reads it back."""
    return any(same(key[1], value, found, page_size) for value in ledger.possible_values(key))
