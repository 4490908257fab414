"""Directories of ours removed with all in them, however deep and wide they are."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice

from qoslet.host.linux.descriptors import owned

BATCH = 4096
"""Names of a directory that are read at a time."""

_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> None:
    """Remove what is at ``path``, if anything is. Links in it are not followed. Raises OSError,
    also where something is mounted at it or in it, which is not touched."""
    above, _, name = path.rpartition("/")
    try:
        at = os.open(above, _DIR)
    except FileNotFoundError:
        return
    with owned(at):
        if not _is_directory(at, name):
            return
        # a mount point cannot be renamed
        os.rename(name, moved := os.urandom(16).hex(), src_dir_fd=at, dst_dir_fd=at)
        os.rename(moved, name, src_dir_fd=at, dst_dir_fd=at)
        with owned(os.open(name, _DIR, dir_fd=at)) as root:
            while _remove_directories(root):
                pass
        os.rmdir(name, dir_fd=at)


def _remove_directories(root: int) -> bool:
    """Remove what is in ``root``; the directories in its directories are moved up to it, so that
    no depth needs more than two open ones. Returns whether there was a directory."""
    seen = False
    for name in _names(root):
        if not _is_directory(root, name):
            continue
        seen = True
        # so none that is a mount point is entered
        os.rename(name, moved := os.urandom(16).hex(), src_dir_fd=root, dst_dir_fd=root)
        with owned(os.open(moved, _DIR, dir_fd=root)) as opened:
            for inner in _names(opened):
                if _is_directory(opened, inner):
                    other = os.urandom(16).hex()
                    os.rename(inner, other, src_dir_fd=opened, dst_dir_fd=root)
        os.rmdir(moved, dir_fd=root)
    return seen


def _is_directory(at: int, name: str) -> bool:
    """Whether a name is a directory. What is something else is removed."""
    try:
        if stat.S_ISDIR(os.lstat(name, dir_fd=at).st_mode):
            return True
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:
        pass
    return False


def _names(at: int) -> Iterator[str]:
    """The names in a directory, which may be removed meanwhile; there may be millions."""
    with os.scandir(at) as entries:
        while batch := [entry.name for entry in islice(entries, BATCH)]:
            yield from batch
