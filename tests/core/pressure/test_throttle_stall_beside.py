"""A task that stalls at memory.high beside others of its cgroup that get on."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.memory.sample import Pressure
from qoslet.core.pressure.stall_tuning import STALL_TUNING
from qoslet.core.pressure.throttle_stall import track_sample
from tests.core.pressure.test_throttle_stall import MIB, Look, after, sample, steady, verdicts


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


@pytest.mark.parametrize("psi", [True, False])
@pytest.mark.parametrize(("least", "seconds"), [(252, 1.5), (240, None)])
def test_memory_that_swings_is_no_progress_of_one_that_waits(
    least: int, seconds: float | None, psi: bool
) -> None:
    """Queues of sockets fill and empty beside a process that grows: usage falls to memory.high, or never."""
    looks = [
        replace(
            one,
            current=(least + swung) * MIB,
            stat={**one.stat, "anon": least * MIB, "sock": swung * MIB},
            pressure=Pressure(0, 1 + int(n * 4.9e5), 0, 0) if psi else None,
        )
        for n, one in enumerate(steady(40, held=least))
        for swung in (16 * (n % 2),)
    ]
    states = [track.verdict.state for _, track in verdicts([Look(0, one) for one in looks])]
    assert ("stalled" in states) == (seconds is not None)
    if seconds is not None:
        assert states.index("stalled") * 0.5 == pytest.approx(seconds, abs=0.5)


def test_memory_that_grows_out_of_what_it_was_is_progress() -> None:
    looks = [
        replace(one, current=(252 + 16 * n) * MIB, stat={**one.stat, "anon": (252 + 16 * n) * MIB})
        for n, one in enumerate(steady(20, held=252))
    ]
    states = {track.verdict.state for _, track in verdicts([Look(0, one) for one in looks])}
    assert "stalled" not in states


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

    for returned in (1.0, 0.6, 0.0):
        assert states(returned, 0.99)[-2:] == ["stalled", "stalled"], "nothing grows"
    assert states(1.0, 0.7)[-1] == "reclaiming", "tasks get on in between"


def streamed(
    seconds: float, waits: float | None, *, cache: float = 1.0, rate: float = 25.0, **stat: float
) -> list[str]:
    """The states of a cgroup that holds 250 MiB above its memory.high beside ``cache``, while reclaim takes
    so many MiB a second of files that nobody reads again; more rates of memory.stat in pages."""
    looks = []
    for n in range(int(seconds * 2)):
        at = n / 2
        counters = {"pgsteal": rate * 256} | stat
        look = sample(
            at,
            held=int(250 - cache),
            cache=int(cache),
            stat={name: int(at * pages) for name, pages in counters.items()},
            pressure=None if waits is None else Pressure(0, 1 + int(at * waits * 1e6), 0, 0),
        )
        looks.append(look)
    return [track.verdict.state for _, track in verdicts([Look(0, one) for one in looks])]


def test_files_that_others_stream_are_no_progress_of_one_that_waits() -> None:
    """A backup beside a heap that grows: the kernel takes its page cache again and again, for a task
    that never leaves its memory.high."""
    assert streamed(3, 0.99).index("stalled") <= 3
    assert "stalled" not in streamed(60, 0.8), "whoever waits gets on in between"
    assert "stalled" not in streamed(60, 0.99, cache=20), "there is page cache to be taken for it"
    assert "stalled" not in streamed(60, 0.99, pswpin=8000), "to wait for swap is to get on"
    assert "stalled" not in streamed(60, 0.99, zswpin=8000), "zswap, too"


@pytest.mark.parametrize(
    ("scanned", "waits", "stalls"),
    [(400_000, 0.99, True), (400_000, 0.8, False), (20_000, 0.99, False), (2_000, 0.99, False)],
)
def test_the_little_that_is_taken_of_what_cannot_be_is_no_progress(
    scanned: int, waits: float, stalls: bool
) -> None:
    """Page cache in pipes is scanned over and over, and 2 MiB a second of it are of files that others stream."""
    states = streamed(40, waits, cache=40, rate=2, pgscan=scanned)
    assert ("stalled" in states) is stalls
    assert not stalls or states.index("stalled") <= 3


def test_what_a_full_swap_device_is_asked_to_write_is_no_progress() -> None:
    """A zram at its limit refuses pages, which the kernel counts as swapped out again and again."""
    looks = [
        sample(
            n / 2,
            held=250,
            stat={"pswpout": n * 4000, "pgscan": n * 4000},
            pressure=Pressure(0, 1 + int(n * 0.49e6), 0, 0),
            swap=90 * MIB,
            swap_max=1000 * MIB,
        )
        for n in range(12)
    ]
    states = [track.verdict.state for _, track in verdicts([Look(0, one) for one in looks])]
    assert states.index("stalled") <= 5


def test_without_psi_they_are_believed_for_ten_seconds() -> None:
    states = streamed(20, None)
    assert states.index("stalled") * 0.5 == pytest.approx(STALL_TUNING.busy_seconds + 1.0, abs=0.6)
    assert "stalled" not in streamed(60, None, pswpout=8000)


@pytest.mark.parametrize(("faults", "stalls"), [(0, False), (20, True)])
def test_files_that_system_calls_read_again_are_progress_on_a_slow_disk(
    faults: int, stalls: bool
) -> None:
    """A database reads 3 MiB a second; what page faults read as slowly may be program text."""
    pages = 3 * 256
    states = streamed(40, 0.96, cache=40, rate=3, workingset_refault_file=pages, pgmajfault=faults)
    assert ("stalled" in states) is stalls


@pytest.mark.parametrize(
    ("waits", "rate", "stalls"),
    [(0.97, 8, True), (0.97, 30, False), (0.6, 8, False), (None, 8, True), (None, 30, False)],
)
def test_one_that_hardly_does_anything_but_wait_is_not_left_to_creep(
    waits: float | None, rate: float, stalls: bool
) -> None:
    """A small container comes to its limit within seconds, a step a few of them apart."""
    looks = [
        sample(
            n / 2,
            held=int(250 + rate * n / 2),
            pressure=None if waits is None else Pressure(0, 1 + int(n * waits * 5e5), 0, 0),
        )
        for n in range(8)
    ]
    states = [track.verdict.state for _, track in verdicts([Look(0, one) for one in looks])]
    assert ("stalled" in states) is stalls


def test_who_waited_for_a_moment_and_does_nothing_now_is_not_stalled() -> None:
    """A moment without waiting shows nothing by itself; soon it is calm."""
    states = []
    looks = [
        replace(one, local={"high": min(n, 1)}, pressure=Pressure(0, 1 + min(n, 1) * 400_000, 0, 0))
        for n, one in enumerate(steady(10))
    ]
    for _, track in verdicts([Look(0, one) for one in looks]):
        states.append((track.candidate, track.verdict.state))
    assert states[1:4] == [("stalled", "calm"), *[("stalled", "reclaiming")] * 2]
    assert "stalled" not in {state for _, state in states}
    assert states[-1] == ("calm", "calm")


@pytest.mark.parametrize(
    ("held", "limit", "freed", "state"),
    [
        (248, 250, 5, "stalled"),
        (248, 250, 40, "calm"),
        (244, 250, 5, "calm"),
        (248, 256, 5, "calm"),
        (248, 400, 5, "calm"),
        (248, None, 5, "calm"),
    ],
)
def test_one_short_comparison_is_enough_close_to_the_limit(
    held: int, limit: int | None, freed: int, state: str
) -> None:
    """Who took 94 MiB in one call beside a reader waited at 77 MiB, and again at 92 of 96: 3.4 s in all. A reader
    less far above it, or a writer for which 40 MiB/s are freed, is held up and gets on."""
    most = None if limit is None else limit * MIB
    looks = [
        replace(one, max=most, pressure=Pressure(0, 1 + n * 500_000, 0, 0))
        for n, one in enumerate(steady(2, held=held, steals=freed))
    ]
    assert after(*looks).verdict.state == state
