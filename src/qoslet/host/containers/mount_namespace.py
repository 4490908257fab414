"""Volumes at their places in a mount namespace of one container, made between fork and exec.

Nothing is made in the host's file systems. Where a mount point is missing, the directory that
it would stand in is covered, in this namespace alone, by a tmpfs with the same names in it:
what is below them is the host's, a name that the container adds is its own. The root directory
is replaced in the same way.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress

from qoslet.core.workload.process_spec import VolumeMount
from qoslet.host.containers.payload import current_directory
from qoslet.host.linux.mount_syscalls import (
    BIND,
    DETACH,
    NO_DEVICES,
    NO_SUID,
    READ_ONLY,
    REMOUNT,
    clone,
    mount,
    move,
    pivot,
    separate,
    unmount,
)
from qoslet.host.linux.mountinfo import MountPoint
from qoslet.host.linux.mountinfo import mounts as mounted
from qoslet.host.linux.procfs import text

DEVICE = "qoslet"
"""What mount tables show as the source of a pod's volume."""

MOST_NAMES = 256
"""Names of a directory that is covered: each is a mount and a descriptor."""

_COVER = "size=16m,mode=%o,uid=%d,gid=%d"
_AT = os.O_PATH | os.O_CLOEXEC
_HERE = _AT | os.O_NOFOLLOW
_SYSTEM = ("/proc", "/sys")
_STAGING = "/dev"
_KEPT = NO_SUID | NO_DEVICES | os.ST_NOEXEC
"""Flags that a read-only mount keeps."""


def enter(wanted: Sequence[VolumeMount]) -> Iterator[str]:
    """Take a mount namespace with every volume at its path; yields what comes next, before it.

    Raises OSError, and ValueError with a reason.
    """
    yield "mount namespace"
    separate()
    os.umask(0)
    found: dict[int, int] = {}
    for number, one in enumerate(wanted):
        if one.kind != "host":
            yield f"volume {one.volume}"
            found[number] = clone("", at=inside(one))
    yield "volumes of other pods"
    # a copy of them would hold their memory after they are given back
    _unmount_pod_volumes()
    for number, one in enumerate(wanted):
        if one.kind == "host":
            yield f"volume {one.volume}"
            found[number] = clone("", at=inside(one), recursive=True)
    trees = [found[number] for number in range(len(wanted))]
    own = (one.source for one in wanted if one.kind != "host")
    writable = (tree for number, tree in found.items() if wanted[number].kind != "files")
    view = _MountView(next(own, _STAGING), {_mount_id(tree) for tree in writable})
    for one, tree in sorted(zip(wanted, trees, strict=True), key=_depth):
        yield f"volume {one.volume} at {one.path}"
        move(tree, view.place(one.path, stat.S_ISDIR(os.fstat(tree).st_mode)))
        if one.read_only:
            kept = os.fstatvfs(tree).f_flag & _KEPT if one.kind else NO_SUID | NO_DEVICES
            flags = REMOUNT | BIND | READ_ONLY | kept
            mount("", f"/proc/self/fd/{tree}", "", flags)


def _unmount_pod_volumes() -> None:
    """Unmount the volumes of all pods in this mount namespace. It follows the host's, where
    volumes of other pods may go at any moment, and be mounted again: one that is not there (EINVAL,
    ENOENT) is unmounted."""
    for one in _pod_volumes():
        try:
            unmount(one.point, DETACH)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT):
                raise


def _pod_volumes() -> list[MountPoint]:
    return [one for one in mounted() if one.type == "tmpfs" and one.source == DEVICE]


def _depth(pair: tuple[VolumeMount, int]) -> int:
    """What stands in another volume comes after it."""
    return pair[0].path.count("/")


def inside(one: VolumeMount) -> int:
    """The volume, or the place inside it, open. Links in ``sub_path`` are refused: containers of
    the pod may have made them. Raises OSError, ValueError."""
    at = _volume(one)
    parts = list(filter(None, one.sub_path.split("/")))
    if parts and one.kind == "files":
        # nobody but us writes there
        parts.insert(0, current_directory(at))
    for part in parts:
        if not stat.S_ISDIR(os.fstat(at).st_mode):
            raise ValueError(f"subPath {one.sub_path}: the parent of {part} is not a directory")
        at = _below(at, part, one)
    mode = os.fstat(at).st_mode
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode) and (parts or one.kind != "host"):
        raise ValueError(f"subPath {one.sub_path} is neither directory nor file")
    return at


def _volume(one: VolumeMount) -> int:
    """The volume, open."""
    if one.kind == "host":
        return os.open(one.source, _AT)
    at = os.open(one.source, _HERE | os.O_DIRECTORY)
    if not one.kind and os.fstat(at).st_dev == os.stat(f"{one.source}/..").st_dev:
        raise ValueError(f"nothing is mounted on {one.source} in this mount namespace")
    if one.kind == "files" and not current_directory(at):
        raise ValueError(f"no files are in {one.source} in this mount namespace")
    return at


def _below(at: int, part: str, one: VolumeMount) -> int:
    """A name in an open directory of a volume, which is made in one for data."""
    try:
        return os.open(part, _HERE, dir_fd=at)
    except FileNotFoundError:
        if one.kind == "files":
            raise ValueError(f"subPath {one.sub_path}: the volume has no such file") from None
        os.mkdir(part, 0o777, dir_fd=at)
        return os.open(part, _HERE, dir_fd=at)


def _mount_id(descriptor: int) -> str:
    """The ID of the mount that an open file is in."""
    _, _, rest = (text(f"/proc/self/fdinfo/{descriptor}") or "").partition("mnt_id:")
    return rest.split("\n")[0].strip()


class _MountView:
    """The file systems as the container will see them. ``ours`` are the mounts in which names
    may be made; ``staging`` is a directory to mount a new root on."""

    def __init__(self, staging: str, ours: set[str]) -> None:
        self._staging = staging
        self._ours = ours

    def place(self, path: str, directory: bool) -> int:
        """The mount point at ``path``, open; made where it is missing."""
        parts = path.split("/")[1:]
        at, found = os.open("/", _AT), 0
        for found in range(1, len(parts) + 1):
            try:
                at = os.open("/" + "/".join(parts[:found]), _AT)
            except FileNotFoundError:
                found -= 1
                break
        if found == len(parts):
            if stat.S_ISDIR(os.fstat(at).st_mode) != directory:
                raise ValueError(f"is {'no' if directory else 'a'} directory here")
            return at
        if _mount_id(at) not in self._ours:
            at = self._cover(os.path.realpath("/" + "/".join(parts[:found])))
        for number, part in enumerate(parts[found:], found + 1):
            if number < len(parts) or directory:
                os.mkdir(part, 0o755, dir_fd=at)
            else:
                os.mknod(part, stat.S_IFREG | 0o644, dir_fd=at)
            at = os.open(part, _HERE, dir_fd=at)
        return at

    def _cover(self, path: str) -> int:
        """Put a directory with the same names over ``path``, and open it."""
        if path.startswith(_SYSTEM):
            raise ValueError(f"cannot create anything in {path}")
        names = _names(path)
        where = self._staging if path == "/" else path
        status = os.stat(path)
        data = _COVER % (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
        mount(f"{DEVICE}-names", where, "tmpfs", NO_SUID | NO_DEVICES, data)
        at = os.open(where, _AT)
        self._ours.add(_mount_id(at))
        for name, link, tree in names:
            if tree is None:
                os.symlink(link, name, dir_fd=at)
                continue
            if stat.S_ISDIR(os.fstat(tree).st_mode):
                os.mkdir(name, dir_fd=at)
            else:
                os.mknod(name, stat.S_IFREG | 0o600, dir_fd=at)
            target = os.open(name, _HERE, dir_fd=at)
            move(tree, target)
            os.close(target)
            os.close(tree)
        if path == "/":
            os.close(at)
            pivot(where)
            at = os.open("/", _AT)
        return at


def _names(path: str) -> list[tuple[str, str, int | None]]:
    """What stands in a directory: name, and where it leads or a copy of what is mounted there."""
    found: list[tuple[str, str, int | None]] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if len(found) == MOST_NAMES:
                raise ValueError(f"create it on the host first: {path} has over {MOST_NAMES} names")
            # the host removed it meanwhile
            with suppress(FileNotFoundError):
                if entry.is_symlink():
                    found.append((entry.name, os.readlink(entry.path), None))
                else:
                    found.append((entry.name, "", clone(entry.path, recursive=True)))
    return found
