"""The keepers of a state folder, by the lock that each has open, whether its file is there or not."""

from __future__ import annotations

import os
import time
from collections.abc import Collection

from qoslet.host.linux.procfs import process_state
from qoslet.host.state.folder import KEEPER_LOCK

LOCK_DESCRIPTOR = 3
"""The descriptor of its lock that a keeper is started with."""

CHECK_SECONDS = 3.0
"""How often an agent and a keeper look whether their files are there."""

_GONE = " (deleted)"


def keepers_of(folder: str) -> list[int]:
    """The keepers of a state folder, also those whose lock was removed; of other users' processes
    only root knows. A file of that path in another mount namespace, which anybody can make, is on
    another file system."""
    place = os.path.realpath(folder)
    lock, device = f"{place}/{KEEPER_LOCK}", _device_of(place)
    names = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    holders = [pid for pid in sorted(names) if _lock_of(pid) == lock and pid != os.getpid()]
    return [pid for pid in holders if _device_of(f"/proc/{pid}/fd/{LOCK_DESCRIPTOR}") == device]


def wake(pids: Collection[int]) -> list[int]:
    """Let keepers go on that are stopped; which ones were."""
    return [pid for pid in pids if process_state(pid) in ("T", "t") and _go_on(pid)]


def end(folder: str, pids: Collection[int], seconds: float = 2.0) -> list[int]:
    """Kill keepers of a folder, whose containers go on without them; those that have ended."""
    # imported where there is one: its tables of names cost as much as ten modules
    import signal

    ended = []
    for pid in pids:
        try:
            process = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            # the number may be another's by now
            if pid in keepers_of(folder):
                signal.pidfd_send_signal(process, signal.SIGKILL)
                ended.append(pid)
        except OSError:
            continue
        finally:
            os.close(process)
    until = time.monotonic() + seconds
    while any(pid in keepers_of(folder) for pid in ended) and time.monotonic() < until:
        time.sleep(0.01)
    return ended


def _device_of(path: str) -> int:
    """The file system of a path, or of the first directory above it that is there."""
    try:
        return os.stat(path).st_dev
    except OSError:
        return _device_of(os.path.dirname(path)) if path != "/" else 0


def _lock_of(pid: int) -> str:
    """What a process has open where a keeper has its lock."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{LOCK_DESCRIPTOR}").removesuffix(_GONE)
    except OSError:
        return ""


def _go_on(pid: int) -> bool:
    """Tell a keeper to go on; whether it was told."""
    import signal

    try:
        os.kill(pid, signal.SIGCONT)
    except OSError:
        return False
    return True
