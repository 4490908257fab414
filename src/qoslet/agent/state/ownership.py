"""Which cgroups are ours, and which of their files may be written."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.reconcile.drift import Difference
from qoslet.core.reconcile.journal import CgroupState, JournalState


class Ownership(Struct, frozen=True):
    """What an executor may do below and beside a root. The mappings are the journal's own: what
    it takes in counts from then on."""

    root: str
    """Cgroups are created and removed below it only."""
    adopted: Mapping[str, int] = {}
    """Cgroups of others in which files may be written, with their inode."""
    created: Mapping[str, tuple[CgroupState, int]] | None = None
    """Cgroups that we created, with their inode; None: everything below the root."""
    files: frozenset[str] | None = None
    """The files that may be written, for a guest beside another manager: it creates and removes
    no cgroup. None: every planned file."""

    def contains(self, path: str) -> bool:
        """Whether a cgroup is the root or below it."""
        return is_at_or_below(path, self.root)

    def is_foreign(self, path: str) -> bool:
        """Whether a cgroup is another's: outside the root, or the root where it was handed to
        us."""
        return not self.contains(path) or (path == self.root and path in self.adopted)

    def is_owned(self, path: str, identity: int) -> bool:
        """Whether we created an existing cgroup."""
        if self.created is None:
            return True
        return self.created.get(path, ("", -1))[1] in (0, identity)

    def permits(self, row: Difference) -> bool:
        """Whether a difference may be ended by us."""
        return self.files is None or (row.verdict == "differs" and row.file in self.files)


def ownership_of(root: str, journal: JournalState, *, everything: bool = False) -> Ownership:
    """What a journal says is ours, or ``everything`` below the root."""
    return Ownership(root, journal.adopted, None if everything else journal.cgroups)
