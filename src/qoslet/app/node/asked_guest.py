"""Asks the agent beside a kubelet that runs on this machine."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from msgspec import DecodeError, json

from qoslet.core.cgroup.names import concrete, root_of, root_path, to_cgroupfs
from qoslet.errors import BadInput, CannotDo, QosletError
from qoslet.host.questions.http_client import ask
from qoslet.host.state.agents import guest_roots
from qoslet.host.state.folder import escaped, own_state_directory

STATUS = "/v1/agent"
"""The page of the status."""


def agent_status(cgroup_root: str | None) -> dict[str, Any]:
    """The ``AgentStatus`` document of the agent whose kubelet has this cgroup root, or of the only one
    that runs. Raises CannotDo, BadInput where there are several."""
    folder = agent_folder(cgroup_root, own_state_directory())
    try:
        found = json.decode(ask(folder, STATUS))
    except DecodeError as error:
        raise CannotDo(f"the agent's answer is not JSON: {error}", where=folder) from error
    if not isinstance(found, dict) or found.get("kind") != "AgentStatus":
        raise CannotDo("the agent answers with another document", where=folder)
    return found


def agent_held(cgroup_root: str | None) -> dict[tuple[str, str], str]:
    """The values that the agent of that kubelet keeps, by path and file; none where no agent answers, or another
    user's."""
    try:
        held = agent_status(cgroup_root)["held"]
    except QosletError:
        return {}
    return {(one["cgroup"], one["file"]): one["value"] for one in held}


def agent_folder(cgroup_root: str | None, state: str) -> str:
    """The folder of an agent below the state directory. ``cgroup_root`` is as the kubelet's configuration or as ``release``
    names it. Raises CannotDo, BadInput."""
    roots = guest_roots(state)
    if cgroup_root is not None:
        roots = [root for root in roots if root in _trees(cgroup_root)]
    if len(roots) > 1:
        message = f"{len(roots)} agents run beside kubelets here"
        raise BadInput(message, where="--cgroup-root", hint=f"one of {', '.join(roots)}")
    if not roots:
        raise CannotDo("no agent runs beside a kubelet here", where=state, hint="qoslet agent")
    return f"{state}/{escaped(roots[0])}"


def _trees(cgroup_root: str) -> set[str]:
    """The cgroups that a kubelet has for all pods, by either driver: below a root, and the root
    itself."""
    below = root_of(cgroup_root, cgroups_per_qos=True)
    found = {cgroup_root.rstrip("/"), to_cgroupfs(below)}
    with suppress(BadInput):
        found |= {concrete(below, "systemd"), root_path(cgroup_root, "systemd")}
    return found
