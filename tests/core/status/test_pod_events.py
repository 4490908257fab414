"""What happened to pods and containers, as a table of transitions and lines."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.status.pod_events import (
    LATELY,
    PodStatus,
    adopted_events,
    container_events,
    pod_events,
    unknown_pods,
    unseen_exits,
)
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import UNKNOWN_REASON


def state(running: bool = False, code: int | None = None, **more: object) -> ContainerState:
    return ContainerState("u", "app", "/q/app", running, exit_code=code, **more)  # type: ignore[arg-type]


WAITS = state()
STARTING = state(True, pid=7, starting=True, started_at=1.0)
RUNS = state(True, pid=7, started_at=1.0)
EXITED = state(code=7, reason="Error", started_at=1.0, finished_at=2.0, backoff=10.0)
AGAIN = state(True, 7, pid=8, restarts=1, started_at=12.0, finished_at=2.0)
NO_COMMAND = state(code=127, reason="nosuch: No such file", finished_at=2.0, backoff=10.0)
NO_TIMES = (state(True), state(code=0, reason="Completed"))


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (None, WAITS, []),
        (WAITS, STARTING, []),
        (STARTING, RUNS, ["d/web/app: started (process 7)"]),
        (WAITS, RUNS, ["d/web/app: started (process 7)"]),
        (RUNS, RUNS, []),
        (RUNS, EXITED, ["d/web/app: exited with 7; restarts in 10 s"]),
        (EXITED, EXITED, []),
        (EXITED, AGAIN, ["d/web/app: restarted (restart 1, process 8)"]),
        # both between two polls
        (RUNS, AGAIN, ["d/web/app: exited with 7", "d/web/app: restarted (restart 1, process 8)"]),
        (WAITS, EXITED, ["d/web/app: started", "d/web/app: exited with 7; restarts in 10 s"]),
        (
            STARTING,
            NO_COMMAND,
            ["d/web/app: could not start, exit code 127: nosuch: No such file; restarts in 10 s"],
        ),
        (
            RUNS,
            state(code=137, reason="OOMKilled", oom_killed=True, finished_at=2.0, backoff=20.0),
            ["d/web/app: OOM-killed, exit code 137; restarts in 20 s"],
        ),
        (
            RUNS,
            state(True, 137, pid=8, restarts=1, oom_killed=True, started_at=3.0, finished_at=2.0),
            ["d/web/app: OOM-killed, exit code 137", "d/web/app: restarted (restart 1, process 8)"],
        ),
        # the first restart is at once: the reason is that of the end before
        (
            RUNS,
            state(True, 137, pid=8, restarts=1, started_at=3.0, finished_at=2.0, oom_killed=True, end_reason="OOMKilled"),
            ["d/web/app: OOM-killed, exit code 137", "d/web/app: restarted (restart 1, process 8)"],
        ),
        (
            STARTING,
            state(True, 127, restarts=1, finished_at=2.0, starting=True, end_reason="nosuch: No such file"),
            ["d/web/app: could not start, exit code 127: nosuch: No such file"],
        ),
        (
            RUNS,
            state(True, 137, pid=8, restarts=1, started_at=3.0, finished_at=2.0, end_reason=UNKNOWN_REASON),
            ["d/web/app: exited, its exit code is unknown", "d/web/app: restarted (restart 1, process 8)"],
        ),
        # its next start found no cgroup, and waits
        (
            RUNS,
            state(code=0, reason="No such file or directory: /x", finished_at=2.0, end_reason="Completed"),
            ["d/web/app: exited with 0"],
        ),
        (RUNS, state(code=137, reason="Error", finished_at=2.0), ["d/web/app: exited with 137 (SIGKILL)"]),
        (RUNS, state(code=255, reason="Error", finished_at=2.0), ["d/web/app: exited with 255"]),
        (
            RUNS,
            state(code=137, reason=UNKNOWN_REASON, finished_at=2.0),
            ["d/web/app: exited, its exit code is unknown"],
        ),
        (RUNS, state(code=0, reason="Completed", finished_at=2.0), ["d/web/app: exited with 0"]),
        # a runtime without times
        (WAITS, NO_TIMES[0], ["d/web/app: started"]),
        (*NO_TIMES, ["d/web/app: exited with 0"]),
    ],
)  # fmt: skip
def test_containers(before: ContainerState | None, after: ContainerState, lines: list[str]) -> None:
    assert [one.line for one in container_events("d/web", before, after)] == lines


def test_an_exit_for_programs() -> None:
    [event] = container_events("d/web", RUNS, state(code=137, reason="Error", finished_at=2.0, backoff=10.0))  # fmt: skip
    assert event.severity == "warning"
    assert event.fields == {
        "event": "ContainerExited",
        "namespace": "d",
        "pod": "web",
        "container": "app",
        "exitCode": 137,
        "signal": "SIGKILL",
        "reason": "Error",
        "restarts": 0,
        "restartInSeconds": 10.0,
    }


def test_what_the_agent_stops_is_no_warning() -> None:
    over = state(code=143, reason="Error", finished_at=2.0)
    assert container_events("d/web", RUNS, over, stopping=True)[0].severity == "info"
    assert container_events("d/web", RUNS, over)[0].severity == "warning"


def test_an_old_kill_is_not_told_again() -> None:
    before = state(True, 137, pid=8, oom_killed=True, started_at=3.0, finished_at=2.0)
    after = state(True, 1, pid=9, oom_killed=True, started_at=5.0, finished_at=4.0, restarts=2)
    assert container_events("d/web", before, after)[0].line == "d/web/app: exited with 1"


def status(phase: str, **more: object) -> PodStatus:
    return PodStatus(phase, **more)  # type: ignore[arg-type]


PENDING, RUNNING = status("Pending"), status("Running", began=True)


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        (None, PENDING, [("info", "starting")]),
        (PENDING, RUNNING, [("info", "running")]),
        (RUNNING, RUNNING, []),
        (None, status("Running", adopted=True), [("info", "adopted from an earlier agent, Running")]),
        (RUNNING, status("Succeeded", began=True), [("info", "succeeded")]),
        (RUNNING, status("Failed", began=True), [("warning", "failed")]),
        (
            RUNNING,
            status("Failed", began=True, reason="Evicted", message="d/web: memory is short"),
            [("warning", "failed: memory is short")],
        ),
        (None, status("Failed", reason="Refused", message="no room"), [("error", "rejected: no room")]),
        (RUNNING, status("Terminating", began=True), [("info", "stopping")]),
        (RUNNING, None, [("info", "removed")]),
        (None, None, []),
        (RUNNING, status("Running", began=True, resize="InProgress"), [("info", "resize InProgress")]),
        (
            status("Running", began=True, resize="InProgress"),
            status("Running", began=True, resize="Done"),
            [("info", "resize Done")],
        ),
        (
            RUNNING,
            status("Running", began=True, resize="Infeasible", resize_reason="cpu: 9 requested"),
            [("warning", "resize Infeasible: cpu: 9 requested")],
        ),
        (
            RUNNING,
            status("Running", began=True, edit_rejected="no command"),
            [("warning", "edit rejected, the running pod is unchanged: no command")],
        ),
    ],
)  # fmt: skip
def test_pods(
    before: PodStatus | None, after: PodStatus | None, rows: list[tuple[str, str]]
) -> None:
    events = pod_events("d/web", before, after)
    assert [(one.severity, one.text) for one in events] == rows
    assert all(one.line.startswith("d/web: ") for one in events)


FAILS = "Liveness probe failed: no"
HOOK_FAILS = "PreStopHook failed: exit code 1"
KILLED = "Container app failed liveness probe, will be restarted"


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        (RUNS, replace(RUNS, unhealthy=(FAILS,)), [("ContainerUnhealthy", "Unhealthy", FAILS)]),
        (
            replace(RUNS, unhealthy=("Liveness probe failed: x",)),
            replace(RUNS, unhealthy=(FAILS,)),
            [],
        ),
        (replace(RUNS, unhealthy=(FAILS,)), RUNS, []),
        (
            RUNS,
            replace(RUNS, failed_hooks=(("preStop", HOOK_FAILS),)),
            [("ContainerHookFailed", "FailedPreStopHook", HOOK_FAILS)],
        ),
        (
            replace(RUNS, failed_hooks=(("preStop", HOOK_FAILS),)),
            replace(RUNS, failed_hooks=(("preStop", HOOK_FAILS),)),
            [],
        ),
        (
            RUNS,
            replace(RUNS, probe_kills=1, killing=KILLED),
            [("ContainerKilling", "Killing", KILLED)],
        ),
        (None, replace(RUNS, started_at=None, probe_kills=3, killing=KILLED), None),
    ],
)
def test_probes_are_told_in_the_kubelets_words(before, after, events) -> None:
    found = container_events("d/web", before, after)
    told = [(one.event, one.reason, one.text) for one in found]
    if events is None:
        assert "ContainerKilling" not in [one.event for one in found]
    else:
        assert told == events


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (RUNS, []),
        (
            AGAIN,
            [
                "d/a/app: exited with 7 (at 1970-01-01T00:00:02Z, before this agent began)",
                "d/a/app: restarted (restart 1, process 8)",
            ],
        ),
        (
            replace(AGAIN, starting=True),
            ["d/a/app: exited with 7 (at 1970-01-01T00:00:02Z, before this agent began)"],
        ),
        (replace(AGAIN, finished_at=12.0 - LATELY), []),
        (replace(AGAIN, finished_at=None), []),
        (WAITS, []),
        (NO_TIMES[1], []),
        (
            EXITED,
            ["d/a/app: exited with 7 (at 1970-01-01T00:00:02Z, before this agent began)"],
        ),
        (state(code=1), ["d/a/app: exited with 1 (before this agent began)"]),
    ],
)
def test_of_an_adopted_container_only_what_is_amiss_is_told(
    found: ContainerState, lines: list[str]
) -> None:
    assert [event.line for event in adopted_events("d/a", found, now=13.0)] == lines


def test_exits_that_nobody_saw_of_many_containers_are_one_line() -> None:
    again = replace(AGAIN, exit_code=137, end_reason=UNKNOWN_REASON)
    found = [event for pod in "abcde" for event in adopted_events(f"d/{pod}", again, now=13.0)]
    assert unseen_exits(found) == (
        "5 containers exited before this agent began and run again, their exit codes are unknown: "
        "d/a/app, d/b/app, d/c/app, ..."
    )
    assert unseen_exits(found[:2]) == ""
    known = adopted_events("d/z", AGAIN, now=13.0)
    ended = adopted_events("d/y", replace(again, running=False, restarts=0), now=13.0)
    assert known
    assert ended
    assert unseen_exits([*known, *known, *ended, *ended]) == ""


def test_pods_that_the_runtime_lost_are_one_line() -> None:
    assert unknown_pods([]) == []
    assert unknown_pods(["d/a"]) == ["d/a: the runtime no longer knows it; restarting it"]
    assert unknown_pods(["d/a", "d/b", "d/c", "d/d"]) == [
        "the runtime no longer knows 4 pods; restarting them: d/a, d/b, d/c, ..."
    ]
