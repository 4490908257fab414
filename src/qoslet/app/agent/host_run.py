"""Joins the loop with a keeper, volumes and a tree that is ours: what of a run outlives it, and how
it is undone."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from qoslet.agent.config import Config
from qoslet.agent.memory_ports import MemoryParts
from qoslet.agent.ports import Observer
from qoslet.agent.reconciler import Reconciler
from qoslet.app.agent.parts import AgentRun, shell_lines, title_of
from qoslet.app.runtimes import cri_run
from qoslet.app.runtimes.managers import take_up_managers
from qoslet.app.teardown import keeper_of, remove_files, undo
from qoslet.host.cgroupfs.async_writes import AsyncWrites
from qoslet.host.cgroupfs.lifted_limits import frozen_at, lifting
from qoslet.host.cgroupfs.observe.usage_observer import UsageObserver
from qoslet.host.cgroupfs.proactive_reclaim import KernelReclaim
from qoslet.host.containers.log_files import LogLimits
from qoslet.host.containers.log_place import link_again, place_logs
from qoslet.host.containers.pod_volumes import PodVolumes
from qoslet.host.keeper.client import KeeperRuntime
from qoslet.host.linux.clock import Signals, WakingClock
from qoslet.host.linux.mlock import lock_memory
from qoslet.host.machine.thread_priority import ThreadPriority, lacking_priority
from qoslet.host.machine.utilization import Killing, MachineUtilization
from qoslet.host.memory.event_watch import KernelWatch
from qoslet.host.memory.oom_log import KernelLog
from qoslet.host.memory.reader import MemoryFiles
from qoslet.host.memory.shared_segments import KernelSegments
from qoslet.host.state.folder import LOGS, folder_of, own_log_directory
from qoslet.host.state.memory_counters import KeptCounters
from qoslet.host.systemd.leave_service import leave_service

if TYPE_CHECKING:
    from qoslet.agent.desired_state import ManifestSource
    from qoslet.app.runtimes.cri_run import CriChoice
    from qoslet.app.tree import OwnedTree
    from qoslet.host.cri.runtime import CriRuntime


@contextmanager
def joined(
    config: Config,
    source: ManifestSource,
    tree: OwnedTree,
    signals: Signals,
    machine: MachineUtilization,
    chosen: CriChoice | None = None,
) -> Iterator[AgentRun]:
    """The loop with containers in the hands of a keeper, or of the container runtime that was
    chosen, in a tree that is ours alone. A start that does not get to its first sync leaves
    nothing behind."""
    folder = folder_of(config.root)
    made = _Started(tree, folder, frozenset(os.listdir(folder)))
    try:
        logs = own_log_directory()
        if cri_run.has_records(folder):
            link_again(folder, logs)
        unplaced = place_logs(folder, logs)
        if unplaced:
            tree.notes.append(unplaced)
        runtime = made.runtime = _taken_up(tree, folder, source, chosen)
        yield _host_run(config, source, made, runtime, (signals, machine), chosen)
    finally:
        made.leave()


class _Started:
    """What a run began, as far as it came. ``before`` are the names that were in its folder."""

    def __init__(self, tree: OwnedTree, folder: str, before: frozenset[str]) -> None:
        self.tree, self.folder, self._before = tree, folder, before
        self.rest = ExitStack()
        self.runtime: KeeperRuntime | CriRuntime | None = None
        self.reconciler: Reconciler | None = None

    def leave(self) -> None:
        """Part from the runtime; where nothing is kept, nothing of it stays."""
        self.rest.close()
        synced = self.reconciler if self.reconciler and self.reconciler.last_result else None
        over = synced is not None and not (
            synced.context.config.keep_pods or synced.context.workers
        )
        if self.runtime is not None:
            self.runtime.close(1.0 if over else 0.0)
        if over:
            remove_files(self.folder)
        elif synced is None and not cri_run.has_records(self.folder):
            remove_files(self.folder, keep=self._before)
            if not self.tree.ledger.cgroups:
                undo(self.tree)


def _host_run(
    config: Config,
    source: ManifestSource,
    made: _Started,
    runtime: KeeperRuntime | CriRuntime,
    around: tuple[Signals, MachineUtilization],
    chosen: CriChoice | None,
) -> AgentRun:
    """The loop, and what surfaces need of it."""
    signals, machine = around
    tree, folder, rest = made.tree, made.folder, made.rest
    driver, observer = tree.driver, observer_of(tree)
    driver.slow = AsyncWrites()
    volumes = PodVolumes(folder, lasting=config.keep_pods)
    volumes.collect()
    wakes: list[Callable[[], Sequence[int]]] = [runtime.descriptors, source.descriptors]
    clock = WakingClock(signals, lambda: [fd for one in wakes for fd in one()])
    _attend(tree, clock, signals)
    reconciler = made.reconciler = Reconciler(
        config,
        driver,
        observer,
        runtime,
        volumes,
        clock,
        Killing(driver.kill, lifting(driver, tree.ledger)),
        journal=tree.journal,
        machine=machine,
        memory=rest.enter_context(memory_of(tree, folder)),
        usage=rest.enter_context(_usage_of(tree)).observe,
        adopt=tree.adopt,
        frozen=partial(frozen_at, driver.layout),
    )
    _remember(reconciler, wakes, rest)
    tree.record_controllers()
    # what is loaded by now stays: a collection that walked it would hold up the guard
    gc.freeze()
    return AgentRun(
        *(config, source, reconciler, clock, signals),
        title_of(config, source.live.node, machine.cores),
        partial(shell_lines, driver, observer, config, source),
        undo=partial(undo, tree),
        notes=lambda: [*tree.notes, *driver.notes, *runtime.notes, *volumes.notes],
        log_lines=_log_lines(folder),
        folder=folder,
        exits=runtime.descriptors,
        mends=[partial(_mend, tree, folder, chosen)],
    )


def _log_lines(folder: str) -> Callable[[], list[tuple[str, str]]]:
    """What gives the lines that containers logged since it was asked last."""
    from qoslet.host.containers.log_reader import LogFollower

    fresh = LogFollower(f"{folder}/{LOGS}")
    return lambda: list(fresh.lines())


def _mend(tree: OwnedTree, folder: str, chosen: CriChoice | None) -> None:
    """Make again what was removed of the state folder. Raises CannotDo where another process has
    the root now."""
    if tree.journal is not None:
        tree.notes += [line for line in tree.journal.mend() if line not in tree.notes]
    link_again(folder, own_log_directory())
    if chosen is not None:
        cri_run.mend_endpoint(chosen, folder)


def _remember(
    reconciler: Reconciler, wakes: list[Callable[[], Sequence[int]]], rest: ExitStack
) -> None:
    """What happens to memory wakes the loop, and is kept for the next one; an agent that guards the
    memory of others keeps its own."""
    wakes.append(reconciler.memory.descriptors)
    rest.callback(reconciler.memory.close)
    guard, note = reconciler.context.config.guard, reconciler.context.log_note
    wrong = lock_memory() if guard != "off" else ""
    if wrong:
        note(f"the kernel may reclaim the agent's memory under pressure: {wrong}")
    if guard == "act" and (lacks := lacking_priority()):
        note(f"the guard may wait for a CPU while containers stall: {lacks}")


def _taken_up(
    tree: OwnedTree, folder: str, source: ManifestSource, chosen: CriChoice | None
) -> KeeperRuntime | CriRuntime:
    """The containers of a tree, those of earlier agents known to ``source``. Raises CannotDo."""
    if chosen is not None:
        return cri_run.taken_up(chosen, tree, folder, source)
    cri_run.refuse_others(tree, folder)
    cri_run.look_beside(tree)
    kubelet = source.live.node.kubelet
    limits = LogLimits(kubelet.container_log_max_size, kubelet.container_log_max_files)
    runtime = keeper_of(tree, folder, limits)
    runtime.place = leave_service
    try:
        pods = runtime.list_pods()
        take_up_managers(source, tree, folder, pods)
    except BaseException:
        runtime.close(0.0)
        raise
    return runtime


@contextmanager
def memory_of(tree: OwnedTree, folder: str | None) -> Iterator[MemoryParts]:
    """What this machine's kernel tells of memory of a tree; counters are kept in ``folder``."""
    hierarchy, mounts = tree.place.hierarchy, tree.reach.mounts
    with closing(KernelWatch(hierarchy, mounts)) as watch, closing(KernelLog()) as log:
        cold = KernelReclaim(hierarchy, mounts) if hierarchy == "v2" else None
        kept = KeptCounters(folder) if folder is not None else None
        reader = MemoryFiles(hierarchy, mounts)
        yield MemoryParts(reader, watch, log, kept, cold, ThreadPriority(), KernelSegments())


def _usage_of(tree: OwnedTree) -> closing[UsageObserver]:
    """What reads the usage of a tree's cgroups."""
    return closing(UsageObserver(tree.place.hierarchy, tree.reach.mounts))


def _attend(tree: OwnedTree, clock: WakingClock, signals: Signals) -> None:
    """While systemd is waited for, signs of life go on, and a signal ends that wait."""
    if tree.place.driver != "systemd":
        return
    from qoslet.host.systemd.driver import Systemd

    assert isinstance(tree.driver, Systemd)
    bus = tree.driver.units.bus
    bus.idle, bus.interrupts = lambda: clock.idle(), signals.requested


def observer_of(tree: OwnedTree) -> Observer:
    """The observer of a tree; what keeps systemd's scopes is not seen."""
    if tree.place.driver != "systemd":
        return tree.observer
    from qoslet.host.systemd.driver import Systemd
    from qoslet.host.systemd.scope_holders import ScopeFilter

    assert isinstance(tree.driver, Systemd)
    return ScopeFilter(tree.observer, tree.driver.holders)
