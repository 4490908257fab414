"""The static CPU manager policy.

A container of a Guaranteed pod that requests whole CPUs gets them exclusively, picked by topology
(see ``cpu_assignment``). All other containers use the shared pool. Reserved CPUs are never
exclusive. Later containers of a pod reuse the CPUs of its init containers.
Source: kubelet pkg/kubelet/cm/cpumanager policy_static.go, policy_options.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.managers.cpu_assignment import PickOptions, pick
from qoslet.core.managers.topology_hints import Hint, NodeSets, bits, numbers
from qoslet.core.node.topology import NO_CPUS, Cpus, Topology, listed
from qoslet.core.rules.catalog import rule

POLICY = "kubelet pkg/kubelet/cm/cpumanager/policy_static.go"

Holder = tuple[str, str]
"""A container: the UID of its pod and its name."""


@rule("cpuset.exclusive", POLICY)
def _exclusive(count: int, cpus: str, place: str = "") -> str:
    return f"static policy, Guaranteed, {count} whole CPUs -> exclusive {cpus}{place}"


@rule("cpuset.shared", POLICY)
def _shared(cpus: str) -> str:
    return f"static policy: CPUs that are not exclusive -> {cpus}"


class CpuRefusal(Struct, frozen=True):
    """Why a kubelet would not admit a pod: the reason of its Failed phase, its message, and what
    its owner can do."""

    reason: str
    message: str
    hint: str


def _misaligned(asked: int, threads: int) -> CpuRefusal:
    return CpuRefusal(
        "SMTAlignmentError",
        f"{asked} CPUs are not a multiple of the {threads} threads of a core",
        "request whole cores, or disable full-pcpus-only",
    )


def _no_cores(asked: int, free: int, threads: int) -> CpuRefusal:
    return CpuRefusal(
        "SMTAlignmentError",
        f"{asked} CPUs of whole cores requested, {free} free ({threads} threads per core)",
        "request fewer CPUs, or move pods",
    )


def _too_few(asked: int, free: int) -> CpuRefusal:
    return CpuRefusal(
        "UnexpectedAdmissionError",
        f"{asked} exclusive CPUs requested, {free} free",
        "request fewer CPUs, reserve fewer, or move pods",
    )


class CpuManager:
    """The exclusive CPUs of containers. ``reserved`` CPUs are never exclusive."""

    def __init__(self, topology: Topology, options: PickOptions, reserved: Cpus) -> None:
        self.topology = topology
        self.options = options
        self.reserved = reserved
        self._sets: NodeSets | None = None
        self._sockets: dict[int, set[int]] | None = None
        self._own: dict[str, dict[str, Cpus]] = {}
        self.taken: Cpus = NO_CPUS
        """All exclusive CPUs; a new object whenever the set changes."""

    def of(self, uid: str) -> Mapping[str, Cpus]:
        """The CPUs of a pod's containers, by name."""
        return self._own.get(uid, {})

    def kept(self) -> dict[Holder, Cpus]:
        """The CPUs of every container."""
        return {
            (uid, name): cpus
            for uid, containers in self._own.items()
            for name, cpus in containers.items()
        }

    def restore(self, kept: Mapping[Holder, Cpus]) -> None:
        """Replace all assignments by those of an earlier run."""
        self._own = {}
        for (uid, name), cpus in kept.items():
            self._own.setdefault(uid, {})[name] = cpus
        self.taken = NO_CPUS.union(*kept.values())

    def shared(self) -> Cpus:
        """The shared pool; empty only without reserved CPUs, or with strict-cpu-reservation."""
        usable = self.topology.cpus
        if self.options.strict_reservation:
            usable -= self.reserved
        return usable - self.taken

    def release(self, uid: str) -> bool:
        """Release the CPUs of a pod; whether it had any."""
        if self._own.pop(uid, None) is None:
            return False
        self.taken = NO_CPUS.union(*self.kept().values())
        return True

    def free(self) -> Cpus:
        """The CPUs that can become exclusive."""
        return self.topology.cpus - self.reserved - self.taken

    def hints(self, asked: int, reuse: Cpus = NO_CPUS) -> list[Hint]:
        """The sets of NUMA nodes with ``asked`` free CPUs; ``reuse`` must be within."""
        topology, free = self.topology, self.free() - reuse
        by_node = {node: len(cpus) for node, cpus in topology.groups("node", free).items()}
        reuse_mask = bits(topology.groups("node", reuse))
        whole = {node: len(cpus) for node, cpus in topology.whole("node").items()}
        free_count = {node: by_node.get(node, 0) for node in whole}
        fewest, masks = len(whole), []
        if self._sets is None:
            self._sets = NodeSets(whole)
        most, room = self._sets.sums(whole), self._sets.sums(free_count)
        missing = asked - len(reuse)
        for mask, index, size in self._sets.all:
            if most[index] >= asked and size < fewest:
                fewest = size
            if room[index] >= missing and reuse_mask & ~mask == 0:
                masks.append(mask)
        return [Hint(mask, self._preferred(mask, fewest)) for mask in masks]

    def _preferred(self, mask: int, least: int) -> bool:
        if mask.bit_count() == least:
            return True
        topology = self.topology
        nodes_per_socket = topology.count("node") // topology.count("socket")
        if not self.options.align_by_socket or not nodes_per_socket:
            return False
        if self._sockets is None:
            whole = topology.whole("node").items()
            self._sockets = {node: set(topology.groups("socket", cpus)) for node, cpus in whole}
        sockets = set[int]().union(*(self._sockets[node] for node in numbers(mask)))
        return len(sockets) == -(-least // nodes_per_socket)

    def allocate(
        self, holder: Holder, asked: int, hint: Hint, reuse: Cpus = NO_CPUS
    ) -> Cpus | CpuRefusal:
        """Assign ``asked`` CPUs to a container, those of the hint's nodes first; a container that
        has CPUs keeps them. ``reuse`` are those of the pod's init containers."""
        uid, name = holder
        if name in self.of(uid):
            return self.of(uid)[name]
        free = self.free() | reuse
        refused = self._unaligned(asked, reuse)
        if refused is not None:
            return refused
        near_cpus: Cpus = NO_CPUS
        if hint.nodes is not None:
            near_free = self._near(hint.nodes, free)
            near_cpus = (
                pick(self.topology, near_free, min(asked, len(near_free)), self.options) or NO_CPUS
            )
        rest = pick(self.topology, free - near_cpus, asked - len(near_cpus), self.options)
        if rest is None:
            return _too_few(asked, len(free))
        self._own.setdefault(uid, {})[name] = near_cpus | rest
        self.taken |= near_cpus | rest
        return near_cpus | rest

    def _unaligned(self, asked: int, reuse: Cpus) -> CpuRefusal | None:
        """Why full-pcpus-only refuses; cores with a reserved thread do not count as whole."""
        if not self.options.full_pcpus_only:
            return None
        threads = self.topology.each("core")
        if asked % threads:
            return _misaligned(asked, threads)
        pool = self.shared() - self.topology.cores_of(self.reserved) | reuse
        return _no_cores(asked, len(pool), threads) if asked > len(pool) else None

    def _near(self, mask: int, free: Cpus) -> Cpus:
        """Free CPUs of the nodes; of their whole sockets with align-by-socket."""
        whole = self.topology.whole("node")
        inside = NO_CPUS.union(*(whole.get(node, NO_CPUS) for node in numbers(mask)))
        if self.options.align_by_socket:
            sockets = self.topology.groups("socket", inside)
            inside = NO_CPUS.union(*(self.topology.whole("socket")[socket] for socket in sockets))
        return inside & free

    def place(self, cpus: Cpus) -> str:
        """The place of CPUs in words: whole cores or threads, and NUMA nodes."""
        if self.topology.flat:
            return ""
        words = []
        if self.topology.each("core") > 1:
            whole = self.topology.cores_of(cpus) == cpus
            words.append("whole cores" if whole else "threads of shared cores")
        if self.topology.count("node") > 1:
            words.append(f"NUMA node {listed(self.topology.groups('node', cpus))}")
        return f" ({', '.join(words)})" if words else ""


def reserved_cpus(topology: Topology, named: Cpus, count: int, options: PickOptions) -> Cpus:
    """The reserved CPUs: the named ones, else ``count`` picked by topology."""
    if named:
        return named & topology.cpus
    return pick(topology, topology.cpus, min(count, len(topology.cpus)), options) or NO_CPUS
