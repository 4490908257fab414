"""A probe or hook on its way: a child of the keeper that is waited for by nobody, and ended in time.

A command runs as the container does: a plain one in its cgroups, as its user and with its mounts,
one of an OCI runtime by ``exec``. A question over the network is asked by a child of the keeper in
the pod's network namespace.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from msgspec.structs import replace

from qoslet.core.workload.oci.oci_spec import shared
from qoslet.core.workload.probe_spec import Question
from qoslet.core.workload.probes.worker import Result
from qoslet.core.workload.process_spec import ProcessSpec
from qoslet.host.containers.log_files import unlink
from qoslet.host.containers.net_probe import ask, timed_out
from qoslet.host.containers.records import parent_of
from qoslet.host.containers.spawn import ForkedProcess, StartFailed, begin, default_signals, settle
from qoslet.host.keeper.container_cgroups import ContainerCgroups
from qoslet.host.keeper.pod import ProcessPod
from qoslet.host.linux.descriptors import ready
from qoslet.host.linux.mount_syscalls import library
from qoslet.host.oci.bundle_folder import ContainerFiles

MAX_OUTPUT = 10 * 1024
"""Bytes of a probe's output that are kept. Source: kubelet pkg/probe/exec maxReadLength."""

_CLONE_NEWNET = 0x40000000
_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


class ProbeProcess:
    """One question about a container of pod ``uid`` from its fork until its result. ``output`` is the
    reader of what it prints, ``deadline`` when it is given up, ``code`` a command's exit code."""

    def __init__(self, uid: str, launch: ProcessSpec, asked: Question, deadline: float) -> None:
        self.uid, self.deadline = uid, deadline
        self._launch, self._asked = launch, asked
        self.code = 0
        self.pid, self.pidfd, self.output = 0, -1, -1
        self.birth: ForkedProcess | None = None
        self._pid_file = ""
        self._text = b""
        self._printed = False

    @property
    def descriptors(self) -> list[int]:
        """What becomes readable when there is news."""
        report = [self.birth.report] if self.birth is not None else []
        output = [] if self._printed else [self.output]
        return [one for one in (self.pidfd, *output, *report) if one >= 0]

    def begin(
        self,
        pod: ProcessPod,
        groups: ContainerCgroups,
        place: Callable[[ProcessPod, str], ContainerFiles],
    ) -> None:
        """Fork. Raises OSError, ``StartFailed``; nothing is left then."""
        launch, probe = self._launch, self._asked
        self.output, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(writer, True)
        opened = [writer]
        try:
            if probe.command and pod.spec.bundles is None:
                joins = groups.join_fds(pod.cgroups[launch.name])
                opened += joins
                asked = replace(launch, argv=probe.command, probes=(), hooks=())
                self.birth = begin(asked, joins, writer)
                self.pid, self.pidfd = self.birth.pid, self.birth.pidfd
                return
            if probe.command:
                words = self._runtime_words(place(pod, launch.name))
                self._fork(lambda: _execute(words, writer))
            else:
                space = _network_of(pod, launch.name)
                opened += [] if space is None else [space]
                self._fork(lambda: _ask(probe, space, writer))
        except BaseException:
            os.close(self.output)
            self.output = -1
            raise
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _runtime_words(self, place: ContainerFiles) -> list[str]:
        """The command line of a runtime that executes in its container."""
        self._pid_file = f"{place.bundle}/probe-{self._asked.kind}.pid"
        unlink(self._pid_file)
        words = place.command("exec", "--pid-file", self._pid_file, place.id)
        # it says on its stderr what goes wrong, too; a log would grow
        words[words.index("--log") + 1] = os.devnull
        return [*words, *self._asked.command]

    def _fork(self, then: Callable[[], NoReturn]) -> None:
        library()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.pid = os.fork()
            if self.pid == 0:
                then()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self.pidfd = os.pidfd_open(self.pid)

    def result(self, now: float) -> tuple[Result, str] | None:
        """What came of it, None while that is open. Past its deadline it is killed."""
        self._read()
        if self.birth is not None and now < self.deadline:
            try:
                if settle(self.birth) is None:
                    return None
            except StartFailed as error:
                self.birth, self.pidfd = None, -1
                return "unknown", error.reason
            self.birth = None
        ended = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
        if ended is not None:
            self._read()
            killed = ended.si_code != os.CLD_EXITED
            self.code = ended.si_status + 128 * killed
            good = not self.code
            return self._judged(good)
        if now < self.deadline:
            return None
        self.kill()
        return "failure", timed_out(self._asked)

    def _judged(self, good: bool) -> tuple[Result, str]:
        """What the end of the process means."""
        text = self._text[:MAX_OUTPUT].decode("utf-8", "replace")
        text = " ".join(text.split())
        if good:
            return "success", text
        if self._pid_file and not os.path.exists(self._pid_file):
            return "unknown", text or "the runtime did not execute it"
        return "failure", text or f"exit code {self.code}"

    def _read(self) -> None:
        """Take what was printed; what is too much is lost."""
        for _ in range(64):
            if self.output < 0 or self._printed:
                return
            try:
                piece = os.read(self.output, 16384)
            except BlockingIOError:
                return
            if not piece:
                self._printed = True
                return
            self._text = (self._text + piece)[:MAX_OUTPUT]

    def kill(self) -> None:
        """End it, and what it has started in its session."""
        inner = _number(self._pid_file) if self._pid_file else 0
        if inner and parent_of(inner) == self.pid:
            _kill_session(inner)
        _kill_session(self.pid)

    def collected(self) -> bool:
        """Whether it has ended and is collected; then nothing of it is open."""
        if self.pidfd >= 0:
            try:
                if os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG) is None:
                    return False
            except ChildProcessError:
                pass
        self.close()
        return True

    def close(self) -> None:
        """Let go of what is open."""
        self._printed = False
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.birth, self.pidfd, self.output = None, -1, -1
        if self._pid_file:
            unlink(self._pid_file)


def _network_of(pod: ProcessPod, name: str) -> int | None:
    """The network namespace of a container that does not have the host's; None for the host's.
    Raises OSError where the container is gone: another's is never taken instead."""
    box = pod.spec.sandbox
    if pod.spec.bundles is None or box is None or "network" not in shared(box):
        return None
    one = pod.running.get(name)
    if one is None or one.main is None:
        raise ProcessLookupError(3, "the container has no process")
    space = os.open(f"/proc/{one.main}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if ready(one.pidfd):
        os.close(space)
        raise ProcessLookupError(3, "the container has ended")
    return space


def _ask(probe: Question, space: int | None, writer: int) -> NoReturn:
    """The child that asks over the network."""
    code = 1
    try:
        os.setsid()
        default_signals()
        flag = ctypes.c_int(_CLONE_NEWNET)
        if space is not None and library().setns(ctypes.c_int(space), flag) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"setns: {os.strerror(number)}")
        os.dup2(writer, 1)
        os.closerange(3, 2**31 - 1)
        good, text = ask(probe)
        os.write(1, text.encode("utf-8", "replace")[:4096])
        code = 0 if good else 1
    except (OSError, ValueError) as error:
        os.write(1, f"{error}".encode("utf-8", "replace")[:4096])
    finally:
        os._exit(code)


def _execute(words: list[str], writer: int) -> NoReturn:
    """The child that becomes a runtime's ``exec``."""
    try:
        os.setsid()
        default_signals()
        null = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((null, writer, writer)):
            os.dup2(descriptor, number)
        os.umask(0o022)
        os.closerange(3, 2**31 - 1)
        os.execve(words[0], words, _ENV)
    except OSError as error:
        os.write(2, f"{words[0]}: {error.strerror}".encode())
    finally:
        os._exit(126)


def _kill_session(pid: int) -> None:
    """Kill a session's first process and its process group."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _number(path: str) -> int:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read(20).strip() or 0)
    except (OSError, ValueError):
        return 0
