"""Joins the agent beside a kubelet with this machine: its tree, its journal, its memory."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.agent.guest.condition_keeper import ConditionKeeper
from qoslet.agent.guest.container_killer import MOST_AN_HOUR, GuestContainerKiller
from qoslet.agent.guest.guest_agent import GuestAgent
from qoslet.agent.guest.hour_budget import HourBudget
from qoslet.agent.guest.pod_evictions import GuestEvictions
from qoslet.agent.guest.pod_guard import PodGuard
from qoslet.agent.guest.policy_files import PolicyFiles
from qoslet.agent.guest.ports import NodeView
from qoslet.agent.ports import Clock
from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.ownership import Ownership
from qoslet.app import tree as owned_tree
from qoslet.app.agent.host_run import memory_of
from qoslet.app.guest.auditor import MachineAuditor
from qoslet.app.guest.node_inputs import NodeInputs
from qoslet.app.guest.plugin_values import PluginValues
from qoslet.core.cgroup.names import to_cgroupfs
from qoslet.core.guest.policy import NAMEABLE
from qoslet.core.node.node import needs_linux
from qoslet.core.reconcile.journal import AGENT
from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.async_writes import AsyncWrites
from qoslet.host.cgroupfs.layout import unified
from qoslet.host.cluster.client_library import HINT, ClusterAccess, is_installed, open_session
from qoslet.host.cluster.node_status import NodeStatusWriter
from qoslet.host.cluster.pod_evictor import PodEvictor
from qoslet.host.linux.mlock import lock_memory
from qoslet.host.machine.utilization import Killing
from qoslet.host.state.folder import folder_of
from qoslet.host.state.hour_file import HourFile

if TYPE_CHECKING:
    from qoslet.app.tree import OwnedTree, TreeLocation


class GuestRun(Struct):
    """An agent ready to sync. ``folder`` is its state folder; ``mend`` makes again what was removed
    of it; ``notes`` are those of taking up the tree, and of the driver."""

    agent: GuestAgent
    tree: OwnedTree
    folder: str
    mend: Callable[[], None]
    notes: Callable[[], Sequence[str]]


def location_of(view: NodeView) -> TreeLocation:
    """Where the kubelet's tree is on this machine. Raises CannotDo."""
    node = view.plan.node
    needs_linux(node)
    root = to_cgroupfs(node.kubelet.pods_cgroup)
    if root in ("", "/"):
        raise CannotDo(
            "this kubelet makes no cgroup for its pods (cgroupsPerQOS: false)",
            hint="use qoslet audit",
        )
    return owned_tree.place_of(root, node.hierarchy, node.driver)


@contextmanager
def joined(
    inputs: NodeInputs, clock: Clock, view: NodeView, interval: float, access: ClusterAccess
) -> Iterator[GuestRun]:
    """The agent on this machine, alone with the kubelet's tree. Raises CannotDo where another agent
    is, or where ``audit --fix`` has left values. ``view`` is the node as it was read first, ``access``
    the cluster that pods are evicted through."""
    location, policy = location_of(view), view.policy
    with (
        owned_tree.tree(location, write=True, verb=AGENT) as tree,
        memory_of(tree, None) as memory,
        closing(MachineAuditor(inputs)) as auditor,
        closing(PodEvictor(partial(open_session, access), access.namespace)) as client,
    ):
        executor = executor_of(tree)
        allow, plugin = tree.allow_foreign_writes, PluginValues(location.root)
        files = PolicyFiles(executor, clock.monotonic, allow=allow, plugin=plugin)
        killer = Killing(tree.driver.kill)
        state = os.path.dirname(folder_of(location.root))
        ended, asked = (HourFile(state, location.root, name) for name in ("ended", "evictions"))
        budget = HourBudget(MOST_AN_HOUR, clock.monotonic, ended)
        name = view.plan.node.name or inputs.node_name or os.uname().nodename
        ends = GuestEvictions(
            GuestContainerKiller(killer, budget), budget, client, name, clock.monotonic, asked
        )
        guard = PodGuard(executor, clock, killer, memory, ends, own_pods())
        condition = ConditionKeeper(
            NodeStatusWriter(partial(open_session, access), name),
            HourFile(state, location.root, "condition"),
            *(clock.monotonic, time.time, random.random),
        )
        agent = GuestAgent(inputs, auditor, files, executor, clock, guard, interval, condition)
        journal = tree.journal
        assert journal is not None
        if policy.mode == "guard" and (wrong := lock_memory()):
            tree.notes.append(f"the kernel may reclaim the agent's memory under pressure: {wrong}")
        if policy.node_condition and not is_installed():
            tree.notes.append(f"the status of the node has no condition: {HINT}")
        if policy.ends == "pod" and not is_installed():
            tree.notes.append(f"no pod is evicted, containers are ended: {HINT}")

        def mend() -> None:
            tree.notes += [line for line in journal.mend() if line not in tree.notes]

        def notes() -> list[str]:
            return [*tree.notes, *tree.driver.notes]

        yield GuestRun(agent, tree, folder_of(location.root), mend, notes)


def executor_of(tree: OwnedTree) -> CgroupExecutor:
    """What writes in a tree of another manager: files that a policy may name, in cgroups that are
    there. It makes and removes none, and enables no controller."""
    driver, journal = tree.driver, tree.journal
    if (layout := unified(driver.layout)) is not None:
        layout.wanted = frozenset()
    if journal is not None:
        journal.wants_before = True
    driver.slow = AsyncWrites()
    files = frozenset(NAMEABLE)
    ownership = Ownership(tree.place.root, tree.ledger.adopted, tree.ledger.cgroups, files)
    return CgroupExecutor(ownership, driver, tree, time.monotonic, journal=journal)


def own_pods() -> frozenset[str]:
    """The UID of the pod that this process runs in, by its cgroup; none outside of one."""
    with suppress(OSError), open("/proc/self/cgroup", encoding="utf-8") as file:
        found = re.findall(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})", file.read())
        return frozenset(uid.replace("_", "-") for uid in found)
    return frozenset()
