"""The loop on a kernel made of values, and the loop that is only asked for its commands."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from qoslet.agent.config import Config
from qoslet.agent.desired_state import ManifestSource
from qoslet.agent.memory_ports import MemoryParts
from qoslet.agent.reconciler import Reconciler
from qoslet.app.agent.parts import AgentRun, reserved_cgroups, shell_lines, title_of
from qoslet.core.api.memory_annotations import SIMULATE
from qoslet.core.node.node import Node
from qoslet.core.reconcile.steps import Step
from qoslet.core.rules.hugetlb import size_text
from qoslet.host.linux.clock import Signals, WakingClock
from qoslet.sim.behaviour import Behaviour, behaviour_of, old_key
from qoslet.sim.kernel import SimKernel, controllers_of, facts_of
from qoslet.sim.memory import SimMemory
from qoslet.sim.runtime import SimRuntime
from qoslet.sim.volumes import SimVolumes

if TYPE_CHECKING:
    from qoslet.app.tree import OwnedTree


def simulated(config: Config, source: ManifestSource, node: Node, signals: Signals) -> AgentRun:
    """The loop on a kernel made of values."""

    cores = max(node.capacity["cpu"].milli / 1000, 1.0)
    cpus = node.host.cpus or (f"0-{round(cores) - 1}" if cores > 1 else "0")
    kernel = SimKernel(
        node.hierarchy,
        controllers=controllers_of(node),
        clock=time.monotonic,
        facts=facts_of(node, cpus),
        swap=node.host.swap_controller,
        hugepages=[size_text(size) for size in node.host.hugepage_sizes],
    )
    for path in reserved_cgroups(source, config.root):
        kernel.perform([Step("create", path)])

    documents: dict[str, Mapping[str, Any]] = {}
    spelt_old: set[str] = set()

    def behave(uid: str, name: str, role: str) -> Behaviour:
        # a pod that is ending has no manifest any more
        documents[uid] = source.document(uid) or documents.get(uid, {})
        old = old_key(documents[uid], name)
        if old and old not in spelt_old:
            spelt_old.add(old)
            reconciler.context.log_note(f"{old} is an old spelling: rename it to {SIMULATE}{name}")
        return behaviour_of(documents[uid], name, role)

    sim = SimRuntime(
        kernel,
        behave,
        time.monotonic,
        config.root,
        cores=cores,
        memory=node.capacity["memory"].value,
    )
    clock = WakingClock(signals, source.descriptors)
    seen = SimMemory(sim, time.monotonic, node.capacity["memory"].value, summed=True)
    memory = MemoryParts(seen, seen, seen)
    reconciler = Reconciler(
        config, kernel, sim, sim, SimVolumes(), clock, kernel, machine=sim, memory=memory
    )
    title = f"{title_of(config, node, cores)} · simulated"
    shell = partial(shell_lines, kernel, kernel, config, source)
    return AgentRun(config, source, reconciler, clock, signals, title, shell)


def dry(
    config: Config, source: ManifestSource, tree: OwnedTree, signals: Signals, title: str
) -> AgentRun:
    """A loop that is not turned: only its commands are shown."""

    clock = WakingClock(signals)
    kernel = SimKernel(tree.place.hierarchy)
    nobody = SimRuntime(kernel, lambda uid, name, role: Behaviour(0.0), time.monotonic, config.root)
    reconciler = Reconciler(config, kernel, kernel, nobody, SimVolumes(), clock, kernel)
    shell = partial(shell_lines, tree.driver, tree.observer, config, source)
    return AgentRun(config, source, reconciler, clock, signals, title, shell)
