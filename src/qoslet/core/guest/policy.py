"""What a guest may do on a node: its mode, the files that it may write, what it may end."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.audit.writers import level_of
from qoslet.core.cgroup.interface_files import MEMORY_QOS
from qoslet.core.node.node import Node
from qoslet.core.reconcile.file_writers import Level
from qoslet.core.resources.cgroup_tree import Cgroup, Plan, Setting
from qoslet.core.resources.node_policy import node_policy

GuestMode = Literal["watch", "protect", "guard"]
GUEST_MODES: tuple[GuestMode, ...] = get_args(GuestMode)
"""``watch`` only reads. ``protect`` writes the files of the policy. ``guard`` reacts to stalls, too."""

Ends = Literal["none", "container", "pod"]
"""``pod`` evicts through the API server, and ends a container where that is refused."""
ENDS: tuple[Ends, ...] = get_args(Ends)

NAMEABLE = (*MEMORY_QOS, "memory.oom.group", "cpu.weight", "cpu.shares")
"""The files that a policy may name. None of them is a limit that kills or refuses when it is written."""


class GuestPolicy(Struct, frozen=True):
    """``memory_qos`` and ``throttling_factor`` None: as the kubelet's configuration says. ``ends``:
    what the guard may end where nothing else helps; ``named`` are critical pods
    (``namespace/name``) that it may end, too. ``namespaces``: those whose pods it is about; None:
    all. ``node_condition``: whether the node's status says what differs."""

    mode: GuestMode = "watch"
    files: frozenset[str] = frozenset(MEMORY_QOS)
    memory_qos: str | None = None
    throttling_factor: str | None = None
    ends: Ends = "none"
    named: frozenset[str] = frozenset()
    namespaces: frozenset[str] | None = None
    node_condition: bool = False

    @property
    def writable(self) -> frozenset[str]:
        """The files that may be written in this mode."""
        return frozenset() if self.mode == "watch" else self.files

    def covers(self, namespace: str) -> bool:
        """Whether it is about the pods of a namespace."""
        return self.namespaces is None or namespace in self.namespaces


def governed(plan: Plan, policy: GuestPolicy, root: str) -> tuple[Cgroup, ...]:
    """The planned cgroups of kubepods, QoS classes, pods and containers, each with its settings that
    the policy lets a guest write; ``root`` is the name of kubepods. CPU shares of QoS classes are left
    to the kubelet, which writes them each minute."""
    found = []
    for cgroup in plan.cgroups:
        if cgroup.path is None or level_of(cgroup, root) not in _LEVELS:
            continue
        rows = writable_settings(cgroup, level_of(cgroup, root), policy)
        if rows:
            found.append(replace(cgroup, settings=rows))
    return tuple(found)


def writable_settings(cgroup: Cgroup, level: Level, policy: GuestPolicy) -> tuple[Setting, ...]:
    """The settings of a planned cgroup of this level that a guest may write."""
    files = policy.writable
    if cgroup.pod is not None and not policy.covers(cgroup.pod.namespace):
        return ()
    return tuple(
        row
        for row in cgroup.settings
        if row.file in files and not (level == "qos" and row.file in _UPDATED)
    )


def agreed(plan: Plan, others: Iterable[Plan]) -> Plan:
    """The plan without the settings that any of the ``others`` has otherwise."""
    for other in others:
        values = {one.name: {row.file: row.value for row in one.settings} for one in other.cgroups}
        cgroups = tuple(
            replace(
                one,
                settings=tuple(
                    row
                    for row in one.settings
                    if values.get(one.name, {}).get(row.file) == row.value
                ),
            )
            for one in plan.cgroups
        )
        plan = replace(plan, cgroups=cgroups)
    return plan


_UPDATED = ("cpu.weight", "cpu.shares")
"""Source: cm/qos_container_manager_linux.go UpdateCgroups."""
_LEVELS = ("kubepods", "qos", "pod", "container")


def nothing_to_write(
    policy: GuestPolicy, cgroups: Collection[Cgroup], node: Node, pods: int
) -> str:
    """Why a guest that may write has nothing to; empty where it has, or may not."""
    if cgroups or not policy.writable or not pods:
        return ""
    if node.hierarchy == "v1" and policy.files <= {*MEMORY_QOS, "memory.oom.group"}:
        return "cgroup v1 has no Memory QoS: nothing is written"
    if node_policy(node).memory_qos == "off":
        return "Memory QoS is off in this kubelet: nothing is written; name a variant with --memory-qos"
    return "the plan of this node has none of the files of the policy: nothing is written"


def may_not_end(
    policy: GuestPolicy, key: str, *, critical: bool, uid: str, own: Iterable[str] = ()
) -> str:
    """Why a guest may not end a container of a pod, named ``namespace/name``; empty where it may.
    ``own`` are the UIDs of the agent's own pod."""
    if policy.ends == "none":
        return "ending containers is not enabled (--evict container)"
    if not policy.covers(key.partition("/")[0]):
        return "its namespace is not one of the policy's"
    if uid in own:
        return "it is the agent's own pod"
    if critical and key not in policy.named:
        return "a static, mirror or critical pod is not ended unless the policy names it"
    return ""
