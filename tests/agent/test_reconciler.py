"""The wheel on a kernel, a runtime and volumes made of values: every transition of a pod."""

from __future__ import annotations

import errno
from itertools import pairwise

import pytest

from qoslet.agent.config import Config
from qoslet.core.reconcile.steps import Step
from qoslet.core.workload.process_spec import MemoryVolume, PodSpec
from qoslet.sim.kernel import Fault
from tests.agent.fixtures import ROOT, Bench, pod_of, spec_of

SERVICE = Config(root=ROOT, interval_seconds=None)


def with_volume(name: str) -> PodSpec:
    spec = spec_of(pod_of(name))
    return PodSpec(spec.uid, spec.key, spec.launches, 5.0, (), (MemoryVolume("v"),))


def test_pods_are_made_begun_and_left_alone() -> None:
    bench = Bench()
    bench.put("a")
    bench.put("b", "", "")
    first = bench.turn()
    assert bench.keeper.running == {"a", "b"}
    assert (first.failed, first.errors, first.pods_synced) == (0, (), 2)
    done = len(bench.driver.steps)
    second = bench.turn(1.0)
    assert (second.pods_synced, second.differences) == (0, 0)
    assert second.summary == "2 pods, 2 of 2 containers running; the tree is as planned"
    assert len(bench.driver.steps) == done
    rows = bench.rows
    assert {uid: (row.phase, row.qos) for uid, row in rows.items()} == {
        "a": ("Running", "Burstable"),
        "b": ("Running", "BestEffort"),
    }
    assert rows["a"].manifest == "a.yaml"


def test_a_container_whose_command_does_not_run_yet_is_not_one_of_those_that_run() -> None:
    bench = Bench()
    bench.keeper.starting.add("a")
    bench.put("a")
    bench.turn()
    assert bench.turn(1.0).summary.startswith("1 pod, 0 of 1 containers running")
    bench.keeper.starting.clear()
    assert bench.turn(1.0).summary.startswith("1 pod, 1 of 1 containers running")


def test_a_pod_that_is_gone_ends_first_then_its_volumes_its_groups_and_its_record() -> None:
    bench = Bench()
    bench.source.put(pod_of("a"), with_volume("a"))
    bench.put("b")
    bench.keeper.slow.add("a")
    bench.turn()
    assert bench.disk.there == {"a": ("v",)}
    bench.source.drop("a")
    bench.turn(1.0)
    assert ("stop", "a", 5.0) in bench.keeper.calls
    assert bench.groups("a"), "its processes still run"
    assert bench.rows["a"].phase == "Terminating"
    bench.keeper.end("a", code=143)
    bench.turn(1.0)
    assert (bench.groups("a"), bench.disk.there, bench.keeper.running) == ([], {}, {"b"})
    assert bench.keeper.calls[-1] == ("remove_pod", "a")
    assert set(bench.rows) == {"b"}


def test_tiers_rise_before_a_pod_is_made_and_fall_after_it_is_removed() -> None:
    bench = Bench()
    bench.put("a", "cpu=1")
    bench.turn()
    burstable = f"{ROOT}/kubepods/burstable"
    assert bench.value(burstable, "cpu.shares") == "1024"
    bench.driver.steps.clear()
    bench.put("b", "cpu=2")
    bench.turn(1.0)
    first, *rest = bench.driver.steps
    assert first == Step("set", burstable, "cpu.shares", "3072", why=first.why)
    assert [step.path for step in rest if step.kind == "create"] == [
        f"{burstable}/podb",
        f"{burstable}/podb/app",
    ]
    bench.driver.steps.clear()
    bench.source.drop("b")
    bench.turn(1.0)
    bench.turn(0.0)
    assert [(step.kind, step.path) for step in bench.driver.steps] == [
        ("remove", f"{burstable}/podb/app"),
        ("remove", f"{burstable}/podb"),
        ("set", burstable),
    ]
    assert bench.value(burstable, "cpu.shares") == "1024"


def test_a_pod_that_ends_while_the_runtime_is_asked_has_ended_with_its_code() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    bench.put("b")
    bench.keeper.early["b"] = 2
    bench.turn(1.0)
    assert {uid: row.phase for uid, row in bench.rows.items()} == {"a": "Running", "b": "Failed"}
    assert [one.exit_code for one in bench.rows["b"].containers] == [2]


def test_a_pod_that_has_ended_gives_everything_back_and_is_not_begun_again() -> None:
    bench = Bench()
    bench.source.put(pod_of("a"), with_volume("a"))
    bench.put("b", "cpu=1")
    bench.turn()
    bench.keeper.end("a", code=0)
    bench.keeper.end("b", code=3)
    bench.turn(1.0)
    assert {uid: row.phase for uid, row in bench.rows.items()} == {"a": "Succeeded", "b": "Failed"}
    assert (bench.groups("a"), bench.groups("b"), bench.disk.there) == ([], [], {})
    assert bench.value(f"{ROOT}/kubepods/burstable", "cpu.shares") == "2", "they count no more"
    bench.turn(20.0)
    bench.begin()
    bench.turn(1.0)
    assert bench.keeper.running == set(), "nor under the next agent"
    assert {uid: row.phase for uid, row in bench.rows.items()} == {"a": "Succeeded", "b": "Failed"}
    bench.source.drop("a")
    bench.turn(1.0)
    bench.turn(1.0)
    assert set(bench.rows) == {"b"}
    assert set(bench.keeper.kept) == {"b"}


def test_drift_is_mended_when_everything_is_looked_at() -> None:
    bench = Bench(config=SERVICE)
    bench.put("a")
    bench.turn()
    path = next(one for one in bench.groups("a") if one.endswith("poda"))
    bench.kernel.write(path, "cpu.shares", "999")
    assert bench.turn(1.0).pods_synced == 0
    assert bench.value(path, "cpu.shares") == "999", "nobody has looked"
    assert bench.turn(10.0).pods_synced == 1
    assert bench.value(path, "cpu.shares") == "512"


def test_looks_at_everything_become_rare_while_all_is_well() -> None:
    bench = Bench(config=SERVICE)
    bench.put("a")
    looks = [bench.clock.now for _ in range(200) if bench.turn(1.0).pods_synced]
    waits = [int(after - before) for before, after in pairwise(looks)]
    assert waits == [10, 20, 40, 60, 60]


def test_a_pod_that_the_kernel_refuses_waits_and_the_others_run() -> None:
    bench = Bench()
    bench.turn()
    bench.put("a")
    bench.put("b")
    bench.kernel._faults = {bench.kernel._performed + 1: Fault(0, errno.ENOSPC)}
    turn = bench.turn(1.0)
    assert (turn.failed, bench.keeper.running) == (1, {"b"})
    assert f"create {ROOT}/kubepods/burstable/poda" in turn.errors[0]
    row = bench.rows["a"]
    assert (row.phase, row.reason, row.retries) == ("Pending", "FailedToCreatePodContainer", 1)
    assert row.retry_in == 1.0
    waits = bench.turn(0.5)
    assert waits.pods_synced == 0
    assert waits.summary == "2 pods, 1 of 1 containers running; 1 pod to be retried"
    assert bench.turn(0.6).pods_synced == 1
    assert bench.keeper.running == {"a", "b"}
    assert (bench.rows["a"].reason, bench.rows["a"].retries) == ("", 0)


@pytest.mark.parametrize("what", ["start", "volume"])
def test_a_pod_that_cannot_begin_backs_off_alone(what: str) -> None:
    bench = Bench()
    bench.source.put(pod_of("a"), with_volume("a"))
    bench.put("b")
    (bench.keeper.refuse if what == "start" else bench.disk.refuse).add("a")
    assert len(bench.turn().errors) == 1
    assert bench.keeper.running == {"b"}
    tries = 1
    for _ in range(100):
        tries += bool(bench.turn(1.0).errors)
    assert tries == 7, "after 1, 2, 4, 8, 16 and 32 seconds"
    assert bench.rows["a"].reason == ("StartError" if what == "start" else "FailedMount")
    bench.keeper.refuse.clear()
    bench.disk.refuse.clear()
    bench.turn(60.0)
    assert bench.keeper.running == {"a", "b"}


def test_a_volume_that_somebody_holds_keeps_the_groups_and_is_said() -> None:
    bench = Bench()
    bench.source.put(pod_of("a"), with_volume("a"))
    bench.turn()
    bench.disk.held.add("a")
    bench.source.drop("a")
    bench.turn(1.0)
    bench.turn(1.0)
    row = bench.rows["a"]
    assert (row.phase, row.reason) == ("Terminating", "VolumeInUse")
    assert "process 7 (sh)" in row.message
    bench.disk.held.clear()
    bench.turn(5.0)
    assert (bench.rows, bench.groups("a")) == ({}, [])


def test_a_process_that_outlives_its_pod_is_ended() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    stray = bench.kernel.spawn(next(one for one in bench.groups("a") if one.endswith("app")))
    bench.source.drop("a")
    bench.turn(1.0)
    assert bench.kernel.processes[stray].exit_code == 137
    bench.turn(0.05)
    assert (bench.rows, bench.groups("a")) == ({}, [])


def test_a_runtime_in_which_something_happens_at_every_look_holds_up_no_sync() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    bench.keeper.restless.add("a")
    bench.put("b")
    bench.turn(1.0)
    assert bench.keeper.running == {"a", "b"}
    bench.keeper.restless.clear()
    bench.turn(1.0)
    assert (bench.rows["a"].phase, bench.rows["b"].phase) == ("Running", "Running")
    assert bench.rows["a"].containers[0].restarts > 1


def test_edited_processes_are_started_anew_and_an_edit_back_and_forth_ends_right() -> None:
    bench = Bench()
    bench.put("a")
    bench.keeper.slow.add("a")
    bench.turn()
    bench.put("a", command="y")
    bench.turn(1.0)
    assert bench.keeper.calls[-1] == ("stop", "a", 5.0)
    bench.put("a", "cpu=2", "cpu=2", command="z")
    bench.turn(1.0)
    bench.keeper.end("a", code=143)
    bench.turn(1.0)
    assert bench.keeper.kept["a"].spec.launches[0].argv == ("z",)
    assert bench.keeper.running == {"a"}
    turn = bench.turn(11.0)
    assert (turn.differences, turn.pods_synced) == (0, 1)
    assert bench.groups("a") == [
        f"{ROOT}/kubepods/burstable/poda",
        f"{ROOT}/kubepods/burstable/poda/app",
    ]


def test_a_pod_that_comes_back_while_it_ends_begins_anew() -> None:
    bench = Bench()
    bench.put("a")
    bench.keeper.slow.add("a")
    bench.turn()
    bench.source.drop("a")
    bench.turn(1.0)
    bench.put("a")
    bench.turn(1.0)
    assert bench.rows["a"].phase == "Terminating"
    bench.keeper.end("a", code=143)
    bench.turn(1.0)
    assert bench.keeper.running == {"a"}
    assert [call for call in bench.keeper.calls if call[0] == "start"] == [("start", "a")] * 2
    assert not bench.turn(11.0).differences


def test_a_new_agent_changes_nothing_that_is_right() -> None:
    bench = Bench()
    for name in "abc":
        bench.put(name)
    bench.turn()
    bench.driver.steps.clear()
    bench.keeper.calls.clear()
    bench.source.drop("c")
    bench.put("d")
    bench.begin()
    bench.source.again(bench.source.live.node)
    bench.turn(1.0)
    bench.turn(1.0)
    assert bench.keeper.running == {"a", "b", "d"}
    assert {call for call in bench.keeper.calls if call[1] in ("a", "b")} == {
        ("update", "a"),
        ("update", "b"),
    }
    touched = {step.path for step in bench.driver.steps if "/pod" in step.path}
    assert not [path for path in touched if "/poda" in path or "/podb" in path]
    assert not bench.groups("c")
