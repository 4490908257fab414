"""Asks the agents of a cluster what they are doing, and what they would do under another policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import DecodeError, Struct, json

from qoslet.app.cluster_agents import JOBS, ClusterAgents, Progress
from qoslet.app.guest.policy_file import policy_document
from qoslet.core.guest.policy_document import PolicyFlags, policy_of
from qoslet.errors import CannotDo, QosletError
from qoslet.host.cluster.client_library import ACCOUNT

INSTALLED_POLICY = "/etc/qoslet/policy.yaml"
"""Where ``deploy/`` mounts the policy of agents."""

Document = dict[str, Any]


class NodeAnswer(Struct, frozen=True):
    """The document of a node's agent, or why there is none."""

    node: str
    document: Document | None = None
    fault: str = ""


def status_of_nodes(agents: ClusterAgents, progress: Progress) -> list[NodeAnswer]:
    """The ``AgentStatus`` of each node that has an agent, also one that does not run, by name. Raises
    CannotDo."""
    words = ("--status", "-o", "json")
    return _answers(agents, words, None, lambda one: one.get("kind") == "AgentStatus", progress)


def dry_run_of_nodes(
    agents: ClusterAgents, policy: str | None, flags: PolicyFlags, progress: Progress
) -> list[NodeAnswer]:
    """What the agent of each node would write and may end under a policy: the file ``policy``, else
    the one that it has; ``flags`` stand over it. Raises BadInput, CannotDo."""
    given = None
    if policy is not None:
        document, where = policy_document(policy, strict=False)
        policy_of(document, where, flags)
        given = json.encode(document)
    words = (
        *("--dry-run", "-o", "json", f"--kubelet-token={ACCOUNT}/token"),
        f"--policy={INSTALLED_POLICY if given is None else '-'}",
        *(f"{option}={value}" for option, value in _options(flags).items() if value is not None),
    )
    return _answers(agents, words, given, lambda one: "commands" in one, progress)


def _options(flags: PolicyFlags) -> Mapping[str, str | None]:
    return {
        "--mode": flags.mode,
        "--memory-qos": flags.memory_qos,
        "--memory-throttling-factor": flags.throttling_factor,
        "--evict": flags.ends,
    }


def _answers(
    agents: ClusterAgents,
    words: Sequence[str],
    given: bytes | None,
    is_expected: Callable[[Document], bool],
    progress: Progress,
) -> list[NodeAnswer]:
    """What ``qoslet agent`` with ``words`` prints on each node, by name."""
    pods = agents.pods(running=False)
    execute = partial(agents.execute, given=given)

    def asked(node: str) -> NodeAnswer:
        try:
            document = json.decode(execute(node, pods[node], "qoslet", "agent", *words))
            if not isinstance(document, dict) or not is_expected(document):
                raise CannotDo("its agent answers with another document", where=f"node/{node}")
        except QosletError as error:
            return NodeAnswer(node, fault=str(error))
        except DecodeError:
            return NodeAnswer(node, fault=f"node/{node}: its agent answers with no JSON")
        return NodeAnswer(node, document)

    return sorted(agents.each(pods, asked, JOBS, progress), key=lambda one: one.node)
