"""Who is short at a limit of its own, and who only waits there: looks at groups as numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from qoslet.core.memory.sample import MemorySample
from qoslet.core.pressure.limit_pressure import (
    class_state,
    group_state,
    killed_state,
    own_kills,
    stuck_state,
    waits_at_own_limits,
)
from qoslet.core.pressure.node_pressure import node_state
from tests.core.pressure.test_node_pressure import MIB, nodes, waited


def pod(some: float, hits: int, *, every: float = 0.5) -> list[MemorySample]:
    """Three looks at a pod that waits for this share of the time and hits its limits so often."""
    return [
        MemorySample(
            f"/q/pod{some}{hits}",
            at=100 + number * every,
            identity=1,
            current=96 * MIB,
            events={"high": hits * number},
            pressure=waited(some * number * every, 0.0),
        )
        for number in range(3)
    ]


def test_what_pods_wait_at_their_own_limits_is_not_the_nodes() -> None:
    """A reader keeps kswapd at work on a node with 4 GiB of page cache, and one container stalls."""
    assert waits_at_own_limits([]) == 0.0
    assert waits_at_own_limits([pod(0.9, 0), pod(0.2, 7)]) == pytest.approx(0.2)
    assert waits_at_own_limits([pod(0.9, 3), pod(0.8, 7)]) == 1.0
    assert waits_at_own_limits([pod(0.9, 0), pod(0.1, 0)[:1]]) == 1.0, "nobody knows yet"
    looks = nodes([150, 150, 150], 0.0, 0.95, scans=50_000, take=0.99)
    assert node_state(looks).kind == "short"
    at_limits = waits_at_own_limits([pod(0.9, 9)])
    state = node_state(looks, at_limits=at_limits)
    assert state.kind == "own limit"
    assert "pods waited 90% of the time at their own limits" in state.because
    worse = nodes([150, 150, 150], 0.0, 0.95, scans=50_000, take=0.2)
    assert node_state(worse, at_limits=at_limits).kind == "short", "reclaim achieves little"
    less = nodes([60, 60, 60], 0.0, 0.95, scans=50_000, take=0.99)
    assert node_state(less, at_limits=at_limits).kind == "short"


def groups(
    current: int,
    full: float,
    *,
    limit: int = 256,
    hits: int = 50,
    psi: bool = True,
    identities: Sequence[int] = (1, 1, 1),
) -> list[MemorySample]:
    """Looks at a group, half a second apart; amounts in MiB."""
    return [
        MemorySample(
            path="/k/burstable",
            at=10 + number / 2,
            identity=identity,
            current=current * MIB,
            max=limit * MIB,
            stat={"pgscan": number * 5000, "pgsteal": number * 500},
            local={"max": number * hits},
            pressure=waited(full * number / 2, full * number / 2) if psi else None,
        )
        for number, identity in enumerate(identities)
    ]


@pytest.mark.parametrize(
    ("looks", "kind"),
    [
        (groups(255, 0.8), "short"),
        (groups(255, 0.8, psi=False), "short"),
        (groups(255, 0.1), "calm"),
        # it waits, but not at its own limit: somebody above or beside it is short
        (groups(100, 0.8, hits=0), "calm"),
        (groups(255, 0.8, identities=(1, 1, 2)), "calm"),
        (groups(255, 0.8, identities=(1, 1)), "calm"),
        (groups(255, 0.8, limit=(1 << 63) >> 20), "calm"),
        ([], "calm"),
    ],
)
def test_a_group_at_its_limit(looks: list[MemorySample], kind: str) -> None:
    state = group_state(looks)
    assert state.kind == kind, state
    if kind == "short":
        assert state.missing == (255 - 256) * MIB + 256 * MIB // 20
        assert "255 MiB in use of memory.max 256 MiB, hit 50 times" in state.because


def spared(full: float, *, outs: int = 9, kills: int = 0, hits: int = 0) -> list[MemorySample]:
    """Looks at a pod in which the kernel is out of memory, below it or at its own limit."""
    return [
        replace(one, events={"oom": number * outs, "oom_kill": number * kills})
        for number, one in enumerate(groups(200, full, hits=hits))
    ]


@pytest.mark.parametrize(
    ("looks", "kind"),
    [
        # it tries again and again inside the kernel, and hardly waits between
        (spared(0.15), "short"),
        (spared(0.15, hits=50), "short"),
        (spared(0.15, kills=1), "calm"),
        (spared(0.15, outs=0, hits=50), "calm"),
    ],
)
def test_a_pod_in_which_the_kernel_finds_nobody_to_kill(
    looks: list[MemorySample], kind: str
) -> None:
    state = stuck_state(looks)
    assert state.kind == kind, state
    assert ("cannot kill any" in state.because) == (kind == "short")
    assert (state.missing >= 4 * MIB) == (kind == "short")
    assert group_state(looks).kind == "calm", "what is below a QoS cgroup is not its own"


@pytest.mark.parametrize(
    ("outs", "kills", "kind"),
    [
        ((9, 9, 18), (0, 0, 0), "short"),
        ((0, 9, 9), (0, 0, 0), "short"),
        ((9, 9, 9), (0, 0, 0), "calm"),
        ((0, 9, 9), (0, 0, 1), "calm"),
    ],
)
def test_a_try_that_kills_nobody_may_last_from_one_look_to_the_next(
    outs: Sequence[int], kills: Sequence[int], kind: str
) -> None:
    seen = zip(groups(200, 0.15, hits=0), outs, kills, strict=True)
    looks = [replace(one, events={"oom": out, "oom_kill": kill}) for one, out, kill in seen]
    assert stuck_state(looks).kind == kind


def test_who_may_not_be_killed_and_computes_gets_on() -> None:
    looks = [replace(one, user_usec=number * 400_000) for number, one in enumerate(spared(0.15))]
    assert stuck_state(looks).kind == "own limit"


def stuck(
    swaps: int = 0, user: float = 0.0, cache: int = 0, psi: bool = True
) -> list[MemorySample]:
    """Looks at a pod at its limit that waits; MiB of swap that move a second, CPUs outside of the
    kernel, MiB of page cache."""
    return [
        replace(
            one,
            stat={**one.stat, "workingset_refault_anon": number * swaps * 128, "file": cache * MIB},
            user_usec=int(number * user * 5e5),
        )
        for number, one in enumerate(groups(255, 0.8, psi=psi))
    ]


@pytest.mark.parametrize("psi", [True, False])
@pytest.mark.parametrize(
    ("looks", "kind"),
    [
        ({}, "short"),
        ({"swaps": 36}, "own limit"),
        ({"user": 0.8}, "own limit"),
        ({"cache": 40}, "own limit"),
    ],
)
def test_a_pod_that_gets_on_is_not_stuck(looks: dict[str, int], kind: str, psi: bool) -> None:
    state = stuck_state(stuck(**looks, psi=psi))
    assert state.kind == kind, state
    assert ("36.0 MiB/s of swap moves" in state.because) == ("swaps" in looks)


def tried(
    cache: int = 45,
    taken: float = 0.0,
    dirty: int = 0,
    current: int = 252,
    hits: int = 0,
    full: float = 0.8,
) -> list[MemorySample]:
    """Looks at a pod at its limit, with MiB of page cache that its sockets hold, a share of which is taken."""
    scans = 50_000
    return [
        replace(
            one,
            at=10 + number * 1.5,
            pressure=waited(full * number * 1.5, full * number * 1.5),
            stat={
                "pgscan": number * scans,
                "pgsteal": int(number * scans * taken),
                "file": cache * MIB,
                "inactive_file": cache * MIB,
                "file_dirty": dirty * MIB,
            },
        )
        for number, one in enumerate(groups(current, full, hits=hits))
    ]


@pytest.mark.parametrize(
    ("looks", "kind"),
    [
        # one try to reclaim lasts for longer than there is between two looks
        (tried(), "short"),
        (tried(hits=1), "short"),
        (tried(taken=0.05, hits=1), "own limit"),
        (tried(dirty=20, hits=1), "own limit"),
        (tried(cache=120, hits=1), "own limit"),
        (tried(current=200), "calm"),
        (tried(full=0.3), "calm"),
        (tried()[1:], "calm"),
    ],
)
def test_page_cache_that_is_scanned_over_and_over_and_not_taken_saves_nobody(
    looks: list[MemorySample], kind: str
) -> None:
    state = stuck_state(looks)
    assert state.kind == kind, state
    assert state.in_vain == (kind == "short")
    assert ("scanned over and over and not taken" in state.because) == (kind == "short")
    assert group_state(looks).in_vain is False, "whose page cache it is nobody tells"


def streaming(rate: int, reread: float = 0.0) -> list[MemorySample]:
    """Looks at a pod that takes MiB a second of page cache through 1 MiB; a share is read again."""
    pages = rate * MIB // 4096 // 2
    return [
        replace(
            one,
            stat={
                **one.stat,
                "pgsteal": number * pages,
                "workingset_refault_file": int(number * pages * reread),
                "file": MIB,
            },
            usage_usec=0,
        )
        for number, one in enumerate(stuck())
    ]


@pytest.mark.parametrize(
    ("looks", "kind"),
    [(streaming(20), "own limit"), (streaming(2), "short"), (streaming(20, 1.0), "short")],
)
def test_a_pod_that_streams_files_is_not_stuck(looks: list[MemorySample], kind: str) -> None:
    state = stuck_state(looks)
    assert state.kind == kind, state
    assert ("20.0 MiB/s are freed" in state.because) == (kind == "own limit")


def test_a_pod_that_reads_a_slow_disk_again_and_again_is_not_stuck() -> None:
    """A database with next to no page cache at its memory.max: 1 MiB a second is what its disk gives."""

    def faulting(looks: list[MemorySample], faults: int) -> list[MemorySample]:
        return [
            replace(one, stat={**one.stat, "pgmajfault": number * faults})
            for number, one in enumerate(looks)
        ]

    assert stuck_state(faulting(streaming(1, 1.0), 0)).kind == "own limit"
    assert stuck_state(faulting(streaming(1, 1.0), 50)).kind == "short", "program text, maybe"


@pytest.mark.parametrize(("dirty", "kind"), [(0, "short"), (300, "short"), (600, "own limit")])
def test_a_pod_that_writes_to_a_slow_disk_is_not_stuck(dirty: int, kind: str) -> None:
    """It holds nearly all of its memory.max, and its disk takes 1 MiB a second of the KiB that wait."""
    looks = [
        replace(one, stat={**one.stat, "file_dirty": dirty << 9, "file_writeback": dirty << 9})
        for one in streaming(1)
    ]
    assert stuck_state(looks).kind == kind


@pytest.mark.parametrize(("cache", "kind"), [(10, "short"), (30, "own limit")])
def test_a_class_with_page_cache_to_be_had_is_not_short(cache: int, kind: str) -> None:
    """Readers of files wait at the limit of their QoS cgroup: a quiet pod beside them is spared."""
    looks = [
        replace(one, stat={**one.stat, "inactive_file": MIB, "active_file": (cache - 1) * MIB})
        for one in groups(255, 0.8)
    ]
    state = class_state(looks)
    assert state.kind == kind, state
    assert ("30 MiB of page cache can be had" in state.because) == (kind == "own limit")
    assert class_state(groups(255, 0.1)).kind == "calm"


def test_swap_alone_may_move() -> None:
    looks = [replace(one, swap=n * 9 * MIB) for n, one in enumerate(stuck())]
    assert stuck_state(looks).kind == "own limit"


@pytest.mark.parametrize(("taken", "kind"), [(35, "own limit"), (5, "short")])
def test_swap_moves_slowly_where_reclaim_takes_what_it_scans(taken: int, kind: str) -> None:
    """Linux 7.2, zram on a busy CPU: 69 pages a second scanned, all of them reclaimed, all tasks wait."""
    looks = [
        replace(
            one,
            swap=number * 35 * 4096,
            stat={**one.stat, "pgscan": number * 35, "pgsteal": number * taken},
        )
        for number, one in enumerate(stuck())
    ]
    assert stuck_state(looks).kind == kind


def test_a_group_that_is_out_of_memory_again_and_again_is_short() -> None:
    before, *_, after = groups(190, 0.1, limit=200)
    assert own_kills(before, after) == 0
    hit = replace(after, local={"max": 400, "oom": 2})
    assert own_kills(before, hit) == 0, "they were not told before: they may be of long ago"
    before = replace(before, local={"max": 300, "oom": 0})
    assert own_kills(before, hit) == 2
    assert own_kills(before, replace(hit, identity=2)) == 0
    assert killed_state(hit, 1, 5.0).kind == "calm", "what was killed may be enough"
    state = killed_state(hit, 2, 5.0)
    assert (state.kind, state.missing) == ("short", 10 * MIB)
    assert state.because == "190 MiB in use of memory.max 200 MiB, out of memory 2 times in 5 s"
    assert killed_state(replace(hit, max=1 << 63), 9, 5.0).kind == "calm"
