"""Whoever grows at memory.high beside anything else is answered in time, in a model of the kernel."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from qoslet.core.pressure.throttle_stall import StallTracker, track_sample
from tests.core.pressure.throttle_model import (
    BATCH,
    MIB,
    Task,
    Throttled,
    beside_pinned,
    delay,
    mixture,
    on_slow_disk,
)

SECONDS = 40.0
BOUND = 3.0


def guarded(
    group: Throttled, *, guard: bool = True, ticks: int = 50, psi: bool = True, written: int = 0
) -> Throttled:
    """The cgroup after it was looked at each so many ticks, and its memory.high removed when it stalled.
    Another writes a lower one each ``written`` ticks."""
    track, planned = StallTracker(), group.high
    for tick in range(int(SECONDS * 100)):
        if written and tick % written == 0 and group.high < group.limit:
            group.high = int(planned * group.random.uniform(0.9, 1.0))
        if group.killed or all(task.over for task in group.tasks if task.kind == "grows"):
            break
        group.tick()
        if guard and tick % ticks == 0 and group.high < group.limit:
            look = group.sample()
            track = track_sample(track, look if psi else replace(look, pressure=None), 0)
            if track.verdict.state == "stalled":
                group.high = 1 << 62
    return group


# 56 and 101: files are read again and names made far above memory.high, and all wait for that
@pytest.mark.parametrize("seed", [*range(24), 56, 101])
def test_nobody_stands_still_for_three_seconds(seed: int) -> None:
    group = guarded(mixture(Random(seed)))
    assert group.longest <= BOUND, [(task.kind, task.rate, task.most) for task in group.tasks]


# of the first 160 those in which nobody tells that a task waits beside others that compute or read
@pytest.mark.parametrize("seed", [18, 56, 78, 101, 150])
def test_nobody_does_without_psi(seed: int) -> None:
    assert guarded(mixture(Random(seed)), psi=False).longest <= BOUND - 0.5


@pytest.mark.parametrize("seed", range(8))
def test_nobody_does_beside_readers_of_a_slow_disk(seed: int) -> None:
    assert guarded(on_slow_disk(Random(seed))).longest <= 2.0


@pytest.mark.parametrize("seed", [7, 15, 18, 22])
@pytest.mark.parametrize("psi", [True, False])
def test_nobody_does_beside_what_only_looks_reclaimable(seed: int, psi: bool) -> None:
    assert guarded(beside_pinned(Random(seed)), psi=psi).longest <= 2.0


@pytest.mark.parametrize("size", [4, 12, 20])
@pytest.mark.parametrize("psi", [True, False])
def test_nobody_does_while_another_computes_beside_that(size: int, psi: bool) -> None:
    """Without PSI nobody tells who waits, but all that looks reclaimable was scanned and not taken."""
    pins, others = Task("pins", 4 * MIB, size * MIB), ("computes", "comes")
    group = alone(92 - size, pins, *(Task(kind, MIB, 4 * MIB) for kind in others))
    assert guarded(group, psi=psi).longest <= 2.5


@pytest.mark.parametrize("size", [12, 23])
@pytest.mark.parametrize("streams", [2, 4])
def test_nobody_does_while_another_computes_beside_that_and_streams(
    size: int, streams: int
) -> None:
    """PSI tells that a task waits all the time, whoever computes; the little that is freed is filled at once."""
    pins = Task("pins", 4 * MIB, size * MIB)
    others = (Task("computes"), *(Task("streams") for _ in range(streams)))
    assert guarded(alone(92 - size, pins, *others)).longest <= 1.0


@pytest.mark.parametrize("seed", [0, 5, 6, 10])
@pytest.mark.parametrize("psi", [True, False])
def test_nobody_does_while_another_writes_memory_high(seed: int, psi: bool) -> None:
    assert guarded(mixture(Random(seed)), psi=psi, written=40).longest <= BOUND


@pytest.mark.parametrize("seed", [18, 21, 22, 47, 52, 56, 59])
@pytest.mark.parametrize("ticks", [100, 125])
def test_nobody_does_where_the_agent_looks_late(seed: int, ticks: int) -> None:
    """A busy machine: one look a second that shows nothing but waiting is enough."""
    assert guarded(mixture(Random(seed)), ticks=ticks).longest <= 2.0


@pytest.mark.parametrize("share", [0.3, 0.1, 0.03])
@pytest.mark.parametrize("seed", range(3))
def test_who_has_next_to_no_cpu_is_held_up_no_longer_than_others(share: float, seed: int) -> None:
    """Beside two that compute: the rest of its time is the scheduler's, with and without memory.high."""

    def starved(high: int) -> Throttled:
        grows = Task("grows", BATCH, 90 * MIB, held=70 * MIB, share=share)
        tasks = [grows, Task("computes"), Task("computes")]
        return Throttled(high, 96 * MIB, tasks, Random(seed), anon=70 * MIB)

    held, free = guarded(starved(int(76.8 * MIB))), guarded(starved(1 << 62))
    assert held.now <= free.now + BOUND
    assert held.tasks[0].over == free.tasks[0].over


@pytest.mark.parametrize("stops", [(0.7, 0.3), (0.9, 0.3), (0.5, 0.5)])
@pytest.mark.parametrize("rate", [BATCH, MIB])
def test_who_is_stopped_again_and_again_stands_no_longer(
    stops: tuple[float, float], rate: int
) -> None:
    """It waits only between: that nobody waits while it is stopped is no sign that it gets on."""
    grows = Task("grows", rate, 88 * MIB, stops=stops)
    group = guarded(Throttled(int(76.8 * MIB), 96 * MIB, [grows], Random(1)))
    assert group.longest <= 1.5


@pytest.mark.parametrize("stops", [(1.3, 0.2), (0.87, 0.13)])
def test_who_hardly_runs_between_is_seen_to_stand(stops: tuple[float, float]) -> None:
    """It waits for a tenth of the time, and every time that it asks for memory."""
    grows = Task("grows", MIB, 88 * MIB, stops=stops)
    group = guarded(Throttled(int(76.8 * MIB), 96 * MIB, [grows], Random(1)))
    assert group.longest <= BOUND
    assert group.now <= 12.0


def alone(target: float, *others: Task) -> Throttled:
    """A container of 96 MiB with a memory.high of 76.8 MiB."""
    tasks = [Task("grows", MIB, int(target * MIB)), *others]
    return Throttled(int(76.8 * MIB), 96 * MIB, tasks, Random(1))


def test_without_a_guard_the_model_hangs_as_the_kernel_does() -> None:
    """In a guest of 6.12 it came 4 to 5 MiB above its memory.high, and then no step in seconds."""
    assert delay(int(81.5 * MIB), int(76.8 * MIB)) == pytest.approx(0.236, abs=0.005)
    assert delay(96 * MIB, int(76.8 * MIB)) == 2.0
    group = guarded(alone(94), guard=False)
    assert group.longest > 5


def stalled_at(group: Throttled) -> float | None:
    """When it counts as stalled, of 30 s in which nobody removes its memory.high."""
    track = StallTracker()
    for tick in range(3000):
        group.tick()
        if tick % 50 == 0:
            track = track_sample(track, group.sample(), 0)
            if track.verdict.state == "stalled":
                return group.now
    return None


@pytest.mark.parametrize("pause", [0.3, 1.0])
@pytest.mark.parametrize("share", [0.8, 0.9, 0.95])
def test_who_waits_for_a_disk_below_memory_high_is_left_alone(share: float, pause: float) -> None:
    """All of its time counts as waiting for memory, for it reads what was taken of it before."""
    readers = [Task("reads", BATCH, 120 * MIB, pause=pause) for _ in range(4)]
    assert stalled_at(alone(76.8 * share, *readers)) is None


def test_who_fits_or_only_reads_is_left_alone() -> None:
    readers = [Task("reads", MIB, 60 * MIB) for _ in range(3)]
    assert stalled_at(alone(60, *readers)) is None
    idle = Throttled(int(76.8 * MIB), 96 * MIB, [Task("streams", 4 * MIB)], Random(1))
    assert stalled_at(idle) is None
    assert idle.counts["pgsteal"] * 4096 > 100 * BATCH
