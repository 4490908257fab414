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
    kept_is_actual: bool = False,
) -> Plan:
    """The whole tree, parents first. Planning adds its problems to ``problems``, those of reading the
    input, and refuses nothing: a pod that does not fit is planned and mentioned. ``kept`` are the CPUs
    and memory that the managers assigned before. ``kept_is_actual``: a kubelet itself told them, so they
    do not depend on the order of ``pods``."""
    live = LivePlan(node, kept, kept_is_actual=kept_is_actual)
    live.add_all(pods)
    return live.plan(tuple(problems))
