"""Restores files that the plan no longer sets, in foreign cgroups and in the root.

The journal has their earlier values. Values that another process wrote since, and files that
qoslet did not write, stay.
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
    """``rows`` are the files to restore, ``released`` the journal entries of files that need no
    restore, ``notes`` messages about values that another process wrote."""

    rows: tuple[Difference, ...] = ()
    released: tuple[Released, ...] = ()
    notes: tuple[str, ...] = ()


def written_files(journal: JournalState, path: str) -> Collection[str]:
    """The files of a cgroup in the journal, without cgroup.subtree_control."""
    return journal.names.get(path, set()) - {CONTROL}


def give_back(
    journal: JournalState,
    observed: Mapping[str, ObservedCgroup],
    planned: Iterable[Cgroup],
    hierarchy: Hierarchy,
    page_size: int,
) -> GiveBack:
    """What to restore in the ``observed`` cgroups, which are foreign or above all planned ones.
    Files that cannot be read are skipped until they can."""
    if not observed:
        return GiveBack()
    names = {cgroup.path: {row.file for row in cgroup.settings} for cgroup in planned}
    restored: list[Difference] = []
    released_files: list[Released] = []
    notes: list[str] = []
    for path, cgroup in observed.items():
        if journal.adopted.get(path, cgroup.identity) != cgroup.identity:
            continue
        for file in sorted(set(written_files(journal, path)) - names.get(path, set())):
            actual = cgroup.values.get(file)
            before = journal.files[path, file][0]
            before = released(file, hierarchy) if before is None else before
            if actual is None or before is None:
                continue
            if same(file, before, actual, page_size):
                released_files.append(Released(path, file))
            elif is_ours(journal, (path, file), actual, page_size):
                restored.append(Difference(path, "differs", file, before, actual, WHY))
            else:
                released_files.append(Released(path, file))
                notes.append(
                    f"{path}/{file}: another process changed {journal.files[path, file][1]!r} to {actual!r}, which stays: nothing is restored there"
                )
    return GiveBack(tuple(restored), tuple(released_files), tuple(notes))


def is_ours(journal: JournalState, key: Key, actual: str, page_size: int) -> bool:
    """Whether qoslet may have written the value, as the kernel reads it back."""
    return any(same(key[1], value, actual, page_size) for value in journal.possible_values(key))
