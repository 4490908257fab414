"""A kernel that was asked to reclaim and refused decides who is stalled at memory.high."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qoslet.core.memory.sample import MemorySample, Pressure
from qoslet.core.pressure.throttle_stall import StallTracker, swap_headroom, track_sample
from tests.core.pressure.test_throttle_stall import (
    LATE,
    MIB,
    RECORDED,
    STALLS,
    after,
    fast,
    looks_of,
    sample,
    steady,
)

HELD_BY_SOCKETS = {"held": 57, "cache": 187}
"""What sendfile to peers that do not read leaves: page cache on the lists that nothing can take."""
NAMES_OF_FILES = {"held": 200, "current": 245 * MIB, "stat": {"slab_reclaimable": 45 * MIB}}
"""Dentries of a tmpfs are counted as reclaimable slab."""


@pytest.mark.parametrize("kind", [HELD_BY_SOCKETS, NAMES_OF_FILES], ids=["sockets", "dentries"])
def test_the_kernel_is_asked_at_the_first_sample_without_progress(kind: dict[str, Any]) -> None:
    looks = steady(4, **kind)
    first = after(*looks[:2])
    assert (first.verdict.state, first.ask) == ("reclaiming", True)
    refused = track_sample(first, looks[2], 0, refused=True)
    assert (refused.verdict.state, refused.verdict.doubtful) == ("stalled", True)
    assert track_sample(first, looks[2], 0).verdict.state == "reclaiming", "patience without answer"
    assert after(*looks).verdict.state == "stalled", "and it bounds that"


def test_what_is_read_back_at_once_is_the_kernels_to_answer() -> None:
    def thrashing(at: float) -> MemorySample:
        back = int(at * 5 * 256)
        stat = {"pgsteal": back, "pgscan": back, "workingset_refault_file": back}
        waited = Pressure(95.0, int(at * 95e4), 95.0, int(at * 95e4))
        return sample(at, held=230, cache=14, stat=stat, pressure=waited)

    looks = [thrashing(1 + at / 2) for at in range(8)]
    track = after(*looks[:4])
    assert (track.verdict.state, track.ask) == ("reclaiming", True)
    assert track_sample(track, looks[4], 0, refused=True).verdict.state == "stalled"
    assert after(*looks).verdict.state == "reclaiming"


def test_progress_is_believed_whatever_the_kernel_said() -> None:
    moves = [sample(at / 2, cache=20, held=225, steals=5) for at in range(4)]
    track = after(*moves[:3])
    assert not track.ask
    assert track_sample(track, moves[3], 0, refused=True).verdict.state == "reclaiming"


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_kernel_that_refuses_decides_about_recorded_loads(file: Path) -> None:
    """It is asked at the first sample without progress, and has answered by the next one."""
    looks, track, asked, stalled = looks_of(file), StallTracker(), False, list[float]()
    for look in looks:
        room = swap_headroom(look.sample, 1 << 40)
        track = track_sample(track, look.sample, room, refused=asked)
        asked = track.ask
        if track.verdict.state == "stalled":
            stalled.append(look.sample.at)
    assert bool(stalled) is (file.stem in STALLS)
    if stalled:
        assert stalled[0] - fast(looks) <= LATE


def scanned(at: float, pages: float, **more: Any) -> MemorySample:
    """A cgroup with 187 MiB of page cache that sockets hold, of which so many MiB a second are scanned."""
    stat = {"pgscan": int(at * pages * 256), **more.pop("stat", {})}
    return sample(at, stat=stat, **HELD_BY_SOCKETS, **more)


def test_what_the_kernel_scans_over_and_over_in_vain_needs_no_question() -> None:
    looks = [scanned(at / 2, 1600) for at in range(4)]
    first = after(*looks[:2])
    assert not first.ask
    assert first.verdict.state != "stalled", "one comparison may be chance"
    track = track_sample(first, looks[2], 0)
    assert (track.verdict.state, track.verdict.in_vain) == ("stalled", True)
    assert "scanned over and over" in track.verdict.because


@pytest.mark.parametrize(
    ("pages", "room", "stat"),
    [
        (400, 0, {}),
        (2000, 20 * MIB, {}),
        (2000, 0, {"file_dirty": 100 * MIB}),
    ],
    ids=["once", "swap", "dirty"],
)
def test_less_is_doubt(pages: float, room: int, stat: dict[str, int]) -> None:
    looks = [scanned(at / 2, pages, stat=stat) for at in range(3)]
    track = StallTracker()
    for look in looks:
        track = track_sample(track, look, room)
    assert track.verdict.state == "reclaiming"
    assert track.ask
