"""A task that stalls at memory.high beside others of its cgroup that get on."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.memory.sample import Pressure
from qoslet.core.pressure.throttle_stall import track_sample
from tests.core.pressure.test_throttle_stall import MIB, Look, sample, steady, verdicts


@pytest.mark.parametrize(
    ("waits", "cache", "seconds"), [(0.9, 0, 1.0), (0.3, 0, 11.0), (0.9, 20, 10.0)]
)
def test_cpus_of_others_do_not_hide_one_that_waits(
    waits: float, cache: int, seconds: float
) -> None:
    """A process computes beside one that allocates; with page cache to take back there is patience."""
    looks = [
        replace(
            one,
            usage_usec=n * 400_000,
            user_usec=n * 400_000,
            pressure=Pressure(0, 1 + int(n * waits * 5e5), 0, 0),
        )
        for n, one in enumerate(steady(40, held=250 - cache, cache=cache))
    ]
    found = [track for _, track in verdicts([Look(0, one) for one in looks])]
    states = [track.verdict.state for track in found]
    assert states.index("stalled") * 0.5 == pytest.approx(seconds, abs=0.5)
    assert found[1].ask is bool(cache), "its refusal decides"
    if cache:
        assert track_sample(found[1], looks[2], 0, refused=True).verdict.state == "stalled"


def test_pages_that_go_in_circles_are_no_progress() -> None:
    """Ten readers beside a process that grows, as a guest of 6.12 showed them twice a second: reclaim takes
    10 MiB a second, all of which is read again."""
    seen = (
        (473.60, 25133, 20013, 9680429, 77378),
        (474.11, 26667, 21579, 9919610, 77378),
        (474.63, 28075, 22987, 10101020, 81657),
        (475.12, 29399, 24284, 10339783, 81931),
    )

    def states(returned: float, waits: float) -> list[str]:
        looks = []
        for n, (at, stolen, reread, usage, user) in enumerate(seen):
            stat = {"anon": 80 * MIB, "inactive_file": 100 << 10, "pgsteal": stolen}
            look = sample(
                at,
                current=80 * MIB,
                high=int(76.8 * MIB),
                local={"high": n * 100},
                pressure=Pressure(0, int(at * waits * 1e6), 0, 0),
                stat=stat | {"workingset_refault_file": int(reread * returned)},
            )
            looks.append(replace(look, usage_usec=usage, user_usec=user))
        return [track.verdict.state for _, track in verdicts([Look(0, one) for one in looks])]

    assert states(1.0, 0.99)[-2:] == ["stalled", "stalled"]
    assert states(0.6, 0.99)[-1] == "reclaiming", "some of it is room for what grows"
    assert states(1.0, 0.7)[-1] == "reclaiming", "tasks get on in between"
