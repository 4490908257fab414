"""The volumes of pods on disk: a directory each, where only root comes.

``<base>/pods/<pod UID>/<volume>`` carries all the state. A pod's directory is removed in one rename
to ``<base>/removed``; what is in it goes in a thread, however much it is.

Source: kubelet volume/emptydir empty_dir.go (setupDir), volume_linux.go (fsGroup).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from contextlib import suppress
from threading import Thread

from qoslet.core.notes import Notes
from qoslet.core.workload.folders.types import DiskVolume, FilesVolume
from qoslet.errors import MACHINE_HINTS, CannotDo
from qoslet.host.containers.log_files import make_private
from qoslet.host.containers.payload import write_payload
from qoslet.host.containers.volume_folders import path_component
from qoslet.host.linux.descriptors import owned
from qoslet.host.linux.processes.limit import start_thread
from qoslet.host.linux.procfs import listed
from qoslet.host.linux.remove_tree import remove_tree

VOLUMES_DIRECTORY = "/var/lib/qoslet/volumes"
"""The volumes of root on disk, with one directory for each cgroup root."""
TRIES = 5


def disk_directory(environ: Mapping[str, str], user: int, folder: str) -> str:
    """Where the volumes of a root are whose state folder this is: root's on the disk, another's
    below the state home. Source: XDG Base Directory Specification."""
    home = environ.get("XDG_STATE_HOME") or f"{environ.get('HOME', '')}/.local/state"
    base = VOLUMES_DIRECTORY if user == 0 else f"{home.rstrip('/')}/qoslet/volumes"
    return f"{base}/{os.path.basename(folder)}"


class DiskVolumes:
    """The directories below ``base``; ``shared`` is above it, for all roots, and goes with the last
    one. ``notes`` says what could not be removed."""

    def __init__(self, base: str, shared: str = "") -> None:
        self._base, self._shared = base, shared
        self._pods, self._removed = f"{base}/pods", f"{base}/removed"
        self._thread: Thread | None = None
        self.notes = Notes()

    @property
    def is_there(self) -> bool:
        """Whether anything is."""
        return os.path.isdir(self._base)

    def provide(self, uid: str, volume: DiskVolume | FilesVolume) -> str:
        """The directory of a volume, made if it is not there; files are as wanted from then on.
        Raises OSError, ``CannotDo``."""
        pod = f"{self._pods}/{path_component(uid)}"
        self._private(pod)
        path = f"{pod}/{path_component(volume.name)}"
        if isinstance(volume, FilesVolume):
            if not _is_directory(path):
                _make(pod, volume.name, 0o755, None)
            write_payload(path, volume.files, volume.group)
        elif not _is_directory(path):
            _make(pod, volume.name, 0o777, volume.group)
        return path

    def remove(self, uid: str) -> None:
        """Take a pod's volumes out of the way; they go in a thread. Raises ``CannotDo``."""
        pod = f"{self._pods}/{path_component(uid)}"
        if not os.path.lexists(pod):
            return
        try:
            make_private(self._removed)
            os.rename(pod, f"{self._removed}/{os.urandom(16).hex()}")
        except OSError as error:
            message = f"the volumes cannot be removed: {error.strerror}"
            hint = MACHINE_HINTS.get(error.errno or 0, "check the directory")
            raise CannotDo(message, where=pod, hint=hint) from error
        self.collect()

    def collect(self) -> None:
        """Go on removing what was taken out of the way, by an earlier agent too."""
        running = self._thread is not None and self._thread.is_alive()
        if not running and listed(self._removed):
            thread = Thread(target=self._sweep, name="volumes", daemon=True)
            try:
                start_thread(thread)
            except OSError:
                # no thread can be made: the next removal goes on with it, or the end
                return
            self._thread = thread

    def finish(self) -> None:
        """Wait until all that was taken out of the way is gone; where no pod has any volume, the
        directories of ours go, too."""
        if self._thread is not None:
            self._thread.join()
        self._sweep()
        for path in filter(None, (self._removed, self._pods, self._base, self._shared)):
            with suppress(OSError):
                os.rmdir(path)

    def existing(self) -> Mapping[str, tuple[str, ...]]:
        """Pod UID to volume names."""
        return {
            uid: tuple(name for name in listed(f"{self._pods}/{uid}") if not name.startswith("."))
            for uid in listed(self._pods)
        }

    def _sweep(self) -> None:
        """Remove all that was taken out of the way; what cannot be removed is said."""
        try:
            at = os.open(self._removed, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return
        with owned(at):
            # one at a time, of all agents and releases
            fcntl.flock(at, fcntl.LOCK_EX)
            self._sweep_locked()

    def _sweep_locked(self) -> None:
        failed: set[str] = set()
        while names := [name for name in listed(self._removed) if name not in failed]:
            for name in names:
                path = f"{self._removed}/{name}"
                try:
                    remove_tree(path)
                except OSError as error:
                    failed.add(name)
                    self.notes.keep(f"{path}: cannot be removed: {error.strerror}")

    def _private(self, path: str) -> None:
        """Make a directory of ours that nobody else may enter. Raises ``CannotDo``, OSError."""
        for attempt in range(TRIES):
            try:
                make_private(path)
                break
            except FileNotFoundError:
                # another root went, and what is above both with it
                if attempt == TRIES - 1:
                    raise
        for one in (self._base, self._pods, path):
            found = os.lstat(one)
            if found.st_uid != os.geteuid() or found.st_mode & 0o077:
                message = "other users can enter the directory for volumes"
                raise CannotDo(message, where=one, hint="check its content, then remove it")


def _make(pod: str, name: str, mode: int, group: int | None) -> None:
    """A directory that is there as a whole or not at all: who has it may change its owner and
    mode, which stay."""
    new = f"{pod}/.{name}"
    if os.path.lexists(new):
        remove_tree(new)
    os.mkdir(new, 0o700)
    if group is not None:
        os.chown(new, -1, group)
        mode |= 0o2000
    os.chmod(new, mode)
    os.rename(new, f"{pod}/{name}")


def _is_directory(path: str) -> bool:
    """Whether a directory is there; raises OSError where it is something else."""
    try:
        os.close(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
    except FileNotFoundError:
        return False
    return True
