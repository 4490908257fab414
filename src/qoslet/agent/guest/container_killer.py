"""Ends a container as the kernel's OOM killer would: its kubelet starts it again by its restart
policy. So many an hour, no more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from qoslet.agent.ports import CgroupKiller
from qoslet.core.api.pod import Pod
from qoslet.errors import CannotDo

MOST_AN_HOUR = 6
HOUR_SECONDS = 3600.0


class GuestContainerKiller:
    """One for each node; matches ``agent.guest.ports.GuestEvictor``. ``clock`` gives monotonic seconds."""

    def __init__(self, killer: CgroupKiller, clock: Callable[[], float]) -> None:
        self._killer = killer
        self._clock = clock
        self._ended: deque[float] = deque(maxlen=MOST_AN_HOUR)

    @property
    def count(self) -> int:
        """How many were ended, of those that count for the hour."""
        return len(self._ended)

    def end_container(self, pod: Pod, container: str, path: str, why: str) -> None:
        """Kill every process of a container. Raises CannotDo where the hour's are used up or a
        process is left."""
        now = self._clock()
        if len(self._ended) == MOST_AN_HOUR and now - self._ended[0] < HOUR_SECONDS:
            raise CannotDo(f"{MOST_AN_HOUR} containers were ended within the hour")
        if not path:
            raise CannotDo(f"the cgroup of container {container} of {pod.key} is not known")
        self._ended.append(now)
        if not self._killer.kill(path):
            raise CannotDo(f"container {container} of {pod.key} has processes left", where=path)
