"""A state folder that somebody moved or removed while a process works with it."""

from __future__ import annotations

import os
from contextlib import suppress

from qoslet.core.reconcile.journal import read
from qoslet.errors import CannotDo
from qoslet.host.linux.procfs import listed
from qoslet.host.state.folder import JOURNAL

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_named(name: str, above: int | None, descriptor: int) -> bool:
    """Whether ``name``, in the directory ``above`` if one is given, is the file that is open as
    ``descriptor``."""
    try:
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))


def reopened(path: str, folder: int) -> tuple[int, str]:
    """An open descriptor of the state folder at ``path``, and a note about what was done for it, if
    anything. ``folder`` is the descriptor held so far: if that folder was moved, it is moved back; if
    it was removed, an empty one is created; if another one is in its place, that one is opened, and
    ``folder`` closed. Raises OSError and leaves ``folder`` open."""
    if is_named(path, None, folder):
        return folder, ""
    note = ""
    if not os.path.lexists(path):
        away = os.readlink(f"/proc/self/fd/{folder}")
        if not away.endswith(" (deleted)"):
            os.rename(away, path)
            return folder, f"was moved to {away}: moved back"
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        os.mkdir(path, 0o700)
        note = "was removed: made again"
    fresh = os.open(path, _FOLDER)
    os.close(folder)
    return fresh, note


def refuse_moved(root: str, path: str) -> None:
    """Raise ``CannotDo`` if the state folder of ``root``, which ``path`` lacks, is beside it under another
    name: it records the pods that run."""
    state = os.path.dirname(path)
    for place in (f"{state}/{name}" for name in sorted(listed(state))):
        with suppress(OSError), open(f"{place}/{JOURNAL}", "rb") as file:
            header = read(file.readline()).header
            if header is not None and header.root == root and place != path:
                raise CannotDo(
                    f"the state of this tree was moved to {place}",
                    where=root,
                    hint="its pods may run, so start them nowhere else: an agent that lives moves it back "
                    f"in a few seconds; without one mv {place} {path}",
                )
