"""The second side of a node, as what differs from the first: no pod is named on it.

Shapes are compared once, cgroups above the pods once for equal sums, and nodes with the same pods
once; the rest adds up numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from qoslet.core.diff.diff import Share, new_errors
from qoslet.core.fleet.above_change import AboveChange, AboveComparer
from qoslet.core.fleet.change import (
    CgroupChange,
    ChangeCounter,
    Competing,
    Effect,
    NodeChange,
    change_between,
)
from qoslet.core.fleet.outcome import NodeOutcome, NodePlan, NodePlanner, ShapeGroup, gravest
from qoslet.core.fleet.pod_shares import PodShares, Tiers
from qoslet.core.fleet.shape_change import ShapeChange, ShapeChanges, ShapeStore
from qoslet.core.node.node import pods_limit, schedulable
from qoslet.core.plan.problems import room_problems
from qoslet.core.plan.totals import Largest, NodeTotals
from qoslet.core.problem import Problem, Severity
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.core.resources.qos_cgroups import QosTotalsBuilder

NODES_KEPT = 8192
"""Nodes with other pods that are remembered; more are worked out each time."""

_NO_NAMES = Largest(lambda _: None)

Told = Callable[[], Sequence[Problem]]
"""Gives the problems of a node's documents."""


class SecondSide:
    """The second side of nodes that are equal on both sides but for their names. ``store`` is that
    of all whose shapes may compare the same."""

    def __init__(
        self, before: NodePlanner, after: NodePlanner, store: ShapeStore | None = None
    ) -> None:
        self._sides = before, after
        self._shapes = ShapeChanges(before, after, store or ShapeStore())
        self._above = AboveComparer(before, after)
        self._known: dict[object, tuple[NodeOutcome, NodeChange]] = {}
        self._same_room = _room(before) == _room(after)
        self.is_exact = any(
            one.is_exact or not one.node.kubelet.cgroups_per_qos for one in self._sides
        )
        """Whether each pod must be known, as where two shapes stand side by side without a pod's
        cgroup."""

    def whole(
        self, first: NodePlan, groups: Sequence[ShapeGroup], told: Told
    ) -> tuple[NodeOutcome, NodeChange]:
        """As ``of``, by planning every pod."""
        second = self._sides[1].plan(first.outcome.name, groups, told(), whole=True)
        if first.plan is None or second.plan is None:
            raise AssertionError("the first side was not planned as a whole")
        return second.outcome, change_between(first.plan, second.plan)

    def of(
        self,
        first: NodePlan,
        groups: Sequence[ShapeGroup],
        severities: tuple[Severity, ...],
        told: Told,
    ) -> tuple[NodeOutcome, NodeChange]:
        """What the node has, without the text of its problems, and what changes. ``groups`` are
        the pods that ``first`` was planned with; ``severities`` are those of what ``told`` gives."""
        counts = [one.count for one in groups]
        key = severities, *[one.shape for one in groups], *counts
        known = self._known.get(key)
        if known is not None:
            return replace(known[0], name=first.outcome.name), known[1]
        rows = [self._shapes[one.shape] for one in groups]
        standing = _Standing(first, rows, counts)
        above = self._above.of(first, standing.qos_totals)
        found = (
            *severities,
            *self._room_rows(standing),
            *above.rows(standing.totals),
            *standing.rows(),
        )
        counter = standing.changes(above)
        outcome = self._outcome(standing, above, found)
        if "error" in found:
            counter.add(self._errors(first, groups, told))
            return outcome, counter.done()
        known = outcome, counter.done()
        if len(self._known) < NODES_KEPT:
            self._known[key] = known
        return known

    def _outcome(
        self, standing: _Standing, above: AboveChange, found: Collection[Severity]
    ) -> NodeOutcome:
        """The numbers of the node, with rows of these severities."""
        first, after = standing.first.outcome, self._sides[1]
        if standing.alike:
            return after.beside(first, standing.totals, above.held, found)
        outcome = after.outcome(first.name, standing.totals, above.upper, (), standing.unlimited)
        return replace(outcome, state=gravest(found), problem_count=len(found))

    def _room_rows(self, standing: _Standing) -> tuple[Severity, ...]:
        if self._same_room and standing.alike:
            return standing.first.room
        rows = room_problems(self._sides[1].planner.policy, standing.totals, _NO_NAMES)
        return tuple([one.severity for one in rows])

    def _errors(self, first: NodePlan, groups: Sequence[ShapeGroup], told: Told) -> Effect:
        """The errors that only the second side has: they are told apart by their texts."""
        second = self._sides[1].plan(first.outcome.name, groups, told())
        plans = [Plan(self._sides[0].node, (), (), one.outcome.problems) for one in (first, second)]
        return Effect.of(list(new_errors(*plans)))


def _room(planner: NodePlanner) -> object:
    """What the pods of a node have, for the rows about it."""
    policy = planner.planner.policy
    node = policy.node
    return schedulable(node), pods_limit(node), policy.enforced.get("memory"), node.os


class _Standing:
    """The sums of one node on the second side: those of the first, where its pods add the same."""

    def __init__(self, first: NodePlan, rows: Sequence[ShapeChange], counts: Sequence[int]) -> None:
        self._rows = rows
        self._counts = counts
        self.first = first
        self.alike = all([one.alike for one in rows])  # noqa: C419 - a list is faster
        self.totals, self.qos_totals = first.totals, first.qos_totals
        self.unlimited = first.outcome.unlimited
        if not self.alike:
            self._add_up()

    def _add_up(self) -> None:
        self.totals, sums, self.unlimited = NodeTotals(), QosTotalsBuilder(), 0
        for row, count in zip(self._rows, self._counts, strict=True):
            one = row.after
            self.totals.join(one.totals, count)
            self.unlimited += count * one.unlimited
            if one.admitted:
                sums.add(one.qos, one.memory, one.milli, count, apart=one.apart)
        self.qos_totals = sums.qos_totals

    def rows(self) -> list[Severity]:
        """The severities of the rows about pods."""
        found: list[Severity] = []
        if not any([one.told for one in self._rows]):  # noqa: C419 - as above
            return found
        told = set()
        for row, count in zip(self._rows, self._counts, strict=True):
            if not row.told:
                continue
            if row.rows and id(row.sums) not in told:
                told.add(id(row.sums))
                found += row.rows
            if row.contradicted:
                found += ["warning"] * count
        return found

    def changes(self, above: AboveChange) -> ChangeCounter:
        """What changes on the node, but for new errors."""
        counter = ChangeCounter()
        if not (self.alike and above.still):
            self._changed_shares(counter, above)
            return counter
        counter.add(above.effect)
        pods = 0
        for row, count in zip(self._rows, self._counts, strict=True):
            effect = row.still
            counter.worse += count * effect.worse
            counter.better += count * effect.better
            counter.changed += count * effect.changed
            pods += count * row.runs
        if above.compete:
            counter.unchanged(pods)
        return counter

    def _changed_shares(self, counter: ChangeCounter, above: AboveChange) -> None:
        running = [
            (row, count) for row, count in zip(self._rows, self._counts, strict=True) if row.runs
        ]
        before = PodShares(
            above.tiers[0], [(count, row.before.qos, row.before.weight) for row, count in running]
        )
        after = PodShares(
            above.tiers[1], [(count, row.after.qos, row.after.weight) for row, count in running]
        )
        for one in above.cgroups:
            counter.add(one.effect(_direction(one, before, after)))
        for row, count in zip(self._rows, self._counts, strict=True):
            left = right = None
            if row.runs:
                left = before.of(row.before.qos, row.before.weight)
                right = after.of(row.after.qos, row.after.weight)
            _share(counter, row, count, left, right)


def _direction(one: CgroupChange, before: PodShares, after: PodShares) -> Competing:
    """Of the share of a cgroup above the pods."""
    pair = one.pair
    if pair.before is None or pair.after is None:
        return "none"
    left, right = before.above.get(pair.before.name), after.above.get(pair.after.name)
    if left is None or right is None:
        return "none"
    return Share("", pair.before, left, right).direction


def _share(
    counter: ChangeCounter, row: ShapeChange, times: int, before: float | None, after: float | None
) -> None:
    """Count what changes for pods of a shape that have these parts of all pods' CPU."""
    if before is None or after is None:
        counter.add(row.still, times)
        return
    for one in row.cgroups:
        if one.fractions is None:
            counter.add(one.effect("none"), times)
            continue
        left, right = one.fractions
        share = Share("", one.pair.cgroup, before * left, after * right)
        counter.add(one.effect(share.direction), times)
        if one.pair.cgroup.level == "pod":
            counter.share(share, times)


def unchanged(planner: NodePlanner, standing: NodePlan, groups: Sequence[ShapeGroup]) -> NodeChange:
    """What changes on a node whose second side is its first."""
    if standing.plan is not None:
        return change_between(standing.plan, standing.plan)
    counter = ChangeCounter()
    pods = sum(one.count for one in groups if planner.shapes[one.shape].os == "linux")
    counter.unchanged(pods if Tiers.of(standing.upper).top else 0)
    return counter.done()
