"""Compares a journal with the cgroups that exist, as it is read."""

from __future__ import annotations

from collections.abc import Callable, Collection

from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.reconcile.journal import JournalState
from qoslet.host.state.journal_file import Owned

Recorded = Callable[[], Collection[str]]
"""The groups that records of this boot's pods name, asked where the journal does not tell whose a group
is."""


def prune(ledger: JournalState, tree: Owned, recorded: Recorded = tuple) -> bool:
    """Drop groups that are gone or were made anew by somebody; know the inodes of all others.
    True if that changed anything. One that was made anew and has a recorded container in it is a
    runtime's work, and ours; so is a slice below one of ours, which systemd makes again by itself for
    what starts below it after ``systemctl stop``, and whose name is no other's. On v1 a group may be
    absent only where its inode would tell: it was renamed there, and stays ours in the other
    hierarchies."""
    changed = False
    full: list[str] | None = None
    for path, (standing, inode) in list(ledger.cgroups.items()):
        now = tree.identity(path)
        if now is not None and now == inode:
            continue
        changed = True
        if now is None or (inode != 0 and tree.identifies(path)):
            ledger.forget(path)
            if now is None:
                continue
            if full is None:
                full = [one for one in recorded() if tree.members(one)]
            is_slice = path.endswith(".slice") and path.rpartition("/")[0] in ledger.cgroups
            if not is_slice and not any(is_at_or_below(one, path) for one in full):
                continue
        ledger.cgroups[path] = (standing, now)
    return changed
