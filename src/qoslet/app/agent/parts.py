"""A loop that is ready to run, with what the command line decided and what surfaces need of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.agent.config import Config
from qoslet.agent.desired_state import ManifestSource
from qoslet.agent.loop import StopSignal
from qoslet.agent.ports import Driver, Observer
from qoslet.agent.reconciler import Reconciler
from qoslet.agent.state.input_problems import as_guarded
from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.node.node import Node
from qoslet.core.problem import Problem
from qoslet.core.reconcile.drift import Cause, compare
from qoslet.core.reconcile.step_order import ordered
from qoslet.core.resources.cgroup_tree import Cgroup
from qoslet.core.status.series import MetricsOptions
from qoslet.host.linux.clock import WakingClock

if TYPE_CHECKING:
    from socket import socket


class AgentRun(Struct):
    """A loop that is ready to run, and what its surface needs.

    ``undo`` restores cgroups of others. ``hang_up`` asks the loop to end because nobody watches any
    more. ``exits`` are readable where containers changed; ``ending`` is called at each look at pods
    that end with the loop. ``mends`` make again what was removed of the agent's files in ``folder``;
    each raises CannotDo. ``undelegated`` has why cgroups of the root do not get a controller, by its
    name.
    """

    config: Config
    source: ManifestSource
    reconciler: Reconciler
    clock: WakingClock
    stop: StopSignal
    title: str
    shell_lines: Callable[[], list[str]]
    reload: Callable[[], None] = lambda: None
    undo: Callable[[], list[str]] = list
    notes: Callable[[], Sequence[str]] = tuple
    log_lines: Callable[[], list[tuple[str, str]]] = list
    folder: str = ""
    hang_up: Callable[[], None] = lambda: None
    listener: socket | None = None
    metrics: MetricsOptions = MetricsOptions()
    exits: Callable[[], Sequence[int]] = tuple
    ending: Callable[[], None] = lambda: None
    mends: list[Callable[[], None]] = []
    undelegated: Mapping[str, str] = {}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What there is to say about the input, before the first sync, too."""
        acts = self.reconciler.context.config.guard == "act"
        return as_guarded(self.source.current().problems, acts=acts)


def title_of(config: Config, node: Node, cores: float) -> str:
    """What the screen is headed with."""
    return f"qoslet {config.root} · {node.hierarchy} · {cores:g} CPUs"


def reserved_cgroups(source: ManifestSource, root: str) -> dict[str, Cgroup]:
    """The planned groups outside the root, by path: those of reservations."""
    groups = {one.path: one for one in source.live.upper() if one.path is not None}
    return {path: one for path, one in groups.items() if not is_at_or_below(path, root)}


def shell_lines(
    driver: Driver, observer: Observer, config: Config, source: ManifestSource
) -> list[str]:
    """The commands that would make the tree true as it stands now."""
    wanted = source.live.plan()
    observer.watch(wanted.files)
    seen = observer.observe(config.root)
    outside = {path: observer.read_cgroup(path) for path in reserved_cgroups(source, config.root)}
    there = {path: one for path, one in outside.items() if one is not None}
    merged = type(seen)(seen.at, {**seen.cgroups, **there})
    theirs = {group.path for group in wanted.cgroups if group.by_runtime}
    rows = [
        row
        for row in compare(wanted, merged)
        if row.path not in theirs
        and (row.path not in outside or (row.verdict == "differs" and row.cause is Cause.PLANNED))
    ]
    return [driver.shell(step) for step in ordered(rows, merged, config.shrink)]
