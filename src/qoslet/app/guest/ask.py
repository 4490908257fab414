"""Asks the agent beside a kubelet that runs on this machine."""

from __future__ import annotations

import os
from typing import Any

from msgspec import DecodeError, json

from qoslet.app.guest.serve import STATUS
from qoslet.core.cgroup.names import root_of, to_cgroupfs
from qoslet.errors import CannotDo
from qoslet.host.state.folder import AGENT_SOCKET, state_folder
from qoslet.host.state.http_client import ask


def agent_status(cgroup_root: str | None) -> dict[str, Any]:
    """The ``AgentStatus`` document of the agent beside the kubelet whose cgroup root is this. Raises
    CannotDo."""
    root = to_cgroupfs(root_of(cgroup_root or "/", cgroups_per_qos=True))
    folder = state_folder(root, AGENT_SOCKET)
    if not os.path.exists(f"{folder}/{AGENT_SOCKET}"):
        raise CannotDo("no agent runs beside a kubelet here", where=folder, hint="qoslet agent")
    try:
        found = json.decode(ask(folder, STATUS))
    except DecodeError as error:
        raise CannotDo(f"the agent's answer is not JSON: {error}", where=folder) from error
    if not isinstance(found, dict) or found.get("kind") != "AgentStatus":
        raise CannotDo("the agent answers with another document", where=folder)
    return found
