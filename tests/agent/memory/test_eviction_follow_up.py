"""What comes after an eviction: what was freed, back-off and restart, pods that do not end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.workload.life import Backoff
from qoslet.sim.kernel import SimKernel
from tests.agent.fixtures import pod_of, resources, spec_of
from tests.agent.memory.pressed import ACT, Pressed, short, usual


def test_what_was_freed_is_measured() -> None:
    bench = short(usual(Pressed()))
    while "hog" in bench.keeper.running:
        bench.time(0.25)
    bench.frees("hog")
    (said,) = bench.time(2)
    assert said.startswith("d/hog was removed 0."), said
    assert said.endswith("1300 MiB expected, 1300 MiB freed, 1360 MiB available")


def test_a_pod_begins_anew_after_its_back_off_once_memory_is_there() -> None:
    config = replace(ACT, eviction_backoff=Backoff(first=20.0, longest=60.0, reset_after=300.0))
    bench = short(usual(Pressed(config)))
    bench.time(2)
    bench.frees("hog")
    bench.time(15)
    assert "hog" not in bench.keeper.running
    said = bench.time(10)
    assert "hog" in bench.keeper.running
    assert any("was evicted 20 s ago; restarting it" in line for line in said)
    assert bench.rows["hog"].reason == ""
    bench.holds["hog"] = {"held": 1300, "cache": 0, "shmem": 0}
    short(bench).time(2)
    assert "hog" not in bench.keeper.running
    bench.frees("hog")
    bench.time(30)
    assert "hog" not in bench.keeper.running, "twice as long the second time"
    bench.time(15)
    assert "hog" in bench.keeper.running


def test_where_it_never_restarts_it_stays_failed() -> None:
    config = replace(ACT, eviction_backoff=Backoff(first=5.0, longest=60.0, reset_after=300.0))
    bench = Pressed(config)
    pod = pod_of("hog", resources())
    bench.source.put(pod, spec_of(pod, restart="Never"))
    bench.holds["hog"] = {"held": 1300, "cache": 0, "shmem": 0}
    bench.time(3)
    short(bench).time(2)
    bench.frees("hog")
    bench.time(60)
    assert bench.keeper.running == set()
    assert bench.rows["hog"].phase == "Failed"


def test_what_a_pod_held_is_measured_when_its_volumes_are_gone() -> None:
    bench = Pressed()
    bench.pod("hog", 1400, shmem=1382)
    bench.pod("small", 100)
    bench.time(2)
    bench.disk.held.add("hog")
    short(bench).time(5)
    assert bench.keeper.running == {"small"}, "the second is not considered before"
    bench.disk.held.clear()
    bench.frees("hog")
    said = bench.time(4)
    assert any("1400 MiB expected, 1400 MiB freed" in line for line in said), said
    assert bench.keeper.running == {"small"}


@pytest.mark.parametrize("freeing", [True, False])
def test_volumes_that_take_long_to_go_are_waited_for_while_memory_comes_back(
    freeing: bool,
) -> None:
    bench = Pressed()
    bench.pod("hog", 1400, shmem=1382)
    bench.pod("small", 100)
    bench.time(2)
    bench.disk.large.add("hog")
    short(bench).time(2)
    assert bench.keeper.running == {"small"}
    bench.keeper.end("hog", code=137)
    for _ in range(12):
        if freeing:
            bench.available += 2
        bench.time(1)
    assert ("small" in bench.keeper.running) == freeing, "an innocent pod"
    if freeing:
        bench.disk.large.clear()
        bench.frees("hog")
        said = bench.time(4)
        assert any("d/hog was removed 1" in line for line in said), said
        assert bench.keeper.running == {"small"}
    else:
        assert any("d/hog still exists 1" in line for line in bench.said)


class Unkillable(SimKernel):
    """A kernel whose processes do not get to their signals."""

    def __init__(self, kernel: SimKernel) -> None:
        self.__dict__ = kernel.__dict__

    def kill(self, path: str) -> bool:
        return False


def test_a_pod_that_does_not_end_holds_up_others_for_a_while_only() -> None:
    bench = usual(Pressed())
    bench.reconciler.context.killer = Unkillable(bench.kernel)
    bench.keeper.stuck.add("hog")
    said = short(bench).time(9)
    assert bench.keeper.running == {"hog", "small", "b", "g"}
    assert any("d/hog has been stopping for" in line for line in said)
    said = bench.time(5)
    assert "small" not in bench.keeper.running
    assert any(
        "d/hog still exists 10 s after its eviction and holds 1300 MiB" in one for one in said
    )


def test_one_whose_runtime_hangs_is_killed_and_nobody_else() -> None:
    bench = usual(Pressed())
    bench.keeper.stuck.add("hog")
    context = bench.reconciler.context
    (state,) = context.workers["hog"].container_states
    assert state.pid is not None
    for _ in range(20):
        bench.time(0.25)
        if not short(bench).kernel.lives(state.pid):
            break
    assert not bench.kernel.lives(state.pid), "its runtime was to kill it"
    bench.frees("hog")
    for path in context.workers["hog"].top_cgroups:
        bench.memory.set(path, populated=False)
    said = bench.time(15)
    assert {"small", "b", "g"} <= bench.keeper.running
    (line,) = (one for one in said if "d/hog still exists" in one)
    assert line.endswith("its processes have ended, and its runtime does not tell so")


def test_an_end_that_the_runtime_refuses_is_asked_for_again_as_it_was() -> None:
    bench = usual(Pressed())
    bench.keeper.deaf.add("hog")
    short(bench).time(2)
    assert "hog" in bench.keeper.running
    bench.keeper.deaf.clear()
    bench.stall, bench.scans, bench.available = 0.0, 0, 1000
    bench.time(5)
    assert "hog" not in bench.keeper.running, "it was decided"
    asked = [call for call in bench.keeper.calls if call[:2] == ("stop", "hog")]
    assert len(asked) >= 2
    assert set(asked) == {("stop", "hog", 0.0)}


@pytest.mark.parametrize("edited", [True, False])
def test_a_victim_on_its_way_down_does_not_keep_the_loop_awake(edited: bool) -> None:
    config = replace(ACT, eviction_backoff=Backoff(first=5.0, longest=60.0, reset_after=300.0))
    bench = usual(Pressed(config))
    bench.keeper.stuck.add("hog")
    short(bench).time(2)
    if edited:
        pod = pod_of("hog", resources())
        bench.source.put(pod, spec_of(pod, command="other"))
        bench.keeper.stuck.clear()
        bench.keeper.end("hog", code=137)
    bench.frees("hog")
    bench.time(8)
    assert ("hog" in bench.keeper.running) == (edited or "hog" in bench.keeper.stuck)
    at = bench.reconciler.next_at()
    assert at is None or at > bench.clock.now


def test_one_that_has_not_ended_for_long_holds_up_nobody() -> None:
    bench = usual(Pressed())
    bench.keeper.stuck.add("hog")
    bench.source.drop("hog")
    bench.time(20)
    short(bench).time(2)
    assert "small" not in bench.keeper.running, bench.said


def taking_its_time() -> Pressed:
    """The usual pods, of which the hog has a minute to end and takes all of it."""
    bench = Pressed()
    hog = pod_of("hog", resources())
    bench.source.put(hog, spec_of(hog, grace=60.0))
    bench.holds["hog"] = {"held": 1300, "cache": 0, "shmem": 0}
    for name in ("small", "b"):
        bench.pod(name, 100)
    bench.time(3)
    bench.keeper.slow.add("hog")
    return bench


@pytest.mark.parametrize("stuck", [False, True])
def test_one_that_takes_its_time_to_end_is_ended_before_others(stuck: bool) -> None:
    bench = taking_its_time()
    bench.source.drop("hog")
    bench.time(15)
    assert "hog" in bench.keeper.running
    if stuck:
        bench.keeper.stuck.add("hog")
    said = short(bench).time(2)
    assert bench.keeper.running == {"small", "b", *(["hog"] if stuck else [])}
    assert "evicting d/hog: memory is short on the node: best-effort: uses 1300 MiB" in said[0]
    assert "; it has been stopping for 1" in said[0]
    if not stuck:
        bench.frees("hog")
        assert any("d/hog was removed 0." in line for line in said + bench.time(2))
    bench.time(15)
    assert ("small" in bench.keeper.running) != stuck, "it was tried"


def test_one_that_is_begun_anew_and_ended_at_once_for_memory_goes_on_to_begin() -> None:
    bench = taking_its_time()
    edited = pod_of("hog", resources())
    bench.source.put(edited, spec_of(edited, command="other"))
    bench.time(15)
    short(bench).time(2)
    assert any(line.startswith("evicting d/hog: ") for line in bench.said)
    bench.available += 1300
    bench.stall, bench.scans = 0.0, 0
    bench.time(3)
    assert "hog" in bench.keeper.running
    assert bench.rows["hog"].reason == ""


def test_one_that_was_just_asked_to_stop_is_waited_for() -> None:
    bench = usual(Pressed())
    bench.keeper.slow.add("hog")
    bench.source.drop("hog")
    said = short(bench).time(5)
    assert bench.keeper.running == {"hog", "small", "b", "g"}
    assert "no victim: memory is short on the node: ending already: d/hog; that frees" in said[0]


@pytest.mark.parametrize("shares", [False, True])
def test_system_v_memory_that_outlives_its_pod_is_removed_unless_it_is_the_hosts(
    shares: bool,
) -> None:
    """It is removed before what was freed is measured, or others would go for what it holds."""
    bench = Pressed()
    bench.pod("hog", 1300, shmem=1290, host_ipc=shares)
    bench.pod("quiet", 120)
    bench.time(3)
    bench.segments.mib = 1290
    short(bench)
    while "hog" in bench.keeper.running:
        bench.time(0.25)
    bench.turn()
    bench.holds["hog"]["held"] = 0 if shares else 1300
    bench.frees("hog")
    bench.time(3)
    freed = 0 if shares else 1300
    (said,) = (line for line in bench.said if "was removed" in line)
    assert f"1300 MiB expected, {freed} MiB freed" in said
    removed = [line for line in bench.said if "System V" in line]
    assert bench.segments.removed == len(removed) == (0 if shares else 1)
    if removed:
        assert removed[0].endswith(
            "d/hog: removed its System V shared memory, which outlived it: 1290 MiB"
        )
