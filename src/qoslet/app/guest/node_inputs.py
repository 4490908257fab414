"""The node of a guest: the kubelet's configuration, the pods of a source, the policy; planned again
when any of them is another."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from qoslet.agent.guest.ports import NodeView
from qoslet.app.guest.decoded_pods import DecodedPods
from qoslet.app.guest.policy_file import PolicyFile, is_strict
from qoslet.app.inputs import Inputs, scheduled
from qoslet.app.node.assigned import kubelet_assignments
from qoslet.app.node.untold_release import possible_releases
from qoslet.core.api.manifest import Options
from qoslet.core.guest.namespaces import confined, without_others
from qoslet.core.guest.policy import GuestPolicy, agreed
from qoslet.core.guest.status import SourceStatus
from qoslet.core.node.flags import Flags
from qoslet.core.node.running_kubelet.work import KubeletWork
from qoslet.core.plan.kept_plan import KeptPlan
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.errors import CannotDo, QosletError, reason_of
from qoslet.host.files.node import load_node

if TYPE_CHECKING:
    from qoslet.app.node.found_node import FoundNode
    from qoslet.core.node.node import Node
    from qoslet.core.node.running_kubelet.pods_reading import PodSource, PodsReading
    from qoslet.core.problem import Problem

CONFIGURATION_SECONDS = 300.0
"""How often a kubelet is asked for its configuration while its process is the same."""

_Variant = tuple[str | None, str | None, str | None]
"""What a policy says of Memory QoS, and a release that the kubelet may be."""

FindNode = Callable[[], "FoundNode"]


class NodeInputs:
    """Matches ``agent.guest.ports.NodeSource``. ``find`` looks for the kubelet of this machine; None:
    ``documents`` and ``flags`` alone describe the node."""

    def __init__(
        self,
        documents: Sequence[str],
        flags: Flags,
        pods: PodSource,
        policy: PolicyFile,
        find: FindNode | None,
    ) -> None:
        self._documents = documents
        self._flags = flags
        self._pods = pods
        self._policy = policy
        self._find = find
        self._found: FoundNode | None = None
        self._asked_at = float("-inf")
        self._fault = ""
        self._inputs: Inputs | None = None
        self._made_of: tuple[object, ...] = ()
        self._plan: Plan | None = None
        self._allocated: Plan | None = None
        self._decoded = DecodedPods()
        self._plans = {allocated: KeptPlan() for allocated in (False, True)}
        self._nodes: dict[_Variant, tuple[Node, Sequence[Problem]]] = {}
        self._nodes_at = float("-inf")
        self._sums_at = float("-inf")
        """When values that come from all pods were others last."""
        self.reading: PodsReading | None = None

    @property
    def node_name(self) -> str | None:
        """The node's name, where the kubelet's pods or an option tell it."""
        return self._flags.node_name or (self._found.name if self._found is not None else None)

    def kubelet_work(self) -> KubeletWork:
        """What the kubelet is about to do, which it and its runtime are asked for."""
        from qoslet.app.node.found_node import QOS_UPDATE_SECONDS

        reading, now = self.reading, time.monotonic()
        assert reading is not None
        has_changed = now < self._sums_at + QOS_UPDATE_SECONDS
        work = KubeletWork()
        if self._find is not None:
            with suppress(QosletError):
                work = self._find().work
        return replace(
            work,
            running=reading.running | work.running,
            has_changed=has_changed or work.has_changed,
            lacks_pods=not reading.complete,
        )

    def current(self, *, asks: bool = True) -> NodeView:
        """The node as it is to be now. Raises QosletError."""
        policy = self._policy.current()
        if asks:
            self._look_for_kubelet()
        self.reading = reading = self._pods.poll(asks=asks)
        writes = bool(policy.writable)
        made_of = (
            *(policy.memory_qos, policy.throttling_factor, policy.namespaces, writes),
            *(self._found, reading.version, reading.source),
        )
        if self._plan is None or made_of != self._made_of:
            inputs = self._read(policy, reading, allocated=False)
            self._check_tree(inputs.node)
            made = self._planned(inputs, policy, allocated=False)
            if self._plan is not None and _sums(self._plan) != _sums(made):
                self._sums_at = time.monotonic()
            self._inputs, self._plan, self._made_of = inputs, made, made_of
            self._allocated = self._to_write(inputs, policy, reading) if writes else None
        status = SourceStatus(
            reading.source,
            reading.place,
            reading.complete,
            reading.reason,
            max(0.0, time.monotonic() - reading.at),
            reading.requests,
        )
        lacks = "" if reading.is_settling else reading.reason
        untold = ""
        if releases := self._untold():
            untold = f"the kubelet, of {releases[0]} or later, does not tell its release: "
            untold += "what depends on it is not written" if writes else "give --kubernetes"
        notes = tuple(filter(None, (lacks, self._fault, untold)))
        faults = tuple(filter(None, (self._policy.fault,)))
        return NodeView(self._plan, policy, status, notes, self._allocated, faults)

    def _to_write(self, inputs: Inputs, policy: GuestPolicy, reading: PodsReading) -> Plan | None:
        """What is allocated, as every release has it that the kubelet may be; None where that is the plan of
        ``inputs``. Raises QosletError."""
        allocated = self._read(policy, reading, allocated=True)
        others = self._other_plans(policy, reading, allocated=True)
        if list(allocated.pods) == list(inputs.pods) and not others:
            return None
        return agreed(self._planned(allocated, policy, allocated=True), others.values())

    def _other_plans(
        self, policy: GuestPolicy, reading: PodsReading, *, allocated: bool
    ) -> dict[str, Plan]:
        """The plan with each release that the kubelet may be, besides the one that is assumed, by its name."""
        made = {}
        for one in self._untold():
            inputs = self._read(policy, reading, allocated=allocated, release=one)
            made[one] = without_others(inputs.plan(), policy, self._kubelets(policy, inputs.node))
        return made

    def _untold(self) -> tuple[str, ...]:
        """The releases that the kubelet may be, where it did not tell its own, besides the one that is assumed."""
        if self._found is None or self._flags.kubernetes is not None:
            return ()
        return possible_releases(self._found)

    def _check_tree(self, node: Node) -> None:
        """Raise CannotDo where the kubelet has another tree than the one that was begun with."""
        if self._inputs is None:
            return
        begun = self._inputs.node
        if (begun.driver, _root(begun)) != (node.driver, _root(node)):
            message = "the kubelet has another cgroup root or driver than when the agent started"
            raise CannotDo(message, hint="start the agent again")

    def allocated(self) -> Plan:
        """The plan with the resources that the statuses say are allocated. Raises QosletError."""
        assert self.reading is not None
        policy = self._policy.policy
        inputs = self._read(policy, self.reading, allocated=True)
        return self._planned(inputs, policy, allocated=True)

    def releases(self) -> dict[str, Plan]:
        """The plans with the releases that the kubelet may be, by their names. Raises QosletError."""
        assert self.reading is not None
        return self._other_plans(self._policy.policy, self.reading, allocated=False)

    def _look_for_kubelet(self) -> None:
        """Ask a kubelet for its configuration where it is another process, or now and then. Raises
        QosletError where none was ever found."""
        if self._find is None:
            return
        now, found = time.monotonic(), self._found
        gone = found is not None and not os.path.exists(f"/proc/{found.pid}")
        lacks = gone or self._fault or self._untold()
        wait = RETRY_SECONDS if lacks else CONFIGURATION_SECONDS
        if found is not None and now < self._asked_at + wait:
            return
        self._asked_at = now
        try:
            latest = self._find()
        except QosletError as error:
            if found is None:
                if isinstance(error, CannotDo):
                    hint = "--pods-from FILE and --node FILE describe a node without a kubelet"
                    raise CannotDo(error.message, where=error.where, hint=hint) from None
                raise
            self._fault = f"the configuration stays as it was: {reason_of(error)}"
            return
        self._fault = ""
        if found is None or (found.documents, found.pid) != (latest.documents, latest.pid):
            self._found = latest
            self._nodes.clear()

    def _read(
        self,
        policy: GuestPolicy,
        reading: PodsReading,
        *,
        allocated: bool,
        release: str | None = None,
    ) -> Inputs:
        """The inputs of a plan, with another ``release`` of the kubelet. Raises QosletError."""
        node, problems = self._described(policy, release)
        options = Options(False, allocated, node.name)
        loaded = self._decoded.load(reading.pods, options, reading.place)
        told = (*problems, *loaded.problems)
        pods = confined(loaded.pods, policy, self._kubelets(policy, node))
        kept = None if self._found is None else kubelet_assignments(self._found, node)
        return scheduled(Inputs(pods, node, told, loaded, kept=kept))

    def _planned(self, inputs: Inputs, policy: GuestPolicy, *, allocated: bool) -> Plan:
        """The plan, without what the policy's Memory QoS would be for pods that it is not about."""
        made = self._plans[allocated].plan(inputs.pods, inputs.node, inputs.problems, inputs.kept)
        return without_others(made, policy, self._kubelets(policy, inputs.node))

    def _kubelets(self, policy: GuestPolicy, node: Node) -> Node:
        """The node as the kubelet has it. Raises QosletError."""
        if policy.namespaces is None or policy.memory_qos is None:
            return node
        return self._described(replace(policy, memory_qos=None, throttling_factor=None))[0]

    def _described(
        self, policy: GuestPolicy, release: str | None = None
    ) -> tuple[Node, Sequence[Problem]]:
        """The node of documents, flags and this machine, as it was looked at last, with what the policy
        says of Memory QoS. Raises QosletError."""
        variant = policy.memory_qos, policy.throttling_factor, release
        now = time.monotonic()
        if now >= self._nodes_at + CONFIGURATION_SECONDS:
            self._nodes.clear()
            self._nodes_at = now
        if variant not in self._nodes:
            self._nodes[variant] = self._node(policy, release)
        return self._nodes[variant]

    def _node(self, policy: GuestPolicy, release: str | None) -> tuple[Node, Sequence[Problem]]:
        flags = self._flags if release is None else replace(self._flags, kubernetes=release)
        if policy.memory_qos is not None:
            flags = replace(flags, memory_qos=policy.memory_qos)
        if policy.throttling_factor is not None:
            flags = replace(flags, memory_throttling_factor=policy.throttling_factor)
        texts = self._found.texts() if self._found is not None else ()
        return load_node(self._documents, flags, root_check=is_strict(), texts=texts)

    def refresh(self) -> None:
        """Ask for the pods again with the next ``current``."""
        self._pods.refresh()

    def descriptors(self) -> Sequence[int]:
        """Readable when pods or policy may be others."""
        return (*self._pods.descriptors(), *self._policy.descriptors())

    def next_at(self) -> float | None:
        """When to ask again."""
        return self._pods.next_at()


RETRY_SECONDS = 30.0
"""How often a kubelet is looked for while there is none, or it does not answer."""


def _sums(plan: Plan) -> list[object]:
    """The settings of cgroups above pods."""
    return [(one.path, one.settings) for one in plan.cgroups if one.pod is None]


def _root(node: Node) -> tuple[str, bool]:
    """What decides where the cgroup of all pods is, besides the driver."""
    return node.kubelet.cgroup_root, node.kubelet.cgroups_per_qos
