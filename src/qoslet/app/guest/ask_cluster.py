"""Asks the agents of a cluster what they are doing."""

from __future__ import annotations

from typing import Any

from msgspec import DecodeError, Struct, json

from qoslet.app.cluster_agents import JOBS, ClusterAgents, Progress
from qoslet.errors import CannotDo, QosletError


class NodeStatus(Struct, frozen=True):
    """The ``AgentStatus`` document of a node, or why there is none."""

    node: str
    document: dict[str, Any] | None = None
    fault: str = ""


def status_of_nodes(agents: ClusterAgents, progress: Progress) -> list[NodeStatus]:
    """That of each node that has an agent, also one that does not run, by name. Raises CannotDo."""
    pods = agents.pods(running=False)

    def asked(node: str) -> NodeStatus:
        try:
            data = agents.execute(node, pods[node], "qoslet", "agent", "--status", "-o", "json")
            document = json.decode(data)
            if not isinstance(document, dict) or document.get("kind") != "AgentStatus":
                raise CannotDo("its agent answers with another document", where=f"node/{node}")
        except QosletError as error:
            return NodeStatus(node, fault=str(error))
        except DecodeError:
            return NodeStatus(node, fault=f"node/{node}: its agent answers with no JSON")
        return NodeStatus(node, document)

    return sorted(agents.each(pods, asked, JOBS, progress), key=lambda one: one.node)
