"""The pods of a shape on both sides, compared once for all nodes that plan them the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from qoslet.core.api.pod import Pod, QosClass
from qoslet.core.diff.cpu_shares import cgroup_weight, competes
from qoslet.core.diff.pairs import Pair, pairs
from qoslet.core.fleet.change import CgroupChange, Effect
from qoslet.core.fleet.outcome import NodePlanner
from qoslet.core.fleet.shapes import Member, member
from qoslet.core.plan.problems import pod_problems
from qoslet.core.plan.totals import NodeTotals, TemplateSummary
from qoslet.core.problem import Severity
from qoslet.core.resources.cgroup_tree import Cgroup, Plan, PlannedPod
from qoslet.core.resources.pod_template import PodTemplatePlan
from qoslet.core.resources.qos_cgroups import PodNumbers, QosTotals


class OnePod(Struct, frozen=True, gc=False):
    """What one pod of a shape adds to its node: to the totals, in this order of ``resources``, and
    to the sums of its class where it is admitted. ``weight`` is its CPU weight."""

    totals: NodeTotals
    resources: tuple[str, ...]
    qos: QosClass
    memory: int
    milli: int
    apart: bool
    admitted: bool
    unlimited: bool
    weight: float

    @classmethod
    def of(cls, planner: NodePlanner, shape: Pod, template: PodTemplatePlan) -> OnePod:
        """A pod of the shape on such a node."""
        totals = NodeTotals()
        totals.add(TemplateSummary.of(shape, template, 1))
        return cls(
            totals,
            tuple(totals.requests),
            template.qos,
            template.memory,
            template.milli,
            template.apart,
            planner.planner.admits(shape),
            "memory" not in template.sums.limits,
            cgroup_weight(Cgroup("", "pod", template.settings)),
        )


class ShapeChange(Struct, gc=False):
    """The pods of a shape on both sides.

    ``alike``: they add the same to a node, and its containers have the same parts of a pod's CPU.
    ``still`` is the effect while CPU shares stay as they are. ``rows`` are those about such pods
    on the second side, told once for all pods with the same ``sums``, those of its template there;
    ``contradicted``: one more for each pod, as its status names another class. ``runs``: whether
    it competes for CPU. ``told``: whether there are rows.
    """

    before: OnePod
    after: OnePod
    alike: bool
    still: Effect
    cgroups: list[CgroupChange]
    runs: bool
    rows: tuple[Severity, ...]
    contradicted: bool
    told: bool
    sums: PodNumbers


class ShapeStore:
    """The shapes that were compared, for all pairs of nodes whose templates and names are the
    same."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[object, ShapeChange]] = {}

    def of(
        self,
        names: tuple[str, str],
        shape: int,
        templates: tuple[PodTemplatePlan, PodTemplatePlan],
        compared: Callable[[int], ShapeChange],
    ) -> ShapeChange:
        """That of a shape; ``names`` are the keys of the nodes' templates."""
        key = (*names, shape, *map(_deciding, templates))
        found = self._known.get(key)
        if found is None:
            # the templates stay, so that no other object takes the identity of their sums
            found = self._known[key] = templates, compared(shape)
        return found[1]

    @property
    def count(self) -> int:
        """How many shapes were compared."""
        return len(self._known)


def _deciding(template: PodTemplatePlan) -> tuple[object, ...]:
    """The same for templates that differ at most in what made their OOM scores."""
    scores = [(one.oom_score_adj, one.oom_rule) for one in template.containers]
    return (id(template.sums), *scores)


class ShapeChanges(dict[int, ShapeChange]):
    """The shapes of nodes that are equal on both sides but for their names, by number: compared
    when they are first asked for."""

    def __init__(self, before: NodePlanner, after: NodePlanner, store: ShapeStore) -> None:
        super().__init__()
        self._sides = before, after
        self._store = store
        self._names = before.templates.key, after.templates.key
        self._above_pods = before.planner.upper(QosTotals()), after.planner.upper(QosTotals())
        self._alike: dict[object, list[_Places]] = {}

    def __missing__(self, shape: int) -> ShapeChange:
        before, after = self._sides
        templates = before.template(shape), after.template(shape)
        found = self[shape] = self._store.of(self._names, shape, templates, self._compared)
        return found

    def _compared(self, shape: int) -> ShapeChange:
        after = self._sides[1]
        pod = after.shapes[shape]
        left, right = (OnePod.of(side, pod, side.template(shape)) for side in self._sides)
        template = after.template(shape)
        cgroups = self._paired(shape)
        still = [one.effect("same" if one.fractions is not None else "none") for one in cgroups]
        summary = TemplateSummary.of(pod, template, 1)
        rows = tuple([one.severity for one in pod_problems(after.planner.policy, summary)])
        contradicted = pod.contradicts(template.qos)
        return ShapeChange(
            left,
            right,
            left == right
            and all(
                one.fractions is None or one.fractions[0] == one.fractions[1] for one in cgroups
            ),
            Effect.total(still),
            cgroups,
            pod.os == "linux",
            rows,
            contradicted,
            bool(rows) or contradicted,
            template.sums,
        )

    def _paired(self, shape: int) -> list[CgroupChange]:
        pod = member(self._sides[0].shapes[shape], Member(0, "fleet/pod", "fleet", ""))
        templates = [side.template(shape) for side in self._sides]
        left, right = (
            side.planner.groups(pod, template)
            for side, template in zip(self._sides, templates, strict=True)
        )
        # names and values decide about no pair
        counts = len(pod.containers), len(left), len(right)
        key = *[one.qos for one in templates], pod.os, counts
        places = self._alike.get(key)
        if places is None:
            places = self._alike[key] = self._places(left, right, pod, templates)
        fractions = _fractions(left), _fractions(right)
        found = []
        for one in places:
            before = None if one.before is None else left[one.before]
            after = None if one.after is None else right[one.after]
            pair = Pair(before, after, "", one.moved, one.cpus, one.can_swap)
            found.append(CgroupChange(pair, _both(pair, fractions)))
        return found

    def _places(
        self,
        left: Sequence[Cgroup],
        right: Sequence[Cgroup],
        pod: Pod,
        templates: Sequence[PodTemplatePlan],
    ) -> list[_Places]:
        """Which of the cgroups of a pod on both sides stand for the same."""
        plans = [
            Plan(side.node, (PlannedPod(pod, template.qos),), tuple(groups), ())
            for side, template, groups in zip(self._sides, templates, (left, right), strict=True)
        ]
        at = [{id(one): place for place, one in enumerate(groups)} for groups in (left, right)]
        return [
            _Places(
                at[0].get(id(one.before)),
                at[1].get(id(one.after)),
                one.moved,
                one.cpus,
                one.can_swap,
            )
            for one in pairs(plans[0], plans[1], self._above_pods)
        ]


class _Places(Struct, gc=False):
    """A ``Pair`` of any pod, as places among its cgroups on both sides."""

    before: int | None
    after: int | None
    moved: bool
    cpus: tuple[str, str]
    can_swap: bool


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
