"""Plans one node again and again, and plans only those pods again that have changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qoslet.core.api.pod import Pod
from qoslet.core.node.node import Node
from qoslet.core.plan.live_plan import LivePlan
from qoslet.core.plan.plan import plan
from qoslet.core.problem import Problem
from qoslet.core.resources.cgroup_tree import Plan

if TYPE_CHECKING:
    from qoslet.core.managers.container_manager import Assignments


class KeptPlan:
    """Gives what ``core.plan.plan`` gives, for one list of pods after another. Pods of an earlier list may
    stand in that list's order."""

    def __init__(self) -> None:
        self._live: LivePlan | None = None
        self._pods: dict[str, Pod] = {}

    def plan(
        self,
        pods: Sequence[Pod],
        node: Node,
        problems: Sequence[Problem] = (),
        kept: Assignments | None = None,
    ) -> Plan:
        """The plan of these pods, which all have different UIDs. ``kept`` are the assignments that the
        kubelet has told."""
        live, before = self._live, self._pods
        wanted = {pod.uid: pod for pod in pods}
        self._live, self._pods = None, {}
        if live is None or live.node is not node:
            live = LivePlan(node)
            if live.managers is not None:
                # exclusive CPUs depend on the whole list of pods
                return plan(pods, node, problems, kept, kept_is_actual=kept is not None)
            live.add_all(pods)
        else:
            for uid in before.keys() - wanted.keys():
                live.remove(uid)
            for uid, pod in wanted.items():
                if before.get(uid) != pod:
                    live.add(pod)
        self._live, self._pods = live, wanted
        return live.plan(tuple(problems))
