"""The agent of qoslet that runs pods on this machine, and how it describes its node."""

from __future__ import annotations

from typing import Any

import msgspec

from qoslet.core.cgroup.names import given_root, names_root
from qoslet.errors import BadInput, CannotDo
from qoslet.host.kubelet.processes import kubelet_processes
from qoslet.host.questions.http_client import BusyAgent, ask
from qoslet.host.state.agents import guest_roots, running_roots
from qoslet.host.state.folder import AGENT_SOCKET, own_state_directory, state_folder


def running_agent(wanted: str | None) -> str | None:
    """The cgroup root of the agent whose pods are meant where none are given: the one at ``wanted``, else
    the only one on a machine without a kubelet. Raises BadInput where several run."""
    try:
        state = own_state_directory(write=False)
    except CannotDo:
        return None
    beside = guest_roots(state)
    trees = [root for root in running_roots(state) if root not in beside]
    roots = [given_root(root) for root in trees if wanted is None or names_root(wanted, root)]
    if wanted is not None:
        return roots[0] if roots else None
    if not roots or kubelet_processes()[0]:
        return None
    if len(roots) > 1:
        message = f"{len(roots)} agents of qoslet run on this machine"
        raise BadInput(message, where="--cgroup-root", hint=f"name one of {', '.join(roots)}")
    return roots[0]


def agent_node(root: str) -> list[tuple[str, bytes]]:
    """The node of the agent at ``root`` as documents, each with its place. Raises CannotDo."""
    where = f"the agent of {root}"
    try:
        answer = ask(state_folder(root, AGENT_SOCKET), "/v1/node")
        documents = msgspec.json.decode(answer, type=dict[str, Any])["items"]
    except BusyAgent:
        raise
    except (CannotDo, KeyError, msgspec.DecodeError) as error:
        hint = "restart it with this release, or give its manifests with -f"
        raise CannotDo(f"does not describe its node: {error}", where=where, hint=hint) from error
    return [(where, msgspec.json.encode(one)) for one in documents]
