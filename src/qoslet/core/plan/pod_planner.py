"""One node's planner: its QoS cgroups, the cgroups of each pod, and the messages about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from qoslet.core.api.aggregate import limits, requests
from qoslet.core.api.ids import bundle_id
from qoslet.core.api.pod import Container, Pod, QosClass, Quantities
from qoslet.core.cgroup import names
from qoslet.core.node.node import Node
from qoslet.core.resources.cgroup_tree import Cgroup, Level
from qoslet.core.resources.cgroup_writer import Files, container_unwritten, existing
from qoslet.core.resources.cri_resources import CriResources, cri_resources, sandbox_cri_resources
from qoslet.core.resources.node_policy import NodePolicy, node_policy, places
from qoslet.core.resources.not_written import NotWritten
from qoslet.core.resources.pod_template import (
    PlannedContainer,
    PodTemplatePlan,
    TemplateCache,
    as_release_sees,
    is_windows,
    without_copied_requests,
)
from qoslet.core.resources.qos_cgroups import (
    QosTotals,
    QosTotalsBuilder,
    node_files,
    pod_files,
    qos_cgroup_files,
    reserved_files,
    root_files,
    sandbox_files,
)
from qoslet.core.resources.qos_class import classify
from qoslet.core.rules import oom

if TYPE_CHECKING:
    from qoslet.core.managers.container_manager import Managers

SANDBOX_LEAF = "POD"
"""The abstract leaf of a sandbox: no container can have it, names are lower case."""


class Planner:
    """Plans pods on one node. Pods of the same shape are worked out once."""

    def __init__(self, node: Node) -> None:
        self.policy = node_policy(node)
        self.templates = TemplateCache(self.policy)
        self._root = node.kubelet.pods_cgroup
        self._sandbox = sandbox_files(self.policy).settings() if self.policy.runtime.cri else ()
        self._parents: dict[str, tuple[str, str]] = {}
        self._slices = node.driver == "systemd"
        self.managers = _managers(self.policy)

    def qos(self, pod: Pod) -> QosClass:
        """The class of a pod, planned or not."""
        return classify(as_release_sees(self.policy, pod), self.policy.qos_rules)

    def admits(self, pod: Pod) -> bool:
        """Whether the node admits a pod that was placed. One that it rejects gets no cgroup and
        counts in no sum, in every command."""
        if pod.misfit(self.policy.node.os):
            return False
        return self.managers is None or pod.uid not in self.managers.refused

    def pins(self, pod: Pod, template: PodTemplatePlan) -> bool:
        """Whether a pod gets CPUs or memory of its own; what it gets decides about others."""
        return self.managers is not None and self.managers.places(pod, template.qos)

    def pin(self, pods: Sequence[Pod]) -> None:
        """Place ``pods`` in this order, where the static policies do."""
        if self.managers is not None:
            for pod in pods:
                self.managers.admit(pod, self.templates.of(pod).qos)

    def cpus(self, pod: Pod, container: Container) -> tuple[str, bool] | None:
        """The CPUs of a container and whether they are its own; None without the policy."""
        return None if self.managers is None else self.managers.cpus(pod, container)

    def mems(self, pod: Pod, container: Container) -> str:
        """The NUMA nodes of a container; empty without the policy."""
        return "" if self.managers is None else self.managers.mems(pod, container)

    def parent(self, qos: QosClass) -> tuple[str, str]:
        """Abstract name and concrete path of the group above pods of a class."""
        found = self._parents.get(qos)
        if found is None:
            tier = names.QOS_DIRECTORY[qos]
            parts = names.extend(self._root, tier) if tier else self._root
            found = self._parents[qos] = self._places(parts)
        return found

    def _places(self, parts: Sequence[str]) -> tuple[str, str]:
        return names.to_cgroupfs(parts), names.concrete(parts, self.policy.node.driver)

    def pod_places(self, pod: Pod, qos: QosClass) -> tuple[str, str]:
        """Abstract name and concrete path of a pod's group."""
        above, path = self.parent(qos)
        leaf = names.POD_PREFIX + pod.uid
        base = "" if above == "/" else above
        if not self._slices:
            place = f"{base}/{leaf}"
            return place, place
        unit = path.rsplit("/", 1)[1].removesuffix(names.SLICE)
        whole = f"{unit}-{names.escape(leaf)}" if unit else names.escape(leaf)
        return f"{base}/{leaf}", f"{path.rstrip('/')}/{whole}{names.SLICE}"

    def above_containers(self, pod: Pod, qos: QosClass) -> str:
        """The concrete path of the group that a pod's containers are made in."""
        if self.policy.node.kubelet.cgroups_per_qos:
            return self.pod_places(pod, qos)[1]
        return self._places(self._root)[1]

    def groups(self, pod: Pod, template: PodTemplatePlan) -> list[Cgroup]:
        """The groups of one pod: its own, its sandbox's, its containers'."""
        windows = is_windows(self.policy, pod)
        if windows:
            return self._windows(pod, template)
        per_qos = self.policy.node.kubelet.cgroups_per_qos
        name, path = self.pod_places(pod, template.qos) if per_qos else self._places(self._root)
        found = []
        if per_qos:
            unit = _unit(path, self.policy.node.driver)
            found.append(Cgroup(name, "pod", template.settings, path, unit, pod))
        if self._sandbox:
            found.append(self._sandbox_group(pod, name))
        containers = without_copied_requests(self.policy, pod).containers
        above, below = name.rstrip("/"), path.rstrip("/")
        if not (per_qos or self._slices or self.policy.runtime.is_own):
            below = names.without_parent(self.policy.runtime.cri, below)
        for container, planned in zip(containers, template.containers, strict=True):
            found.append(self._container_group(pod, container, planned, above, below))
        return found

    def _sandbox_group(self, pod: Pod, name: str) -> Cgroup:
        return Cgroup(
            f"{name.rstrip('/')}/{SANDBOX_LEAF}",
            "sandbox",
            self._sandbox,
            pod=pod,
            oom_score_adj=oom.SANDBOX,
            oom_rule="oom.sandbox",
            oom_inputs=(oom.SANDBOX,),
        )

    def _container_group(
        self, pod: Pod, container: Container, planned: PlannedContainer, name: str, path: str
    ) -> Cgroup:
        """``name`` and ``path`` are those of the cgroup above, empty for the root."""
        id, runtime = self.container_id(pod, container), self.policy.runtime
        place = unit = None
        if id is not None:
            leaf = names.container_leaf(runtime.cri, id, self._slices)
            if self._slices and runtime.oci == "process":
                leaf = names.process_leaf(path, id)
            place = f"{path}/{leaf}"
            unit = leaf if self._slices else None
        settings = planned.settings
        if self.managers is not None:
            settings += existing(self.policy, self.managers.settings(pod, container))
        return Cgroup(
            f"{name}/{container.name}",
            "container",
            settings,
            place,
            unit,
            pod,
            container,
            container.role,
            planned.oom_score_adj,
            planned.oom_rule,
            planned.oom_inputs,
        )

    def container_id(self, pod: Pod, container: Container) -> str | None:
        """How the runtime of this node knows a container, None where that is not known before it
        runs."""
        runtime = self.policy.runtime
        if runtime.oci == "process":
            return self._process_id(pod, container)
        return bundle_id(pod.uid, container.name) if runtime.bundles else container.id

    def _process_id(self, pod: Pod, container: Container) -> str:
        """What a container's group is called where qoslet starts its processes itself: its name,
        with the pod's UID where no pod group tells one pod's from another's."""
        if self.policy.node.kubelet.cgroups_per_qos:
            return container.name
        return f"{pod.uid}-{container.name}"

    def _windows(self, pod: Pod, template: PodTemplatePlan) -> list[Cgroup]:
        return [
            Cgroup(
                f"/{pod.namespace}/{pod.name}/{container.name}",
                "container",
                planned.settings,
                pod=pod,
                container=container,
                role=container.role,
            )
            for container, planned in zip(pod.containers, template.containers, strict=True)
        ]

    def message(self, pod: Pod, container: Container) -> CriResources:
        """The CRI resources of a container."""
        known = as_release_sees(self.policy, pod)
        own = next(c for c in known.containers if c.name == container.name)
        return cri_resources(self.policy, known, own, self.templates.of(pod).qos)

    def sandbox_messages(self, pod: Pod) -> tuple[CriResources | None, CriResources | None]:
        """``resources`` and ``overhead`` of LinuxPodSandboxConfig; None where not sent."""
        if not self.policy.choices.sandbox_resources:
            return None, None
        known = as_release_sees(self.policy, pod)
        rules = self.policy.sum_rules
        sums = requests(known, rules, overhead=False), limits(known, rules, overhead=False)
        overhead: tuple[Quantities, Quantities] = (pod.overhead, pod.overhead)
        over = sandbox_cri_resources(self.policy, overhead) if pod.overhead else None
        return sandbox_cri_resources(self.policy, sums), over

    def upper(self, qos_totals: QosTotals) -> list[Cgroup]:
        """kubepods, the reserved cgroups and the QoS cgroups."""
        return [self._cgroup(*one) for one in self._upper(qos_totals)]

    def tier(self, qos_totals: QosTotals, qos: QosClass) -> Cgroup:
        """The QoS cgroup of a class."""
        return self._cgroup(*self._tier(qos_totals, qos))

    def _cgroup(self, parts: Sequence[str], level: Level, files: Files) -> Cgroup:
        name, path = self._places(parts)
        return Cgroup(name, level, files.settings(), path, _unit(path, self.policy.node.driver))

    def unwritten(self, cgroup: Cgroup, pods: Sequence[Pod]) -> Mapping[str, NotWritten]:
        """The files that the rules leave alone in a planned cgroup, by their names in v2; ``pods``
        are those of the plan."""
        pod = cgroup.pod
        if self.policy.node.os == "windows" or cgroup.level == "sandbox":
            return {}
        if pod is None:
            totals = QosTotalsBuilder()
            for one in filter(self.admits, pods):
                plan = self.templates.of(one)
                totals.add(plan.qos, plan.memory, plan.milli, apart=plan.apart)
            for parts, _, files in self._upper(totals.qos_totals):
                if self._places(parts)[0] == cgroup.name:
                    return files.unwritten
            return {}
        if cgroup.container is not None:
            return container_unwritten(self.policy, self.message(pod, cgroup.container))
        template, known = self.templates.of(pod), as_release_sees(self.policy, pod)
        return pod_files(self.policy, known, template.qos, template.sums).unwritten

    def _upper(self, qos_totals: QosTotals) -> Iterator[tuple[Sequence[str], Level, Files]]:
        """The name, the level and the files of every cgroup above pods, parents first."""
        policy, node = self.policy, self.policy.node
        if node.os == "windows":
            return
        yield from self._reserved()
        if not node.kubelet.cgroups_per_qos:
            return
        if policy.memory_qos == "qoslet" and len(self._root) > 1:
            yield self._root[:-1], "node", root_files(policy, qos_totals)
        yield self._root, "node", node_files(policy, qos_totals)
        yield self._tier(qos_totals, "Burstable")
        yield self._tier(qos_totals, "BestEffort")

    def _tier(self, qos_totals: QosTotals, qos: QosClass) -> tuple[Sequence[str], Level, Files]:
        tier = names.QOS_DIRECTORY[qos]
        files = qos_cgroup_files(self.policy, qos_totals, tier)
        return names.extend(self._root, tier), "qos", files

    def _reserved(self) -> Iterator[tuple[Sequence[str], Level, Files]]:
        kubelet = self.policy.node.kubelet
        for what, group in (
            ("system-reserved", kubelet.system_reserved_cgroup),
            ("kube-reserved", kubelet.kube_reserved_cgroup),
        ):
            options = kubelet.enforce_node_allocatable
            compressible = f"{what}-compressible" in options
            if group and (what in options or compressible):
                parts = names.parse(group, self.policy.node.driver)
                yield parts, "node", reserved_files(self.policy, what, compressible)


def distinct(cgroups: Sequence[Cgroup]) -> list[Cgroup]:
    """The same cgroups, each with a name of its own: without pod cgroups the containers of two pods
    can have one name, and those get the pod's UID in front, as their paths."""
    count = Counter(cgroup.name for cgroup in cgroups)
    return [
        replace(cgroup, name=_with_uid(cgroup.name, cgroup.pod.uid))
        if count[cgroup.name] > 1 and cgroup.pod is not None
        else cgroup
        for cgroup in cgroups
    ]


def _with_uid(name: str, uid: str) -> str:
    above, _, leaf = name.rpartition("/")
    return f"{above}/{uid}-{leaf}"


def _managers(policy: NodePolicy) -> Managers | None:
    """The CPU and memory managers of a node on which nothing is placed yet, if there are any."""
    if not places(policy):
        return None
    # imported where a static policy places pods, which most nodes have not
    from qoslet.core.managers.container_manager import Managers

    return Managers(policy)


def _unit(path: str, driver: names.DriverName) -> str | None:
    return path.rsplit("/", 1)[-1] or None if driver == "systemd" else None
