"""The life of a pod's containers: back-off, order of ending, grace periods."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.workload.life import (
    NEW,
    Backoff,
    Life,
    began,
    begun,
    ended,
    failed_to_start,
    withdrawn,
)
from qoslet.core.workload.lifecycle import Ending, Patience, actions, backoff_seconds, next_due
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec


def launch(name: str, role: str = "regular", restart: str = "Always") -> ProcessSpec:
    """A container of a pod that is never really started."""
    return ProcessSpec(name, role, ("x",), (), "/", None, restart)  # type: ignore[arg-type]


def test_restarts_back_off_as_a_kubelets() -> None:
    spec = PodSpec("u", "d/p", (launch("app"),), 30.0, ())
    now, life, waits = 0.0, NEW, []
    for _ in range(8):
        assert [a.verb for a in actions(spec, {"app": life}, now, None)] == ["start"]
        life = ended(began(life, now), 1, False, now + 1, Backoff())
        now += 1
        wait = next_due(spec, {"app": life}, now) or 0.0
        assert not actions(spec, {"app": life}, now + wait - 0.01, None)
        waits.append(wait)
        now += wait
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]
    life = ended(began(life, now), 1, False, now + 600, Backoff())
    assert (life.waits, life.delay) == (0, 10), "a long run resets it"


def test_what_cannot_start_backs_off_as_what_crashes() -> None:
    """Runtimes show the kubelet a container that exited; doBackOff asks for nothing else."""
    life, waits = NEW, []
    for _ in range(4):
        life = failed_to_start(life, 127, "no such file", 5.0, Backoff())
        waits.append(backoff_seconds(launch("app"), life))
        assert life.not_before == 5.0 + waits[-1]
    assert waits == [0, 10, 20, 40]


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_a_start_that_the_machine_refuses_counts_nothing(policy: str) -> None:
    """The first one, and one after an end that the policy would not follow by itself."""
    spec = PodSpec("u", "d/p", (launch("app", restart=policy),), 30.0, ())
    crashed = ended(began(NEW, 0.0), 1, False, 1.0, Backoff())
    for before in (NEW, replace(crashed, again=1.0)):
        life = withdrawn(begun(before, 2.0), "no process can be made", 3.0)
        assert (life.starts, life.exit_code, life.delay) == (
            before.starts,
            before.exit_code,
            before.delay,
        )
        assert actions(spec, {"app": life}, 2.9, None) == []
        assert next_due(spec, {"app": life}, 2.5) == 0.5
        (due,) = actions(spec, {"app": life}, 3.0, None)
        assert (due.verb, life.reason) == ("start", "no process can be made")


def test_a_back_off_of_an_earlier_version_goes_on() -> None:
    """A record of before: it waits for its 10 s, and 10 s after the next end again."""
    life = Life("ended", starts=1, exit_code=1, delay=10.0, not_before=110.0)
    assert backoff_seconds(launch("app"), life) == 10.0
    life = ended(began(life, 110.0), 1, False, 111.0, Backoff())
    assert (life.waits, life.delay) == (10.0, 20.0)


def test_ending_asks_the_work_first_then_sidecars_in_reverse() -> None:
    spec = PodSpec(
        "u", "d/p", (launch("s1", "sidecar"), launch("s2", "sidecar"), launch("app")), 10.0, ()
    )
    lives = {name: began(NEW, 0.0) for name in ("s1", "s2", "app")}
    ending = Ending(100.0, 10.0)
    said = []
    for now in (100.0, 101.0, 102.0):
        due = actions(spec, lives, now, ending)
        said += [(one.verb, one.name) for one in due]
        lives[due[0].name] = ended(lives[due[0].name], 0, False, now, Backoff())
    assert said == [("signal", "app"), ("signal", "s2"), ("signal", "s1")]


def test_after_the_grace_period_everything_is_killed() -> None:
    spec = PodSpec("u", "d/p", (launch("a"), launch("b")), 10.0, ())
    lives = {name: began(NEW, 0.0) for name in ("a", "b")}
    due = actions(spec, lives, 110.0, Ending(100.0, 10.0))
    assert [(one.verb, one.name) for one in due] == [("kill", "a"), ("kill", "b")]


def test_a_wait_begins_again_with_each_end() -> None:
    wait = Patience(10.0, 30.0, 100.0)
    assert wait.lasts(3, 100.0)
    assert not wait.lasts(3, 140.0)
    assert wait.lasts(2, 139.0)
    assert wait.lasts(2, 168.0)
    assert not wait.lasts(3, 169.0), "what begins is no end"
    wait.hurry(100.0)
    assert wait.lasts(2, 129.0)
    assert not wait.lasts(2, 130.0)
