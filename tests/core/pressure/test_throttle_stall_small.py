"""A memory.high of a few MiB, a large part of which the kernel charges at once."""

from __future__ import annotations

import pytest

from qoslet.core.memory.sample import Pressure
from tests.core.pressure.test_throttle_stall import MIB, after, sample


@pytest.mark.parametrize(("current", "state"), [(930_000, "stalled"), (700_000, "calm")])
def test_what_was_charged_ahead_is_gone_while_a_task_waits(current: int, state: str) -> None:
    """Linux 6.12, memory.high 1 MiB: 64 pages are charged with each page, and each fault took two seconds, for
    minutes; usage was read as 0.9 MiB, and memory.high was crossed as a fault began."""
    looks = [
        sample(
            n / 2,
            current=current + 2048 * n,
            high=MIB,
            local={"high": 17 * (n // 4)},
            stat={"anon": current + 2048 * n},
            pressure=Pressure(0, n * 500_000, 0, n * 500_000),
        )
        for n in range(8)
    ]
    assert after(*looks).verdict.state == state
