"""Pods and a node to the tree of cgroups: which file gets which value, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qoslet.core.api.pod import Pod
from qoslet.core.node.node import Node
from qoslet.core.plan.live_plan import LivePlan
from qoslet.core.problem import Problem
from qoslet.core.resources.cgroup_tree import Plan

if TYPE_CHECKING:
    from qoslet.core.managers.container_manager import Assignments


def plan(
    pods: Sequence[Pod],
    node: Node,
    problems: Sequence[Problem] = (),
    kept: Assignments | None = None,
    *,
    is_told: bool = False,
) -> Plan:
    """The whole tree, parents first. ``problems`` are those that reading met; what planning
    meets is added. Nothing is refused: what does not fit is planned and mentioned. ``kept`` is
    what the CPU and memory managers handed out before; ``is_told``: that is what pods have,
    whatever their order."""
    live = LivePlan(node, kept, is_told=is_told)
    live.add_all(pods)
    return live.plan(tuple(problems))
