"""A program whose own text is all that reclaim can take at memory.high."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.memory.sample import MemorySample, Pressure
from qoslet.core.pressure.throttle_stall import StallTracker
from tests.core.pressure.test_throttle_stall import MIB, Look, sample, verdicts

SEEN = (
    (20.61, 78272, 596, 2475, 2315, 306, 75, 8036, 143, 19),
    (21.11, 78560, 204, 7865, 7071, 4980, 239, 8036, 315, 70),
    (22.22, 78500, 440, 15727, 13771, 11741, 476, 8036, 786, 146),
    (22.75, 78452, 436, 15870, 13854, 11828, 480, 8036, 786, 146),
    (23.61, 78652, 380, 16356, 14256, 12232, 495, 8105, 997, 151),
    (24.61, 78660, 592, 16978, 14860, 12877, 517, 8141, 1196, 160),
    (25.12, 78344, 664, 20885, 18183, 16212, 632, 8141, 1336, 199),
    (26.51, 78656, 700, 21405, 18634, 16675, 647, 8196, 1535, 203),
    (27.33, 78676, 508, 22060, 19198, 17171, 664, 8240, 1597, 207),
    (27.95, 78452, 380, 26905, 23204, 21147, 804, 8240, 1762, 252),
    (28.59, 78268, 440, 30459, 26179, 24199, 911, 8240, 1939, 290),
)
"""Perl fills a hash, Linux 6.12: when, KiB in use and of page cache, pages scanned, taken and read back, major
faults, ms of CPU outside of the kernel and of waiting, high events."""

LARGE = (
    (2.30, 78604, 75516, 2760, 257, 254, 167, 1, 1138, 1246, 2, 3),
    (2.81, 80500, 78096, 1648, 112705, 4503, 2098, 15, 1255, 1584, 232, 127),
    (3.33, 79744, 78096, 892, 250477, 8971, 4164, 24, 1265, 1803, 552, 283),
    (3.84, 79556, 78096, 936, 396599, 11763, 5184, 29, 1272, 2012, 859, 421),
    (4.35, 79920, 78096, 1076, 565850, 14226, 5981, 33, 1281, 2239, 1323, 606),
    (4.86, 80564, 78096, 1716, 700834, 15471, 6374, 35, 1290, 2416, 1658, 712),
    (5.38, 80820, 78096, 1972, 866790, 17962, 7148, 39, 1299, 2644, 2087, 873),
    (5.89, 80568, 78096, 1972, 1017392, 20451, 7994, 43, 1299, 2847, 2417, 1002),
    (6.40, 80608, 78096, 1760, 1175361, 22931, 9036, 47, 1300, 3058, 2758, 1130),
    (6.91, 79836, 78096, 988, 1315510, 25422, 9796, 51, 1305, 3257, 3044, 1267),
    (7.42, 80988, 78096, 2136, 1462059, 26667, 10189, 53, 1305, 3447, 3355, 1371),
    (7.93, 80980, 78096, 2132, 1610620, 31838, 12774, 66, 1305, 3686, 3627, 1535),
)
"""The same on Linux 7.2, where a fault reads up to 2 MiB of which a third counts as read back: when, KiB in use,
anonymous and of page cache, pages scanned, taken and read back, major faults, ms of CPU outside of the kernel,
of all CPU and of waiting, high events. It stood so for 29 s."""


def looks(
    *, psi: bool = True, user: float = 0.0, faults: float = 1.0, cache: int = 0
) -> list[Look]:
    """What was seen, but for CPUs outside of the kernel, a share of the faults, and MiB that are page cache."""
    found = []
    for at, used, files, scanned, taken, reread, faulted, computed, waited, highs in SEEN:
        stat = {"anon": 77432 * 1024 - cache * MIB, "inactive_file": files * 1024 + cache * MIB}
        stat |= {"pgscan": scanned, "pgsteal": taken, "workingset_refault_file": reread}
        stat["pgmajfault"] = int(faulted * faults)
        one: MemorySample = sample(
            at, current=used * 1024, high=80_527_360, local={"high": highs}, stat=stat
        )
        used_usec = computed * 1000 + int(at * user * 1e6)
        pressure = Pressure(0, waited * 1000, 0, waited * 1000) if psi else None
        cpu = {"usage_usec": int(at * 8e5), "user_usec": used_usec}
        found.append(Look(0, replace(one, pressure=pressure, **cpu)))
    return found


def states(found: list[Look]) -> list[tuple[str, StallTracker]]:
    return [(track.verdict.state, track) for _, track in verdicts(found)]


@pytest.mark.parametrize("psi", [True, False])
def test_whose_text_alone_is_taken_and_read_back_stalls_however_little_it_waits(psi: bool) -> None:
    found = states(looks(psi=psi))
    assert [state for state, _ in found].index("stalled") <= 2, "1.6 s"
    assert {state for state, _ in found[2:]} == {"stalled"}
    assert found[-1][1].verdict.doubtful, "it is not killed at once"


def test_faults_that_read_2_mib_and_count_a_third_of_it_are_no_progress() -> None:
    found = []
    for at, used, anon, files, scanned, taken, reread, faulted, user, cpu, waited, highs in LARGE:
        stat = {"anon": anon * 1024, "inactive_file": files * 1024, "pgscan": scanned}
        stat |= {"pgsteal": taken, "workingset_refault_file": reread, "pgmajfault": faulted}
        one = sample(at, current=used * 1024, high=80_527_360, local={"high": highs}, stat=stat)
        times = {"usage_usec": cpu * 1000, "user_usec": user * 1000}
        pressure = Pressure(0, waited * 1000, 0, waited * 1000)
        found.append(Look(0, replace(one, pressure=pressure, **times)))
    seen = [state for state, _ in states(found)]
    assert seen.index("stalled") <= 3, "1.6 s"
    assert set(seen[3:]) == {"stalled"}


@pytest.mark.parametrize("found", [looks(user=0.5), looks(faults=0.02), looks(cache=16)])
def test_who_computes_or_reads_by_calls_or_has_page_cache_gets_on(found: list[Look]) -> None:
    assert "stalled" not in [state for state, _ in states(found)]


@pytest.mark.parametrize(("cache", "seconds"), [(0, 2.0), (6, 11.0), (12, None)])
def test_with_some_page_cache_it_has_ten_seconds(cache: int, seconds: float | None) -> None:
    """Java has 6 of 77 MiB, and reads all of that again each second or faster."""
    found = []
    for n in range(40):
        at, moved = n / 2, n * 3000
        stat = {"anon": (76 - cache) * MIB, "inactive_file": cache * MIB + 200_000}
        stat |= {"pgscan": moved, "pgsteal": moved, "workingset_refault_file": moved}
        one = sample(
            at,
            current=int(76.7 * MIB),
            high=80_527_360,
            local={"high": n * 20},
            pressure=Pressure(0, int(at * 3e5), 0, 0),
            stat={**stat, "pgmajfault": moved // 30},
        )
        found.append(Look(0, replace(one, usage_usec=int(at * 9e5), user_usec=int(at * 2e5))))
    stalled = [one.sample.at for one, track in verdicts(found) if track.verdict.state == "stalled"]
    assert bool(stalled) == (seconds is not None)
    assert not seconds or stalled[0] == pytest.approx(seconds, abs=1.0)


@pytest.mark.parametrize(
    ("called", "cache", "dirty", "seconds"),
    [
        *((0, 7.6, 0, 3.0), (None, 7.6, 0, None), (8 * MIB, 7.6, 0, None), (0, 12, 0, 3.0)),
        *((0, 24, 0, None), (0, 7.6, 0.6, 3.0), (0, 7.6, 1.2, None), (0, 14, 1.2, None), (0, 18, 1.05, 3.0)),
    ],
)  # fmt: skip
def test_who_runs_through_its_text_is_known_by_what_calls_read(
    called: int | None, cache: float, dirty: float, seconds: float | None
) -> None:
    """6 of 77 MiB, read ahead 8 MiB for a fault: it did 8 steps in 42 s on Linux 7.2. Java has 12 MiB. Who writes
    to a mapped file has 15 MiB, of which 3 are dirty now and then."""
    found = []
    for n in range(40):
        at, moved = n / 2, n * 6000
        stat = {"anon": int((77 - cache) * MIB), "inactive_file": int(cache * MIB)}
        stat |= {"pgscan": moved, "file_dirty": int(dirty * MIB) * (n % 3 == 0)}
        stat |= {"pgsteal": moved, "workingset_refault_file": moved, "pgmajfault": 3 * n}
        pressure = Pressure(0, int(at * 4e5), 0, 0)
        one = sample(
            at,
            current=int(77.2 * MIB),
            high=77 * MIB,
            local={"high": n * 20},
            pressure=pressure,
            stat=stat,
        )
        times = {"usage_usec": int(at * 7e5), "user_usec": int(at * 1e4)}
        read = None if called is None else int(called * at)
        found.append(Look(0, replace(one, called=read, **times)))
    stalled = [one.sample.at for one, track in verdicts(found) if track.verdict.state == "stalled"]
    assert bool(stalled) == (seconds is not None)
    assert not seconds or stalled[0] == pytest.approx(seconds, abs=1.0)
