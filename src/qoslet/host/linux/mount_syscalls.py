"""System calls about mounts; each raises OSError. Linux 5.2, ``make_read_only`` 5.12.

Source: mount(2), umount(2), unshare(2), pivot_root(2), open_tree(2), move_mount(2),
mount_setattr(2).
"""

from __future__ import annotations

import ctypes
import os
import struct
from functools import cache

from qoslet.host.linux.descriptors import owned

READ_ONLY = 1
NO_SUID = 2
NO_DEVICES = 4
REMOUNT = 32
BIND = 4096
_REC = 16384
_SLAVE = 1 << 19

DETACH = 2
"""umount2: out of sight now, gone with its last user."""
_NO_FOLLOW = 8

_NEW_NAMESPACE = 0x20000
# The same on every architecture; few C libraries have the functions.
_OPEN_TREE = 428
_MOVE_MOUNT = 429
_MOUNT_SETATTR = 442
_CLONE = 1
_EMPTY_PATH = 0x1000
_RECURSIVE = 0x8000
_NO_AUTOMOUNT = 0x800
_NO_LINK = 0x100
_FROM_EMPTY = 4
_TO_EMPTY = 64


@cache
def library() -> ctypes.CDLL:
    """The C library of this process."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    library.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
    return library


def _check(result: int) -> int:
    """The result, or its errno as OSError."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    """Mount, or change a mount, as ``flags`` say. The OSError names the file system and the target."""
    names = [os.fsencode(text) or None for text in (source, target, kind, data)]
    try:
        _check(library().mount(names[0], names[1], names[2], flags, names[3]))
    except OSError as error:
        what = f"cannot mount {kind}: {error.strerror}" if kind else error.strerror
        raise OSError(error.errno, what, target) from None


def unmount(target: str, flags: int = 0) -> None:
    """Unmount ``target``, which is no link."""
    _check(library().umount2(os.fsencode(target), flags | _NO_FOLLOW))


def separate() -> None:
    """A mount namespace of its own: it follows what the host mounts and unmounts later, and
    nothing of it reaches the host."""
    _check(library().unshare(_NEW_NAMESPACE))
    mount("", "/", "", _REC | _SLAVE)


def clone(path: str, *, at: int = -100, recursive: bool = False) -> int:
    """A copy of what is mounted at ``path``, not attached anywhere: a descriptor to ``move``.
    An empty path means ``at`` itself."""
    flags = _CLONE | os.O_CLOEXEC | _NO_AUTOMOUNT | _NO_LINK
    flags |= _RECURSIVE if recursive else 0
    flags |= 0 if path else _EMPTY_PATH
    return _check(library().syscall(_OPEN_TREE, at, os.fsencode(path), flags))


def move(tree: int, target: int) -> None:
    """Attach a copy at an open directory or file."""
    _check(library().syscall(_MOVE_MOUNT, tree, b"", target, b"", _FROM_EMPTY | _TO_EMPTY))


def make_read_only(path: str) -> None:
    """Make the mount at ``path`` and all below it read-only in this mount namespace."""
    attributes = struct.pack("=4Q", READ_ONLY, 0, 0, 0)
    with owned(os.open(path, os.O_PATH | os.O_CLOEXEC)) as at:
        flags = _EMPTY_PATH | _RECURSIVE
        size = len(attributes)
        _check(library().syscall(_MOUNT_SETATTR, at, b"", flags, attributes, size))


def pivot(new: str) -> None:
    """Make the mount at ``new`` the root of this mount namespace, the old one gone."""
    os.chdir(new)
    _check(library().pivot_root(b".", b"."))
    unmount(".", DETACH)
    os.chdir("/")
