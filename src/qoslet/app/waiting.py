"""Says who is waited for, in the time before anything else can say so."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from qoslet.render.text.streams import note

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from qoslet.host.systemd.bus import Bus

SECONDS = 1.0
"""How long systemd may take for an answer before it is said that it is waited for."""
KUBELET_SECONDS = 2.0
"""The same of a kubelet and its runtime, which are asked several questions."""


def say_waiting(bus: Bus, say: Callable[[str], None] = note) -> None:
    """Tell once when systemd has not answered for a while."""
    since, waits = time.monotonic(), [say]

    def idle() -> None:
        if waits and time.monotonic() - since >= SECONDS:
            waits.pop()(f"waiting for systemd to answer ({bus.address})")

    bus.idle = idle


def kubelet_waiting(
    say: Callable[[str], None] = note, seconds: float = KUBELET_SECONDS
) -> AbstractContextManager[None]:
    """Tell once when what is done within takes longer than ``seconds``: it asks a kubelet."""
    from qoslet.host.linux.clock import overdue

    return overdue(seconds, lambda: say("waiting for the kubelet and its runtime to answer"))
