"""Asks a running agent over its private socket."""

from __future__ import annotations

import os
import socket
import time

from qoslet.core.api.schema import shown
from qoslet.errors import CannotDo
from qoslet.host.linux.descriptors import owned
from qoslet.host.linux.peer import peer_of
from qoslet.host.linux.procfs import process_state
from qoslet.host.state.agents import agent_of
from qoslet.host.state.folder import AGENT_SOCKET

REQUEST_SECONDS = 5.0
"""How long a peer may take for its whole request, and for reading its whole answer."""
LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes of an answer that are read."""


SERVICE_UNAVAILABLE = 503


class BusyAgent(CannotDo):
    """The agent exists, but it or its loop does not answer."""


def ask(folder: str, path: str, seconds: float = 2 * REQUEST_SECONDS) -> bytes:
    """The page that the agent of ``folder`` gives within so many seconds. Raises CannotDo where none
    answers."""
    from http.client import HTTPConnection, HTTPException

    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    peer.settimeout(seconds)
    where = f"{folder}/{AGENT_SOCKET}"
    try:
        _connect(peer, folder, seconds)
        connection = HTTPConnection("agent")
        connection.sock = peer
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read(LARGEST_ANSWER)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        if pid := agent_of(folder):
            message = f"the agent is starting or ending (process {pid})"
            raise BusyAgent(message, where=where, hint="look at its log") from error
        raise CannotDo(
            "no agent is running", where=where, hint="start it with: qoslet run DIR --keep"
        ) from error
    except PermissionError as error:
        raise CannotDo(
            "the agent belongs to another user", where=where, hint="run as root, or as that user"
        ) from error
    except (TimeoutError, BlockingIOError) as error:
        raise _silent(peer, where) from error
    except (OSError, HTTPException) as error:
        raise CannotDo(
            f"the agent does not answer: {error or type(error).__name__}", where=where
        ) from error
    finally:
        peer.close()
    if answer.status == SERVICE_UNAVAILABLE:
        why = shown(body.decode("utf-8", "replace").strip(), 500)
        raise BusyAgent(f"the agent says {answer.status} {answer.reason}: {why}", where=where)
    if answer.status != 200:
        raise CannotDo(f"the agent answers {answer.status} {answer.reason}", where=where)
    return body


def _silent(peer: socket.socket, where: str) -> BusyAgent:
    """Who listens and does not answer, and what to do."""
    pid = peer_of(peer).pid
    if process_state(pid) in ("T", "t"):
        return BusyAgent(
            f"the agent is stopped (process {pid})", where=where, hint=f"kill -CONT {pid}"
        )
    who = f" (process {pid})" if pid > 0 else ""
    return BusyAgent(f"the agent does not answer{who}", where=where, hint="look at its log")


def _connect(peer: socket.socket, folder: str, seconds: float) -> None:
    with owned(os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as place:
        until = time.monotonic() + seconds
        while True:
            try:
                peer.connect(f"/proc/self/fd/{place}/{AGENT_SOCKET}")
                return
            except BlockingIOError:
                # a unix socket whose queue of peers is full
                if time.monotonic() >= until:
                    raise
                time.sleep(0.01)
