"""Containers of a pod are asked to end a few at a time: containerd's shim hangs for good where many of its
children end at once."""

from __future__ import annotations

import time

from qoslet.host.cri.container_stops import STOPS_AT_ONCE, TURN_SECONDS
from tests.host.cri.test_runtime import Hand, hand, server, spec_of

__all__ = ["hand", "server"]


def test_containers_that_take_their_grace_periods_are_asked_in_turn(hand: Hand) -> None:
    names = [f"c{number}" for number in range(STOPS_AT_ONCE + 3)]
    containers = ", ".join(f"{{name: {name}, image: 'localhost/app:1'}}" for name in names)
    hand.runtime.start(spec_of(f"{{hostNetwork: true, containers: [{containers}]}}"), {})
    hand.running(*names)
    hand.server.stubborn.set()
    hand.runtime.stop("uid", 60.0)

    def asked() -> list[int]:
        return [one.timeout for method, one in hand.server.asked if method == "StopContainer"]

    hand.until(lambda: len(asked()) == STOPS_AT_ONCE)
    begun = time.monotonic()
    hand.until(lambda: len(asked()) > STOPS_AT_ONCE)
    assert time.monotonic() - begun > TURN_SECONDS / 2
    hand.until(lambda: len(asked()) == len(names))
    assert min(asked()) > 50, "each has its grace period"
    hand.server.stubborn.clear()
    hand.ends()
    assert len(asked()) == len(names)
