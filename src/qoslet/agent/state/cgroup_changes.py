"""Which cgroup stood at a path when it was read last, or when we made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

_GONE: Final = 0
"""Instead of an inode: another process removed it, and what stands there next is in its place."""

Change = Literal["", "deleted", "recreated"]
"""What another process did to a cgroup between two looks."""


class CgroupChanges:
    """Cgroups by path, with their inodes; no entry for what was never there."""

    def __init__(self) -> None:
        self._inodes: dict[str, int] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._inodes

    def inode(self, path: str) -> int | None:
        """The inode of a cgroup that was there; None where it was not, or is not known."""
        return self._inodes.get(path) or None

    def see(self, path: str, inode: int | None, is_owned: Callable[[str, int], bool]) -> Change:
        """Take in what stands at a path, None where nothing does."""
        known, now = self._inodes.get(path), inode or _GONE
        if known is not None or now != _GONE:
            self._inodes[path] = now
        if known in (None, now):
            return ""
        if now == _GONE:
            return "deleted"
        # what we made ourselves where ours was gone is in the journal
        return "" if known == _GONE and is_owned(path, now) else "recreated"

    def made(self, path: str, inode: int) -> None:
        """We made a cgroup: whatever else stands there next is in its place."""
        self._inodes[path] = inode

    def forget(self, path: str) -> None:
        """Nothing is known of a path."""
        self._inodes.pop(path, None)
