"""What a plan's reader should know about exclusive CPUs and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qoslet.core.api.pod import Pod
from qoslet.core.managers.container_manager import Managers
from qoslet.core.problem import Problem, ProblemCode
from qoslet.core.resources.node_policy import NodePolicy


def placing_problems(
    policy: NodePolicy,
    managers: Managers | None,
    pods: Sequence[Pod],
    *,
    kept_is_actual: bool = False,
) -> Iterator[Problem]:
    """The pods that a kubelet would refuse, and what the assigned CPUs and memory nodes depend on.
    ``kept_is_actual``: a kubelet itself told the assignments, so they depend on no order of pods."""
    if managers is None:
        return
    node = f"node {policy.node.name or 'this'}"
    for pod in pods:
        refusal = managers.refused.get(pod.uid)
        if refusal is not None:
            message = f"rejected with {refusal.reason}: {refusal.message}"
            code = ProblemCode.POD_NOT_ADMITTED
            yield Problem("error", pod.where, message, refusal.hint, code)
    if not kept_is_actual:
        yield Problem(
            "info",
            node,
            "exclusive CPUs and memory are assigned in this order of pods",
            "a running kubelet assigns them in order of admission: see its cpu_manager_state and memory_manager_state",
        )
    if managers.topology.flat:
        yield Problem(
            "info",
            node,
            "the CPU topology is unknown: qoslet assumes one socket and one thread per core",
            "set topology: {sockets, cores, caches} in a qoslet/v1 Node document",
        )
    if managers.cpu is not None and not managers.shared():
        yield Problem(
            "warning",
            node,
            "no CPU is left for containers without exclusive CPUs: they may use all CPUs",
            "reserve fewer CPUs with strict-cpu-reservation, or request fewer whole CPUs",
        )
