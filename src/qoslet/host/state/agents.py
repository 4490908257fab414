"""Which agents run on this machine, by the sockets in their state folders."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from qoslet.core.cgroup.names import given_root
from qoslet.core.cgroup.tree_owner import KUBELET, tree_owner
from qoslet.core.reconcile.journal import AGENT
from qoslet.errors import CannotDo
from qoslet.host.linux.descriptors import owned
from qoslet.host.linux.procfs import listed, text
from qoslet.host.state.folder import (
    AGENT_SOCKET,
    CRI,
    KEEPER,
    LOCK,
    STATE,
    state_directory,
    unescaped,
)


def running_roots(state: str) -> list[str]:
    """The cgroup roots whose agents listen below the state directory ``state``; none where it
    cannot be read."""
    return [unescaped(name) for name in listed(state) if _listens(f"{state}/{name}")]


def left_roots(state: str) -> list[str]:
    """The cgroup roots with pods that no agent has now: an agent left them, or was killed."""
    kept = [name for name in listed(state) if any(map(listed, _records(f"{state}/{name}")))]
    return [unescaped(name) for name in kept if not _has_agent(f"{state}/{name}")]


def silent_roots(state: str) -> list[str]:
    """The cgroup roots whose agents start or end: they have the root and do not listen."""
    having = [name for name in listed(state) if agent_of(f"{state}/{name}")]
    return [unescaped(name) for name in having if not _listens(f"{state}/{name}")]


def agent_of(folder: str) -> int:
    """The agent that has the root of a state folder, whether it listens or not: its process; 0
    without one."""
    lock = f"{os.path.realpath(folder)}/{LOCK}"
    pid, _, verb = (text(lock) or "").strip().partition(" ")
    if verb not in ("run", AGENT) or not pid.isdecimal():
        return 0
    opened = f"/proc/{pid}/fd"
    for number in listed(opened):
        try:
            # the number of a process that has ended may be another's now
            if os.readlink(f"{opened}/{number}") == lock:
                return int(pid)
        except OSError:
            continue
    return 0


def _has_agent(folder: str) -> bool:
    """Whether an agent has the root of a state folder."""
    return _listens(folder) or bool(agent_of(folder))


def _records(folder: str) -> tuple[str, str]:
    """The directories that have the records of pods."""
    return f"{folder}/{KEEPER}", f"{folder}/{CRI}"


def pods_elsewhere(folder: str, pods: Mapping[str, str]) -> list[str]:
    """A line for each other root that has some of these pods, names by UID, than that of the state folder
    ``folder``: both copies run, whoever starts the second one."""
    lines = []
    state = os.path.dirname(folder)
    for name in sorted(set(listed(state)) - {os.path.basename(folder)}):
        uids = {uid for records in _records(f"{state}/{name}") for uid in listed(records)}
        same = sorted(pods[uid] for uid in uids & pods.keys())
        if same:
            root = given_root(unescaped(name))
            more = f" and {len(same) - 1} more" if same[1:] else ""
            lines.append(
                f"{same[0]}{more}: --cgroup-root {root} has copies already, and this run makes its own: qoslet release --cgroup-root {root} ends the others"
            )
    return lines


def guest_roots(state: str) -> list[str]:
    """Those of agents beside a kubelet. An agent that runs pods itself has a socket of the same name."""
    return [root for root in running_roots(state) if tree_owner(root) == KUBELET]


def _listens(folder: str) -> bool:
    """Whether a process listens at the agent's socket."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    peer.settimeout(1.0)
    try:
        with owned(
            os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        ) as place:
            peer.connect(f"/proc/self/fd/{place}/{AGENT_SOCKET}")
    except OSError:
        return False
    finally:
        peer.close()
    return True


def pod_roots(state: str) -> list[str]:
    """The cgroup roots that have an agent which runs pods itself, or pods without one."""
    found = dict.fromkeys((*running_roots(state), *silent_roots(state), *left_roots(state)))
    return [given_root(root) for root in found if tree_owner(root) != KUBELET]


def where_else(user: int, state: str = STATE) -> str:
    """A hint for a user whom no agent answers: the roots of agents that run, those of agents that
    ended and left pods, or sudo; empty if there is none. ``state`` is root's state directory."""
    if user != 0 and os.path.isdir(state):
        return f"root's agent may run, its state is in {state}: use sudo"
    try:
        own = state if user == 0 else state_directory(os.environ, user)
    except CannotDo:
        return ""
    said = []
    if roots := running_roots(own):
        said.append(f"running agents have --cgroup-root {' or '.join(map(given_root, roots))}")
    if roots := left_roots(own):
        said.append(
            f"pods of an agent that ended have --cgroup-root {' or '.join(map(given_root, roots))}: "
            "qoslet run --keep goes on with them, qoslet release ends them"
        )
    return "; ".join(said)
