"""What kubelets told of their release: the same while their process runs, and /metrics, which tells it, takes
seconds on a busy node."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

from qoslet.host.kubelet.answers import KubeletAnswer
from qoslet.host.kubelet.processes import KubeletProcess, started_at

PATIENCE = 3.0
"""A kubelet that did not tell its release is asked again after so many times as long as that took."""


class _Answer(Struct, frozen=True):
    process: tuple[str, int] | None
    again_at: float
    release: str | None
    place: str


class KubeletRelease:
    """Of the kubelet that was asked last. ``clock`` tells seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = 0.0
        self._last: _Answer | None = None

    def begin(self, process: KubeletProcess, answers: KubeletAnswer) -> bool:
        """Put what the process told before into ``answers``; whether it is to be asked now, and ``end`` to be
        called then."""
        self._begun = self._clock()
        last, identity = self._last, _identity(process)
        if last is None or identity is None or last.process != identity:
            return True
        if last.release is None:
            return self._begun >= last.again_at
        answers.release, answers.places["/metrics"] = last.release, last.place
        return False

    def end(self, process: KubeletProcess, answers: KubeletAnswer) -> None:
        """Take in what the process answered."""
        now, place = self._clock(), answers.places.get("/metrics", "")
        again_at = now + PATIENCE * (now - self._begun)
        self._last = _Answer(_identity(process), again_at, answers.release, place)


def _identity(process: KubeletProcess) -> tuple[str, int] | None:
    """What no other process has; None where this machine does not tell when it started."""
    started = started_at(process)
    return None if started is None else (process.folder, started)
