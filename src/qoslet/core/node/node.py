"""A node: what the machine offers, what its owner wants, and what is left for pods.

``Node`` is complete and resolved: every field has a value (or says "unknown" with None), and
``origins`` tells where it came from. Reading documents and flags is the work of ``resolve``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from qoslet.core.api.pod import NO_QUANTITIES, Quantities
from qoslet.core.cgroup.names import Components, DriverName, root_of
from qoslet.core.node.topology import Layout, NumaNode
from qoslet.core.problem import Severity
from qoslet.core.quantity import ZERO, Quantity, canonical, from_int, from_nano, sub, total
from qoslet.core.versions import feature_gates
from qoslet.core.versions.kubernetes import Profile
from qoslet.errors import CannotDo

Hierarchy = Literal["v1", "v2"]

ENFORCE_OPTIONS = (
    "pods",
    "system-reserved",
    "system-reserved-compressible",
    "kube-reserved",
    "kube-reserved-compressible",
    "none",
)


PLANNED_CONTROLLERS = frozenset(("cpu", "cpuset", "memory", "pids", "hugetlb"))
"""The controllers of which a plan has files."""


class HostFacts(Struct, frozen=True):
    """What the machine offers. None means unknown, which is not "no".

    ``hugepage_sizes`` are bytes; ``controllers`` those bound to the hierarchy;
    ``mounts`` the v1 controller to mount point, or the options of the v2 mount.
    """

    hierarchy: Hierarchy = "v2"
    kernel: str | None = None
    page_size: int = 4096
    hugepage_sizes: tuple[int, ...] = ()
    swap_controller: bool = True
    systemd: int | None = None
    controllers: frozenset[str] | None = None
    hugetlb_rsvd: bool = True
    psi: bool | None = None
    mounts: Mapping[str, str] = {}
    numa: tuple[NumaNode, ...] = ()
    layout: Layout | None = None
    """Which CPUs share a core, a socket, a last-level cache."""
    cpus: str | None = None
    """The CPU list of the machine (``0-7``); None: counted from the capacity."""

    @property
    def may_lack_files(self) -> bool:
        """Whether a controller of a plan may be missing, or a file that came before Linux 6. Hosts
        without ``hugetlb`` alone have no huge pages to speak of."""
        if self.controllers is not None and PLANNED_CONTROLLERS - self.controllers - {"hugetlb"}:
            return True
        major = (self.kernel or "").partition(".")[0]
        return major.isdecimal() and int(major[:6]) < 6


class Kubelet(Struct, frozen=True):
    """The part of KubeletConfiguration that decides about cgroups; names as there.

    ``qos_reserved`` is a percentage; ``memory_throttling_factor`` None means unset.
    """

    cgroups_per_qos: bool = True
    cgroup_root: str = "/"
    cpu_cfs_quota: bool = True
    cpu_cfs_quota_period_us: int = 100_000
    pod_pids_limit: int = -1
    cpu_manager_policy: str = "none"
    cpu_manager_options: Mapping[str, bool] = {}
    memory_manager_policy: str = "None"
    reserved_memory: Mapping[int, Quantities] = {}
    """NUMA node to what is reserved there."""
    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    topology_manager_options: Mapping[str, str] = {}
    enforce_node_allocatable: tuple[str, ...] = ("pods",)
    kube_reserved: Quantities = NO_QUANTITIES
    system_reserved: Quantities = NO_QUANTITIES
    kube_reserved_cgroup: str = ""
    system_reserved_cgroup: str = ""
    reserved_system_cpus: str = ""
    eviction_hard: Mapping[str, str] = {}
    """Signal to threshold text: a quantity or a percentage."""
    feature_gates: Mapping[str, bool] = {}
    """Only what the owner set; defaults come from the profile."""
    swap_behavior: str = ""
    memory_throttling_factor: float | None = None
    memory_reservation_policy: str = "None"
    single_process_oom_kill: bool | None = None
    qos_reserved: int | None = None
    fail_cgroup_v1: bool = True
    fail_swap_on: bool = True
    max_pods: int = 110
    pods_per_core: int = 0
    """0: no limit."""
    container_log_max_size: int = 10 << 20
    container_log_max_files: int = 5
    seccomp_default: bool = False

    @property
    def pods_cgroup(self) -> Components:
        """The abstract name of the cgroup of all pods."""
        return root_of(self.cgroup_root, self.cgroups_per_qos)


class Assumed(Struct, frozen=True):
    """A field of a described machine that no document gives: its value as a document would write
    it, and why it is thought to be this."""

    field: str
    value: str
    why: str


class Node(Struct, frozen=True):
    """A node with every choice made. ``kubelet_given`` tells that a real KubeletConfiguration was
    among the input, ``is_partial`` that it is a part of one, of which a distribution sets the rest."""

    name: str | None
    capacity: Quantities
    swap: int
    host: HostFacts
    kubelet: Kubelet
    profile: Profile
    driver: DriverName = "cgroupfs"
    os: Literal["linux", "windows"] = "linux"
    isolation: Literal["process", "hyperv"] | None = None
    kubelet_given: bool = False
    is_partial: bool = False
    probed: tuple[str, ...] = ()
    assumed: tuple[Assumed, ...] = ()
    origins: Mapping[str, str] = {}
    status_allocatable: Quantities = NO_QUANTITIES
    """What ``node.status`` of a kubectl document said, to compare with."""

    def __repr__(self) -> str:
        """The node in one short line."""
        amounts = {name: canonical(self.capacity[name]) for name in ("cpu", "memory")}
        size = ", ".join(f"{name}={amount!r}" for name, amount in amounts.items())
        release = f"kubernetes={self.profile.kubernetes!r}, hierarchy={self.hierarchy!r}"
        return f"Node({self.name!r}, {release}, driver={self.driver!r}, {size})"

    @property
    def hierarchy(self) -> Hierarchy:
        """v1 or v2; a hybrid host reads as v1."""
        return self.host.hierarchy

    @property
    def refusal(self) -> Severity:
        """How severe it is what a kubelet refuses at its start: an error where its whole
        configuration is known."""
        return "error" if self.kubelet_given and not self.is_partial else "warning"

    def gate(self, name: str) -> bool:
        """Whether a feature gate is on: the owner's word, else the release's default."""
        given = self.given_gate(name)
        return self.profile.gates.get(name, False) if given is None else given

    def gate_by_release(self, name: str) -> bool:
        """The same for a gate that decides about no value, which profiles do not hold."""
        given = self.given_gate(name)
        return feature_gates.default(name, self.profile.minor) if given is None else given

    def given_gate(self, name: str) -> bool | None:
        """What the owner says of a gate: by its name, else by AllAlpha or AllBeta; None: nothing."""
        gates = self.kubelet.feature_gates
        if name in gates or not gates:
            return gates.get(name)
        group = feature_gates.group_in(name, self.profile.minor)
        return gates.get(group) if group is not None else None

    def origin(self, field: str) -> str:
        """Where a field came from, for explanations."""
        return self.origins.get(field, "default")


def seccomp_default(node: Node) -> bool:
    """Whether a container that asks for no seccomp profile gets the runtime's. Source: KEP-2413;
    the gate is gone where the field always counts."""
    if not node.kubelet.seccomp_default:
        return False
    given = node.given_gate("SeccompDefault")
    default = feature_gates.default("SeccompDefault", node.profile.minor)
    return default if given is None else given


def pods_limit(node: Node) -> int:
    """How many pods the kubelet takes. Source: kubelet nodestatus MachineInfo (podsPerCore)."""
    kubelet = node.kubelet
    if kubelet.pods_per_core <= 0 or "cpu" not in node.capacity:
        return kubelet.max_pods
    return min(kubelet.max_pods, node.capacity["cpu"].milli // 1000 * kubelet.pods_per_core)


def can_swap(node: Node) -> bool:
    """Whether the node has swap, or may have it: its kubelet starts with it."""
    return node.swap > 0 or not node.kubelet.fail_swap_on


def reserved(node: Node) -> Quantities:
    """system-reserved plus kube-reserved, per resource."""
    system, kube = node.kubelet.system_reserved, node.kubelet.kube_reserved
    return {
        name: total(q[name] for q in (system, kube) if name in q) for name in {**system, **kube}
    }


def _without(capacity: Quantities, taken: Quantities) -> dict[str, Quantity]:
    """Capacity less ``taken``, never below zero."""
    left = {}
    for name, amount in capacity.items():
        rest = sub(amount, taken[name]) if name in taken else amount
        left[name] = rest if rest.nano >= 0 else from_int(0, rest.format)
    return left


def unevicted(node: Node) -> Quantities:
    """Capacity less the reservations: the ``allocatable`` of Memory QoS and ``--qos-reserved``.

    Source: kubelet cm GetNodeAllocatableAbsolute, getNodeAllocatableAbsoluteImpl.
    """
    return _without(node.capacity, reserved(node))


def enforced(node: Node) -> Quantities:
    """What kubepods gets: ``unevicted`` if ``pods`` is enforced, else the capacity.

    Source: kubelet cm node_container_manager_linux.go enforceNodeAllocatableCgroups.
    """
    if "pods" in node.kubelet.enforce_node_allocatable:
        return unevicted(node)
    return node.capacity


_EVICTION_RESOURCE = {"memory.available": "memory", "nodefs.available": "ephemeral-storage"}


def _float32(number: float) -> float:
    """``number`` rounded to IEEE 754 binary32."""
    from struct import pack, unpack

    return float(unpack("f", pack("f", number))[0])


def eviction_reservation(node: Node) -> Quantities:
    """The hard eviction thresholds as amounts; percentages are float32, as the kubelet's.

    Source: kubelet cm hardEvictionReservation, eviction GetThresholdQuantity.
    """
    from qoslet.core.quantity import parse

    result: dict[str, Quantity] = {}
    for signal, text in node.kubelet.eviction_hard.items():
        resource = _EVICTION_RESOURCE.get(signal)
        # 0% and 100% are how an owner switches a threshold off.
        if resource is None or resource not in node.capacity or text in ("0%", "100%"):
            continue
        if text.endswith("%"):
            share = _float32(_float32(float(text[:-1])) / 100)
            result[resource] = from_int(
                int(float(node.capacity[resource].value) * share), "BinarySI"
            )
        else:
            result[resource] = parse(text)
    return result


def allocatable(node: Node) -> Quantities:
    """``node.status.allocatable``: capacity less reservations, thresholds and hugepages.

    Source: kubelet cm GetNodeAllocatableReservation, nodestatus setters.MachineInfo.
    """
    held = reserved(node)
    evicted = eviction_reservation(node)
    taken = {
        name: total(q[name] for q in (held, evicted) if name in q) for name in {**held, **evicted}
    }
    left = _without(node.capacity, taken)
    huge = sum(q.value for name, q in node.capacity.items() if name.startswith("hugepages-"))
    if huge and "memory" in left:
        rest = sub(left["memory"], from_int(huge))
        left["memory"] = rest if rest.nano >= 0 else from_nano(0, rest.format)
    left.pop("pid", None)
    return left


_RESERVING = ("kubeReserved", "systemReserved", "evictionHard", "reservedSystemCPUs")


def is_flag(node: Node, fields: Sequence[str]) -> bool:
    """Whether a flag gives one of these fields of a KubeletConfiguration."""
    return any(node.origins.get(field, "").startswith("--") for field in fields)


def schedulable(node: Node) -> Quantities:
    """What the scheduler counts with: what the node reports, or what is left by its configuration
    where one is given, or a flag that decides about it. Devices are those that are healthy."""
    reported = node.status_allocatable
    if reported and not (node.kubelet_given or is_flag(node, _RESERVING)):
        return reported
    devices = {name: amount for name, amount in reported.items() if "/" in name}
    return {**allocatable(node), **devices}


def amount(quantities: Quantities, name: str) -> Quantity:
    """The amount of a resource, zero where it is not listed."""
    return quantities.get(name, ZERO)


def needs_linux(node: Node) -> None:
    """Raise CannotDo for a node whose pods have no cgroups."""
    if node.os == "windows":
        message = f"{node.origins.get('os', 'os')}: a Windows node has no cgroups"
        raise CannotDo(message, hint="describe a Linux node, or use qoslet plan and convert")
