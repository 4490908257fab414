"""What must hold of the verdict about any group at its memory.high."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.sample import MemorySample, Pressure
from qoslet.core.pressure.stall_tuning import STALL_TUNING
from qoslet.core.pressure.throttle_stall import (
    StallTracker,
    is_near,
    track_sample,
)
from tests.core.pressure.test_throttle_stall import LATE, MIB, after, sample

amounts = st.integers(0, 1 << 50)
samples = st.builds(
    MemorySample,
    path=st.just("/a"),
    at=st.floats(0, 100),
    identity=st.integers(1, 2),
    current=amounts,
    high=st.none() | amounts | st.just(UNLIMITED),
    swap=st.none() | amounts,
    swap_max=st.none() | amounts,
    stat=st.dictionaries(
        st.sampled_from(["anon", "inactive_file", "active_anon", "pgsteal", "pgscan"]), amounts
    ),
    local=st.fixed_dictionaries({"high": st.integers(0, 100)}),
    usage_usec=st.none() | amounts,
    pressure=st.none() | st.builds(Pressure, st.just(0.0), amounts, st.just(0.0), amounts),
)


@given(st.lists(samples, max_size=12), amounts)
def test_whatever_is_read_there_is_a_verdict(looks: list[MemorySample], room: int) -> None:
    track = StallTracker()
    for one in looks:
        track = track_sample(track, one, room)
        assert len(track.samples) <= 1 + STALL_TUNING.history_seconds / 0.001
        if track.verdict.state == "stalled":
            assert track.verdict.signals is not None
            assert is_near(track.samples[-1])
            assert track.verdict.signals.describe()


def test_who_has_no_memory_high_is_stalled_at_none() -> None:
    """Whatever its counter says, as where the file cannot be read."""
    looks = [replace(sample(2.0 * n), high=None, current=0, local={"high": n}) for n in range(4)]
    assert after(*looks).verdict.state == "calm"


@given(
    st.integers(1 << 20, 1 << 40),
    st.floats(0.05, 0.9),
    st.floats(0.1, 2.0),
    st.integers(3, 40),
    st.booleans(),
)
def test_memory_that_looks_reclaimable_counts_while_it_is_taken(
    high: int, share: float, step: float, count: int, taken: bool
) -> None:
    cache = max(int(high * share), min(STALL_TUNING.min_reclaimable_bytes, high // 4)) + 2
    pages = -(-min(MIB, high // 40) // 4096) + 1
    looks = [
        replace(
            sample(n * step),
            high=high,
            current=high + 1,
            stat={
                "inactive_file": cache,
                "anon": max(0, high + 1 - cache),
                "pgsteal": int(n * step * pages) + n if taken else 0,
            },
            local={"high": n},
        )
        for n in range(count)
    ]
    state = after(*looks).verdict.state
    assert state != "stalled" if taken or count * step < 1 else True
    if not taken and (count - 1) * step >= LATE and step <= 1:
        assert state == "stalled", "never for ever"


@given(st.integers(64 * MIB, 1 << 40), st.floats(0.4, 1.2), st.floats(0.01, 0.2))
def test_whoever_holds_all_of_it_is_stalled_within_three_looks(
    high: int, step: float, above: float
) -> None:
    used = int(high * (1 + above))
    looks = [
        replace(
            sample(n * step),
            high=high,
            current=used,
            stat={"anon": used, "inactive_anon": used},
            local={"high": n * 10},
        )
        for n in range(3)
    ]
    assert after(*looks).verdict.state == "stalled"


@given(
    cache=st.integers(0, 200),
    dirty=st.floats(0, 1),
    scanned=st.floats(0, 4000),
    user=st.floats(0, 0.24),
    waits=st.none() | st.floats(0.21, 1),
    room=st.integers(0, 300),
)
def test_without_progress_two_seconds_bound_every_branch(
    cache: int, dirty: float, scanned: float, user: float, waits: float | None, room: int
) -> None:
    """Whatever looks reclaimable, is dirty, is scanned, waits or may be swapped."""
    track = StallTracker()
    for n in range(20):
        at = n / 2
        look = sample(
            at,
            held=250 - cache,
            cache=cache,
            stat={"file_dirty": int(dirty * cache * MIB), "pgscan": int(at * scanned * 256)},
            user_usec=int(at * user * 1e6),
            pressure=None if waits is None else Pressure(0, 1 + int(at * waits * 1e6), 0, 0),
        )
        track = track_sample(track, look, room * MIB)
        assert track.verdict.state == "stalled" or at < 2
