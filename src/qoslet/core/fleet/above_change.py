"""The cgroups above the pods of a node on both sides, compared once for equal sums."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.diff.pairs import Pair, pairs
from qoslet.core.fleet.change import CgroupChange, Effect
from qoslet.core.fleet.outcome import Amounts, NodePlan, NodePlanner
from qoslet.core.fleet.pod_shares import Tiers
from qoslet.core.plan.problems import upper_problems
from qoslet.core.plan.totals import NodeTotals
from qoslet.core.problem import Severity
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.qos_cgroups import QosTotals, deciding


class AboveChange(Struct, gc=False):
    """The cgroups above the pods on both sides. ``upper`` are those of the second, ``burstable``
    the one whose weight the millicores decide about, ``cgroups`` all that differ. ``effect`` is
    theirs while CPU shares stay as they are. ``held`` is what kubepods has of each protecting
    file on the second side. ``known`` are severities of rows by marks of totals.
    """

    policy: NodePolicy
    upper: Sequence[Cgroup]
    tiers: tuple[Tiers, Tiers]
    others: list[CgroupChange]
    burstable: Pair | None
    cgroups: list[CgroupChange]
    effect: Effect
    still: bool
    """Whether they change no CPU share."""
    compete: bool
    """Whether pods have CPU shares on both sides."""
    held: Amounts
    known: dict[object, tuple[Severity, ...]] = {}

    @classmethod
    def of(
        cls,
        sides: tuple[NodePlanner, NodePlanner],
        before: Sequence[Cgroup],
        after: Sequence[Cgroup],
    ) -> AboveChange:
        """From the cgroups of two nodes."""
        first, second = sides
        found = pairs(
            Plan(first.node, (), tuple(before), ()), Plan(second.node, (), tuple(after), ())
        )
        tiers = Tiers.of(before), Tiers.of(after)
        burstable = next((one for one in found if _is_burstable(one, tiers)), None)
        others = [CgroupChange(one) for one in found if one is not burstable and not one.is_same]
        held = second.held(after)
        return _made(second.planner.policy, after, tiers, others, burstable, held, {})

    def with_burstable(self, before: Cgroup, after: Cgroup) -> AboveChange:
        """The same with other weights of the cgroup of Burstable pods."""
        assert self.burstable is not None
        tiers = self.tiers[0].with_burstable(before), self.tiers[1].with_burstable(after)
        burstable = replace(self.burstable, before=before, after=after)
        return _made(self.policy, self.upper, tiers, self.others, burstable, self.held, self.known)

    def rows(self, totals: NodeTotals) -> tuple[Severity, ...]:
        """The severities of the rows about them on the second side."""
        marks = totals.marks
        found = self.known.get(marks)
        if found is None:
            rows = upper_problems(self.policy, totals, self.upper)
            found = self.known[marks] = tuple([one.severity for one in rows])
        return found


def _made(
    policy: NodePolicy,
    upper: Sequence[Cgroup],
    tiers: tuple[Tiers, Tiers],
    others: list[CgroupChange],
    burstable: Pair | None,
    held: Amounts,
    known: dict[object, tuple[Severity, ...]],
) -> AboveChange:
    cgroups = others
    if burstable is not None and not burstable.is_same:
        cgroups = [*others, CgroupChange(burstable)]
    return AboveChange(
        policy,
        upper,
        tiers,
        others,
        burstable,
        cgroups,
        Effect.total([one.effect("none") for one in cgroups]),
        tiers[0].weights == tiers[1].weights,
        bool(tiers[0].top and tiers[1].top),
        held,
        known,
    )


def _is_burstable(pair: Pair, tiers: tuple[Tiers, Tiers]) -> bool:
    sides = zip((pair.before, pair.after), tiers, strict=True)
    return all(one is not None and one.name == side.names.get("Burstable") for one, side in sides)


class AboveComparer:
    """Compares the cgroups above the pods of nodes that are equal on both sides but for their
    names and their pods."""

    def __init__(self, before: NodePlanner, after: NodePlanner) -> None:
        self._sides = before, after
        self._known: dict[tuple[QosTotals, QosTotals], AboveChange] = {}
        self._alike: dict[tuple[QosTotals, QosTotals], AboveChange] = {}

    def of(self, first: NodePlan, qos_totals: QosTotals) -> AboveChange:
        """Those of a node with these totals on the second side."""
        before, after = (one.planner for one in self._sides)
        key = deciding(before.policy, first.qos_totals), deciding(after.policy, qos_totals)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._found(first, *key)
        return found

    def _found(self, first: NodePlan, left: QosTotals, right: QosTotals) -> AboveChange:
        after = self._sides[1].planner
        key = replace(left, burstable_milli=0), replace(right, burstable_milli=0)
        alike = self._alike.get(key)
        if alike is None or alike.burstable is None:
            alike = self._alike[key] = AboveChange.of(self._sides, first.upper, after.upper(right))
            return alike
        name = alike.tiers[0].names["Burstable"]
        burstable = next(one for one in first.upper if one.name == name)
        return alike.with_burstable(burstable, after.tier(right, "Burstable"))
