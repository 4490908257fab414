"""Pods and a node to the tree of cgroups: which file gets which value, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from qoslet.core.api.pod import Pod
from qoslet.core.node.node import Node
from qoslet.core.plan.pod_planner import Planner
from qoslet.core.plan.problems import contradictions, problems_of
from qoslet.core.plan.totals import TemplateSummary
from qoslet.core.problem import Problem
from qoslet.core.resources.cgroup_tree import Cgroup, Plan, PlannedPod
from qoslet.core.resources.pod_template import PodTemplatePlan
from qoslet.core.resources.qos_cgroups import QosTotals, QosTotalsBuilder

if TYPE_CHECKING:
    from qoslet.core.managers.container_manager import Kept


def plan(
    pods: Sequence[Pod], node: Node, problems: Sequence[Problem] = (), kept: Kept | None = None
) -> Plan:
    """The whole tree, parents first. ``problems`` are those that reading met; what planning
    meets is added. Nothing is refused: what does not fit is planned and mentioned. ``kept`` is
    what the CPU and memory managers handed out before."""
    planner = Planner(node)
    if planner.managers is not None and kept is not None:
        planner.managers.restore(kept)
    templates = [(pod, planner.templates.of(pod)) for pod in pods]
    planner.pin(pods)
    upper = planner.upper(tally_of(template for _, template in templates))
    groups = (planner.groups(pod, template) for pod, template in templates)
    met = _met(planner, upper, templates)
    return assembled(planner, upper, templates, groups, (*problems, *met))


def assembled(
    planner: Planner,
    upper: Sequence[Cgroup],
    templates: Iterable[tuple[Pod, PodTemplatePlan]],
    groups: Iterable[Iterable[Cgroup]],
    problems: Sequence[Problem],
) -> Plan:
    """The plan of its parts: the upper groups, each pod's groups, and what there is to say."""
    whole = list(upper)
    for some in groups:
        whole += some
    classes = [PlannedPod(pod, template.qos) for pod, template in templates]
    return Plan(planner.policy.node, tuple(classes), tuple(whole), tuple(problems))


def _met(
    planner: Planner, upper: Sequence[Cgroup], templates: Sequence[tuple[Pod, PodTemplatePlan]]
) -> tuple[Problem, ...]:
    """What planning met."""
    contradicted = contradictions((pod, template.qos) for pod, template in templates)
    met = problems_of(planner.policy, _judged(templates), contradicted, upper)
    if planner.managers is None:
        return tuple(met)
    # imported where a static policy places pods, which most nodes have not
    from qoslet.core.plan.manager_problems import placing_problems

    placed = placing_problems(planner.policy, planner.managers, [pod for pod, _ in templates])
    return (*met, *placed)


def tally_of(templates: Iterable[PodTemplatePlan]) -> QosTotals:
    """What pods ask for, by class."""
    sums = QosTotalsBuilder()
    for template in templates:
        sums.add(template.qos, template.memory, template.milli, apart=template.apart)
    return sums.qos_totals


def _judged(templates: Iterable[tuple[Pod, PodTemplatePlan]]) -> list[TemplateSummary]:
    """Each shape once, with its first pod and the number of its pods."""
    counts: dict[int, int] = {}
    first: dict[int, tuple[Pod, PodTemplatePlan]] = {}
    for pod, template in templates:
        key = id(template)
        if key in counts:
            counts[key] += 1
        else:
            counts[key] = 1
            first[key] = pod, template
    return [
        TemplateSummary.of(pod, template, counts[key]) for key, (pod, template) in first.items()
    ]
