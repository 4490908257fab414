"""A file of a tree that is an image's or another owner's, its links followed as from inside. Linux 5.6.

Source: openat2(2).
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from errno import EINVAL
from typing import IO

from qoslet.host.linux.mount_syscalls import library

# The same on every architecture; few C libraries have the function.
_OPENAT2 = 437
_NO_MAGICLINKS = 0x02
_IN_ROOT = 0x10


def _opened(root: int, path: str, flags: int) -> int:
    how = struct.pack("=3Q", flags | os.O_CLOEXEC, 0, _NO_MAGICLINKS | _IN_ROOT)
    opened: int = library().syscall(_OPENAT2, root, os.fsencode(path), how, len(how))
    if opened < 0:
        raise OSError(number := ctypes.get_errno(), os.strerror(number), path)
    return opened


def open_folder_in_root(root: int, path: str) -> int:
    """A descriptor of the directory at ``path``, found as ``open_in_root`` finds a file. Raises
    OSError."""
    return _opened(root, path, os.O_RDONLY | os.O_DIRECTORY)


def open_in_root(root: int, path: str) -> IO[bytes]:
    """The regular file at ``path`` with the directory that is open as ``root`` as its root.
    Raises OSError, also where it is not a file."""
    opened = _opened(root, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    file = os.fdopen(opened, "rb")
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        file.close()
        raise OSError(EINVAL, "is not a file", path)
    return file
