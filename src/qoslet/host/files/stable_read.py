"""One file, read whole while nobody writes it.

A read lease (fcntl F_SETLEASE) is refused while the file is open for writing, and makes a writer
wait for the moment of the read.
"""

from __future__ import annotations

import fcntl
import os
import stat
from signal import SIGURG

from qoslet.core.api.documents import Document
from qoslet.core.api.schema import shown
from qoslet.errors import BadInput
from qoslet.host.files.bounds import FOLLOWED
from qoslet.host.files.manifests import check_file, open_file, text_documents

_F_SETSIG = 10
_CHUNK = 1 << 16

Stamp = tuple[int, ...]
"""Differs when a file does: device, inode, size, times."""


def stamp(path: str) -> Stamp | None:
    """The stamp of what a path leads to; None where there is nothing."""
    try:
        return _stamp_of(os.stat(path))
    except (OSError, ValueError):
        return None


def _stamp_of(facts: os.stat_result) -> Stamp:
    times = facts.st_mtime_ns, facts.st_ctime_ns
    return facts.st_dev, facts.st_ino, facts.st_size, *times


def content(path: str, strict: bool, made: bool) -> tuple[Stamp, tuple[Document | BadInput, ...]]:
    """The stamp of a file and what it says.

    Raises BlockingIOError while it is being written, BadInput for what is no file to be read,
    OSError. With ``strict`` a file whose path another user can change is refused. ``made``: its coming is
    all that is known of it, so that it may be written still where no lease can tell.
    """
    fd = open_file(path, strict)
    try:
        facts = os.fstat(fd)
        if stat.S_ISDIR(facts.st_mode):
            if not os.listdir(fd):
                # what mounts a file that is absent makes such a directory in its place
                hint = "put the file back; to end its pods, remove the directory"
                raise BadInput("is an empty directory", where=shown(path), hint=hint)
            raise IsADirectoryError
        check_file(path, fd)
        leased = _lease(fd)
        if made and not leased and facts.st_nlink == 1 and not os.path.islink(path):
            raise BlockingIOError
        facts = os.fstat(fd)
        if facts.st_size > FOLLOWED.size:
            message = f"is {facts.st_size / 2**20:.1f} MiB, at most {FOLLOWED.size >> 20} are read"
            raise BadInput(message, where=shown(path), hint="use one file per pod")
        data = _whole(fd)
    finally:
        os.close(fd)
    return _stamp_of(facts), tuple(text_documents(data, shown(path), FOLLOWED))


def _whole(fd: int) -> bytes:
    """The bytes of a file, no more than are read of one. A file object would cost ten times as much."""
    chunks: list[bytes] = []
    left = FOLLOWED.size
    while left and (chunk := os.read(fd, min(_CHUNK, left))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _lease(fd: int) -> bool:
    """Keep writers waiting until ``fd`` is closed; False where that cannot be had. Raises
    BlockingIOError while the file is open for writing."""
    try:
        # a writer who waits is told to us by a signal: SIGIO would end this process
        fcntl.fcntl(fd, _F_SETSIG, SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        raise
    except OSError:
        # another's file, or a file system without leases
        return False
    return True
