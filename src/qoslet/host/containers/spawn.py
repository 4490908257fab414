"""Start one process as its container asks: fork, join its cgroups, take its identity, exec.

The child joins every hierarchy before it executes anything of the container. The caller must be
single-threaded: the code between fork and exec is Python. Linux only.

Source: prctl(2), capabilities(7), cgroups(7), proc(5) oom_score_adj; exit codes 126 and 127 as
shells and container runtimes give them.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Container, Sequence
from typing import NoReturn

from msgspec import Struct

from qoslet.core.workload.process_spec import ProcessSpec
from qoslet.core.workload.security.context import Credentials
from qoslet.host.containers.mount_namespace import enter
from qoslet.host.linux.capabilities import bound_capabilities, last_capability, prctl
from qoslet.host.linux.descriptors import EXHAUSTED
from qoslet.host.linux.mount_syscalls import library
from qoslet.host.linux.processes.limit import NO_PROCESS

NOT_FOUND = 127
NOT_EXECUTABLE = 126
START_SECONDS = 10.0
"""How long a child may take from fork to exec before it is given up and killed."""

_PASSING = (*NO_PROCESS, *EXHAUSTED)
"""Errors of a child that pass. Source: execve(2) and setresuid(2): EAGAIN where RLIMIT_NPROC of its user
is reached; ENOMEM."""

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_NULL = "/dev/null"


class StartFailed(Exception):
    """No process of the container came to be. ``code`` is its exit code, ``reason`` a line. One that
    is ``temporary`` is this machine's, not the container's. ``unseen``: it came to be, and ended where
    nobody saw it."""

    def __init__(
        self, code: int, reason: str, *, temporary: bool = False, unseen: bool = False
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.temporary = temporary
        self.unseen = unseen


class Spawned(Struct, frozen=True):
    """A started process. The caller closes ``pidfd``. ``notes`` say what did not work without
    stopping the start."""

    pid: int
    pidfd: int
    notes: tuple[str, ...] = ()


class ForkedProcess(Struct):
    """A child between fork and exec. Where ``report`` is readable, ``settle`` may know more;
    after ``deadline`` (monotonic seconds) it gives the child up."""

    pid: int
    pidfd: int
    report: int
    deadline: float
    text: bytes = b""

    def settle(self) -> Spawned | None:
        """What came of it (``settle``)."""
        return settle(self)


def begin(
    launch: ProcessSpec, joins: Sequence[int], output: int, errors: int | None = None
) -> ForkedProcess:
    """Fork a child that becomes ``launch`` in the groups whose ``cgroup.procs`` are open as
    ``joins``, and do not wait for it: ``settle`` tells what came of it.

    ``output`` becomes its stdout, ``errors`` (else ``output``) its stderr. Raises
    ``StartFailed``, and OSError where descriptors or processes are wanting; no process is left then.
    """
    last_capability()
    library()
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _child(launch, joins, output, output if errors is None else errors, writer)
    except OSError as error:
        os.close(reader)
        if error.errno in NO_PROCESS:
            raise
        raise StartFailed(NOT_EXECUTABLE, f"cannot fork: {error.strerror}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(writer)
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if error.errno in EXHAUSTED:
            raise
        raise StartFailed(NOT_EXECUTABLE, f"cannot wait for it: {error.strerror}") from error
    return ForkedProcess(pid, pidfd, reader, time.monotonic() + START_SECONDS)


def settle(birth: ForkedProcess) -> Spawned | None:
    """What came of a child, None while it has neither executed nor ended; does not wait.

    Raises ``StartFailed``; no process is left then, but for one that hung in the kernel: it is
    killed, and collected by ``reap_orphans``.
    """
    hung = False
    while True:
        try:
            piece = os.read(birth.report, 4096)
        except BlockingIOError:
            if time.monotonic() < birth.deadline:
                return None
            hung = True
            signal.pidfd_send_signal(birth.pidfd, signal.SIGKILL)
            # frozen, or waiting for a disk: nothing of the container has run
            birth.text += f"T {NOT_EXECUTABLE} did not start in {START_SECONDS:.0f} s\n".encode()
            break
        if not piece:
            break
        birth.text += piece
    os.close(birth.report)
    report = birth.text.decode("utf-8", "replace").splitlines()
    notes = tuple(line[2:] for line in report if line.startswith("N "))
    failed = next((line for line in report if line.startswith(("F ", "T "))), None)
    if failed is not None:
        os.close(birth.pidfd)
        os.waitpid(birth.pid, os.WNOHANG if hung else 0)
        kind, code, reason = failed.split(" ", 2)
        raise StartFailed(int(code), reason, temporary=kind == "T")
    return Spawned(birth.pid, birth.pidfd, notes)


def adopt_orphans() -> None:
    """Make this process the parent of what its children leave behind, so that none stays a
    zombie where PID 1 does not care. Without the right it changes nothing."""
    try:
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
    except OSError:
        return


def reap_orphans(known: Container[int]) -> None:
    """Collect ended children that are not ``known``."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in known:
            return
        os.waitpid(ended.si_pid, os.WNOHANG)


def _child(
    launch: ProcessSpec, joins: Sequence[int], output: int, errors: int, report: int
) -> NoReturn:
    """All that happens between fork and exec; never returns into the caller's code."""
    stage = "session"
    try:
        os.setsid()
        default_signals()
        stage = "output"
        _descriptors(output, errors)
        stage = "oom_score_adj"
        _oom_score(launch, report)
        stage = "cgroup"
        for descriptor in joins:
            os.write(descriptor, b"0")
        if launch.mounts:
            for stage in enter(launch.mounts):  # noqa: B007
                pass
        os.umask(0o022)
        stage = "identity"
        _take(launch.identity)
        stage = f"workingDir {launch.cwd}"
        os.chdir(launch.cwd)
        stage = "descriptors"
        _close_all_but(report)
        stage = ""
        _execute(launch, report)
    except OSError as error:
        # who joins a cgroup that is being removed, or meets a limit of it, is not at fault
        kind = "T" if stage == "cgroup" or error.errno in _PASSING else "F"
        _report_line(report, f"{kind} {NOT_EXECUTABLE} {stage}: {error.strerror}")
    except MemoryError:
        _report_line(report, f"T {NOT_EXECUTABLE} {stage}: {os.strerror(errno.ENOMEM)}")
    except (ValueError, TypeError, AttributeError) as error:
        _report_line(report, f"F {NOT_EXECUTABLE} {stage}: {error}")
    finally:
        os._exit(NOT_EXECUTABLE)


def _report_line(report: int, line: str) -> None:
    """One line to the parent; ``F CODE REASON``, ``T CODE REASON`` for what is temporary, or
    ``N NOTE``."""
    clean = line.replace("\n", " ")[:2000]
    os.write(report, clean.encode("utf-8", "replace") + b"\n")


def default_signals() -> None:
    """Nothing ignored, nothing blocked: ignored signals would survive exec."""
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):
                continue
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _descriptors(output: int, errors: int) -> None:
    """stdin from nowhere, stdout and stderr to where they are kept."""
    nothing = os.open(_NULL, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(errors, 2)


def _close_all_but(keep: int) -> None:
    """Close what was inherited; ``keep`` is close-on-exec."""
    os.closerange(3, keep)
    os.closerange(keep + 1, 2**31 - 1)


def _oom_score(launch: ProcessSpec, report: int) -> None:
    """Tell the kernel in which order to kill; without the right it stays as it is."""
    if launch.oom_score_adj is None:
        return
    try:
        descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        try:
            os.write(descriptor, str(launch.oom_score_adj).encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        _report_line(report, f"N oom_score_adj {launch.oom_score_adj} not set: {error.strerror}")


def _take(identity: Credentials) -> None:
    """Become the user, groups and capability bounds of ``identity``; raises OSError."""
    try:
        bound_capabilities(identity.capabilities)
    except PermissionError:
        # no-new-privileges keeps the process from gaining any
        if not identity.no_new_privileges:
            raise
    if os.geteuid() == 0:
        os.setgroups(identity.groups)
    os.setresgid(identity.gid, identity.gid, identity.gid)
    os.setresuid(identity.uid, identity.uid, identity.uid)
    if identity.no_new_privileges:
        prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _execute(launch: ProcessSpec, report: int) -> NoReturn:
    """Execute the command, looked up in the container's own ``PATH``."""
    environment = dict(launch.env)
    name = launch.argv[0]
    if "/" in name:
        candidates = [name]
    else:
        places = environment.get("PATH", "").split(":")
        candidates = [os.path.join(place or ".", name) for place in places]
    worst = errno.ENOENT
    for candidate in candidates:
        try:
            os.execve(candidate, launch.argv, environment)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                worst = error.errno or errno.EACCES
    code = NOT_FOUND if worst == errno.ENOENT else NOT_EXECUTABLE
    kind = "T" if worst in _PASSING else "F"
    _report_line(report, f"{kind} {code} {name}: {os.strerror(worst)}")
    os._exit(code)
