"""How many more of a pod a node takes, as the scheduler counts: requests against allocatable.

Source: kube-scheduler NodeResourcesFit (fit.go fitsRequest). Taints, affinity, topology and volumes
are not considered; an unschedulable node takes none.
"""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.api.pod import Pod
from qoslet.core.fleet.outcome import Amounts, NodePlanner, Outcome, amounts
from qoslet.core.resources.admission import supports_os

UNSCHEDULABLE = "unschedulable"
"""What binds on a node that was cordoned."""
SYSTEM = "os"
"""What binds on a node of another operating system."""


class Fit(Struct, frozen=True, gc=False):
    """How many pods a node takes beside those that it has, and the resource that ends first; empty
    where nothing bounds them."""

    count: int
    binding: str


class Fitter:
    """Fits one pod on nodes that are equal but for their names."""

    def __init__(self, planner: NodePlanner, pod: Pod) -> None:
        node = planner.node
        self._suits = supports_os(pod, node.os)
        template = planner.planner.templates.of(pod)
        self._needs = {"pods": 1, **amounts(template.sums.requests)}
        self._room = dict(schedulable(planner))

    def fit(self, outcome: Outcome, unschedulable: bool) -> Fit:
        """How many more fit on a node."""
        if unschedulable or not self._suits:
            return Fit(0, UNSCHEDULABLE if unschedulable else SYSTEM)
        used = {**outcome.requested, "pods": outcome.pods}
        rooms = [
            (max(0, self._room.get(name, 0) - used.get(name, 0)) // amount, name)
            for name, amount in self._needs.items()
            if amount > 0
        ]
        return Fit(*min(rooms))


def schedulable(planner: NodePlanner) -> Amounts:
    """What the scheduler counts with: what the node reports where no configuration is given for
    it, else what follows from the configuration."""
    node = planner.node
    reported = amounts(node.status_allocatable)
    pods = min(node.kubelet.max_pods, reported.get("pods", node.kubelet.max_pods))
    if reported and not node.kubelet_given:
        return {**reported, "pods": reported.get("pods", pods)}
    return {**planner.allocatable, "pods": node.kubelet.max_pods}
