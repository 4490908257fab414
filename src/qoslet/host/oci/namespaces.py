"""The namespaces that the containers of one pod share: network with nothing but the loopback
interface, host name, System V IPC.

They are held open by the keeper, and by whatever runs in them: nothing is mounted and no process
sleeps for them, so nothing can be left over. A new keeper finds them by a container that runs.

Source: unshare(2), namespaces(7), netdevice(7) SIOCSIFFLAGS.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from fcntl import ioctl

from qoslet.core.workload.oci.oci_spec import Kind
from qoslet.host.linux.mount_syscalls import library

_FLAGS: dict[Kind, int] = {"network": 0x40000000, "uts": 0x04000000, "ipc": 0x08000000}
_NAMES: dict[Kind, str] = {"network": "net", "uts": "uts", "ipc": "ipc", "pid": "pid"}
_SIOCSIFFLAGS = 0x8914
_UP_RUNNING = 0x41


class PodNamespaces:
    """Open namespaces by pod."""

    def __init__(self) -> None:
        self._held: dict[str, dict[Kind, int]] = {}

    def of(
        self, uid: str, kinds: Sequence[Kind], hostname: str, pids: Iterable[int]
    ) -> Mapping[Kind, str]:
        """Paths of the namespaces of a pod, made if none of its processes ``pids`` has them.
        Raises OSError."""
        held = self._held.get(uid)
        if held is None and kinds:
            held = next(filter(None, (_of_process(pid, kinds) for pid in pids)), None)
            held = self._held[uid] = held or _new(kinds, hostname)
        return {kind: f"/proc/{os.getpid()}/fd/{number}" for kind, number in (held or {}).items()}

    def drop(self, uid: str) -> None:
        """A pod has ended."""
        for descriptor in self._held.pop(uid, {}).values():
            os.close(descriptor)

    def close(self) -> None:
        """Let all go."""
        for uid in list(self._held):
            self.drop(uid)


def _of_process(pid: int, kinds: Sequence[Kind]) -> dict[Kind, int] | None:
    """The namespaces that a process is in; None where it is gone."""
    opened: dict[Kind, int] = {}
    try:
        for kind in kinds:
            path = f"/proc/{pid}/ns/{_NAMES[kind]}"
            opened[kind] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        for descriptor in opened.values():
            os.close(descriptor)
        return None
    return opened


def _new(kinds: Sequence[Kind], hostname: str) -> dict[Kind, int]:
    """New namespaces: this process goes into them and comes back, which takes no other one. The
    caller is single-threaded. Raises OSError."""
    back = _of_process(os.getpid(), kinds)
    if back is None:
        raise OSError(errno.ESRCH, "cannot open the namespaces of this process")
    flags = 0
    for kind in kinds:
        flags |= _FLAGS[kind]
    try:
        _call(library().unshare(ctypes.c_int(flags)))
        try:
            return _furnished(kinds, hostname)
        finally:
            for descriptor in back.values():
                # a keeper that stays outside would be no use to anybody: what fails here ends it
                if library().setns(ctypes.c_int(descriptor), ctypes.c_int(0)) != 0:
                    os._exit(1)
    finally:
        for descriptor in back.values():
            os.close(descriptor)


def _furnished(kinds: Sequence[Kind], hostname: str) -> dict[Kind, int]:
    """Those that this process is in, made ready for a pod."""
    if "uts" in kinds:
        socket.sethostname(hostname)
    if "network" in kinds:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            ioctl(one, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _UP_RUNNING))
    found = _of_process(os.getpid(), kinds)
    if found is None:
        raise OSError(errno.ESRCH, "cannot open namespaces")
    return found


def _call(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot create namespaces: {os.strerror(number)}")
