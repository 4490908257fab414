"""Ends a container as the kernel's OOM killer would: its kubelet starts it again by its restart
policy. So many an hour, no more."""

from __future__ import annotations

from qoslet.agent.guest.hour_budget import HourBudget
from qoslet.agent.ports import CgroupKiller
from qoslet.core.api.pod import Pod
from qoslet.errors import CannotDo

MOST_AN_HOUR = 6


class GuestContainerKiller:
    """One for each node."""

    def __init__(self, killer: CgroupKiller, budget: HourBudget) -> None:
        self._killer = killer
        self._budget = budget

    def end_container(self, pod: Pod, container: str, path: str) -> None:
        """Kill every process of a container, whose cgroup is ``path``. Raises CannotDo where the
        hour's are used up or a process is left."""
        if self._budget.is_used_up:
            raise CannotDo(f"{self._budget.most} containers were ended within the hour")
        if not path:
            raise CannotDo(f"the cgroup of container {container} of {pod.key} is not known")
        self._budget.take()
        if not self._killer.kill(path):
            raise CannotDo(f"container {container} of {pod.key} has processes left", where=path)
