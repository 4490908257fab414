"""A stall at memory.high in a cgroup that the container runtime chose: what is done, and given back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.api.memory_annotations import MemoryPolicy
from tests.agent.chosen_cgroups import Chosen, asked_of
from tests.agent.fixtures import pod_of, resources, spec_of
from tests.agent.memory.test_throttle_guard import HIGH, MIB


def raised() -> tuple[Chosen, str]:
    """A bench whose guard has raised memory.high of a container, and the container's cgroup."""
    bench = Chosen()
    path = bench.pod("hog")
    bench.stalls(path)
    bench.time(3)
    return bench, path


def test_a_stalled_container_is_handed_to_its_limit_and_shown_as_held() -> None:
    bench = Chosen()
    path = bench.pod("hog")
    bench.time(2)
    assert bench.high(path) == str(HIGH)
    bench.stalls(path)
    (said,) = bench.time(3)
    assert bench.high(path) == "max"
    assert said.startswith("guard: removed memory.high of d/hog/app: stalled at memory.high: up to")
    assert not bench.turn(10, whole=True).differences, "what is held is no difference"
    (row,) = [one for one in bench.reconciler.snapshot().groups if one.path == path]
    assert row.planned["memory.high"] == row.found["memory.high"] == "max"
    (held,) = bench.reconciler.memory.guard_report.held
    assert (held.path, held.planned) == (path, HIGH)


def test_what_was_raised_comes_back_once_it_fits() -> None:
    bench, path = raised()
    bench.pushing.clear()
    bench.holds(path, 200)
    (said,) = bench.time(40)
    assert said.startswith("guard: restored the planned memory.high of d/hog/app: usage below")
    assert bench.high(path) == str(HIGH)


def test_what_the_runtime_writes_over_it_meanwhile_is_raised_again() -> None:
    """With each update of a container a runtime writes all that it was asked for."""
    bench, path = raised()
    bench.kernel.write(path, "memory.high", str(HIGH))
    bench.turn(1, whole=True)
    assert bench.high(path) == "max"


def test_a_pod_that_never_restarts_is_killed_where_its_runtime_hangs() -> None:
    bench = Chosen()
    path = bench.pod("job", limit="", high=200 * MIB, restart="Never")
    bench.keeper.stuck.add("job")
    pid = bench.keeper.kept["job"].pids["app"] or 0
    bench.available = 100
    bench.stalls(path, 205)
    for _ in range(40):
        if ("stop", "job", 2.0) not in bench.keeper.calls:
            bench.time(0.25)
    bench.time(1.5)
    assert bench.kernel.lives(pid), "it has two seconds"
    bench.time(1.0)
    assert not bench.kernel.lives(pid)


def test_all_else_in_its_cgroup_is_the_runtimes() -> None:
    bench = Chosen()
    path = bench.pod("hog")
    bench.kernel.write(path, "memory.high", str(100 * MIB))
    bench.turn(10, whole=True)
    assert bench.high(path) == str(100 * MIB), "nothing of ours is in it"
    bench.kernel.write(path, "memory.high", str(HIGH))
    bench.stalls(path)
    bench.time(3)
    bench.kernel.write(path, "cpu.weight", "7")
    bench.kernel.write(path, "pids.max", "77")
    assert not bench.turn(10, whole=True).differences
    assert bench.value(path, "cpu.weight") == "7"
    assert bench.value(path, "pids.max") == "77"


def test_the_next_agent_gives_it_back_whatever_its_guard_is() -> None:
    bench, path = raised()
    bench.pushing.clear()
    bench.config = replace(bench.config, guard="off")
    bench.begin()
    bench.turn()
    assert bench.high(path) == str(HIGH)


def test_another_container_in_the_place_of_a_raised_one_is_left_alone() -> None:
    bench, path = raised()
    bench.pushing.clear()
    pid = bench.keeper.kept["hog"].pids["app"] or 0
    bench.kernel.end(pid, 137)
    bench.kernel.rmdir(path)
    bench.kernel.mkdir(path)
    bench.kernel.write(path, "memory.high", str(50 * MIB))
    bench.begin()
    bench.turn()
    assert bench.high(path) == str(50 * MIB)
    assert path not in bench.journal.ledger.adopted


def test_a_container_that_restarts_during_the_stall_is_watched_where_it_is_now() -> None:
    bench = Chosen()
    first = bench.pod("hog")
    bench.stalls(first)
    bench.time(3)
    bench.pushing.clear()
    bench.keeper.restart("hog", "app")
    second = bench.at("hog")
    assert second != first
    bench.time(2)
    assert not bench.reconciler.memory.guard_report.held
    assert bench.high(second) == str(HIGH)
    bench.stalls(second)
    (said,) = bench.time(3)
    assert "removed memory.high of d/hog/app" in said
    bench.turn(10, whole=True)
    assert list(bench.journal.ledger.adopted) == [second], "nothing is kept of what is gone"


def test_one_of_several_containers_is_ended_by_its_name() -> None:
    bench = Chosen()
    asked = resources("memory=64Mi")
    pod = replace(pod_of("hog", asked, "mesh", "app"), memory=MemoryPolicy(high=200 * MIB))
    bench.source.put(pod, spec_of(pod))
    bench.turn()
    bench.available = 100
    bench.stalls(bench.at("hog"), 205)
    bench.time(4)
    assert ("restart", "hog", "app") in bench.keeper.calls
    assert ("restart", "hog", "mesh") not in bench.keeper.calls


def test_where_the_pod_stalls_the_container_that_uses_most_is_ended() -> None:
    bench = Chosen()
    asked = resources("memory=64Mi")
    pod = replace(pod_of("hog", asked, "mesh", "app"), memory=MemoryPolicy(high=200 * MIB))
    bench.source.put(pod, spec_of(pod))
    bench.turn()
    worker = bench.reconciler.context.workers["hog"]
    kept = bench.keeper.kept["hog"]
    bench.kernel.processes[kept.pids["mesh"] or 0].memory = 90 * MIB
    guard = bench.reconciler.memory.policies[0]
    assert guard._kills.kill(worker, asked_of(kept).parent, "x") == ""  # type: ignore[attr-defined]
    assert bench.keeper.calls[-1] == ("restart", "hog", "mesh")


@pytest.mark.parametrize(
    "told",
    ["/elsewhere/x", "/q", "", "{parent}", "{parent}/a/b", "{other}", "{parent}/../x"],
    ids=["outside", "the root", "nothing", "the pod", "deeper", "another pod's", "above"],
)
def test_a_path_that_is_not_the_containers_own_is_not_followed(told: str) -> None:
    bench = Chosen()
    other = bench.pod("other")
    path = bench.pod("hog")
    bench.keeper.told["app"] = told.format(
        parent=asked_of(bench.keeper.kept["hog"]).parent, other=other
    )
    bench.stalls(path)
    bench.time(5)
    hog, beside = (bench.reconciler.context.workers[uid] for uid in ("hog", "other"))
    assert hog.named_paths == {}
    assert set(beside.named_paths.values()) <= {other}
    assert bench.high(path) == str(HIGH)
    assert bench.high(other) == str(HIGH)


def test_two_containers_of_one_path_are_one() -> None:
    bench = Chosen()
    asked = resources("memory=64Mi")
    pod = replace(pod_of("hog", asked, "mesh", "app"), memory=MemoryPolicy(high=200 * MIB))
    bench.source.put(pod, spec_of(pod))
    bench.turn()
    bench.keeper.told["app"] = bench.at("hog", "mesh")
    bench.time(1)
    worker = bench.reconciler.context.workers["hog"]
    assert worker.named_paths == {"mesh": bench.at("hog", "mesh")}


def test_a_cgroup_that_vanishes_before_it_is_raised_is_no_error_for_ever() -> None:
    bench = Chosen()
    path = bench.pod("hog")
    bench.stalls(path)
    bench.time(0.5)
    guard = bench.reconciler.memory.policies[0]
    override = guard._actions.override_for(path, HIGH, 12345)  # type: ignore[attr-defined]
    wrong = guard._actions.raise_high(path, override, 300 * MIB, "x")  # type: ignore[attr-defined]
    assert wrong == f"{path}: the cgroup is gone"
    assert path not in bench.journal.ledger.adopted
    assert bench.high(path) == str(HIGH)


def test_opted_out_it_is_left_alone() -> None:
    bench = Chosen()
    path = bench.pod("hog", guard="off")
    bench.stalls(path)
    assert bench.time(10) == []
    assert bench.high(path) == str(HIGH)
