"""The memory-backed volumes of pods: one tmpfs each, below a directory of ours.

The names ``<folder>/<pod UID>/<volume>`` carry all the state; the mounts outlive the process
that made them. The pages of a tmpfs are charged to the group whose process touched them first,
and stay charged to it until the file or the tmpfs goes.

Source: kubelet volume/emptydir empty_dir.go (setupTmpfs, generateTmpfsMountOptions),
volume_linux.go (fsGroup); tmpfs(5).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from errno import EBUSY, EINVAL, EPERM
from threading import Thread

from qoslet.core.cgroup.names import is_at_or_below, is_below
from qoslet.core.notes import Notes
from qoslet.core.workload.process_spec import MemoryVolume
from qoslet.errors import CannotDo
from qoslet.host.containers.mount_namespace import DEVICE
from qoslet.host.containers.volume_folders import path_component
from qoslet.host.linux.mount_syscalls import DETACH, NO_DEVICES, NO_SUID, REMOUNT, mount, unmount
from qoslet.host.linux.mountinfo import mounts
from qoslet.host.linux.processes.limit import start_thread
from qoslet.host.linux.procfs import listed, text

HOLDERS_TOLD = 5
LARGE_BYTES = 64 << 20
"""A volume that holds more is unmounted in a thread: the kernel frees its pages in that call."""


class TmpfsVolumes:
    """Matches ``agent.ports.Volumes``. ``notes`` gathers failures that stop nothing. With ``lasting`` a
    later process goes on with the volumes."""

    def __init__(self, folder: str, *, lasting: bool = False) -> None:
        self._folder = folder
        self._lasting = lasting
        self._unmounting: dict[str, Thread] = {}
        self.notes = Notes()

    def provide(self, uid: str, volumes: Sequence[MemoryVolume]) -> Mapping[str, str]:
        """Mount the volumes that are not mounted yet. Returns the directory of each by its name. A
        mounted volume keeps its files, and is resized if they fit into the new size."""
        if not volumes:
            return {}
        if self._lasting and _secluded():
            raise CannotDo(
                "volumes mounted in this mount namespace are invisible to the next run",
                where=self._folder,
                hint="remove PrivateTmp=, ProtectSystem= and similar from its unit",
            )
        self._private(self._folder)
        self._private(self._pod(uid))
        return {volume.name: self._provide(uid, volume) for volume in volumes}

    def _provide(self, uid: str, volume: MemoryVolume) -> str:
        """Mount or resize one volume. Returns its directory."""
        path = self._path(uid, volume.name)
        if path in self._unmounting:
            self._unmounting.pop(path).join()
        try:
            _directory(path)
            if not _is_mount(path):
                _mount(path, volume)
            elif volume.size is not None and _pages(volume.size) != _size(path):
                self._resize(path, volume.size)
        except OSError as error:
            hint = "check the directory"
            if error.errno == EPERM:
                hint = "mounting needs CAP_SYS_ADMIN"
            message = f"volume {volume.name} cannot be mounted: {error.strerror}"
            raise CannotDo(message, where=path, hint=hint) from error
        return path

    def _resize(self, path: str, size: int) -> None:
        """Give a volume that stands its size."""
        try:
            mount(DEVICE, path, "tmpfs", REMOUNT | NO_SUID | NO_DEVICES, f"size={size}")
        except OSError as error:
            if error.errno != EINVAL:
                raise
            self.notes.keep(f"{path}: {size} bytes are less than its content: size unchanged")

    def remove(self, uid: str, *, detach: bool = False) -> bool:
        """Unmount and remove every volume of a pod. False: a large one is still being unmounted, in
        a thread. With ``detach`` one that is in use goes out of sight, its memory with the last
        holder, and a note says so."""
        pod = self._pod(uid)
        for name in listed(pod):
            path = self._path(uid, name)
            try:
                if not self._unmount(path, detach):
                    return False
                os.rmdir(path)
            except OSError as error:
                message = f"volume {name} cannot be removed: {error.strerror}"
                raise CannotDo(message, where=path, hint="check its content") from error
        try:
            os.rmdir(pod)
        except FileNotFoundError:
            pass
        except OSError as error:
            message = f"cannot be removed: {error.strerror}"
            raise CannotDo(message, where=pod, hint="check its content") from error
        return True

    def _unmount(self, path: str, detach: bool) -> bool:
        """Unmount one volume, if it is mounted; False while a thread does so. Raises CannotDo with
        who holds it, and OSError."""
        thread = self._unmounting.pop(path, None)
        if thread is not None and not detach and thread.is_alive():
            self._unmounting[path] = thread
            return False
        if not _is_mount(path):
            return True
        try:
            if thread is None and not detach and _used(path) > LARGE_BYTES:
                self._unmounting[path] = _in_thread(path)
                return False
            unmount(path)
            return True
        except OSError as error:
            if error.errno != EBUSY:
                raise
        who = holders(path)
        told = ", ".join(who[:HOLDERS_TOLD]) or "an unknown process"
        more = f" and {len(who) - HOLDERS_TOLD} more" if len(who) > HOLDERS_TOLD else ""
        if not detach:
            message = f"the volume is in use by {told}{more}"
            raise CannotDo(message, where=path, hint="stop it, or change its directory")
        unmount(path, DETACH)
        self.notes.keep(f"{path}: detached; its memory is freed when {told}{more} ends")
        return True

    def existing(self) -> Mapping[str, tuple[str, ...]]:
        """Pod UID to volume names of all that is below the folder."""
        return {uid: tuple(listed(f"{self._folder}/{uid}")) for uid in listed(self._folder)}

    def _pod(self, uid: str) -> str:
        """The directory of a pod."""
        return f"{self._folder}/{path_component(uid)}"

    def _path(self, uid: str, name: str) -> str:
        """The directory of a volume."""
        return f"{self._pod(uid)}/{path_component(name)}"

    def _private(self, path: str) -> None:
        """Make a directory of ours that nobody else may enter. Raises ``CannotDo``."""
        try:
            _directory(path)
            found = os.lstat(path)
        except OSError as error:
            message = f"cannot create the directory for volumes: {error.strerror}"
            raise CannotDo(message, where=path, hint="check the parent directory") from error
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        if not ours or stat.S_IMODE(found.st_mode) & 0o077:
            message = "other users can write the directory for volumes"
            raise CannotDo(message, where=path, hint="check its content, then remove it")


def holders(point: str) -> list[str]:
    """Who keeps a mount point busy, as ``PID (name)``, and what is mounted below it.

    From the texts of /proc alone: no file in the mount is touched, so nothing here waits for it.
    """
    table = mounts()
    numbers = {str(one.number) for one in table if one.point == point}
    found = [f"the mount on {one.point}" for one in table if is_below(one.point, point)]
    for pid in listed("/proc"):
        if pid.isdigit() and _holds(pid, point, numbers):
            name = (text(f"/proc/{pid}/comm") or "?").rstrip("\n")
            found.append(f"process {pid} ({name})")
    return found


def _holds(pid: str, point: str, numbers: set[str]) -> bool:
    """Whether a process has its directory, a file or a mapping there."""
    for link in ("cwd", "root", "exe"):
        try:
            target = os.readlink(f"/proc/{pid}/{link}")
        except OSError:
            continue
        if is_at_or_below(target, point):
            return True
    for number in listed(f"/proc/{pid}/fdinfo"):
        _, found, rest = (text(f"/proc/{pid}/fdinfo/{number}") or "").partition("mnt_id:")
        if found and rest.split("\n")[0].strip() in numbers:
            return True
    return f" {point}/" in (text(f"/proc/{pid}/maps") or "")


def _mount(path: str, volume: MemoryVolume) -> None:
    """Mount a tmpfs; without swap where the kernel (6.4) can, as a kubelet does."""
    owner = "mode=1777" if volume.group is None else f"mode=3777,gid={volume.group}"
    options = owner if volume.size is None else f"{owner},size={volume.size}"
    flags = NO_SUID | NO_DEVICES
    try:
        mount(DEVICE, path, "tmpfs", flags, f"{options},noswap")
    except OSError as error:
        if error.errno != EINVAL:
            raise
        mount(DEVICE, path, "tmpfs", flags, options)


def _secluded() -> bool:
    """Whether this process sees other mounts than the machine's first: mount IDs are those of
    one namespace only. False if unknown."""
    first, own = (text(f"/proc/{pid}/mountinfo") for pid in ("1", "self"))
    return bool(first and own) and _first_id(first) != _first_id(own)


def _first_id(table: str | None) -> str:
    """The ID of the first mount of a table."""
    return (table or "").partition(" ")[0]


def _directory(path: str) -> None:
    """Make a directory if it is not there; one that is a link raises OSError."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        os.close(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))


def _is_mount(path: str) -> bool:
    """Whether something is mounted there."""
    return os.lstat(path).st_dev != os.lstat(os.path.dirname(path)).st_dev


def _in_thread(path: str) -> Thread:
    """Unmounts; what goes wrong is seen where it is tried again. Raises OSError."""

    def run() -> None:
        with suppress(OSError):
            unmount(path)

    thread = Thread(target=run, name="unmount", daemon=True)
    start_thread(thread)
    return thread


def _used(path: str) -> int:
    """Bytes in a file system."""
    found = os.statvfs(path)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def _size(path: str) -> int:
    """The pages of a file system."""
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize // os.sysconf("SC_PAGE_SIZE")


def _pages(size: int) -> int:
    """Whole pages that hold ``size`` bytes."""
    return -(-size // os.sysconf("SC_PAGE_SIZE"))
