"""What a change means for one node: ``core.diff`` by shapes, each looked at once for equal nodes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from qoslet.core.diff.cpu_shares import cgroup_weight, competes
from qoslet.core.diff.diff import Change, Direction, Share, changes_of, diff, new_errors
from qoslet.core.diff.pairs import Pair, pairs
from qoslet.core.fleet.outcome import NodePlan, NodePlanner
from qoslet.core.fleet.shapes import Member, member
from qoslet.core.resources.cgroup_tree import Cgroup, Plan, PlannedPod
from qoslet.core.resources.pod_template import PodTemplatePlan
from qoslet.core.resources.qos_cgroups import QosTotals

RATIOS = (0.5, 0.8, 0.95, 0.99, 1.01, 1.05, 1.25, 2.0)
"""Bounds between which pods are counted by what is left of their CPU share, or added to it."""


class NodeChange(Struct, frozen=True, gc=False):
    """The summary of a ``Diff``, and its pods by their CPU share when all compete: those that get
    less and more, and ``ratios``, the number in each interval between ``RATIOS``."""

    worse: int = 0
    better: int = 0
    changed: int = 0
    pods_with_less_cpu: int = 0
    pods_with_more_cpu: int = 0
    ratios: tuple[int, ...] = (0,) * (len(RATIOS) + 1)


class _Counts(Struct, gc=False):
    worse: int = 0
    better: int = 0
    changed: int = 0
    less: int = 0
    more: int = 0
    ratios: list[int] = field(default_factory=lambda: [0] * (len(RATIOS) + 1))

    def add(self, rows: Sequence[Change], times: int = 1) -> None:
        self.worse += times * sum(one.severity != "info" for one in rows)
        self.better += times * sum(one.direction == "better" for one in rows)
        self.changed += times * len(rows)

    def share(self, share: Share, times: int = 1) -> None:
        """The CPU share of a pod."""
        if share.direction == "worse":
            self.less += times
        elif share.direction == "better":
            self.more += times
        ratio = share.after / share.before if share.before else 1.0
        self.ratios[bisect_right(RATIOS, ratio)] += times

    def done(self) -> NodeChange:
        return NodeChange(
            self.worse, self.better, self.changed, self.less, self.more, tuple(self.ratios)
        )


class _ShapePair(Struct, gc=False):
    """A cgroup of a shape on both sides. ``fractions`` are the parts of the pod's CPU that it has;
    None: it does not compete. ``known`` are its changes by the direction of its share."""

    pair: Pair
    fractions: tuple[float, float] | None
    known: dict[Direction | Literal["none"], tuple[int, int, int]] = {}

    def counts(self, direction: Direction | Literal["none"]) -> tuple[int, int, int]:
        """How many values are worse, better and changed."""
        found = self.known.get(direction)
        if found is None:
            share = None
            if direction != "none":
                after = {"worse": 0.5, "better": 2.0, "same": 1.0}[direction]
                share = Share("", self.pair.cgroup, 1.0, after)
            counts = _Counts()
            counts.add(changes_of(self.pair, share))
            found = self.known[direction] = counts.worse, counts.better, counts.changed
        return found


class PairStore:
    """The cgroups of shapes on both sides, for all pairs of nodes whose templates and names are the
    same."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[object, list[_ShapePair]]] = {}

    def of(
        self,
        names: tuple[str, str],
        shape: int,
        templates: tuple[PodTemplatePlan, PodTemplatePlan],
        paired: Callable[[int], list[_ShapePair]],
    ) -> list[_ShapePair]:
        """Those of a shape; ``names`` are the keys of the nodes' templates."""
        key = (*names, shape, *map(id, templates))
        found = self._known.get(key)
        if found is None:
            # the templates stay, so that no other object takes their identity
            found = self._known[key] = templates, paired(shape)
        return found[1]

    @property
    def count(self) -> int:
        """How many shapes were compared."""
        return len(self._known)


class ChangePlanner:
    """Compares nodes that are equal on both sides but for their names. ``store`` is that of all
    such planners whose shapes may compare the same."""

    def __init__(
        self, before: NodePlanner, after: NodePlanner, store: PairStore | None = None
    ) -> None:
        self._sides = before, after
        self._store = store or PairStore()
        self._pairs: dict[int, list[_ShapePair]] = {}
        self._above_pods = [one.planner.upper(QosTotals()) for one in self._sides]

    @property
    def is_exact(self) -> bool:
        """Whether each pod must be known, as where two shapes stand side by side without a pod's
        cgroup."""
        return any(
            one.is_exact or not one.node.kubelet.cgroups_per_qos or one.node.os == "windows"
            for one in self._sides
        )

    def compare(self, before: NodePlan, after: NodePlan) -> NodeChange:
        """What differs between two standings of one node."""
        counts = _Counts()
        if before is after:
            return self._unchanged(before)
        if before.plan is not None and after.plan is not None:
            found = diff(before.plan, after.plan)
            counts.add(found.changes)
            for share in found.shares:
                if share.cgroup.level == "pod":
                    counts.share(share)
            counts.ratios[bisect_right(RATIOS, 1.0)] += len(before.plan.pods) - sum(counts.ratios)
            return counts.done()
        shares = [_PodShares(one) for one in (before, after)]
        self._above(counts, before, after, shares)
        for shape, (times, template) in before.counts.items():
            parts = shares[0].of(template), shares[1].of(after.counts[shape][1])
            self._shape(counts, shape, times, parts)
        return counts.done()

    def _unchanged(self, standing: NodePlan) -> NodeChange:
        counts = _Counts()
        if standing.plan is not None:
            pods = len(standing.plan.pods)
        else:
            shares = _PodShares(standing)
            rows = standing.counts.values()
            pods = sum(times for times, template in rows if shares.of(template) is not None)
        counts.ratios[bisect_right(RATIOS, 1.0)] = pods
        return counts.done()

    def _above(
        self, counts: _Counts, before: NodePlan, after: NodePlan, shares: Sequence[_PodShares]
    ) -> None:
        """The cgroups above the pods, and errors."""
        first, second = (
            Plan(one.node, (), tuple(standing.upper), standing.outcome.problems)
            for one, standing in zip(self._sides, (before, after), strict=True)
        )
        counts.add(list(new_errors(first, second)))
        for pair in pairs(first, second):
            if _is_same(pair):
                continue
            share = None
            parts = [
                None if one is None else side.above.get(one.name)
                for one, side in zip((pair.before, pair.after), shares, strict=True)
            ]
            if parts[0] is not None and parts[1] is not None:
                share = Share(pair.name, pair.cgroup, parts[0], parts[1])
            counts.add(changes_of(pair, share))

    def _shape(
        self, counts: _Counts, shape: int, times: int, parts: Sequence[float | None]
    ) -> None:
        before, after = parts
        for one in self._of(shape):
            direction: Direction | Literal["none"] = "none"
            if one.fractions is not None and before is not None and after is not None:
                left, right = one.fractions
                share = Share("", one.pair.cgroup, before * left, after * right)
                direction = share.direction
                if one.pair.cgroup.level == "pod":
                    counts.share(share, times)
            worse, better, changed = one.counts(direction)
            counts.worse += times * worse
            counts.better += times * better
            counts.changed += times * changed

    def _of(self, shape: int) -> list[_ShapePair]:
        found = self._pairs.get(shape)
        if found is None:
            before, after = self._sides
            names = before.templates.key, after.templates.key
            templates = before.template(shape), after.template(shape)
            found = self._store.of(names, shape, templates, self._paired)
            self._pairs[shape] = found
        return found

    def _paired(self, shape: int) -> list[_ShapePair]:
        plans, fractions = [], []
        for side, upper in zip(self._sides, self._above_pods, strict=True):
            template = side.template(shape)
            pod = member(side.shapes[shape], Member(0, "fleet/pod", "fleet", ""))
            groups = side.planner.groups(pod, template)
            row = PlannedPod(pod, template.qos)
            plans.append(Plan(side.node, (row,), (*upper, *groups), ()))
            fractions.append(_fractions(groups))
        return [
            _ShapePair(pair, _both(pair, fractions))
            for pair in pairs(*plans)
            if pair.cgroup.pod is not None
        ]


def _is_same(pair: Pair) -> bool:
    """Whether both sides have the same cgroup."""
    if pair.before is None or pair.after is None or pair.moved:
        return False
    return pair.before.settings == pair.after.settings


def _fractions(groups: Sequence[Cgroup]) -> Mapping[str, float]:
    """The part of a pod's CPU that each of its competing cgroups has."""
    running = [one for one in groups if one.level == "container" and competes(one)]
    weights = [cgroup_weight(one) for one in running]
    whole = sum(weights)
    found = {one.name: 1.0 for one in groups if one.level == "pod"}
    for one, own in zip(running, weights, strict=True):
        found[one.name] = own / whole if whole else 0.0
    return found


def _both(pair: Pair, sides: Sequence[Mapping[str, float]]) -> tuple[float, float] | None:
    if pair.before is None or pair.after is None:
        return None
    left, right = sides[0].get(pair.before.name), sides[1].get(pair.after.name)
    return None if left is None or right is None else (left, right)


class _PodShares:
    """The parts of all pods' CPU on one node: of each pod by its template, of the cgroups above by
    name; empty where ``core.diff`` has none."""

    def __init__(self, standing: NodePlan) -> None:
        self.above: dict[str, float] = {}
        self._parts: dict[int, float] = {}
        names = {one.name for one in standing.upper}
        tops = [one for one in standing.upper if one.name.endswith("/kubepods")]
        if len(tops) != 1 or tops[0].name.rpartition("/")[0] in names:
            return
        top = tops[0].name
        weights: dict[int, float] = {}
        by_class: dict[str, float] = {"Guaranteed": 0.0, "Burstable": 0.0, "BestEffort": 0.0}
        running = [one for one in standing.counts.values() if one[1].kept.os == "linux"]
        for times, template in running:
            own = weights[id(template)] = cgroup_weight(Cgroup("", "pod", template.settings))
            by_class[template.qos] += times * own
        present = {template.qos for times, template in running if times}
        tiers = {
            qos: next(one for one in standing.upper if one.name == f"{top}/{qos.lower()}")
            for qos in ("Burstable", "BestEffort")
            if qos in present
        }
        whole = by_class["Guaranteed"] + sum(cgroup_weight(one) for one in tiers.values())
        self.above[top] = 1.0
        parts = {"Guaranteed": 1.0 / whole if whole else 0.0}
        for qos, group in tiers.items():
            own = cgroup_weight(group) / whole if whole else 0.0
            self.above[group.name] = own
            parts[qos] = own / by_class[qos] if by_class[qos] else 0.0
        for _, template in running:
            self._parts[id(template)] = parts[template.qos] * weights[id(template)]

    def of(self, template: PodTemplatePlan) -> float | None:
        """The part of a pod; None where there are none."""
        return self._parts.get(id(template))
