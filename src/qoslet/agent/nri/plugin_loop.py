"""The loop of the plugin: it plans when pods or policy are others, keeps the connection, and changes
containers that exist. The thread that answers the runtime waits for nothing here but a new plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.agent.guest.ports import NodeSource, NodeView
from qoslet.agent.nri.planned_values import PlannedValues
from qoslet.agent.nri.plugin import NriPlugin
from qoslet.agent.nri.ports import PluginSurface, RuntimeLink
from qoslet.agent.ports import Clock
from qoslet.core.guest.nri_values import (
    ContainerKey,
    ContainerValues,
    PlannedContainers,
    kubelet_sets,
)
from qoslet.core.guest.policy import GuestPolicy
from qoslet.errors import QosletError

if TYPE_CHECKING:
    from qoslet.agent.loop import StopSignal

LONGEST_SECONDS = 60.0
"""Between two syncs if nothing wakes the loop."""

_KUBELET_SETS = "the kubelet's own Memory QoS is on: it has its values set at creation, the agent writes its own"


class PluginParts(Struct, frozen=True):
    """What the loop works with. ``hurry`` gives the thread that calls it the CPU before others, or no
    longer."""

    plugin: NriPlugin
    planned: PlannedValues
    source: NodeSource
    link: RuntimeLink
    clock: Clock
    surface: PluginSurface
    hurry: Callable[[bool], None] = lambda first: None


class PluginReconciler:
    """One for each node."""

    def __init__(self, parts: PluginParts) -> None:
        self._parts = parts
        self._view: NodeView | None = None
        self._in_force, self._planned = PlannedContainers(), PlannedContainers()
        self._found: dict[ContainerKey, ContainerValues] = {}
        self._resized: dict[ContainerKey, ContainerValues] = {}
        self._said: tuple[str, ...] = ()

    def run(self, stop: StopSignal, *, keep: bool = False, seconds: float | None = None) -> None:
        """Turn until the end is requested, or for so many ``seconds``. Raises QosletError where the
        node cannot be read at first."""
        clock = self._parts.clock
        until = None if seconds is None else clock.monotonic() + seconds
        try:
            while not stop.requested():
                self.sync()
                wait = self._wait_seconds()
                if until is not None:
                    wait = min(wait, until - clock.monotonic())
                    if wait <= 0:
                        break
                clock.sleep(wait)
        finally:
            self._parts.planned.close()
            self._end(keep=keep)

    def sync(self) -> None:
        """Plan, connect, change."""
        parts = self._parts
        self._plan()
        if line := parts.link.connect():
            parts.surface.log(line, wrong=not parts.link.is_connected)
        # an answer that is due waits for this thread: they share one interpreter
        parts.hurry(parts.link.is_connected)
        if parts.link.is_connected:
            self._change()
        parts.surface.synced(self._summary())

    def _plan(self) -> None:
        """Publish what is planned now. Raises QosletError where the node never was read."""
        parts, problems = self._parts, list[str]()
        asked = parts.planned.asked()
        if parts.planned.is_asked():
            parts.source.refresh()
        try:
            view = parts.source.current()
        except QosletError as error:
            if self._view is None:
                raise
            view, problems = self._view, [str(error)]
        before, self._view = self._view, view
        same = before is not None and before.in_force is view.in_force
        same = same and before is not None and before.plan is view.plan
        if not same or before is None or before.policy != view.policy:
            self._found = self._in_force.of(view.in_force, view.policy)
            is_resized = view.plan is not view.in_force
            self._resized = self._planned.of(view.plan, view.policy) if is_resized else {}
        parts.planned.answers_updates = view.plan.node.kubelet.swap_behavior in ("", "NoSwap")
        parts.planned.publish(self._found, view.policy, asked, self._resized)
        if kubelet_sets(view.plan.node) and view.policy.writable:
            problems.append(_KUBELET_SETS)
        lines = (*view.notes, *view.faults, *problems)
        for line in lines:
            if line not in self._said:
                parts.surface.log(line, wrong=True)
        self._said = lines

    def _change(self, policy: GuestPolicy | None = None) -> None:
        """Change the containers that exist."""
        try:
            lines = self._parts.plugin.write_changes(policy)
        except QosletError as error:
            lines = [f"containers are not changed: {error}"]
        for line in lines:
            self._parts.surface.log(line, wrong=True)

    def _wait_seconds(self) -> float:
        """Until something is due that no descriptor tells."""
        parts = self._parts
        if parts.planned.is_asked():
            return 0.0
        now = parts.clock.monotonic()
        times = [now + LONGEST_SECONDS, parts.source.next_at(), parts.link.next_at()]
        return max(0.0, min(at for at in times if at is not None) - now)

    def _end(self, *, keep: bool) -> None:
        """Leave the runtime, and give back what was set, unless it is kept."""
        parts = self._parts
        # once no callback is under way, no container gets values any more
        parts.link.close()
        parts.hurry(False)
        if keep:
            return
        self._change(GuestPolicy())
        left = len(parts.plugin.left())
        if left:
            line = f"values of {left} containers are left: qoslet release restores them"
            parts.surface.log(line, wrong=True)

    def _summary(self) -> str:
        """The state in one sentence."""
        plugin, view = self._parts.plugin, self._view
        pods = 0 if view is None else len(view.plan.pods)
        state = "registered" if self._parts.link.is_connected else "not registered"
        made = f"{plugin.set_containers} of {plugin.created_containers} new containers"
        return f"{state}; {pods} pods planned; values set in {made}"
