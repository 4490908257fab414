"""Sandboxes of ours that ended and that no pod has: what another client, an agent that was killed, or the
runtime itself left. They are removed; adopting one would start the containers of its pod again.

Source: containerd 1.6 RemovePodSandbox, which fails for good where ``ctr containers rm`` removed a container
of the sandbox, until containerd is restarted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from qoslet.host.cri.calls import WORK_SECONDS, Away, CallFailed, Calls
from qoslet.host.cri.pb import cri_pb2 as pb

RETRY_SECONDS = 1.0
LONGEST_SECONDS = 60.0
"""How long the next attempt at one that the runtime cannot remove waits; doubled each time up to this."""

_OVER = (pb.CONTAINER_CREATED, pb.CONTAINER_EXITED)


def has_ended(box: pb.PodSandbox, containers: Iterable[pb.Container]) -> bool:
    """Whether a sandbox is stopped, and nothing runs in it."""
    return box.state != pb.SANDBOX_READY and not any(
        one.pod_sandbox_id == box.id and one.state not in _OVER for one in containers
    )


def not_removed(key: str, sandbox: str, error: CallFailed) -> str:
    """A line about a sandbox that the runtime keeps though it was asked to remove it."""
    return f"{key}: the runtime does not remove its stopped sandbox {sandbox}: {error.message}; nothing of it runs, and containerd may remove it only after a restart"


class StoppedSandboxes:
    """Those that could not be removed yet, by id: when the next attempt is due, and how long the one after
    it waits."""

    def __init__(self, note: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._note, self._clock = note, clock
        self._kept: dict[str, tuple[float, float]] = {}

    async def remove(self, calls: Calls, box: pb.PodSandbox) -> None:
        """Remove one. What the runtime keeps is said once and tried again. Raises ``Away``."""
        due, pause = self._kept.get(box.id, (0.0, RETRY_SECONDS))
        if self._clock() < due:
            return
        try:
            stop = pb.StopPodSandboxRequest(pod_sandbox_id=box.id)
            await calls("StopPodSandbox", stop, pb.Empty, WORK_SECONDS)
            remove = pb.RemovePodSandboxRequest(pod_sandbox_id=box.id)
            await calls("RemovePodSandbox", remove, pb.Empty, WORK_SECONDS)
        except Away:
            raise
        except CallFailed as error:
            if box.id not in self._kept:
                key = f"{box.metadata.namespace}/{box.metadata.name}"
                self._note(not_removed(key, box.id, error))
            self._kept[box.id] = (self._clock() + pause, min(2 * pause, LONGEST_SECONDS))
        else:
            self._kept.pop(box.id, None)
