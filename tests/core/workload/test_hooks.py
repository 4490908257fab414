"""What lifecycle hooks do to the lives of containers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.workload.hook_spec import Hook
from qoslet.core.workload.hooks import hook_began, hook_ended, hook_wanted, taken_over
from qoslet.core.workload.life import HOOK_ERROR, NEW, Backoff, Life, began, begun, ended
from qoslet.core.workload.lifecycle import Ending, actions, next_due
from qoslet.core.workload.probe_spec import Probe
from qoslet.core.workload.probes.pod import PodProbes
from qoslet.core.workload.probes.verdict import has_started
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from tests.core.workload.test_lifecycle import launch

POST, PRE = Hook("postStart", command=("x",)), Hook("preStop", command=("x",))
RUNS = began(NEW, 0.0)
HOOKED = began(NEW, 0.0, hooked=True)


def pod(*launches: ProcessSpec, grace: float = 30.0) -> PodSpec:
    return PodSpec("u", "d/p", launches, grace, ())


def with_hooks(
    name: str, *hooks: Hook, role: str = "regular", policy: str = "Always"
) -> ProcessSpec:
    return replace(launch(name, role, policy), hooks=hooks)


def verbs(
    spec: PodSpec, lives: dict[str, Life], now: float, ending: Ending | None = None
) -> list[tuple[str, str]]:
    return [(one.name, one.verb) for one in actions(spec, lives, now, ending)]


def test_containers_after_it_wait_for_a_post_start() -> None:
    """Source: kuberuntime_manager.go SyncPod starts one container after the other."""
    spec = pod(with_hooks("a", POST), launch("b"))
    assert verbs(spec, {"a": begun(NEW, 0.0), "b": NEW}, 0.0) == []
    assert verbs(spec, {"a": HOOKED, "b": NEW}, 0.0) == [("a", "postStart")]
    life = hook_began(HOOKED, "postStart", 0.0)
    assert verbs(spec, {"a": life, "b": NEW}, 99.0) == []
    over = hook_ended(life, POST, None, 1.0, 30.0)
    assert verbs(spec, {"a": over, "b": NEW}, 1.0) == [("b", "start")]


def test_it_has_not_started_before_and_is_not_probed() -> None:
    spec = pod(replace(with_hooks("a", POST), probes=(Probe("liveness", command=("x",)),)))
    life = hook_began(HOOKED, "postStart", 0.0)
    assert not has_started(spec.launches[0], life)
    probes = PodProbes()
    assert probes.due(spec, {"a": life}, None, 50.0) == []
    life = hook_ended(life, POST, None, 55.0, 30.0)
    assert has_started(spec.launches[0], life)
    assert len(probes.due(spec, {"a": life}, None, 70.0)) == 1


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [("Always", 0, True), ("OnFailure", 143, True), ("OnFailure", 0, False), ("Never", 143, False)],
)
def test_a_failed_post_start_ends_the_container(policy: str, code: int, again: bool) -> None:
    """Its end counts as any: the policy decides, with the usual back-off."""
    spec = pod(with_hooks("a", POST, PRE, policy=policy), grace=9.0)
    life = hook_ended(hook_began(HOOKED, "postStart", 1.0), POST, "exit code 1", 2.0, 9.0)
    assert life.failed_hooks == {"postStart": "PostStartHook failed: exit code 1"}
    assert verbs(spec, {"a": life}, 2.0) == [("a", "preStop")]
    life = hook_ended(hook_began(life, "preStop", 2.0), PRE, None, 3.0, 9.0)
    assert verbs(spec, {"a": life}, 3.0) == [("a", "signal")]
    life = replace(life, signalled_at=3.0)
    assert verbs(spec, {"a": life}, 10.9) == []
    assert verbs(spec, {"a": life}, 11.0) == [("a", "kill")]
    life = ended(life, code, False, 12.0, Backoff())
    assert (life.reason, life.delay) == (HOOK_ERROR, 10.0)
    assert (verbs(spec, {"a": life}, 12.0) == [("a", "start")]) is again
    assert begun(life, 13.0).failed_hooks == {}


def test_the_containers_after_a_failed_one_start() -> None:
    spec = pod(with_hooks("a", POST), launch("b"))
    life = hook_ended(hook_began(HOOKED, "postStart", 0.0), POST, "", 0.0, 30.0)
    assert verbs(spec, {"a": life, "b": NEW}, 0.0) == [("a", "signal"), ("b", "start")]


def test_a_pre_stop_counts_against_the_grace_period() -> None:
    spec, ending = pod(with_hooks("a", PRE), launch("b")), Ending(100.0, 10.0)
    assert verbs(spec, {"a": RUNS, "b": RUNS}, 100.0, ending) == [("a", "preStop"), ("b", "signal")]
    lives = {"a": hook_began(RUNS, "preStop", 100.0), "b": replace(RUNS, signalled_at=100.0)}
    assert verbs(spec, lives, 104.0, ending) == []
    assert next_due(spec, lives, 104.0, ending) == 6.0
    life = hook_ended(lives["a"], PRE, None, 104.0, 30.0)
    assert verbs(spec, {**lives, "a": life}, 104.0, ending) == [("a", "signal")]
    life = replace(life, signalled_at=104.0)
    assert verbs(spec, {**lives, "a": life}, 109.9, ending) == []
    assert ("a", "kill") in verbs(spec, {**lives, "a": life}, 110.0, ending)


def test_one_that_takes_too_long_leaves_two_seconds() -> None:
    """Source: kuberuntime_container.go killContainer, minimumGracePeriodInSeconds."""
    spec, ending = pod(with_hooks("a", PRE)), Ending(100.0, 10.0)
    life = hook_began(RUNS, "preStop", 100.0)
    assert verbs(spec, {"a": life}, 110.0, ending) == [("a", "signal")]
    life = replace(life, signalled_at=110.0)
    assert verbs(spec, {"a": life}, 111.9, ending) == []
    assert next_due(spec, {"a": life}, 110.0, ending) == 2.0
    assert verbs(spec, {"a": life}, 112.0, ending) == [("a", "kill")]


def test_without_time_there_is_no_hook() -> None:
    assert verbs(pod(with_hooks("a", PRE)), {"a": RUNS}, 5.0, Ending(5.0, 0.0)) == [("a", "kill")]


def test_a_container_that_has_ended_has_no_pre_stop() -> None:
    spec = pod(with_hooks("a", PRE))
    over = ended(RUNS, 0, False, 1.0, Backoff())
    assert verbs(spec, {"a": over}, 2.0, Ending(2.0, 30.0)) == []
    assert verbs(spec, {"a": over}, 2.0) == [("a", "start")]


def test_hooks_of_sidecars_do_not_wait_for_their_turn() -> None:
    """Source: killContainer runs the hook before waitForTurn."""
    side = with_hooks("s", PRE, role="sidecar")
    spec, ending = pod(side, launch("a")), Ending(0.0, 30.0)
    lives = {"s": RUNS, "a": RUNS}
    assert verbs(spec, lives, 0.0, ending) == [("a", "signal"), ("s", "preStop")]
    lives = {"s": hook_began(RUNS, "preStop", 0.0), "a": ended(RUNS, 0, False, 1.0, Backoff())}
    assert verbs(spec, lives, 1.0, ending) == []
    over = hook_ended(lives["s"], PRE, "", 2.0, 30.0)
    assert verbs(spec, {**lives, "s": over}, 2.0, ending) == [("s", "signal")]
    assert verbs(spec, lives, 30.0, ending) == [("s", "signal")], "its time is over"


def test_a_sidecar_of_finished_work_has_the_grace_from_its_hook_on() -> None:
    side = with_hooks("s", PRE, role="sidecar")
    spec = pod(side, launch("a", restart="Never"), grace=5.0)
    lives = {"s": RUNS, "a": ended(RUNS, 0, False, 1.0, Backoff())}
    assert verbs(spec, lives, 10.0) == [("s", "preStop")]
    lives["s"] = hook_began(RUNS, "preStop", 10.0)
    assert verbs(spec, lives, 14.0) == []
    assert verbs(spec, lives, 15.0) == [("s", "signal")]


def test_what_ends_a_container_gives_its_post_start_up() -> None:
    life = hook_began(HOOKED, "postStart", 0.0)
    assert hook_wanted(life, "postStart", 1)
    assert not hook_wanted(life, "postStart", 2)
    assert not hook_wanted(replace(life, signalled_at=1.0), "postStart", 1)
    assert not hook_wanted(ended(life, 1, False, 1.0, Backoff()), "postStart", 1)
    assert not hook_wanted(hook_began(life, "preStop", 1.0), "postStart", 1)


def test_who_takes_over_begins_a_pre_stop_again_and_no_post_start() -> None:
    """As after the restart of a kubelet, to which a container that runs has started."""
    spec = pod(with_hooks("a", POST, PRE))
    life = taken_over(hook_began(HOOKED, "postStart", 0.0))
    assert verbs(spec, {"a": life}, 1.0) == []
    life = taken_over(hook_began(life, "preStop", 1.0))
    assert verbs(spec, {"a": life}, 2.0, Ending(1.0, 30.0)) == [("a", "preStop")]
    assert taken_over(RUNS) == RUNS
