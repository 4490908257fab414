"""Pods and a node to the tree of cgroups: which file gets which value, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qoslet.core.api.pod import Pod
from qoslet.core.managers.container_manager import Kept
from qoslet.core.node.node import Node
from qoslet.core.plan.manager_problems import placing_problems
from qoslet.core.plan.pod_planner import Planner
from qoslet.core.plan.problems import contradictions, problems_of
from qoslet.core.plan.totals import Judged
from qoslet.core.problem import Problem
from qoslet.core.resources.cgroup_tree import Cgroup, Plan, PlannedPod
from qoslet.core.resources.pod_template import Shape
from qoslet.core.resources.qos_cgroups import Tally, Tallying


def plan(
    pods: Sequence[Pod], node: Node, problems: Sequence[Problem] = (), kept: Kept | None = None
) -> Plan:
    """The whole tree, parents first. ``problems`` are those that reading met; what planning
    meets is added. Nothing is refused: what does not fit is planned and mentioned. ``kept`` is
    what the CPU and memory managers handed out before."""
    planner = Planner(node)
    if planner.managers is not None and kept is not None:
        planner.managers.restore(kept)
    shaped = [(pod, planner.shapes.of(pod)) for pod in pods]
    planner.pin(pods)
    upper = planner.upper(tally_of(shape for _, shape in shaped))
    groups = (planner.groups(pod, shape) for pod, shape in shaped)
    met = _met(planner, upper, shaped)
    return assembled(planner, upper, shaped, groups, (*problems, *met))


def assembled(
    planner: Planner,
    upper: Sequence[Cgroup],
    shaped: Iterable[tuple[Pod, Shape]],
    groups: Iterable[Iterable[Cgroup]],
    problems: Sequence[Problem],
) -> Plan:
    """The plan of its parts: the upper groups, each pod's groups, and what there is to say."""
    whole = list(upper)
    for some in groups:
        whole += some
    classes = [PlannedPod(pod, shape.qos) for pod, shape in shaped]
    return Plan(planner.basis.node, tuple(classes), tuple(whole), tuple(problems))


def _met(
    planner: Planner, upper: Sequence[Cgroup], shaped: Sequence[tuple[Pod, Shape]]
) -> tuple[Problem, ...]:
    """What planning met."""
    contradicted = contradictions((pod, shape.qos) for pod, shape in shaped)
    met = problems_of(planner.basis, _judged(shaped), contradicted, upper)
    placed = placing_problems(planner.basis, planner.managers, [pod for pod, _ in shaped])
    return (*met, *placed)


def tally_of(shapes: Iterable[Shape]) -> Tally:
    """What pods ask for, by class."""
    sums = Tallying()
    for shape in shapes:
        sums.add(shape.qos, shape.memory, shape.milli, apart=shape.apart)
    return sums.tally


def _judged(shaped: Iterable[tuple[Pod, Shape]]) -> list[Judged]:
    """Each shape once, with its first pod and the number of its pods."""
    counts: dict[int, int] = {}
    first: dict[int, tuple[Pod, Shape]] = {}
    for pod, shape in shaped:
        key = id(shape)
        if key in counts:
            counts[key] += 1
        else:
            counts[key] = 1
            first[key] = pod, shape
    return [Judged.of(pod, shape, counts[key]) for key, (pod, shape) in first.items()]
