"""Reserves a root for one process at a time: by a lock in the root's directory below the state
directory.

The last process that leaves a root removes its directory, so that the directories of earlier roots
do not add up.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from errno import EDQUOT, ELOOP, ENAMETOOLONG, ENOSPC, ENOTDIR

from qoslet.core.cgroup.names import SLICE, is_below, root_path
from qoslet.errors import MACHINE_HINTS, BadInput, CannotDo
from qoslet.host.linux.descriptors import owned
from qoslet.host.state.folder import (
    AGENT_SOCKET,
    CRI,
    JOURNAL,
    KEEPER,
    LOCK,
    RESERVE,
    escaped,
    unescaped,
)
from qoslet.host.state.keepers import keepers_of
from qoslet.host.state.moved import is_named
from qoslet.host.state.own_files import open_lock, unlink

FULL = (ENOSPC, EDQUOT)
"""Errors of a file system without room."""

TRIES = 1000
"""Attempts to lock a root whose directory other processes keep removing."""

RELEASE = "release"
"""What the lock of a process that undoes a tree says in place of a verb."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def enter(root: str, state: str, verb: str = "", *, releasing: bool = False) -> tuple[int, int]:
    """Lock a root: the descriptors of its directory and of the lock that this process now holds. The
    lock names ``verb`` to other processes, or that the tree is being undone if ``releasing``.

    Raises ``CannotDo`` if another process holds this root or one that overlaps it, or if the state
    directory cannot be trusted.
    """
    top = _private(state, None)
    try:
        if top is None:
            raise CannotDo("the journal directory was removed", where=state)
        folder, lock = _entered(root, top, state)
        try:
            _refuse_overlap(root, top, releasing=releasing)
            _sign(lock, folder, RELEASE if releasing else verb)
        except BaseException:
            leave(folder, root)
            os.close(lock)
            os.close(folder)
            raise
        return folder, lock
    finally:
        if top is not None:
            os.close(top)


def private_folder(root: str, state: str) -> int:
    """The descriptor of a root's directory, which is created if absent; the lock is not taken. Raises
    ``CannotDo`` if the directory cannot be trusted."""
    for _ in range(TRIES):
        top = _private(state, None)
        if top is None:
            continue
        with owned(top):
            folder = _private(escaped(root), top, state)
        if folder is not None:
            return folder
    raise CannotDo("the journal directory is being created and removed repeatedly", where=state)


def leave(folder: int, root: str) -> None:
    """Remove the lock that this process holds and the root's directory, unless it has a journal. A
    process that opened the same lock before notices that it is gone (``_entered``)."""
    try:
        os.stat(JOURNAL, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        # the socket is that of an agent which was killed: one that runs has the lock
        for name in (LOCK, RESERVE, AGENT_SOCKET):
            unlink(name, folder)
        try:
            os.rmdir(f"../{escaped(root)}", dir_fd=folder)
        except OSError:
            # Others may have entered it by now, or journals were put aside in it.
            return


def _private(name: str, above: int | None, prefix: str = "") -> int | None:
    """A directory that only this user can use, created if absent; None if another process removed it
    meanwhile.

    Raises ``CannotDo`` if it is a link, belongs to another user, or is open to other users.
    """
    where = f"{prefix}/{name}" if prefix else name
    made = False
    try:
        try:
            os.mkdir(name, 0o700, dir_fd=above)
        except FileExistsError:
            pass
        made = True
        descriptor = os.open(name, _DIRECTORY, dir_fd=above)
    except OSError as error:
        if made and isinstance(error, FileNotFoundError):
            return None
        if error.errno in (ENOTDIR, ELOOP):
            raise CannotDo(
                "the journal directory is a link, or no directory",
                where=where,
                hint="pods may run by it: move the directory back to this path",
            ) from error
        raise cannot("cannot use the journal directory", error, where) from error
    found = _closed_to_others(descriptor)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        os.close(descriptor)
        raise CannotDo(
            f"the journal directory belongs to user {found.st_uid} with mode "
            f"{stat.S_IMODE(found.st_mode):04o}",
            where=where,
            hint="pods may run by what it holds: check who changed it, then chown "
            f"{os.geteuid()} {where} and chmod 0700 {where}",
        )
    return descriptor


def _closed_to_others(descriptor: int) -> os.stat_result:
    """The stat of an open directory. One that is ours, empty and not writable by others is closed to
    them first: kubelets create the directories of volumes with mode 0755."""
    found = os.fstat(descriptor)
    is_written_by_us = found.st_uid == os.geteuid() and not found.st_mode & 0o022
    if is_written_by_us and found.st_mode & 0o055 and not os.listdir(descriptor):
        os.fchmod(descriptor, 0o700)
    # another process may have done so meanwhile
    return os.fstat(descriptor)


def _refuse_overlap(root: str, top: int, *, releasing: bool) -> None:
    """Raise ``CannotDo`` if a root above or below this one is locked, or keeps pods for its next
    agent, which would then run twice; likewise if the other driver has pods of this root. Two
    processes that enter overlapping roots at once may both be refused. ``releasing`` starts no
    pods, so kept ones do not matter to it."""
    for name in os.listdir(top):
        other = unescaped(name)
        if not releasing and _is_of_other_driver(root, other) and _keeps_pods(name, top):
            driver = "systemd" if other.endswith(SLICE) else "cgroupfs"
            raise CannotDo(
                f"its pods were started with the {driver} driver, in {other}",
                where=root,
                hint=f"--cgroup-driver {driver} goes on with them; qoslet release --cgroup-root {other} stops them",
            )
        if not (is_below(other, root) or is_below(root, other)):
            continue
        for place in (f"{name}/{LOCK}", name):
            try:
                lock = os.open(place, os.O_RDONLY | os.O_CLOEXEC, dir_fd=top)
            except OSError:
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                where = f"on {other}, which overlaps"
                raise _held(root, f"{name}/{LOCK}", top, where) from None
            finally:
                os.close(lock)
        if not releasing and other != root and _keeps_pods(name, top):
            raise CannotDo(
                f"{other} overlaps and has pods that an earlier agent started",
                where=root,
                hint=f"go on there, or stop them: qoslet release --cgroup-root {other}",
            )


def _entered(root: str, top: int, state: str) -> tuple[int, int]:
    """The directory of a root and its lock, held. Who leaves a root may remove both meanwhile:
    what others would no longer find there does not count. Raises ``CannotDo``."""
    name = escaped(root)
    for _ in range(TRIES):
        folder = _private(name, top, state)
        if folder is None:
            continue
        try:
            lock = _locked(root, folder)
        except BaseException:
            os.close(folder)
            raise
        if lock is not None and is_named(f"{name}/{LOCK}", top, lock):
            return folder, lock
        for descriptor in filter(None, (lock, folder)):
            os.close(descriptor)
    raise CannotDo("its journal is being created and removed repeatedly", where=root)


def _locked(root: str, folder: int) -> int | None:
    """The lock of a root, held; None where the directory was removed. Raises ``CannotDo`` with who
    has it."""
    lock = -1
    try:
        # the folder, too: who has it has it also where the lock's file was removed
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock = open_lock(LOCK, folder)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        if lock >= 0:
            os.close(lock)
        raise _held(root, LOCK, folder, "here", has_pods=_has_pods(folder)) from None
    except OSError as error:
        raise cannot("cannot lock the journal", error, root) from error
    _sign(lock, folder)
    return lock


def _sign(lock: int, folder: int, what: str = "") -> None:
    """Write into a lock that is held who has it, and ``what`` it does. A full file system gives its
    reserve, which ``JournalFile`` takes again. Without any room the lock is held all the same; only
    its owner's name is missing."""
    text = f"{os.getpid()} {what}".rstrip().encode() + b"\n"
    if not _fits(lock, text):
        unlink(RESERVE, folder)
        text = text if _fits(lock, text) else b""
    os.ftruncate(lock, len(text))


def _fits(lock: int, text: bytes) -> bool:
    """Write the beginning of a lock; False where there is no room. Raises OSError."""
    try:
        os.pwrite(lock, text, 0)
    except OSError as error:
        if error.errno not in FULL:
            raise
        return False
    return True


def locked_again(root: str, folder: int, lock: int) -> tuple[int, str]:
    """The lock of a root whose directory is ``folder``, where its file or the directory was
    removed while it was held as ``lock``, and a line if so. Raises OSError, and ``CannotDo`` where
    another process has the root now."""
    if is_named(LOCK, folder, lock):
        return lock, ""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fresh = open_lock(LOCK, folder)
        try:
            fcntl.flock(fresh, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fresh)
            raise
    except BlockingIOError:
        raise _held(root, LOCK, folder, "here now, as the lock was removed") from None
    _sign(fresh, folder)
    os.close(lock)
    return fresh, "the lock was removed: it is there again"


def _has_pods(folder: int) -> bool:
    """Whether pods of a root run or ran: elsewhere they would run twice."""
    for name in (KEEPER, CRI):
        try:
            inner = os.open(name, _DIRECTORY, dir_fd=folder)
        except OSError:
            continue
        with owned(inner):
            if os.listdir(inner):
                return True
    return bool(keepers_of(os.readlink(f"/proc/self/fd/{folder}")))


def _is_of_other_driver(root: str, other: str) -> bool:
    """Whether two paths are what the drivers make of one ``--cgroup-root``."""
    plain, units = sorted((root, other), key=lambda path: path.endswith(SLICE))
    if plain.endswith(SLICE) or not units.endswith(SLICE):
        return False
    try:
        return root_path(plain, "systemd") == units
    except BadInput:
        return False


def _keeps_pods(name: str, top: int) -> bool:
    """Whether the root of the folder ``name`` has pods."""
    try:
        folder = os.open(name, _DIRECTORY, dir_fd=top)
    except OSError:
        return False
    with owned(folder):
        return _has_pods(folder)


def _held(root: str, name: str, above: int, place: str, *, has_pods: bool = False) -> CannotDo:
    """The refusal of a second run. ``name`` is that of the first one's lock below a directory."""
    pid = what = ""
    with suppress(OSError):
        lock = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        line = os.pread(lock, 32, 0).decode("ascii", "replace").partition("\n")[0]
        pid, _, what = line.partition(" ")
        os.close(lock)
    pid = pid or "unknown"
    hint = "stop it, or use another --cgroup-root"
    if what == RELEASE:
        hint = "it is a release; wait until it has ended"
    elif has_pods:
        hint = "it has pods; stop it to go on with them"
    return CannotDo(f"another qoslet runs {place} (process {pid})", where=root, hint=hint)


def cannot(what: str, error: OSError, where: str) -> CannotDo:
    """A failure of the state directory."""
    hint = "run as root; qoslet run --simulate needs no privileges"
    if not isinstance(error, PermissionError):
        hint = MACHINE_HINTS.get(error.errno or 0, "check the directory (default: /run/qoslet)")
    if error.errno == ENAMETOOLONG:
        hint = "it is named after the root: use a shorter --cgroup-root"
    return CannotDo(f"{what}: {error.strerror}", where=where, hint=hint)
