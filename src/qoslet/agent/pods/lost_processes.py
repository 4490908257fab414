"""Reports containers whose process another process moved out of their cgroups."""

from __future__ import annotations

from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.cgroup.observed import Observed


class LostProcesses:
    """Compares the process of each container with where it was seen. One that is missing in two
    resyncs is told once: between the two looks of one, a container may have started again."""

    def __init__(self, context: SyncContext) -> None:
        self._context = context
        self._missing: dict[int, bool] = {}

    def find(self, seen: Observed) -> None:
        """Compare everything that exists with the processes of the containers."""
        missing: dict[int, bool] = {}
        places = {pid: path for path, one in seen.cgroups.items() for pid in one.pids}
        for worker in self._context.workers.values():
            for state in worker.container_states:
                pid = state.pid
                if not state.running or pid is None or state.cgroup not in seen.cgroups:
                    continue
                if state.starting:
                    # it joins its cgroup before it executes the command
                    continue
                if is_at_or_below(places.get(pid, ""), state.cgroup):
                    continue
                if not self._context.killer.lives(pid):
                    # it ended, and its keeper has not seen that yet
                    continue
                told = self._missing.get(pid)
                if told is False:
                    self._context.log.notes.append(
                        f"{worker.key}/{state.name}: process {pid} was moved out of {state.cgroup}: "
                        "its limits do not hold for it; write its number to cgroup.procs there, or "
                        "restart the container"
                    )
                missing[pid] = told is not None
        self._missing = missing
