"""One node of many: what its plan comes to, from the shapes of its pods and how many have each.

It says what ``core.plan`` says of the same node and pods, without the cgroups of each pod.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.pod import Pod, Quantities
from qoslet.core.cgroup.interface_files import PROTECTION
from qoslet.core.fleet.shapes import Member, member
from qoslet.core.fleet.templates import NodeTemplates, TemplateStore
from qoslet.core.node.node import (
    Node,
    allocatable,
    enforced,
    is_flag,
    pods_limit,
    schedulable,
)
from qoslet.core.plan.live_plan import LivePlan
from qoslet.core.plan.pod_planner import Planner
from qoslet.core.plan.problems import contradictions, pod_problems, room_problems, upper_problems
from qoslet.core.plan.totals import Largest, NodeTotals, TemplateSummary, bytes_of
from qoslet.core.problem import Problem, Severity
from qoslet.core.quantity import counted
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.core.resources.pod_template import PodTemplatePlan
from qoslet.core.resources.qos_cgroups import QosTotals, QosTotalsBuilder

State = Literal["ok", "warning", "error", "broken"]
Amounts = Mapping[str, int]
"""Resource to millicores, or units."""


class ShapeGroup(Struct, gc=False):
    """Pods of one shape on a node: how many, and the first of them."""

    shape: int
    count: int
    first: Member


class NodeOutcome(Struct, frozen=True, gc=False):
    """A node's plan in numbers.

    ``schedulable`` is what the scheduler counts with, where ``allocatable`` follows from the
    configuration. ``throttled`` counts containers whose memory.high is met before a memory.max. ``claimed`` is
    what pods claim of each protecting file, ``held`` what kubepods has of it, bytes.
    ``at_requests`` and ``at_limits`` are the bytes that are left above the hard eviction threshold
    when every pod uses its memory request or limit; ``unlimited`` pods have none. ``problems`` are
    those of the documents and the plan.
    """

    name: str
    state: State
    pods: int
    kubernetes: str = ""
    hierarchy: str = ""
    capacity: Amounts = {}
    allocatable: Amounts = {}
    schedulable: Amounts = {}
    enforced: Amounts = {}
    requested: Amounts = {}
    throttled: int = 0
    claimed: Amounts = {}
    held: Amounts = {}
    at_requests: int | None = None
    at_limits: int | None = None
    unlimited: int = 0
    problems: tuple[Problem, ...] = ()
    problem_count: int = 0
    """Their number, where they were told elsewhere."""

    @property
    def overcommitted(self) -> bool:
        """Whether more protection is claimed than kubepods holds, so that some of it has no effect."""
        return any(amount > self.held.get(file, 0) for file, amount in self.claimed.items())


def amounts(quantities: Quantities) -> dict[str, int]:
    """Quantities as whole numbers."""
    return {name: counted(name, amount) for name, amount in quantities.items()}


def gravest(found: Collection[Severity]) -> State:
    """The state of a node with rows of these severities."""
    return "error" if "error" in found else "warning" if "warning" in found else "ok"


class NodePlan(Struct, frozen=True):
    """What planning a node gave, beside its outcome: sums and groups above the pods. ``plan`` is
    the whole one where pods depend on each other."""

    upper: Sequence[Cgroup]
    outcome: NodeOutcome
    totals: NodeTotals
    qos_totals: QosTotals = QosTotals()
    room: tuple[Severity, ...] = ()
    """Of the rows about the node's room."""
    plan: Plan | None = None


def _schedulable(node: Node) -> Amounts:
    """What the scheduler counts with, and how many pods the node takes."""
    reported = node.status_allocatable.get("pods")
    if reported is None or node.kubelet_given or is_flag(node, ("maxPods", "podsPerCore")):
        return {**amounts(schedulable(node)), "pods": pods_limit(node)}
    return {**amounts(schedulable(node)), "pods": reported.value}


class NodePlanner:
    """Plans nodes that are equal but for their names. ``store`` is that of all planners whose
    templates may be the same."""

    def __init__(
        self, node: Node, shapes: Sequence[Pod], store: TemplateStore | None = None
    ) -> None:
        self.node = node
        self.planner = Planner(node)
        self.shapes = shapes
        self.templates = NodeTemplates(self.planner.policy, store or TemplateStore())
        self._templates: dict[int, PodTemplatePlan] = {}
        self._noted: dict[int, bool] = {}
        left = amounts(allocatable(node))
        self.schedulable = _schedulable(node)
        self._amounts = amounts(node.capacity), left, self.schedulable, amounts(enforced(node))

    @property
    def is_exact(self) -> bool:
        """Whether the pods of the node depend on each other, so that each of them must be known."""
        return self.planner.managers is not None

    def template(self, shape: int) -> PodTemplatePlan:
        """What was planned for the pods of a shape."""
        found = self._templates.get(shape)
        if found is None:
            found = self._templates[shape] = self.templates.of(self.shapes[shape])
        return found

    def plan(
        self,
        name: str,
        groups: Sequence[ShapeGroup],
        problems: Sequence[Problem],
        whole: bool = False,
    ) -> NodePlan:
        """The plan of the node of that name. ``groups`` are in the order of their first pods;
        where the node is exact, each is one pod. ``whole``: with the plan of every pod."""
        node = replace(self.node, name=name)
        if self.is_exact or whole:
            return self._whole(node, groups, problems)
        pods = _Pods(self, node)
        for group in groups:
            pods.add(group)
        rows = [*problems, *pods.problems()]
        outcome = self.outcome(name, pods.totals, pods.upper, rows, pods.unlimited)
        return NodePlan(pods.upper, outcome, pods.totals, pods.qos_totals, pods.room)

    def _whole(
        self, node: Node, groups: Sequence[ShapeGroup], problems: Sequence[Problem]
    ) -> NodePlan:
        """The same by planning every pod."""
        if any(one.count > 1 for one in groups):
            raise AssertionError("pods that depend on each other were not kept apart")
        live = LivePlan(node)
        found = [member(self.shapes[one.shape], one.first) for one in groups]
        live.add_all(found)
        made = live.plan(tuple(problems))
        totals, unlimited = NodeTotals(), 0
        for pod in found:
            summary = TemplateSummary.of(pod, live.planner.templates.of(pod), 1)
            totals.add(summary)
            unlimited += "memory" not in summary.limits
        upper = live.upper()
        outcome = self.outcome(node.name or "", totals, upper, made.problems, unlimited)
        return NodePlan(upper, outcome, totals, plan=made)

    def summary(self, group: ShapeGroup) -> TemplateSummary:
        """Pods of a shape with the first of them."""
        pod = member(self.shapes[group.shape], group.first)
        return TemplateSummary.of(pod, self.template(group.shape), group.count)

    def noted(self, shape: int, summary: TemplateSummary) -> bool:
        """Whether there is something to say about pods of a shape."""
        found = self._noted.get(shape)
        if found is None:
            rows = pod_problems(self.planner.policy, summary)
            found = self._noted[shape] = any(True for _ in rows)
        return found

    def outcome(
        self,
        name: str,
        totals: NodeTotals,
        upper: Sequence[Cgroup],
        problems: Sequence[Problem],
        unlimited: int,
    ) -> NodeOutcome:
        """The numbers of a node with these sums, of which ``unlimited`` pods have no limit."""
        capacity, left, schedulable, whole = self._amounts
        claimed = dict.fromkeys(PROTECTION, 0)
        for (_, file), amount in totals.claims.items():
            claimed[file] += amount
        return NodeOutcome(
            name,
            gravest({one.severity for one in problems}),
            totals.pods,
            self.node.profile.kubernetes,
            self._hierarchy,
            capacity,
            left,
            schedulable,
            whole,
            {key: amount for key, amount in totals.requests.items() if amount},
            totals.throttled,
            {file: amount for file, amount in claimed.items() if amount},
            self.held(upper),
            *self._margins(totals),
            unlimited,
            tuple(problems),
        )

    @property
    def _hierarchy(self) -> str:
        return self.node.hierarchy if self.node.os == "linux" else "windows"

    def _margins(self, totals: NodeTotals) -> tuple[int | None, int | None]:
        """Bytes of memory that are left at the requests and at the limits of the pods."""
        memory = self._amounts[1].get("memory")
        if memory is None:
            return None, None
        return memory - totals.requests.get("memory", 0), memory - totals.memory_limits

    def held(self, upper: Sequence[Cgroup]) -> Amounts:
        """What kubepods has of each protecting file, bytes."""
        pods = self.planner.parent("Guaranteed")[0]
        rows = next((one.settings for one in upper if one.name == pods), ())
        found = {file: bytes_of(rows, file) or 0 for file in PROTECTION}
        return {file: amount for file, amount in found.items() if amount}

    def beside(
        self, first: NodeOutcome, totals: NodeTotals, held: Amounts, found: Collection[Severity]
    ) -> NodeOutcome:
        """The numbers of a node with the totals of ``first`` on another side, and rows of these
        severities."""
        capacity, left, schedulable, whole = self._amounts
        at_requests, at_limits = self._margins(totals)
        return replace(
            first,
            state=gravest(found),
            kubernetes=self.node.profile.kubernetes,
            hierarchy=self._hierarchy,
            capacity=capacity,
            allocatable=left,
            schedulable=schedulable,
            enforced=whole,
            held=held,
            at_requests=at_requests,
            at_limits=at_limits,
            problems=(),
            problem_count=len(found),
        )


class _Pods:
    """The pods of one node while they are counted."""

    def __init__(self, planner: NodePlanner, node: Node) -> None:
        self._planner = planner
        self._policy = replace(planner.planner.policy, node=node)
        self._sums = QosTotalsBuilder()
        self._merged: dict[int, ShapeGroup] = {}
        self._contradicted: list[Pod] = []
        self.totals = NodeTotals()
        self.qos_totals = QosTotals()
        self.unlimited = 0
        self.upper: Sequence[Cgroup] = ()
        self.room: tuple[Severity, ...] = ()

    def add(self, group: ShapeGroup) -> None:
        """Count pods of a shape; those of one template are told together."""
        template = self._planner.template(group.shape)
        known = self._merged.get(id(template))
        if known is None:
            self._merged[id(template)] = ShapeGroup(group.shape, group.count, group.first)
        else:
            known.count += group.count
        shape = self._planner.shapes[group.shape]
        if self._planner.planner.admits(shape):
            self._sums.add(
                template.qos, template.memory, template.milli, group.count, apart=template.apart
            )
        if shape.contradicts(template.qos):
            self._contradicted += [member(shape, group.first)] * group.count
        if "memory" not in template.sums.limits:
            self.unlimited += group.count

    def problems(self) -> list[Problem]:
        """The rows of the plan, in its order."""
        planner, policy = self._planner, self._policy
        summaries = {}
        for key, group in self._merged.items():
            summary = summaries[key] = planner.summary(group)
            self.totals.add(summary)
        largest = Largest(summaries.get)
        for key in summaries:
            largest.changed(key)
        self.qos_totals = self._sums.qos_totals
        self.upper = planner.planner.upper(self.qos_totals)
        rows = list(room_problems(policy, self.totals, largest))
        self.room = tuple([one.severity for one in rows])
        rows += upper_problems(policy, self.totals, self.upper)
        for key, summary in summaries.items():
            if planner.noted(self._merged[key].shape, summary):
                rows += pod_problems(policy, summary)
        rows += contradictions((pod, planner.planner.qos(pod)) for pod in self._contradicted)
        return rows
