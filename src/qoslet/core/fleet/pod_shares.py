"""The parts of all pods' CPU on one node when all compete, by class: ``cpu_shares`` of ``core.diff``
without the cgroup of each pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from qoslet.core.api.pod import QosClass
from qoslet.core.diff.cpu_shares import cgroup_weight
from qoslet.core.resources.cgroup_tree import Cgroup


class Tiers(Struct, frozen=True, gc=False):
    """What decides above the pods: the name of kubepods, empty where pods have no shares, and names
    and weights of the QoS cgroups."""

    top: str = ""
    names: Mapping[QosClass, str] = {}
    weights: Mapping[QosClass, float] = {}

    @classmethod
    def of(cls, upper: Sequence[Cgroup]) -> Tiers:
        """Those of the cgroups above the pods of a node."""
        names = {one.name for one in upper}
        tops = [one.name for one in upper if one.name.endswith("/kubepods")]
        if len(tops) != 1 or tops[0].rpartition("/")[0] in names:
            return cls()
        found: list[tuple[QosClass, Cgroup]] = [
            (qos, one) for qos in _BELOW for one in upper if one.name == f"{tops[0]}/{qos.lower()}"
        ]
        return cls(
            tops[0],
            {qos: one.name for qos, one in found},
            {qos: cgroup_weight(one) for qos, one in found},
        )

    def with_burstable(self, cgroup: Cgroup) -> Tiers:
        """The same with another cgroup of Burstable pods."""
        return Tiers(self.top, self.names, {**self.weights, "Burstable": cgroup_weight(cgroup)})


_BELOW: tuple[QosClass, ...] = ("Burstable", "BestEffort")


class PodShares:
    """The parts: ``above`` of the cgroups above the pods by name, those of pods by class and
    weight. ``pods`` are number, class and weight of those that compete."""

    def __init__(self, tiers: Tiers, pods: Iterable[tuple[int, QosClass, float]]) -> None:
        self.above: dict[str, float] = {}
        self._parts: dict[QosClass, float] = {}
        if not tiers.top:
            return
        sums: dict[QosClass, float] = {"Guaranteed": 0.0, "Burstable": 0.0, "BestEffort": 0.0}
        present = set()
        for times, qos, weight in pods:
            sums[qos] += times * weight
            present.add(qos)
        running = {qos: tiers.weights[qos] for qos in _BELOW if qos in present}
        whole = sums["Guaranteed"] + sum(running.values())
        self.above[tiers.top] = 1.0
        self._parts["Guaranteed"] = 1.0 / whole if whole else 0.0
        for qos, weight in running.items():
            own = weight / whole if whole else 0.0
            self.above[tiers.names[qos]] = own
            self._parts[qos] = own / sums[qos] if sums[qos] else 0.0

    def of(self, qos: QosClass, weight: float) -> float | None:
        """The part of a pod; None where there are none."""
        part = self._parts.get(qos)
        return None if part is None else part * weight
