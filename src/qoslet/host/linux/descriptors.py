"""How descriptors are waited for and closed, how many this process may have, and how many of them may be kept for speed.

Source: getrlimit(2) RLIMIT_NOFILE; the soft limit is usually 1024 because of select(2), the hard
one is what the owner allows (systemd.exec(5) LimitNOFILE).
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EINVAL, EMFILE, ENFILE

from qoslet.errors import CannotDo

EXHAUSTED = (EMFILE, ENFILE)
"""Errors that closing what is only kept may cure."""

LEAST = 48
"""Descriptors without which an agent cannot work: its state, sockets, pipes and one cgroup in every
v1 hierarchy."""

_FEW = 256
_PAUSE = 1.0
_usual: tuple[int, int] | None = None


def raise_limit() -> None:
    """Take as many descriptors as this process may have. Raises CannotDo where that is too few."""
    global _usual
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != hard < LEAST:
        raise CannotDo(
            f"may open {hard} files at most, needs {LEAST}",
            where="RLIMIT_NOFILE",
            hint="raise it: ulimit -n 1024, or LimitNOFILE= of the unit",
        )
    if soft != hard:
        _usual = _usual or (soft, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def usual_limit() -> Iterator[None]:
    """The limit from before ``raise_limit``, for a child that is started meanwhile."""
    if _usual is None:
        yield
        return
    import resource

    raised = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, _usual)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, raised)


def polled(poller: select.poll, milliseconds: float | None) -> list[tuple[int, int]]:
    """What the poller finds within that time. Nothing, at most a second later, while this process may have fewer
    descriptors than the poller waits for: somebody has lowered its limit, and may raise it again."""
    try:
        return poller.poll(milliseconds)
    except OSError as error:
        if error.errno != EINVAL:
            raise
    time.sleep(_PAUSE if milliseconds is None else min(_PAUSE, max(0.0, milliseconds / 1000)))
    return []


def ready(*descriptors: int, seconds: float = 0.0, event: int = select.POLLIN) -> list[int]:
    """Those of ``descriptors`` for which there is ``event`` within ``seconds``, or an error or a hang-up;
    whatever their numbers, where select(2) knows none beyond 1023."""
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, event)
    return [number for number, _ in polled(poller, round(seconds * 1000))]


@contextmanager
def owned(descriptor: int) -> Iterator[int]:
    """Close a descriptor at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def are_few() -> bool:
    """Whether this process may have so few descriptors that it must do with less at a time."""
    return _soft_limit() < _FEW


def kept_at_most() -> int:
    """Descriptors that may be kept for speed, by all of this process."""
    return max(2, (_soft_limit() - LEAST) // 2)


def _soft_limit() -> int:
    """The descriptors that this process may have; a large number where it is not limited."""
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
