"""A child process that can write to one directory only, and that ends within a budget.

It has a mount namespace in which all but that directory is read-only, limits of memory, processor
time and file size, and dies with its parent. A program that it executes has no capability that
could undo this. Linux 5.12.

Source: mount_setattr(2), prctl(2), setrlimit(2), proc(5) io.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable
from typing import NoReturn

from qoslet.core.workload.security.context import CAPABILITIES
from qoslet.errors import system_reason
from qoslet.host.linux.capabilities import bound_capabilities, prctl
from qoslet.host.linux.descriptors import ready
from qoslet.host.linux.mount_syscalls import clone, make_read_only, move, separate
from qoslet.host.linux.procfs import text

MEMORY_BYTES = 1 << 30
"""What the child may allocate."""
OPEN_FILES = 256

_CAPABILITIES = "CHOWN DAC_OVERRIDE FOWNER FSETID MKNOD SETFCAP"
_MOST_FILES = (1 << 31) - 1
_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.1
_MESSAGE_BYTES = 4000
_LINE = 250


def confined(work: Callable[[], object], folder: str, size: int, seconds: float) -> None:
    """Do ``work`` in a child whose working directory is ``folder``, the only one that it can write
    to: ``size`` bytes in all. What it writes to stderr, its last line, says why it has failed.

    Raises ValueError where it has failed or was ended. No process of it is left then."""
    report, writer = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _child(work, folder, size, seconds, parent, writer)
    os.close(writer)
    try:
        failure, code, output = _watched(pid, report, size, seconds)
    finally:
        os.close(report)
    lines = output.decode("utf-8", "replace").strip().splitlines()
    if failure:
        raise ValueError(failure)
    if code < 0:
        raise ValueError(f"ended by signal {-code}; its memory and time are bounded")
    if code > 0:
        line = lines[-1].strip(" \u2a2f") if lines else f"exit code {code}"
        raise ValueError(line if len(line) <= _LINE else f"{line[:_LINE]}…{line[-_LINE:]}")


def _watched(pid: int, report: int, size: int, seconds: float) -> tuple[str, int, bytes]:
    """Wait for the child; kill its process group once it is over its budget. Returns why it was
    killed, its exit code, and the end of what it printed."""
    deadline = time.monotonic() + seconds
    failure, output = "", b""
    pidfd = os.pidfd_open(pid)
    try:
        while pidfd not in (told := ready(pidfd, report, seconds=_POLL_SECONDS)):
            if report in told:
                output = (output + os.read(report, _MESSAGE_BYTES))[-_MESSAGE_BYTES:]
                time.sleep(0.001)
            if time.monotonic() >= deadline:
                failure = f"more than {seconds:g} seconds"
            elif _written(pid) > size:
                failure = f"more than {size} bytes written"
            if failure:
                break
        os.set_blocking(report, False)
        output += _rest(report)
    finally:
        _kill_group(pid)
        os.close(pidfd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return failure, code, output[-_MESSAGE_BYTES:]


def _rest(report: int) -> bytes:
    """What is in a pipe; nothing where it is empty."""
    try:
        return os.read(report, 1 << 16)
    except BlockingIOError:
        return b""


def _kill_group(pid: int) -> None:
    """Kill a child that was not waited for yet, and all in its process group."""
    os.kill(pid, signal.SIGKILL)
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _written(pid: int) -> int:
    """Bytes that a process has written."""
    for line in (text(f"/proc/{pid}/io") or "").splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    return 0


def _child(
    work: Callable[[], object], folder: str, size: int, seconds: float, parent: int, writer: int
) -> NoReturn:
    """What the child does; it ends here."""
    try:
        os.setpgid(0, 0)
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number, descriptor in enumerate((nothing, nothing, writer)):
            os.dup2(descriptor, number)
        # what an agent keeps open is none of its business, and would count against its limit
        os.closerange(3, _MOST_FILES)
        _enter(folder)
        for kind, most in (
            (resource.RLIMIT_DATA, MEMORY_BYTES),
            (resource.RLIMIT_CPU, int(seconds) + 1),
            (resource.RLIMIT_FSIZE, size),
            (resource.RLIMIT_NOFILE, OPEN_FILES),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(kind, (most, most))
        bound_capabilities({CAPABILITIES[name] for name in _CAPABILITIES.split()})
        work()
        os._exit(0)
    except MemoryError:
        os.write(2, b"more memory than an image may take")
    except (ValueError, OSError) as error:
        os.write(2, _text_of(error).encode("utf-8", "replace")[:_MESSAGE_BYTES])
    finally:
        os._exit(1)


def _enter(folder: str) -> None:
    """Leave only ``folder`` to be written to, and go there."""
    separate()
    writable = clone(folder)
    make_read_only("/")
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    move(writable, at)
    os.close(at)
    os.close(writable)
    os.chdir(folder)


def _text_of(error: ValueError | OSError) -> str:
    """A fault in one line."""
    if not isinstance(error, OSError):
        return " ".join(str(error).split())
    return system_reason(error)
