"""The events of each sync: what happened to pods and containers since the last one."""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.core.problem import Problem
from qoslet.core.reconcile.steps import Outcome
from tests.agent.fixtures import Bench, pod_of, resources, spec_of


def lines(bench: Bench, seconds: float = 1.0) -> list[str]:
    return [one.line for one in bench.turn(seconds).events]


def test_a_life_is_told_line_by_line() -> None:
    bench = Bench()
    bench.put("a")
    told = lines(bench)
    pid = bench.keeper.kept["a"].pids["app"]
    assert told == [f"d/a/app: started (process {pid})", "d/a: running"]
    assert lines(bench) == []
    bench.keeper.end("a", code=137)
    assert lines(bench) == ["d/a/app: exited with 137 (SIGKILL)", "d/a: failed"]
    bench.source.drop("a")
    assert lines(bench) == ["d/a: removed"]


def test_a_pod_that_is_stopped() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    bench.keeper.slow.add("a")
    bench.source.drop("a")
    (event,) = bench.turn(1.0).events
    assert event.line == "d/a: stopping: a.yaml no longer has it"
    assert (event.severity, event.reason) == ("info", "ManifestRemoved")
    (row,) = bench.reconciler.pod_rows()
    assert (row.phase, row.reason) == ("Terminating", "ManifestRemoved")
    assert row.status == "Terminating", "as kubectl says"
    bench.keeper.end("a", code=143)
    turn = bench.turn(1.0)
    assert [one.line for one in turn.events] == [
        "d/a/app: exited with 143 (SIGTERM)",
        "d/a: removed",
    ]
    assert {one.severity for one in turn.events} == {"info"}


def test_a_pod_that_is_gone_within_the_sync_that_stops_it() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    bench.source.drop("a")
    stopping, *_, removed = lines(bench)
    assert stopping == "d/a: stopping: a.yaml no longer has it"
    assert removed == "d/a: removed"


def test_a_pod_whose_uid_another_takes_ends_under_its_own_name() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    bench.keeper.slow.add("a")
    first = bench.keeper.kept["a"]
    other = replace(pod_of("a", resources("cpu=500m memory=64Mi")), name="b")
    bench.source.put(other, spec_of(other))
    turn = bench.turn(1.0)
    assert [one.line for one in turn.events] == ["d/a: stopping"]
    assert "d/a: d/b has its UID now; stopping it" in turn.notes
    bench.keeper.end("a", code=143)
    told = lines(bench) + lines(bench)
    pid = bench.keeper.kept["a"].pids["app"]
    assert told == [
        "d/a/app: exited with 143 (SIGTERM)",
        "d/a: removed",
        f"d/b/app: started (process {pid})",
        "d/b: running",
    ]
    assert bench.keeper.kept["a"] is not first


def test_a_pod_whose_uid_another_took_while_no_agent_ran() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    other = replace(pod_of("a", resources("cpu=500m memory=64Mi")), name="b")
    bench.source.put(other, spec_of(other))
    bench.begin()
    told = lines(bench) + lines(bench)
    pid = bench.keeper.kept["a"].pids["app"]
    assert "d/a: d/b has its UID now; stopping it" in bench.said
    assert told == [f"d/b/app: started (process {pid})", "d/b: running"]


def test_a_rejected_pod_whose_uid_another_takes() -> None:
    bench = Bench()
    pod = pod_of("a", resources())
    wrong = Problem("error", "a.yaml", "it cannot run here", "")
    bench.source.put(pod, replace(spec_of(pod), problems=(wrong,)))
    bench.turn()
    other = replace(pod, name="b")
    bench.source.put(other, replace(spec_of(other), problems=(wrong,)))
    assert lines(bench) == ["d/a: removed", "d/b: rejected: it cannot run here"]


def test_a_resize_is_told_until_it_is_done() -> None:
    bench = Bench("v2")
    bench.put("a", "cpu=500m memory=64Mi")
    bench.turn()
    bench.driver.slow.add("cpu.weight")
    bench.put("a", "cpu=900m memory=64Mi")
    turn = bench.turn(1.0)
    [event] = turn.events
    assert event.severity == "info"
    assert event.line.startswith(
        "d/a: resize InProgress: set /q/kubepods/burstable/poda/cpu.weight"
    )
    assert turn.notes == ()
    bench.driver.slow.clear()
    bench.driver.late.clear()
    told: list[str] = []
    for _ in range(5):
        told += lines(bench, 5.0)
    assert told == ["d/a: resize Done"]
    bench.put("a", "cpu=900 memory=64Mi")
    turn = bench.turn(1.0)
    assert [one.severity for one in turn.events] == ["warning"]
    assert turn.events[0].line.startswith("d/a: resize Infeasible: cpu")
    assert turn.events[0].line in turn.notes


def test_a_rejected_pod_is_told_once() -> None:
    bench = Bench()
    pod = pod_of("a", resources())
    wrong = Problem("error", "a.yaml", "it cannot run here", "")
    bench.source.put(pod, replace(spec_of(pod), problems=(wrong,)))
    assert lines(bench) == ["d/a: rejected: it cannot run here"]
    assert lines(bench) == []


def test_an_adopted_pod_is_not_told_as_started() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    bench.begin()
    assert lines(bench) == ["d/a: adopted from an earlier agent, Running"]
    bench.keeper.restart("a", "app")
    pid = bench.keeper.kept["a"].pids["app"]
    assert lines(bench) == [
        "d/a/app: exited with 143 (SIGTERM)",
        f"d/a/app: restarted (restart 1, process {pid})",
    ]


def test_what_failed_while_no_agent_ran_is_told_by_the_next_one() -> None:
    bench = Bench()
    for name in "abc":
        bench.put(name)
    bench.turn()
    bench.keeper.end("a", code=137)
    bench.keeper.end("b", code=0)
    bench.begin()
    assert sorted(lines(bench)) == [
        "d/a/app: exited with 137 (SIGKILL) (before this agent began)",
        "d/a: adopted from an earlier agent, Failed",
        "d/b: adopted from an earlier agent, Succeeded",
        "d/c: adopted from an earlier agent, Running",
    ]
    assert lines(bench) == []


def test_each_action_on_a_cgroup_is_followed() -> None:
    bench = Bench("v2")
    followed: list[Outcome] = []
    bench.reconciler.context.executor.followed = followed.append
    bench.put("a")
    bench.turn()
    bench.source.drop("a")
    bench.turn(1.0)
    bench.turn(1.0)
    assert [one.step for one in followed] == bench.driver.steps
    commands = [one.step.command() for one in followed]
    assert "mkdir /q/kubepods/burstable/poda" in commands
    assert "rmdir /q/kubepods/burstable/poda" in commands
    assert any(one.startswith("write /q/kubepods/burstable/poda/cpu.weight = ") for one in commands)


def test_a_runtime_that_fails_is_told_once_and_when_it_answers_again() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    bench.keeper.broken = True
    assert [bench.turn(1.0).errors for _ in range(3)] == [
        ("the runtime: the keeper cannot be reached",), (), (),
    ]  # fmt: skip
    bench.keeper.broken = False
    assert [bench.turn(1.0).notes for _ in range(2)] == [("the runtime answers again",), ()]


def test_an_edit_that_is_refused_while_the_pod_runs() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    wrong = Problem(
        "error", f"{pod_of('a').where}: spec.containers[0].env ('X')", "is too long", ""
    )
    bench.source.put(pod_of("a"), replace(spec_of(pod_of("a")), launches=(), problems=(wrong,)))
    said = "spec.containers[0].env ('X'): is too long"
    assert lines(bench) == [f"d/a: edit rejected, the running pod is unchanged: {said}"]
    assert lines(bench) == []
