"""Damaged journals of trees of other managers. Values that only such a journal named may remain in the
kernel's files, and nothing else tells which: it is kept until a person removes it."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from itertools import count

from qoslet.errors import CannotDo
from qoslet.host.state.folder import DAMAGED, JOURNAL


def keep_aside(folder: int) -> None:
    """Give the journal in a folder another name, too, once; a directory in its place has only that
    one then. Raises OSError."""
    now = os.stat(JOURNAL, dir_fd=folder, follow_symlinks=False)
    known = {name: _inode(name, folder) for name in _names(os.listdir(folder))}
    if now.st_ino in known.values():
        return
    name = next(name for number in count(1) if (name := _numbered(number)) not in known)
    if stat.S_ISDIR(now.st_mode):
        os.rename(JOURNAL, name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        os.link(JOURNAL, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)


def kept_aside(folder: str) -> list[str]:
    """The paths of the damaged journals that are kept in a state folder."""
    try:
        return [f"{folder}/{name}" for name in _names(os.listdir(folder))]
    except FileNotFoundError:
        return []


def damage(paths: Sequence[str]) -> CannotDo | None:
    """What damaged journals mean, and what to do; None where there are none."""
    if not paths:
        return None
    these, them = ("these journals were", "them") if len(paths) > 1 else ("this journal was", "it")
    return CannotDo(
        f"{these} damaged: values that no other journal names may remain",
        where=", ".join(paths),
        hint=f"compare the files with qoslet audit, correct them, then remove {them}",
    )


def _numbered(number: int) -> str:
    return DAMAGED if number == 1 else f"{DAMAGED}.{number}"


def _names(names: Sequence[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(DAMAGED))


def _inode(name: str, folder: int) -> int:
    return os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino
