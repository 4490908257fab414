"""The static CPU manager policy: which CPUs a container may use.

Whole CPUs that a Guaranteed pod's container asks for become its own, picked by how they lie (see
``topologypick``); every other container shares what is left. Reserved CPUs are never anybody's
own. What an init container had is taken again by those that follow it in the same pod.
Source: kubelet pkg/kubelet/cm/cpumanager policy_static.go, policy_options.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.managers.cpu_assignment import PickOptions, pick
from qoslet.core.managers.topology_hints import Hint, bits, numbers, sets_of
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


class Refusal(Struct, frozen=True):
    """Why a kubelet would not admit a pod: the reason of its Failed phase, its message, and what
    its owner can do."""

    reason: str
    message: str
    hint: str


def _misaligned(asked: int, each: int) -> Refusal:
    return Refusal(
        "SMTAlignmentError",
        f"{asked} CPUs are not a multiple of the {each} threads of a core",
        "request whole cores, or disable full-pcpus-only",
    )


def _no_cores(asked: int, free: int, each: int) -> Refusal:
    return Refusal(
        "SMTAlignmentError",
        f"{asked} CPUs of whole cores requested, {free} free ({each} threads per core)",
        "request fewer CPUs, or move pods",
    )


def _too_few(asked: int, free: int) -> Refusal:
    return Refusal(
        "UnexpectedAdmissionError",
        f"{asked} exclusive CPUs requested, {free} free",
        "request fewer CPUs, reserve fewer, or move pods",
    )


class CpuManager:
    """Who has which CPUs. ``reserved`` are never given away."""

    def __init__(self, topology: Topology, options: PickOptions, reserved: Cpus) -> None:
        self.topology = topology
        self.options = options
        self.reserved = reserved
        self._sets: list[tuple[int, tuple[int, ...]]] = []
        self._own: dict[str, dict[str, Cpus]] = {}
        self.taken: Cpus = NO_CPUS
        """Every CPU that is somebody's own: another object whenever it is another set."""

    def of(self, uid: str) -> Mapping[str, Cpus]:
        """What the containers of a pod have, by name."""
        return self._own.get(uid, {})

    def kept(self) -> dict[Holder, Cpus]:
        """What every container has."""
        return {(uid, name): cpus for uid, own in self._own.items() for name, cpus in own.items()}

    def restore(self, kept: Mapping[Holder, Cpus]) -> None:
        """Take up what an earlier run handed out, in place of what is."""
        self._own = {}
        for (uid, name), cpus in kept.items():
            self._own.setdefault(uid, {})[name] = cpus
        self.taken = NO_CPUS.union(*kept.values())

    def shared(self) -> Cpus:
        """The pool of all others; empty only if nothing is reserved, or strictly."""
        usable = self.topology.cpus
        if self.options.strict_reservation:
            usable -= self.reserved
        return usable - self.taken

    def release(self, uid: str) -> bool:
        """Give back what the containers of a pod had; whether there was anything."""
        if self._own.pop(uid, None) is None:
            return False
        self.taken = NO_CPUS.union(*self.kept().values())
        return True

    def free(self) -> Cpus:
        """What may become somebody's own."""
        return self.topology.cpus - self.reserved - self.taken

    def hints(self, asked: int, reuse: Cpus = NO_CPUS) -> list[Hint]:
        """The sets of NUMA nodes with ``asked`` free CPUs; ``reuse`` must be within."""
        topology, free = self.topology, self.free() - reuse
        by_node = {node: len(cpus) for node, cpus in topology.groups("node", free).items()}
        again = bits(topology.groups("node", reuse))
        whole = {node: len(cpus) for node, cpus in topology.whole("node").items()}
        have = {node: by_node.get(node, 0) for node in whole}
        least, found = len(whole), []
        if not self._sets:
            self._sets = [(mask, numbers(mask)) for mask in sets_of(sorted(whole))]
        for mask, inside in self._sets:
            if sum([whole[node] for node in inside]) >= asked:
                least = min(least, len(inside))
            room = len(reuse) + sum([have[node] for node in inside])
            if again & ~mask == 0 and room >= asked:
                found.append(mask)
        return [Hint(mask, self._preferred(mask, least)) for mask in found]

    def _preferred(self, mask: int, least: int) -> bool:
        if mask.bit_count() == least:
            return True
        topology = self.topology
        each = topology.count("node") // topology.count("socket")
        if not self.options.align_by_socket or not each:
            return False
        inside = [topology.whole("node")[node] for node in numbers(mask)]
        sockets = topology.groups("socket", NO_CPUS.union(*inside))
        return len(sockets) == -(-least // each)

    def allocate(
        self, holder: Holder, asked: int, hint: Hint, reuse: Cpus = NO_CPUS
    ) -> Cpus | Refusal:
        """Give ``asked`` CPUs to a container, those of the hint's nodes first; what it has is
        kept. ``reuse`` are those of init containers of the pod."""
        uid, name = holder
        if name in self.of(uid):
            return self.of(uid)[name]
        free = self.free() | reuse
        refused = self._unaligned(asked, reuse)
        if refused is not None:
            return refused
        found: Cpus = NO_CPUS
        if hint.nodes is not None:
            near = self._near(hint.nodes, free)
            found = pick(self.topology, near, min(asked, len(near)), self.options) or NO_CPUS
        rest = pick(self.topology, free - found, asked - len(found), self.options)
        if rest is None:
            return _too_few(asked, len(free))
        self._own.setdefault(uid, {})[name] = found | rest
        self.taken |= found | rest
        return found | rest

    def _unaligned(self, asked: int, reuse: Cpus) -> Refusal | None:
        """Why full-pcpus-only refuses; a core of which a thread is reserved is no whole one."""
        if not self.options.full_pcpus_only:
            return None
        each = self.topology.each("core")
        if asked % each:
            return _misaligned(asked, each)
        pool = self.shared() - self.topology.cores_of(self.reserved) | reuse
        return _no_cores(asked, len(pool), each) if asked > len(pool) else None

    def _near(self, mask: int, free: Cpus) -> Cpus:
        """Free CPUs of the nodes; of their whole sockets with align-by-socket."""
        whole = self.topology.whole("node")
        inside = NO_CPUS.union(*(whole.get(node, NO_CPUS) for node in numbers(mask)))
        if self.options.align_by_socket:
            sockets = self.topology.groups("socket", inside)
            inside = NO_CPUS.union(*(self.topology.whole("socket")[one] for one in sockets))
        return inside & free

    def place(self, cpus: Cpus) -> str:
        """How CPUs lie, for a reason: whole cores or threads, the sockets and the NUMA nodes."""
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
    """CPUs that are never given away: the named ones, else ``count`` picked by topology."""
    if named:
        return named & topology.cpus
    return pick(topology, topology.cpus, min(count, len(topology.cpus)), options) or NO_CPUS
