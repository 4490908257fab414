"""Files of a state folder that take their place whatever has it: only a directory that somebody put
there is in the way of a rename or of unlink(2)."""

from __future__ import annotations

import os

_ROOM = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def unlink(name: str, folder: int | None) -> None:
    """Remove a file if it is there. A directory that somebody put in its place goes, too; one that
    is not empty is put aside."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError:
            aside = f"{name}.{os.urandom(4).hex()}"
            os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)


def open_lock(name: str, folder: int | None = None) -> int:
    """The file of a lock, made where it is absent, whatever has its name now. Raises OSError."""
    try:
        return os.open(name, _LOCK, 0o600, dir_fd=folder)
    except IsADirectoryError:
        unlink(name, folder)
        return os.open(name, _LOCK, 0o600, dir_fd=folder)


def put_in_place(new: str, name: str, folder: int) -> None:
    """Give a file its name, whatever has that now."""
    try:
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except IsADirectoryError:
        unlink(name, folder)
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)


def take_room(name: str, folder: int, size: int) -> None:
    """Take so many bytes of the file system with a file, or leave none where there are fewer."""
    try:
        file = os.open(name, _ROOM, 0o600, dir_fd=folder)
    except OSError:
        return
    try:
        # stat(2) counts in blocks of 512 bytes
        if os.fstat(file).st_blocks * 512 < size:
            os.posix_fallocate(file, 0, size)
    except OSError:
        unlink(name, folder)
    finally:
        os.close(file)
