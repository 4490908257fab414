"""What a plugin of the runtime sets in containers: the values that the agent would write there.

Only where nothing can be refused by it: two plugins that set one key fail the creation, so a key that
is in a request already is left.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.interface_files import MEMORY_QOS, released
from qoslet.core.guest.nri_container import NO_VALUES, NriContainer, Unified
from qoslet.core.guest.policy import GuestPolicy, writable_settings
from qoslet.core.node.node import Node
from qoslet.core.resources.cgroup_tree import Cgroup, Plan

CARRIED = frozenset({*MEMORY_QOS, "memory.oom.group"})
"""The files that are set: CPU shares have fields of their own, which the kubelet fills."""
HANDLERS = ("", "runc", "crun")
"""Runtime handlers whose containers have their cgroup on this machine's kernel for certain."""
HIGH, MAX = "memory.high", "max"

ContainerKey = tuple[str, str]
"""The UID of a pod, and the name of a container."""


class ContainerValues(Struct, frozen=True):
    """``values`` are those to set, ``memory_limit`` is what the plan was made with (bytes, None
    without one)."""

    values: Unified
    memory_limit: int | None = None


def kubelet_sets(node: Node) -> bool:
    """Whether the kubelet sends ``unified`` of its own."""
    return node.gate("MemoryQoS")


class PlannedContainers:
    """The containers of one plan after another, most of whose cgroups are those of the plan before."""

    def __init__(self) -> None:
        self._made_for: tuple[GuestPolicy, bool] | None = None
        self._known: dict[ContainerKey, tuple[Cgroup, ContainerValues]] = {}

    def of(self, plan: Plan, policy: GuestPolicy) -> dict[ContainerKey, ContainerValues]:
        """The containers of a plan on cgroup v2, with what is to be set: nothing where the kubelet sets
        Memory QoS itself, as no runtime tells what it sends, which would have to be given back. None on
        v1, whose runtimes know no ``unified``."""
        if plan.node.hierarchy == "v1":
            return {}
        made_for = policy, kubelet_sets(plan.node)
        known = self._known if made_for == self._made_for else {}
        found = dict[ContainerKey, tuple[Cgroup, ContainerValues]]()
        for cgroup in plan.cgroups:
            if cgroup.level != "container" or cgroup.pod is None or cgroup.container is None:
                continue
            key = cgroup.pod.uid, cgroup.container.name
            before = known.get(key)
            if before is None or before[0] is not cgroup:
                before = cgroup, _values(cgroup, *made_for)
            found[key] = before
        self._made_for, self._known = made_for, found
        return {key: values for key, (_, values) in found.items()}


def _values(cgroup: Cgroup, policy: GuestPolicy, kubelets: bool) -> ContainerValues:
    """What is to be set in a planned container; ``kubelets``: the kubelet does it itself."""
    carried = frozenset() if kubelets else CARRIED
    rows = writable_settings(cgroup, "container", policy)
    values = {row.file: row.value for row in rows if row.file in carried}
    limits = [row.value for row in cgroup.settings if row.file == "memory.max"]
    limit = int(limits[0]) if limits and limits[0] != MAX else None
    return ContainerValues(values, limit)


def may_carry(container: NriContainer) -> bool:
    """Whether values may be set in a container at all."""
    return container.path is not None and container.handler in HANDLERS


def is_current(planned: ContainerValues, container: NriContainer) -> bool:
    """Whether a plan was made with the resources that the kubelet sends: in a resize it may not be."""
    return planned.memory_limit == container.memory_limit


def values_at_creation(planned: ContainerValues, container: NriContainer) -> Unified:
    """What to set in a container that is being created."""
    return {file: one for file, one in planned.values.items() if file not in container.unified}


def values_to_change(
    planned: ContainerValues | None,
    holds: Unified,
    back: Unified,
    usage: int | None,
) -> Unified:
    """What to set in a container that exists, whose files hold ``holds`` as far as is known; ``back``
    is from ``values_to_return``. ``planned`` None: its pod is not known. ``usage`` in bytes: a
    ``memory.high`` below it is left to the agent, since the runtime would wait in the kernel for
    memory to be reclaimed, and all creations of containers with it."""
    wanted = {
        file: value
        for file, value in (NO_VALUES if planned is None else planned.values).items()
        if not (file in holds and same(file, value, holds[file]))
    }
    return {
        file: value for file, value in {**wanted, **back}.items() if not _blocks(file, value, usage)
    }


def values_to_return(
    planned: ContainerValues | None, policy: GuestPolicy, ours: Mapping[str, str | None]
) -> Unified:
    """What files hold again that were set and are not to be any more: the policy names them no
    longer, or the plan of their pod has none. ``ours`` are those that were set, with what they would
    hold otherwise (None: what the kernel begins with). They are sent whatever they hold: the runtime
    writes what it was sent last with each change."""
    back = dict[str, str]()
    for file, before in ours.items():
        is_kept = file in policy.writable and (planned is None or file in planned.values)
        value = released(file, "v2") if before is None else before
        if not is_kept and value is not None:
            back[file] = value
    return back


def _blocks(file: str, value: str, usage: int | None) -> bool:
    """Whether writing a value makes the writer reclaim memory."""
    if file != HIGH or value == MAX:
        return False
    return usage is None or usage > int(value)
