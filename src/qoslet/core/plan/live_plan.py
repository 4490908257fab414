"""A plan that follows its pods: each put or drop costs what that pod costs, whatever else stands.

What the groups of the node and the tiers need of all pods is a sum, kept exactly (integers). A
pod's own groups depend on other pods in one way only: the CPUs that the static policy hands out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.pod import Pod, QosClass
from qoslet.core.node.node import Node
from qoslet.core.plan.pod_planner import Planner, distinct
from qoslet.core.plan.problems import contradictions, node_problems, pod_problems
from qoslet.core.plan.totals import Largest, NodeTotals, TemplateSummary
from qoslet.core.problem import Problem
from qoslet.core.resources.cgroup_tree import Cgroup, Plan, PlannedPod
from qoslet.core.resources.pod_template import PodTemplatePlan
from qoslet.core.resources.qos_cgroups import QosTotals, QosTotalsBuilder

if TYPE_CHECKING:
    from qoslet.core.managers.container_manager import Assignments, Managers
    from qoslet.core.managers.cpu_manager import CpuRefusal
    from qoslet.core.workload.process_spec import PodSpec


class PodGroups(Struct, frozen=True, gc=False):
    """The groups of one pod: its own, its sandbox's, its containers', parents first.

    ``problems`` are the rows about this pod alone. ``others`` are the UIDs of pods whose groups
    changed with the call that gave this value: look at them again with ``LivePlan.groups``.
    """

    pod: Pod
    qos: QosClass
    groups: tuple[Cgroup, ...]
    problems: tuple[Problem, ...]
    others: frozenset[str] = frozenset()
    refused: CpuRefusal | None = None
    """Why the CPU, memory or topology manager would not admit it; it has no place then."""


class _Held(Struct, gc=False):
    """A pod that was put, the ``number``th. ``pins``: it may be handed CPUs of its own;
    ``groups`` is None until somebody asks."""

    pod: Pod
    template: PodTemplatePlan
    pins: bool
    number: int
    groups: tuple[Cgroup, ...] | None = None


class _Users(Struct):
    """The pods of one shape, by UID. ``noted``: there is something to say about them. ``first`` is
    the one that came first, None where that is to be found again."""

    template: PodTemplatePlan
    noted: bool
    pods: set[str] = set()
    first: str | None = None


_NOBODY: frozenset[str] = frozenset()


class LivePlan:
    """The plan of the pods added so far to one node, in the order in which their UIDs first came. Whether
    two pods have one name is checked by who reads manifests, not here. ``kept`` are the CPUs and memory
    that the managers assigned before, which those pods get again. ``kept_is_actual``: a kubelet itself
    told them, so they do not depend on the order of pods."""

    def __init__(
        self, node: Node, kept: Assignments | None = None, *, kept_is_actual: bool = False
    ) -> None:
        self.planner = Planner(node)
        self._kept_is_actual = kept_is_actual
        if self.planner.managers is not None and kept is not None:
            self.planner.managers.restore(kept)
        self._held: dict[str, _Held] = {}
        self._users: dict[int, _Users] = {}
        self._noted: set[int] = set()
        self._contradicted: set[str] = set()
        self._largest = Largest(self._summary)
        self._totals = NodeTotals()
        self._count = 0
        self._sums = QosTotalsBuilder()
        self._rejected: set[str] = set()
        self._upper: tuple[QosTotals, tuple[Cgroup, ...]] | None = None
        self._whole: Plan | None = None
        self._rows: tuple[Problem, ...] | None = None

    @property
    def node(self) -> Node:
        """The node that is planned for."""
        return self.planner.policy.node

    @property
    def managers(self) -> Managers | None:
        """Who has which CPUs and memory; None where no policy hands any out."""
        return self.planner.managers

    def __contains__(self, uid: object) -> bool:
        """Whether a pod of this UID was put."""
        return uid in self._held

    @property
    def uids(self) -> tuple[str, ...]:
        """The pods put, in their order."""
        return tuple(self._held)

    @property
    def qos_totals(self) -> QosTotals:
        """What the pods put ask for, by class."""
        return self._sums.qos_totals

    def add(self, pod: Pod) -> PodGroups:
        """Plan ``pod``; one with its UID is replaced and keeps its place."""
        template = self.planner.templates.of(pod)
        old = self._held.get(pod.uid)
        self._count += 1
        number = self._count if old is None else old.number
        held = _Held(pod, template, self.planner.pins(pod, template), number)
        self._held[pod.uid] = held
        self._changed()
        if old is None or old.template is not template:
            self._take(template, [held])
            if old is not None:
                self._release(pod.uid, old)
        else:
            self._largest.changed(id(template))
        self._contradicted.discard(pod.uid)
        if pod.contradicts(template.qos):
            self._contradicted.add(pod.uid)
        others = _NOBODY
        if held.pins or (old is not None and old.pins):
            others = self._pin(pod.uid) - {pod.uid}
        self._count_admitted({pod.uid})
        return self._answer(held, others)

    def add_all(self, pods: Sequence[Pod]) -> None:
        """Plan ``pods`` of UIDs that are not in the plan yet, each of them once, in this order."""
        users: dict[int, list[_Held]] = {}
        of, pins = self.planner.templates.of, self.planner.pins
        static = self.planner.managers is not None
        for number, pod in enumerate(pods, self._count + 1):
            template = of(pod)
            held = _Held(pod, template, static and pins(pod, template), number)
            self._held[pod.uid] = held
            users.setdefault(id(template), []).append(held)
            if pod.contradicts(template.qos):
                self._contradicted.add(pod.uid)
        self._count += len(pods)
        self._changed()
        for some in users.values():
            self._take(some[0].template, some)
        self.planner.pin(pods)
        self._count_admitted({pod.uid for pod in pods if not self.planner.admits(pod)})

    def _count_admitted(self, uids: Collection[str]) -> None:
        """Count pods that are admitted, and no others: these, and those whose place may have
        changed. A kubelet that rejects a pod counts it in no QoS cgroup."""
        managers = self.planner.managers
        placed = set() if managers is None else managers.refused.keys()
        for uid in (self._rejected | placed | set(uids)) & self._held.keys():
            held, counted = self._held[uid], uid not in self._rejected
            admitted = self.planner.admits(held.pod)
            if counted is admitted:
                continue
            self._changed()
            self._add_sums(held.template, 1 if admitted else -1)
            (self._rejected.discard if admitted else self._rejected.add)(uid)

    def remove(self, uid: str) -> frozenset[str]:
        """Leave a pod out; an unknown one is no fault. The UIDs of pods whose groups changed."""
        held = self._held.pop(uid, None)
        if held is None:
            known = self.managers is not None and self.managers.has(uid)
            return self._pin(uid) if known else _NOBODY
        self._changed()
        self._contradicted.discard(uid)
        self._release(uid, held)
        changed = self._pin(uid) if held.pins else _NOBODY
        self._count_admitted(())
        return changed

    def keep(self, uids: Collection[str]) -> frozenset[str]:
        """Give back what pods have that are neither put nor among ``uids``: nobody will drop
        them. The UIDs of pods whose groups changed."""
        changed: set[str] = set()
        for uid in () if self.managers is None else self.managers.holders():
            if uid not in uids and uid not in self._held:
                changed |= self.remove(uid)
        return frozenset(changed)

    def groups(self, uid: str) -> PodGroups:
        """What was planned for a pod that was put. Raises KeyError for another."""
        return self._answer(self._held[uid], _NOBODY)

    def equipped(self, uid: str, spec: PodSpec) -> PodSpec:
        """``spec`` of a pod that was put with what is planned for its containers, where the node's
        runtime writes their groups itself."""
        held = self._held.get(uid)
        if held is not None and spec.bundles is not None:
            from qoslet.core.plan.cri_messages import pod_blocks

            blocks = pod_blocks(self.planner, held.pod)
            return replace(spec, bundles=replace(spec.bundles, blocks=blocks))
        if held is None or self.planner.policy.runtime.cri is None:
            return spec
        # only who sends messages pays for them
        from qoslet.core.plan.cri_messages import pod_messages

        return replace(spec, messages=pod_messages(self.planner, held.pod))

    def upper(self) -> tuple[Cgroup, ...]:
        """The groups of the node, its reservations and its tiers, for the pods put."""
        qos_totals = self._sums.qos_totals
        if self._upper is None or self._upper[0] != qos_totals:
            self._upper = qos_totals, tuple(self.planner.upper(qos_totals))
        return self._upper[1]

    def plan(self, problems: tuple[Problem, ...] = ()) -> Plan:
        """Everything at once, as ``core.plan.plan`` gives it for the same pods in this order;
        ``problems`` go before what planning met."""
        if self._whole is None:
            whole, groups = [*self.upper()], self.planner.groups
            for held in self._held.values():
                if held.groups is None:
                    held.groups = tuple(groups(held.pod, held.template))
                whole += held.groups
            pods = tuple([PlannedPod(one.pod, one.template.qos) for one in self._held.values()])
            if not self.node.kubelet.cgroups_per_qos:
                whole = distinct(whole)
            self._whole = Plan(self.node, pods, tuple(whole), self.problems())
        if not problems:
            return self._whole
        made = self._whole
        return Plan(made.node, made.pods, made.cgroups, (*problems, *made.problems))

    def problems(self) -> tuple[Problem, ...]:
        """What ``plan`` says, without planning it."""
        if self._rows is None:
            self._rows = tuple(self._problem_rows())
        return self._rows

    def _problem_rows(self) -> Iterator[Problem]:
        policy = self.planner.policy
        yield from node_problems(policy, self._totals, self.upper(), self._largest)
        noted = filter(None, map(self._summary, self._noted))
        for summary in sorted(noted, key=lambda shape: self._held[shape.pod.uid].number):
            yield from pod_problems(policy, summary)
        yield from contradictions(
            (one.pod, one.template.qos) for one in self._in_order(self._contradicted)
        )
        managers = self.planner.managers
        if managers is None:
            return
        # imported where a static policy places pods, which most nodes have not
        from qoslet.core.plan.manager_problems import placing_problems

        refused = [one.pod for one in self._in_order(managers.refused)]
        yield from placing_problems(policy, managers, refused, kept_is_actual=self._kept_is_actual)

    def _summary(self, shape: int) -> TemplateSummary | None:
        """A shape with the first pod that has it; None where no pod has it."""
        users = self._users.get(shape)
        if users is None:
            return None
        if users.first is None:
            users.first = min(users.pods, key=lambda uid: self._held[uid].number)
        return TemplateSummary.of(self._held[users.first].pod, users.template, len(users.pods))

    def _in_order(self, uids: Iterable[str]) -> list[_Held]:
        """The pods of these UIDs, as they came."""
        return sorted((self._held[uid] for uid in uids), key=lambda one: one.number)

    def _changed(self) -> None:
        """What was put together of all pods is to be put together again."""
        self._whole = self._rows = None

    def _answer(self, held: _Held, others: frozenset[str]) -> PodGroups:
        pod, template = held.pod, held.template
        rows: tuple[Problem, ...] = ()
        if self._users[id(template)].noted:
            summary = TemplateSummary.of(pod, template, 1)
            rows = tuple(pod_problems(self.planner.policy, summary))
        rows += tuple(contradictions([(pod, template.qos)]))
        managers = self.planner.managers
        refused = None if managers is None else managers.refused.get(pod.uid)
        return PodGroups(pod, template.qos, self._planned(held), rows, others, refused)

    def _planned(self, held: _Held) -> tuple[Cgroup, ...]:
        if held.groups is None:
            held.groups = tuple(self.planner.groups(held.pod, held.template))
        return held.groups

    def _take(self, template: PodTemplatePlan, pods: Sequence[_Held]) -> None:
        """More pods have this template."""
        users = self._users.get(id(template))
        summary = TemplateSummary.of(pods[0].pod, template, len(pods))
        if users is None:
            noted = any(True for _ in pod_problems(self.planner.policy, summary))
            users = self._users[id(template)] = _Users(template, noted)
            if noted:
                self._noted.add(id(template))
        users.pods.update([one.pod.uid for one in pods])
        if users.first is not None and pods[0].number < self._held[users.first].number:
            users.first = pods[0].pod.uid
        self._largest.changed(id(template))
        self._totals.add(summary)
        self._add_sums(template, len(pods))

    def _add_sums(self, template: PodTemplatePlan, count: int) -> None:
        """Add so many pods of a template to the sums of the QoS cgroups."""
        self._sums.add(template.qos, template.memory, template.milli, count, apart=template.apart)

    def _release(self, uid: str, held: _Held) -> None:
        """One pod less has its shape; what nobody has is forgotten."""
        template = held.template
        self._totals.add(TemplateSummary.of(held.pod, template, 1), -1)
        if uid not in self._rejected:
            self._add_sums(template, -1)
        self._rejected.discard(uid)
        users = self._users[id(template)]
        users.pods.discard(uid)
        if users.first == uid:
            users.first = None
        if users.pods:
            self._largest.changed(id(template))
            return
        del self._users[id(template)]
        self._largest.gone(id(template))
        self._noted.discard(id(template))
        self.planner.templates.forget(template)

    def _pin(self, uid: str) -> frozenset[str]:
        """Place a pod that came, changed or went, and those that found no place before it; the
        pods whose groups changed with it."""
        managers, held = self.planner.managers, self._held
        if managers is None:
            return _NOBODY
        before = managers.shared()
        if uid not in held:
            managers.release(uid)
        waiting = managers.refused.keys() | {uid}
        placing = [one for one in held.values() if one.pod.uid in waiting]
        changed = set(managers.settle([(one.pod, one.template.qos) for one in placing]))
        if before != managers.shared():
            # whoever shares the pool is told its new size
            changed = set(held)
        for other in changed & held.keys():
            held[other].groups = None
        return frozenset(changed & held.keys())
