"""A plan that follows its pods: each put or drop costs what that pod costs, whatever else stands.

What the groups of the node and the tiers need of all pods is a sum, kept exactly (integers). A
pod's own groups depend on other pods in one way only: the CPUs that the static policy hands out.
"""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.cpumanager import Pools
from qoslet.core.node import Node
from qoslet.core.plan import assembled
from qoslet.core.planner import Planner
from qoslet.core.pod import Pod, QosClass
from qoslet.core.podshape import Shape
from qoslet.core.problems import Judged, contradictions, pod_problems
from qoslet.core.tiers import Tally, Tallying
from qoslet.core.tree import Cgroup, Plan, Problem


class PodGroups(Struct, frozen=True, gc=False):
    """The groups of one pod: its own, its sandbox's, its containers', parents first.

    ``problems`` are the rows about this pod alone. ``others`` are the UIDs of pods whose groups
    changed with the call that gave this value: look at them again with ``Live.groups``.
    """

    pod: Pod
    qos: QosClass
    groups: tuple[Cgroup, ...]
    problems: tuple[Problem, ...]
    others: frozenset[str] = frozenset()


class _Held(Struct):
    """A pod that was put. ``pins``: it may be handed CPUs of its own; ``groups`` is None until
    somebody asks."""

    pod: Pod
    shape: Shape
    pins: bool
    groups: tuple[Cgroup, ...] | None = None


_NOBODY: frozenset[str] = frozenset()


class Live:
    """The plan of the pods put so far, on one node. Pods stand in the order in which their UIDs
    first came; names are not compared, whoever reads manifests does that."""

    def __init__(self, node: Node) -> None:
        self.planner = Planner(node)
        self._pools = self.planner.pin(())
        self._held: dict[str, _Held] = {}
        self._users: dict[int, int] = {}
        self._sums = Tallying()
        self._upper: tuple[Tally, tuple[Cgroup, ...]] | None = None
        self._whole: Plan | None = None

    @property
    def node(self) -> Node:
        """The node that is planned for."""
        return self.planner.basis.node

    def __contains__(self, uid: object) -> bool:
        """Whether a pod of this UID was put."""
        return uid in self._held

    @property
    def uids(self) -> tuple[str, ...]:
        """The pods put, in their order."""
        return tuple(self._held)

    @property
    def tally(self) -> Tally:
        """What the pods put ask for, by class."""
        return self._sums.tally

    def put(self, pod: Pod) -> PodGroups:
        """Plan ``pod``; one with its UID is replaced and keeps its place."""
        shape = self.planner.shapes.of(pod)
        held = _Held(pod, shape, self.planner.pins(pod, shape))
        self._sums.add(shape.qos, shape.memory, shape.milli)
        self._users[id(shape)] = self._users.get(id(shape), 0) + 1
        old = self._held.get(pod.uid)
        self._held[pod.uid] = held
        self._whole = None
        if old is not None:
            self._release(old.shape)
        others = _NOBODY
        if held.pins or (old is not None and old.pins):
            others = self._pin() - {pod.uid}
        return self._answer(held, others)

    def drop(self, uid: str) -> frozenset[str]:
        """Leave a pod out; an unknown one is no fault. The UIDs of pods whose groups changed."""
        held = self._held.pop(uid, None)
        if held is None:
            return _NOBODY
        self._whole = None
        self._release(held.shape)
        return self._pin() if held.pins else _NOBODY

    def groups(self, uid: str) -> PodGroups:
        """What was planned for a pod that was put. Raises KeyError for another."""
        return self._answer(self._held[uid], _NOBODY)

    def upper(self) -> tuple[Cgroup, ...]:
        """The groups of the node, its reservations and its tiers, for the pods put."""
        tally = self._sums.tally
        if self._upper is None or self._upper[0] != tally:
            self._upper = tally, tuple(self.planner.upper(tally))
        return self._upper[1]

    def plan(self, problems: tuple[Problem, ...] = ()) -> Plan:
        """Everything at once, as ``core.plan.plan`` gives it for the same pods in this order;
        ``problems`` go before what planning met."""
        if self._whole is None:
            held = self._held.values()
            self._whole = assembled(
                self.planner,
                self.upper(),
                [(one.pod, one.shape) for one in held],
                (self._planned(one) for one in held),
            )
        if not problems:
            return self._whole
        made = self._whole
        return Plan(made.node, made.pods, made.cgroups, (*problems, *made.problems))

    def _answer(self, held: _Held, others: frozenset[str]) -> PodGroups:
        pod, shape = held.pod, held.shape
        judged = Judged.of(pod, shape, 1)
        rows = (*pod_problems(self.planner.basis, judged), *contradictions([(pod, shape.qos)]))
        return PodGroups(pod, shape.qos, self._planned(held), rows, others)

    def _planned(self, held: _Held) -> tuple[Cgroup, ...]:
        if held.groups is None:
            held.groups = tuple(self.planner.groups(held.pod, held.shape))
        return held.groups

    def _release(self, shape: Shape) -> None:
        """One pod less has this shape; what nobody has is forgotten."""
        self._sums.add(shape.qos, shape.memory, shape.milli, -1)
        left = self._users[id(shape)] - 1
        if left:
            self._users[id(shape)] = left
        else:
            del self._users[id(shape)]
            self.planner.shapes.forget(shape)

    def _pin(self) -> frozenset[str]:
        """Hand the CPUs out again; the pods that have others than before."""
        before, held = self._pools, self._held
        self._pools = self.planner.pin([one.pod for one in held.values() if one.pins])
        if before is None or self._pools is None or before == self._pools:
            return _NOBODY
        changed = _moved(before, self._pools)
        if before.shared != self._pools.shared:
            # whoever shares the pool is told its new size
            changed = set(held)
        for uid in changed & held.keys():
            held[uid].groups = None
        return frozenset(changed & held.keys())


def _moved(before: Pools, after: Pools) -> set[str]:
    """The UIDs of pods that have other CPUs of their own."""
    return {uid for (uid, _), _ in set(before.exclusive.items()) ^ set(after.exclusive.items())}
