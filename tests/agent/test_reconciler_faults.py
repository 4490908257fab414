"""What a sync does about runtimes, orphans and pods that may not run."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.agent.reconciler import AWAITED_SECONDS
from qoslet.core.problem import Problem
from qoslet.core.reconcile.steps import Step
from qoslet.core.workload.config.references import UnmetReference
from qoslet.core.workload.folders.types import DiskVolume
from qoslet.core.workload.process_spec import PodSpec
from tests.agent.fixtures import ROOT, Bench, node, pod_of, spec_of


def test_a_runtime_that_cannot_be_reached_is_said_and_harms_nobody() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    bench.keeper.broken = True
    bench.put("b")
    turn = bench.turn(1.0)
    assert any("cannot be reached" in line for line in turn.errors)
    bench.keeper.broken = False
    bench.turn(2.0)
    assert bench.keeper.running == {"a", "b"}


def test_a_pod_that_is_wanted_again_before_it_could_be_stopped_goes_on() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    pids = dict(bench.keeper.kept["a"].pids)
    bench.keeper.deaf.add("a")
    bench.source.drop("a")
    assert any("stopping d/a" in line for line in bench.turn(1.0).errors)
    bench.put("a")
    bench.turn(0.1)
    bench.keeper.deaf.clear()
    for _ in range(3):
        bench.turn(5.0)
    assert bench.keeper.kept["a"].pids == pids
    assert bench.rows["a"].phase == "Running"


def test_one_that_was_evicted_is_stopped_first_and_starts_anew() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    pids = dict(bench.keeper.kept["a"].pids)
    bench.reconciler.context.workers["a"].eviction_reason = "Evicted", "the node is short of memory"
    bench.keeper.deaf.add("a")
    bench.source.drop("a")
    bench.turn(1.0)
    bench.put("a")
    bench.turn(0.1)
    bench.keeper.deaf.clear()
    for _ in range(3):
        bench.turn(5.0)
    assert bench.keeper.running == {"a"}
    assert bench.keeper.kept["a"].pids != pids


def test_a_pod_that_goes_before_the_first_look_counts_in_no_qos_cgroup() -> None:
    bench = Bench()
    bench.put("a", "cpu=500m")
    bench.put("b", "cpu=1")
    bench.source.drop("b")
    bench.turn()
    assert bench.keeper.running == {"a"}
    assert bench.value(f"{ROOT}/kubepods/burstable", "cpu.shares") == "512"


def test_how_a_container_ended_is_told_though_its_pod_was_known_to_have_ended_before() -> None:
    bench = Bench()
    bench.put("a", restart="Never")
    bench.turn()
    bench.turn(0.1)
    bench.keeper.slow.add("a")
    worker = bench.reconciler.context.workers["a"]
    worker.failed = True
    bench.reconciler.teardown.stop(worker, 30.0)
    bench.turn(0.1)
    # a runtime that has nothing new gives what it gave before; the pod ends right after
    told = bench.reconciler._polled
    bench.keeper.early["a"] = 137
    vars(bench.keeper)["poll"] = lambda: told
    bench.turn(0.1)
    assert bench.rows["a"].phase == "Failed"
    del vars(bench.keeper)["poll"]
    events = bench.turn(0.1).events
    (app,) = bench.rows["a"].containers
    assert (app.running, app.exit_code) == (False, 137)
    assert [one.event for one in events if one.container == "app"] == ["ContainerExited"]


def test_a_runtime_that_lost_a_pod_begins_it_anew_after_ending_its_processes() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    lost = bench.keeper.kept.pop("a").pids["app"]
    bench.turn(1.0)
    bench.turn(1.0)
    assert lost is not None
    assert bench.kernel.processes[lost].exit_code == 137
    assert bench.keeper.running == {"a"}


def test_the_cgroup_that_a_container_waits_for_is_created_as_soon_as_it_is_gone() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    bench.turn()
    (app,) = bench.keeper.kept["a"].cgroups.values()
    (pid,) = bench.keeper.kept["a"].pids.values()
    assert pid is not None
    bench.keeper.homeless.add("a")
    bench.turn(0.05)
    assert bench.reconciler.next_at() == pytest.approx(bench.clock.now + AWAITED_SECONDS)
    bench.kernel.kill(app)
    bench.keeper.kept["a"].pids["app"] = None
    bench.keeper.kept["a"].begun = False  # it is started again
    bench.kernel.perform([Step("remove", app)])
    bench.turn(AWAITED_SECONDS)
    assert bench.kernel.identity(app) is not None


def test_orphans_are_reported_and_removed_at_a_measured_pace() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    tier = f"{ROOT}/kubepods/burstable"
    for name in "xyz":
        bench.kernel.perform([Step("create", f"{tier}/pod{name}/app")])
    pid = bench.kernel.spawn(f"{tier}/podx/app")
    assert bench.turn(11.0).notes == (
        f"{tier}/podx belongs to no pod (process {pid}): removing it",
    )
    assert bench.reconciler.next_at() == pytest.approx(bench.clock.now + 0.1)
    left = []
    for _ in range(4):
        left.append(sum(len(bench.groups(name)) for name in "xyz") // 2)
        bench.turn(0.1)
    assert left == [2, 1, 0, 0]
    assert bench.groups("a")


def test_a_pod_that_may_not_run_is_said_and_makes_nothing() -> None:
    bench = Bench()
    wrong = Problem("error", f"{pod_of('a').where}: spec.hostIPC", "less isolation", "")
    refused = PodSpec("a", "d/a", (), 5.0, (wrong,))
    bench.source.put(pod_of("a"), refused)
    bench.put("b")
    bench.turn()
    row = bench.rows["a"]
    assert (row.phase, row.reason, row.message) == (
        "Failed",
        "Refused",
        "spec.hostIPC: less isolation",
    )
    assert (bench.groups("a"), bench.keeper.running) == ([], {"b"})
    bench.put("a")
    bench.turn(1.0)
    assert bench.keeper.running == {"a", "b"}
    bench.source.put(pod_of("a"), refused)
    bench.turn(1.0)
    assert bench.keeper.running == {"a", "b"}, "what runs stays"
    row = bench.rows["a"]
    assert (row.reason, row.edit_rejected) == ("Refused", "spec.hostIPC: less isolation")
    bench.put("a")
    bench.turn(1.0)
    row = bench.rows["a"]
    assert (row.status, row.reason, row.message, row.edit_rejected) == ("Running", "", "", "")


def test_a_pod_waits_for_what_its_input_lacks_and_keeps_running_without_it() -> None:
    bench = Bench()
    pod = pod_of("a")
    spec = spec_of(pod)
    lacks = UnmetReference("spec", "CreateContainerConfigError", 'secret "s" not found')
    waits = replace(spec, unmet=(lacks,))
    bench.source.put(pod, waits)
    bench.put("b")
    bench.turn()
    row = bench.rows["a"]
    assert (row.phase, row.reason, row.message) == (
        "Pending",
        "CreateContainerConfigError",
        'secret "s" not found',
    )
    assert (bench.groups("a"), bench.keeper.running) == ([], {"b"})
    bench.source.put(pod, spec)
    bench.turn(1.0)
    assert bench.keeper.running == {"a", "b"}
    assert bench.rows["a"].reason == ""
    bench.source.put(pod, waits)
    before = len(bench.keeper.calls)
    bench.turn(1.0)
    assert bench.keeper.running == {"a", "b"}, "what runs stays"
    assert not any(call[0] in ("stop", "update") for call in bench.keeper.calls[before:])


def test_a_new_agent_brings_what_config_maps_hold_to_pods_that_run() -> None:
    bench = Bench()
    plain, variables, files = pod_of("a"), pod_of("b"), pod_of("c")
    bench.source.put(plain, spec_of(plain))
    bench.source.put(variables, replace(spec_of(variables), from_config=True))
    bench.source.put(files, replace(spec_of(files), folders=(DiskVolume("v"),)))
    bench.turn()
    assert bench.keeper.running == {"a", "b", "c"}
    bench.begin()
    before = len(bench.keeper.calls)
    bench.turn()
    calls = bench.keeper.calls[before:]
    assert {call[1] for call in calls if call[0] == "update"} >= {"b", "c"}
    assert not any(call[0] in ("start", "stop") for call in calls)
    assert dict(bench.disk.existing()) == {"c": ("v",)}


def test_a_pod_waits_until_the_one_of_its_name_before_is_gone() -> None:
    bench = _slow()
    bench.source.drop("a")
    bench.source.put(replace(pod_of("a"), uid="b"))
    _waits(bench)


@pytest.mark.parametrize("asked", [True, False], ids=["stopping", "running"])
def test_a_pod_waits_for_the_one_of_its_name_that_an_earlier_agent_left(asked: bool) -> None:
    bench = _slow()
    if asked:
        bench.source.drop("a")
        bench.turn()
    else:
        del bench.source.pods["a"]
    bench.source.put(replace(pod_of("a"), uid="b"))
    bench.source.again(node())
    bench.begin()
    bench.turn()
    assert bench.rows["a"].qos == "Burstable", "it counts until it is gone"
    _waits(bench)


def test_pods_that_swap_their_names_wait_for_each_other() -> None:
    bench = _slow()
    bench.keeper.slow.add("b")
    bench.put("b")
    bench.turn()
    bench.source.put(replace(pod_of("b"), uid="a"))
    bench.source.put(replace(pod_of("a"), uid="b"))
    bench.turn()
    bench.keeper.end("a", code=143)
    bench.turn(1.0)
    bench.turn(1.0)
    assert bench.keeper.running == {"b"}
    assert bench.rows["a"].reason == "PodBefore"
    bench.keeper.end("b", code=143)
    bench.turn(1.0)
    bench.turn(1.0)
    assert bench.keeper.running == {"a", "b"}
    assert {uid: row.name for uid, row in bench.rows.items()} == {"a": "b", "b": "a"}


def _slow() -> Bench:
    """One with a pod that ends when the test says so."""
    bench = Bench()
    bench.put("a")
    bench.keeper.slow.add("a")
    bench.turn()
    return bench


def _waits(bench: Bench) -> None:
    """``b`` starts when ``a``, which has its name, is gone."""
    bench.turn(1.0)
    bench.turn(1.0)
    assert bench.keeper.running == {"a"}
    assert bench.rows["b"].reason == "PodBefore"
    assert bench.groups("b") == []
    bench.keeper.end("a", code=143)
    bench.turn(1.0)
    assert bench.keeper.running == {"b"}


def test_switching_pod_groups_on_restarts_pods_inside_them_but_not_those_that_never_restart() -> (
    None
):
    bench = Bench(cgroups_per_qos=False, enforce_node_allocatable=())
    bench.put("a")
    bench.put("b", restart="Never")
    bench.turn()
    outside = set(bench.groups())
    assert bench.keeper.running == {"a", "b"}
    assert not [path for path in outside if "kubepods" in path]
    bench.begin()
    bench.source.again(node())
    for _ in range(3):
        bench.turn(1.0)
    assert bench.keeper.running == {"a"}
    assert bench.keeper.kept["a"].cgroups == {"app": f"{ROOT}/kubepods/burstable/poda/app"}
    row = bench.rows["b"]
    assert row.phase == "Failed"
    assert not outside - {ROOT} & set(bench.groups())
    assert any("restartPolicy Never" in line for line in bench.said)


def test_switching_them_off_brings_containers_out() -> None:
    bench = Bench()
    bench.put("a")
    bench.put("ended", restart="Never")
    bench.turn()
    bench.keeper.end("ended")
    bench.turn(1.0)
    bench.begin()
    bench.source.again(node(cgroups_per_qos=False, enforce_node_allocatable=()))
    for _ in range(3):
        bench.turn(1.0)
    bench.turn(11.0)
    bench.turn(1.0)
    assert bench.keeper.running == {"a"}
    assert not [path for path in bench.groups() if "kubepods" in path]


def test_another_node_configuration_is_followed_while_pods_run() -> None:
    bench = Bench()
    bench.put("a", "cpu=500m", "cpu=1")
    bench.turn()
    bench.source.again(node(cpu_cfs_quota=False))
    bench.turn(1.0)
    assert bench.value(f"{ROOT}/kubepods/burstable/poda", "cpu.cfs_quota_us") == "-1"
    assert [call for call in bench.keeper.calls if call[0] in ("start", "stop")] == [("start", "a")]
