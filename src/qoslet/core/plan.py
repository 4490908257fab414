"""Pods and a node to the tree of cgroups: which file gets which value, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qoslet.core.node import Node
from qoslet.core.planner import Planner
from qoslet.core.pod import Pod
from qoslet.core.podshape import Shape
from qoslet.core.problems import Judged, problems_of
from qoslet.core.tiers import Tally
from qoslet.core.tree import Plan, PlannedPod, Problem


def plan(pods: Sequence[Pod], node: Node, problems: Sequence[Problem] = ()) -> Plan:
    """The whole tree, parents first. ``problems`` are those that reading met; what planning
    meets is added. Nothing is refused: what does not fit is planned and mentioned."""
    planner = Planner(node)
    shapes = [planner.shapes.of(pod) for pod in pods]
    planner.pin(pods)
    upper = planner.upper(tally_of(shapes))
    groups = list(upper)
    planned = []
    for pod, shape in zip(pods, shapes, strict=True):
        groups += planner.groups(pod, shape)
        planned.append(PlannedPod(pod, shape.qos))
    met = problems_of(planner.basis, _judged(shapes), _contradicted(planned), upper)
    return Plan(node, tuple(planned), tuple(groups), (*problems, *met))


def tally_of(shapes: Iterable[Shape]) -> Tally:
    """What pods ask for, by class."""
    hard = soft = milli = 0
    for shape in shapes:
        if shape.qos == "Guaranteed":
            hard += shape.memory
        elif shape.qos == "Burstable":
            soft += shape.memory
            milli += shape.milli
    return Tally(hard, soft, milli)


def _judged(shapes: Iterable[Shape]) -> list[Judged]:
    """Each shape once, with its first pod and the number of its pods."""
    counts: dict[int, int] = {}
    first: dict[int, Shape] = {}
    for shape in shapes:
        key = id(shape)
        counts[key] = counts.get(key, 0) + 1
        first[key] = shape
    return [
        Judged(
            shape.kept,
            counts[key],
            shape.qos,
            shape.sums.requests,
            shape.sums.limits,
            shape.settings,
            tuple([planned.settings for planned in shape.containers]),
        )
        for key, shape in first.items()
    ]


def _contradicted(planned: Iterable[PlannedPod]) -> list[Pod]:
    """Pods whose status names another class than their spec makes."""
    return [p.pod for p in planned if p.pod.status_qos not in (None, "", p.qos)]
