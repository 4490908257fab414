"""Who is at the other end of a Unix socket."""

from __future__ import annotations

import socket
import struct

from msgspec import Struct

_UCRED = struct.Struct("iII")
"""pid, uid, gid. Source: unix(7) SO_PEERCRED."""


class PeerProcess(Struct, frozen=True):
    """The process at the other end of a connection, 0 where this PID namespace does not have it, and its
    user."""

    pid: int
    uid: int


def peer_of(connection: socket.socket) -> PeerProcess:
    """Who is at the other end, since it connected or began to listen. Raises OSError."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(data)
    return PeerProcess(pid, uid)
