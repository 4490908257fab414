"""Containers of an OCI runtime in the hands of the keeper: begun, found again, cleared away.

Every step is a child of its own that the keeper does not wait for: what came of it is seen when it
has ended (``CreateJob.settle``, ``DeleteJob.over``).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NoReturn

from qoslet.core.workload.oci.bundle import STOP_SIGNAL
from qoslet.core.workload.oci.oci_spec import shared
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.host.containers.spawn import NOT_EXECUTABLE, NOT_FOUND, Spawned, StartFailed
from qoslet.host.linux.mountinfo import mounts
from qoslet.host.linux.remove_tree import remove_tree
from qoslet.host.oci import create
from qoslet.host.oci.bundle_folder import ContainerFiles
from qoslet.host.oci.namespaces import PodNamespaces
from qoslet.host.state.folder import OCI

MAKING_SECONDS = 900.0
"""How long a container may be on its way, unpacking included, before it is given up."""

_SHORT = (
    *("resource temporarily unavailable", "failed to create new os thread"),
    "no space left on device",
)
"""What runtimes say where fork(2) or clone(2) is refused, or their folder of state is full."""
_BEGUN = ("/.pid: ", "pid file")
"""With these words they had begun the command when they could not write."""

_MISSING = ("executable file not found", "no such file or directory")


class CreateJob:
    """A container on its way; the fields are those of ``spawn.ForkedProcess``, but the child that makes it
    is not yet the container: ``report`` is the descriptor by which its end is seen. ``is_mine``
    tells whether a process is in the container's group. ``rejoins``: a keeper before began it."""

    def __init__(
        self,
        place: ContainerFiles,
        pid: int,
        is_mine: Callable[[int], bool],
        *,
        rejoins: bool = False,
    ) -> None:
        self.pid = pid
        self.pidfd = -1
        self.report = os.pidfd_open(pid)
        self.deadline = time.monotonic() + MAKING_SECONDS
        self._place = place
        self._is_mine = is_mine
        self._rejoins = rejoins

    def settle(self) -> Spawned | None:
        """The container's first process once it was started, None before. Raises ``StartFailed``;
        what stands of it then is to be cleared away."""
        late = time.monotonic() >= self.deadline
        if late:
            self.give_up()
        ended = os.waitid(os.P_PIDFD, self.report, os.WEXITED | (0 if late else os.WNOHANG))
        if ended is None:
            return None
        os.close(self.report)
        if ended.si_code != os.CLD_EXITED or ended.si_status != 0:
            raise self._failure(late, ended.si_code, ended.si_status)
        pid = self._place.started()
        try:
            pidfd = os.pidfd_open(pid) if pid else -1
        except OSError:
            pidfd = -1
        if pidfd < 0 or not (self._is_mine(pid) or _is_child(pidfd)):
            if pidfd >= 0:
                os.close(pidfd)
            raise self._absence(started=pid > 0)
        return Spawned(pid, pidfd, self._place.noted())

    def give_up(self) -> None:
        """End the child; what it has begun is to be cleared away."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.report, signal.SIGKILL)

    def _absence(self, *, started: bool) -> StartFailed:
        """Why nothing runs though nobody makes it any more."""
        if not self._rejoins:
            return StartFailed(NOT_EXECUTABLE, "the runtime started it, but it does not exist")
        if started:
            return StartFailed(NOT_EXECUTABLE, "it ended without a keeper", unseen=True)
        # the keeper's end may be why: it has the pod's namespaces, and what makes it may end with it
        said = self._place.runtime_error() or "its keeper was killed before it was started"
        return StartFailed(NOT_EXECUTABLE, said[:1000], temporary=True)

    def _failure(self, late: bool, cause: int, status: int) -> StartFailed:
        """Why it has failed, by ``waitid``'s code and status. ``NOT_BEGUN``: an image, a disk or a runtime is absent,
        which is this machine's and as for a kubelet no end of the container. So is a runtime that hangs before it starts it."""
        made = cause != os.CLD_EXITED or status != create.NOT_BEGUN
        text = self._place.runtime_error() or _silent(self._place.engine.name, cause, status)
        if late:
            text = f"not created within {MAKING_SECONDS:.0f} s"
        said = text.casefold()
        code = NOT_FOUND if any(word in said for word in _MISSING) else NOT_EXECUTABLE
        refused = any(word in said for word in _SHORT) and not any(word in said for word in _BEGUN)
        hung = late and not self._place.started()
        return StartFailed(code, text[:1000], temporary=refused or not made or hung)


def _silent(runtime: str, cause: int, status: int) -> str:
    """How a runtime ended that logged no error. What it printed went where the container's output
    goes."""
    how = f"exited with {status}" if cause == os.CLD_EXITED else f"was killed by signal {status}"
    return f"{runtime} {how} and logged no error; what it printed is in the container's log"


def _is_child(pidfd: int) -> bool:
    """Whether a process is a child of this one, ended or not."""
    try:
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


class DeleteJob:
    """A container that has ended on its way out; ``report`` becomes readable at its end."""

    def __init__(self, place: ContainerFiles, pid: int) -> None:
        self.pid = pid
        self.report = os.pidfd_open(pid)
        self._place = place

    def over(self) -> str | None:
        """None while it is under way; then why it has failed, empty where it has not."""
        ended = os.waitid(os.P_PIDFD, self.report, os.WEXITED | os.WNOHANG)
        if ended is None:
            return None
        os.close(self.report)
        if ended.si_code == os.CLD_EXITED and ended.si_status == 0:
            return ""
        return self._place.runtime_error() or "the runtime cannot delete it"


class OciContainers:
    """The containers of OCI runtimes below one state folder, empty where there may be none."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._spaces = PodNamespaces()

    def begin(
        self,
        spec: PodSpec,
        launch: ProcessSpec,
        outputs: Sequence[int],
        pids: Iterable[int],
        is_mine: Callable[[int], bool],
    ) -> CreateJob:
        """Begin to make a container. ``outputs`` are for its stdout and stderr, ``pids`` processes
        of the pod. Raises ``StartFailed``, OSError, ValueError."""
        # 4 MB of OpenSSL for keepers with images only; here, so that no child loads it again
        import hashlib  # noqa: F401

        place = self.place(spec, launch.name)
        box = spec.sandbox
        kinds = () if box is None else shared(box)
        hostname = "" if box is None else box.hostname
        spaces = self._spaces.of(spec.uid, kinds, hostname, pids)
        held = claim(place)
        try:
            making = create.CreateRequest(place, spec, launch, spaces, outputs, held)
            child = _fork(lambda: create.create_container(making))
        finally:
            if held >= 0:
                os.close(held)
        return CreateJob(place, child, is_mine)

    def rejoin(self, spec: PodSpec, name: str, is_mine: Callable[[int], bool]) -> CreateJob:
        """A container that a keeper before was making: wait for who still does."""
        place = self.place(spec, name)
        waiting = _fork(lambda: create.wait_for_create(place))
        return CreateJob(place, waiting, is_mine, rejoins=True)

    def clear(self, spec: PodSpec, name: str) -> DeleteJob:
        """Begin to clear a container away."""
        place = self.place(spec, name)
        return DeleteJob(place, _fork(lambda: create.delete_container(place)))

    def place(self, spec: PodSpec, name: str) -> ContainerFiles:
        """The files of a container."""
        assert spec.bundles is not None
        return ContainerFiles(self._folder, spec.bundles.engine, spec.uid, name)

    def stop_signal(self, spec: PodSpec, launch: ProcessSpec) -> str:
        """How a container is asked to end: as the manifest says, else its image."""
        given = self.place(spec, launch.name).stop_signal(STOP_SIGNAL)
        return given if given.startswith("SIG") else launch.stop_signal

    def forget(self, spec: PodSpec) -> None:
        """A pod has ended: nothing of it is kept. Raises OSError."""
        self._spaces.drop(spec.uid)
        for launch in spec.launches:
            place = self.place(spec, launch.name)
            written = os.path.dirname(place.written)
            remove_tree(place.pod)
            remove_tree(written)
            root = os.path.dirname(written)
            pods = os.path.dirname(place.pod)
            for empty in (root, os.path.dirname(root), pods):
                _rmdir(empty)
            if not os.path.exists(pods):
                remove_stale(root)
                # a runtime that is called for another pod may be about to use it
                _rmdir(f"{place.state}/{_LEFT}")
                remove_tree(f"{place.state}/{_CACHE}")
                _rmdir(place.state)
        if self._folder:
            _rmdir(f"{self._folder}/{OCI}")

    def close(self) -> None:
        """Let go of everything; what runs stays."""
        self._spaces.close()


def claim(place: ContainerFiles) -> int:
    """The lock of a container for the child that makes it, as ``create.take_lock``. A runtime that finds
    its scope in another root ends what runs there. Raises ``StartFailed`` then, OSError, ValueError."""
    new = not os.path.exists(place.lock)
    _check_namesake(place)
    held = create.take_lock(place)
    try:
        # one of two roots that came at once sees the other's lock
        _check_namesake(place)
    except BaseException:
        if held >= 0:
            os.close(held)
        if new:
            os.unlink(place.lock)
        raise
    return held


def _check_namesake(place: ContainerFiles) -> None:
    other = place.namesake()
    if other is not None:
        raise StartFailed(
            NOT_EXECUTABLE,
            f"the root {other} has a container of the same pod UID and name, and systemd one scope for"
            f" both; end the pod there (qoslet release --cgroup-root {other}), or give this one another UID",
            temporary=True,
        )


_CACHE = ".cache"
"""Where crun keeps compiled seccomp filters in its root of state (seen with 1.8 and 1.21)."""

_LEFT = ".empty-directory"
"""What crun leaves in its root of state (seen with 1.28; not with 1.21)."""


def _fork(then: Callable[[], NoReturn]) -> int:
    """A child that does this; signals are held back until it has its own. Raises OSError."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            then()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return pid


def tidy(path: str, root: str, known: Iterable[str]) -> None:
    """Remove the empty groups from ``path`` up to ``root`` in the hierarchies that only the runtime makes
    groups in: all but those mounted at ``known``, which the driver handles. Source:
    opencontainers/cgroups fs (v1 has a dozen hierarchies)."""
    points = {one.point for one in mounts() if one.type in ("cgroup", "cgroup2")} - {*known}
    for point in points:
        group = path
        while group.startswith(root):
            try:
                os.rmdir(point + group)
            except FileNotFoundError:
                pass
            except OSError:
                break
            group = group.rpartition("/")[0]


def remove_stale(root: str) -> None:
    """Remove what the containers of a root wrote before the machine was booted; for a root without pods.
    Does nothing while some of it is mounted, as after the state folder was moved. Raises OSError."""
    name = f"/{os.path.basename(root)}/"
    overlays = (one for one in mounts(about=(name,)) if one.type == "overlay")
    if not any(name in option for one in overlays for option in one.options):
        remove_tree(root)
        _rmdir(os.path.dirname(root))


def _rmdir(path: str) -> None:
    """Remove a directory if nothing is in it."""
    with suppress(OSError):
        os.rmdir(path)
