"""Who is stalled at memory.high and who gets on: recorded groups of real kernels, and built ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.sample import MemorySample, Pressure
from qoslet.core.pressure.stall_tuning import STALL_TUNING
from qoslet.core.pressure.throttle_stall import (
    StallTracker,
    swap_headroom,
    track_sample,
)
from tests.paths import DATA

MIB = 1 << 20
RECORDED = sorted((DATA / "stalls").glob("*/*.jsonl"))
"""Made by ``tests/live/traces.py`` in guests, half a second between two looks."""
STALLS = {
    *("stalled-kep", "stalled-122", "stalled-pod", "grower-above", "swap-full"),
    *("names", "sockets", "pipes"),
}
LATE = 3.0
"""Seconds after the last progress before which the decision has to fall."""


class Look(Struct, frozen=True):
    """How far the load had come, and what the group looked like."""

    done: int
    sample: MemorySample


def looks_of(file: Path, *, psi: bool = True) -> list[Look]:
    rows = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    found = []
    for row in rows:
        sample = msgspec.convert({"path": "/a", "identity": 1, **row["sample"]}, MemorySample)
        found.append(Look(row["done"], sample if psi else replace(sample, pressure=None)))
    return found


def verdicts(looks: list[Look], every: int = 1) -> Iterator[tuple[Look, StallTracker]]:
    track = StallTracker()
    for look in looks[::every]:
        track = track_sample(track, look.sample, swap_headroom(look.sample, 1 << 40))
        yield look, track


def fast(looks: list[Look]) -> float:
    """When the load was last seen to make a step as large as it did before it was throttled (it creeps on
    for minutes), or reclaim to take a MiB of what it holds."""
    return max(
        later.sample.at
        for one, later in pairwise(looks)
        if later.done - one.done >= 4
        or later.sample.stat["pgsteal"] - one.sample.stat["pgsteal"] >= 256
    )


def test_there_are_recordings() -> None:
    assert len(RECORDED) >= 12
    assert {file.stem for file in RECORDED} > STALLS


@pytest.mark.parametrize("psi", [True, False], ids=["psi", "no psi"])
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_recorded_loads(file: Path, psi: bool) -> None:
    looks = looks_of(file, psi=psi)
    stalled = [
        look.sample.at for look, track in verdicts(looks) if track.verdict.state == "stalled"
    ]
    if file.stem not in STALLS:
        assert stalled == [], "it gets on"
        return
    assert stalled, "it hangs"
    # names slow down little by little; of sockets and pipes the CPU time inside the kernel is not told
    late = LATE + (file.stem == "names")
    if file.stem in ("sockets", "pipes") and not psi:
        late += STALL_TUNING.busy_seconds
    last = fast(looks)
    assert stalled[0] >= last - 1, "not while it gets on"
    assert stalled[0] - last <= late


def test_what_sockets_hold_is_recognised_by_the_scans_for_it() -> None:
    (file,) = (file for file in RECORDED if file.stem == "sockets")
    looks = looks_of(file)
    first = next(track for _, track in verdicts(looks) if track.verdict.state == "stalled")
    assert first.verdict.in_vain
    assert not any(track.ask for _, track in verdicts(looks)), "nobody has to ask"


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_recorded_loads_looked_at_every_second(file: Path) -> None:
    looks = looks_of(file)
    stalled = [t.verdict for _, t in verdicts(looks, 2) if t.verdict.state == "stalled"]
    assert bool(stalled) is (file.stem in STALLS)
    for one in stalled[:1]:
        assert one.signals is not None
        assert "unreclaimable" in one.signals.describe()
        assert "are reclaimable" in one.because


def sample(
    at: float = 0.0, held: int = 250, cache: int = 0, steals: float = 0.0, **more: Any
) -> MemorySample:
    """A group with memory.high 243 MiB of which reclaim takes so much a second; amounts in MiB."""
    anon, files = held * MIB, cache * MIB
    stat = {"anon": anon, "inactive_anon": anon, "file": files, "inactive_file": files}
    stat |= {"pgsteal": int(at * steals * 256), **more.pop("stat", {})}
    given = {"current": anon + files, "high": 243 * MIB, "local": {"high": int(at * 100)}, **more}
    return MemorySample(path="/a", at=at, identity=1, stat=stat, usage_usec=0, **given)


def after(*samples: MemorySample, room: int = 0) -> StallTracker:
    track = StallTracker()
    for one in samples:
        track = track_sample(track, one, room)
    return track


def steady(count: int = 6, **values: Any) -> list[MemorySample]:
    return [sample(at / 2, **values) for at in range(count)]


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_recorded_loads_on_a_machine_that_looks_every_two_seconds(file: Path) -> None:
    looks = looks_of(file)
    stalled = [look.sample.at for look, t in verdicts(looks, 4) if t.verdict.state == "stalled"]
    assert bool(stalled) is (file.stem in STALLS)
    if stalled:
        assert stalled[0] - fast(looks) <= LATE + 2


@pytest.mark.parametrize("stem", sorted(STALLS))
def test_recorded_stalls_stand_above_their_memory_high(stem: str) -> None:
    """The kernel delays a task by the overage, so usage below memory.high shows that reclaim makes room."""
    for file in (one for one in RECORDED if one.stem == stem):
        looks = looks_of(file)
        late = [look.sample for look in looks if look.sample.at > fast(looks) + 0.4]
        assert late
        assert all(one.current > (one.high or 0) for one in late)


@pytest.mark.parametrize(
    ("current", "scans", "stalls"),
    [(242.9, 0.2, False), (246, 0.2, True), (242.9, 60, True)],
    ids=["makes room", "above", "scans in vain"],
)
def test_one_that_has_no_cpu_time_at_its_memory_high_is_not_stalled(
    current: float, scans: float, stalls: bool
) -> None:
    """A reader under a CPU limit of 1 ms, or on a machine that is too busy: next to nothing moves. A busy
    guest showed usage below memory.high for 20 s while a reclaim of what pipes held went on, too."""
    looks = [
        sample(
            n / 2,
            cache=40,
            held=203,
            steals=0.2,
            current=int(current * MIB),
            stat={"pgscan": int(n / 2 * scans * 256)},
            pressure=Pressure(0, 1 + n * 300_000, 0, 0),
        )
        for n in range(20)
    ]
    assert (after(*looks).verdict.state == "stalled") is stalls


def test_two_comparisons_have_to_agree() -> None:
    assert [after(*steady(n)).verdict.state for n in (1, 2, 3)] == [
        "calm",
        "calm",
        "stalled",
    ]
    assert after(*steady(2)).candidate == "stalled"


def test_one_comparison_over_a_long_time_is_enough() -> None:
    assert after(sample(0), sample(1.4)).verdict.state == "calm"
    assert after(sample(0), sample(1.6)).verdict.state == "stalled"


def test_one_that_gets_on_in_between_is_not_stalled() -> None:
    moved = [sample(0), sample(0.5), sample(1.0, held=263), sample(1.5, held=263)]
    assert [after(*moved[:n]).verdict.state for n in (3, 4)] == ["reclaiming", "reclaiming"]
    assert after(*moved, sample(2.0, held=263)).verdict.state == "stalled"


@pytest.mark.parametrize(
    ("why", "looks", "room"),
    [
        ("below memory.high", steady(held=200), 0),
        ("nobody asks", [replace(one, local={"high": 7}) for one in steady()], 0),
        ("page cache is taken back", steady(held=200, cache=45, steals=2), 0),
        ("a little page cache is taken again and again", steady(held=240, cache=3, steals=8), 0),
        ("swap takes pages", steady(steals=2), 100 * MIB),
        ("swap is full, and pages come and go", steady(steals=8), 0),
        (
            "slab shrinks",
            [sample(n / 2, stat={"slab_reclaimable": (60 - n) * MIB}) for n in range(6)],
            0,
        ),
        (
            "dirty pages are written",
            [
                sample(n / 2, held=210, cache=40, stat={"file_dirty": (60 - n) * MIB})
                for n in range(6)
            ],
            0,
        ),
        (
            "it computes, and no task waits for most of the time",
            [
                replace(s, usage_usec=n * 400_000, pressure=Pressure(0, 1 + n * 150_000, 0, 0))
                for n, s in enumerate(steady())
            ],
            0,
        ),
        ("no memory.high", [replace(one, high=UNLIMITED) for one in steady()], 0),
        ("nobody waits", [replace(s, pressure=Pressure(0, 1, 0, 1)) for s in steady()], 0),
    ],
)
def test_who_gets_on(why: str, looks: list[MemorySample], room: int) -> None:
    assert after(*looks, room=room).verdict.state != "stalled", why


@pytest.mark.parametrize("psi", [True, False])
@pytest.mark.parametrize("every", [0.25, 0.5, 1.0])
@pytest.mark.parametrize(
    ("why", "fields", "room"),
    [
        ("sockets hold page cache", {"held": 200, "cache": 45}, 0),
        (
            "tmpfs pins names",
            {"current": 250 * MIB, "held": 200, "stat": {"slab_reclaimable": 50 * MIB}},
            0,
        ),
        ("swap has room and takes nothing", {}, 100 * MIB),
        ("a little of its own text comes and goes", {"held": 240, "cache": 8, "steals": 0.3}, 0),
    ],
)
def test_what_only_looks_reclaimable_is_believed_for_a_moment(
    why: str, fields: dict[str, Any], room: int, every: float, psi: bool
) -> None:
    """It got on until second 5, then nothing is freed any more."""
    stalled = []
    track, taken = StallTracker(), 0.0
    for number in range(int(12 / every)):
        at = number * every
        taken += every * (20 if at <= 5 else fields.get("steals", 0.0))
        waited = Pressure(0, int(1 + max(0.0, at - 5) * 0.9e6), 0, 0) if psi else None
        one = sample(at, **{**fields, "steals": 0.0}, pressure=waited)
        one = replace(one, stat={**one.stat, "pgsteal": int(taken * 256)})
        track = track_sample(track, one, room)
        if track.verdict.state == "stalled":
            stalled.append(at)
    assert stalled, why
    assert 5.4 <= stalled[0] <= 5 + LATE, why
    assert track.verdict.freed_at == pytest.approx(5, abs=1), "said since when nothing was freed"
    assert track.verdict.signals is not None
    assert "nothing freed for" in track.verdict.signals.describe()


def test_what_is_read_back_at_once_while_all_wait_is_believed_for_ten_seconds() -> None:
    looks = [
        sample(
            n / 2,
            held=200,
            cache=45,
            steals=3,
            stat={"workingset_refault_file": int(n / 2 * 3 * 256)},
            pressure=Pressure(0, 1 + n * 480_000, 0, 0),
        )
        for n in range(40)
    ]
    states = [track.verdict.state for _, track in verdicts([Look(0, one) for one in looks])]
    assert states.index("stalled") * 0.5 == pytest.approx(STALL_TUNING.busy_seconds + 0.5, abs=0.6)


@pytest.mark.parametrize(("waits", "seconds"), [(0.3, 11.0), (None, 2.5)])
def test_what_computes_without_any_memory_to_take_back_is_stalled_in_the_end(
    waits: float | None, seconds: float
) -> None:
    """Without PSI it may hide another one that waits."""
    looks = [
        replace(
            one,
            usage_usec=n * 400_000,
            pressure=None if waits is None else Pressure(0, 1 + int(n * waits * 5e5), 0, 0),
        )
        for n, one in enumerate(steady(40))
    ]
    states = [track.verdict.state for _, track in verdicts([Look(0, one) for one in looks])]
    assert states.index("stalled") * 0.5 == pytest.approx(seconds, abs=0.5)


@pytest.mark.parametrize(("user", "seconds"), [(0, 1.0), (200_000, 2.5)])
def test_cpu_time_inside_the_kernel_is_no_progress(user: int, seconds: float) -> None:
    """Reclaim scans page cache that sockets hold again and again."""
    looks = [
        replace(s, usage_usec=n * 400_000, user_usec=n * user) for n, s in enumerate(steady(40))
    ]
    states = [track.verdict.state for _, track in verdicts([Look(0, one) for one in looks])]
    assert states.index("stalled") * 0.5 == pytest.approx(seconds, abs=0.5)


def test_events_may_pause_while_a_process_sleeps() -> None:
    looks = [sample(n / 2, local={"high": n // 4}) for n in range(12)]
    assert after(*looks).verdict.state == "stalled"


@pytest.mark.parametrize(("waits", "stalls"), [(0.95, True), (0.1, False), (None, False)])
def test_one_reclaim_may_last_for_many_seconds(waits: float | None, stalls: bool) -> None:
    """A busy guest of 6.12 scanned page cache that sockets held for 20 s, without another event."""
    looks = [
        sample(
            n / 2,
            cache=40,
            held=204,
            local={"high": 7},
            pressure=None if waits is None else Pressure(0, 1 + int(n * waits * 5e5), 0, 0),
        )
        for n in range(12)
    ]
    assert (after(*looks).verdict.state == "stalled") is stalls


@pytest.mark.parametrize(("field", "more"), [("identity", 4096), ("high", 7 * MIB + 4096)])
def test_another_group_or_another_value_begins_anew(field: str, more: int) -> None:
    """Usage is no longer above memory.high then."""
    looks = steady()
    other = replace(looks[-1], at=9.0, **{field: getattr(looks[-1], field) + more})
    track = track_sample(after(*looks), other, 0)
    assert (track.verdict.state, track.samples, track.streak) == ("calm", (other,), 0)


def test_values_that_others_write_below_its_usage_hide_no_stall() -> None:
    """Another agent, or a resize, moves memory.high again and again."""
    looks = [sample(n / 2, high=(243 - n % 4) * MIB) for n in range(4)]
    assert after(*looks).verdict.state == "stalled"


@pytest.mark.parametrize("high", [0, 4096, MIB])
@pytest.mark.parametrize("creeps", [0, 128 << 10])
def test_a_memory_high_of_next_to_nothing_is_a_stall_as_well(high: int, creeps: int) -> None:
    """A tool that wanted memory reclaimed has written it, and the kernel lets 64 pages pass in two seconds."""
    pressure = [Pressure(0, 1 + int(n * 0.49e6), 0, 0) for n in range(8)]
    looks = [
        sample(n / 2, high=high, current=250 * MIB + creeps * n // 2, pressure=pressure[n])
        for n in range(8)
    ]
    grown = [replace(one, stat={**one.stat, "anon": one.current}) for one in looks]
    assert after(*grown).verdict.state == "stalled"


def test_counters_that_went_back_begin_anew() -> None:
    looks = steady()
    assert track_sample(after(*looks), replace(looks[-1], at=9.0, local={"high": 1}), 0).streak == 0


@pytest.mark.parametrize(("held", "at"), [(200, 13.0), (200, 63.0), (250, 63.0)])
def test_a_sample_from_before_the_agent_was_stopped_proves_nothing(held: int, at: float) -> None:
    looks = [sample(number / 2, held=held) for number in range(4)]
    late = sample(at)
    track = track_sample(after(*looks), late, 0)
    assert (track.verdict.state, track.samples, track.progress_at) == ("calm", (late,), at)


def test_an_agent_that_looks_every_twenty_seconds_still_answers() -> None:
    track = after(*(sample(20.0 * number) for number in range(4)))
    assert track.verdict.state == "stalled"


def test_room_in_swap_is_the_least_of_what_is_left() -> None:
    assert swap_headroom(sample(), 100) == 0
    assert swap_headroom(sample(swap=10, swap_max=30), 100) == 20
    assert swap_headroom(sample(swap=10, swap_max=UNLIMITED), 100) == 100
    assert swap_headroom(sample(swap=40, swap_max=30), 100) == 0
