"""The static CPU manager policy: which CPUs a container may use.

Integer CPU requests of Guaranteed pods get CPUs of their own, in the order of the pods, the
lowest free ones first, within one NUMA node where it has room; every other container shares
what is left. Which CPUs a live kubelet picked is in its cpu_manager_state: it depends on the
order of admission and on the machine's threads and sockets.
Source: kubelet pkg/kubelet/cm/cpumanager policy_static.go, cpu_assignment.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from qoslet.core.basis import Basis
from qoslet.core.containers import exclusive
from qoslet.core.knobs import cpu_list, cpu_numbers
from qoslet.core.node import amount, reserved
from qoslet.core.pod import Pod, QosClass
from qoslet.core.quantity import ZERO
from qoslet.core.rules.catalog import rule

POLICY = "kubelet pkg/kubelet/cm/cpumanager/policy_static.go"


class Pools(Struct, frozen=True):
    """The CPUs of the exclusive containers by pod UID and name, and those of all others."""

    exclusive: dict[tuple[str, str], str]
    shared: str
    short: tuple[tuple[Pod, str], ...] = ()
    """Containers that asked for CPUs of their own when too few were left."""


@rule("cpuset.exclusive", POLICY)
def _exclusive(count: int, cpus: str) -> str:
    return f"static policy, Guaranteed, {count} whole CPUs -> {cpus} of its own"


@rule("cpuset.shared", POLICY)
def _shared(cpus: str) -> str:
    return f"static policy: what no container has for itself -> {cpus}"


def _held_back(basis: Basis, cpus: list[int]) -> set[int]:
    """CPUs that are never given away: the named ones, else as many as are reserved, rounded up."""
    named = basis.node.kubelet.reserved_system_cpus
    if named:
        return set(cpu_numbers(named))
    return set(cpus[: amount(reserved(basis.node), "cpu").value])


def _take(free: list[int], count: int, numa: list[set[int]]) -> list[int]:
    """The lowest ``count`` free CPUs of the first NUMA node with room, else of all."""
    for node in numa:
        inside = [cpu for cpu in free if cpu in node]
        if len(inside) >= count:
            return inside[:count]
    return free[:count]


def pools(basis: Basis, pods: Iterable[tuple[Pod, QosClass]]) -> Pools:
    """Hand out the CPUs of the node to the containers of ``pods``, in their order."""
    cpus = sorted(cpu_numbers(basis.cpus))
    held = _held_back(basis, cpus)
    free = [cpu for cpu in cpus if cpu not in held]
    numa = [set(cpu_numbers(text)) for text, _ in basis.node.host.numa]
    given: dict[tuple[str, str], str] = {}
    taken: set[int] = set()
    short = []
    for pod, qos in pods:
        for container in pod.containers:
            if not exclusive(basis, container, qos):
                continue
            count = container.resources.requests.get("cpu", ZERO).milli // 1000
            picked = _take(free, count, numa)
            if len(picked) < count:
                short.append((pod, container.name))
                continue
            given[pod.uid, container.name] = cpu_list(",".join(map(str, picked)))
            if container.role == "init":
                continue  # its CPUs are used again by the containers that follow
            taken.update(picked)
            free = [cpu for cpu in free if cpu not in taken]
    shared = cpu_list(",".join(str(cpu) for cpu in cpus if cpu not in taken))
    return Pools(given, shared, tuple(short))
