"""The wheel on a kernel and a runtime made of values, with a clock that only moves when told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from qoslet.agent.config import Config
from qoslet.agent.cycle import Desired, Wheel, Work
from qoslet.agent.loop import run
from qoslet.core.observed import Observed, ObservedCgroup
from qoslet.core.pod import Container, Pod
from qoslet.core.podlife import (
    NEW,
    Backoff,
    ContainerState,
    Ending,
    actions,
    began,
    ended,
    next_due,
)
from qoslet.core.podspec import Launch, PodSpec
from qoslet.core.snapshot import Snapshot
from qoslet.core.steps import Outcome, Step
from qoslet.core.tree import Cgroup, Plan, PlannedPod, Setting
from qoslet.errors import CannotDo


class Clock:
    """Virtual time; ``at_sleep`` is called with the time after each wait."""

    def __init__(self) -> None:
        self.now = 0.0
        self.at_sleep: Callable[[float], None] = lambda now: None

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return 1e9 + self.now

    def sleep(self, seconds: float) -> bool:
        self.now += seconds
        self.at_sleep(self.now)
        return True


class Kernel:
    """Groups with files; ``refuse`` names paths that cannot be made or removed."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.groups: dict[str, dict[str, str]] = {}
        self.refuse: set[str] = set()
        self.steps: list[Step] = []
        self.watched: set[str] = set()
        self.late: list[Outcome] = []
        self.slow: set[str] = set()
        self.identities: dict[str, int] = {}

    def perform(self, steps: Sequence[Step]) -> list[Outcome]:
        outcomes = []
        for step in steps:
            self.steps.append(step)
            error = None
            if step.file in self.slow:
                outcomes.append(Outcome(step, pending=True))
                self.late = [outcomes[-1]]
                continue
            if step.path in self.refuse:
                error = "Operation not permitted"
            elif step.kind == "create":
                self.groups[step.path] = {}
            elif step.kind == "set":
                self.groups[step.path][step.file] = step.value
            elif any(path.startswith(f"{step.path}/") for path in self.groups):
                error = "Device or resource busy"
            else:
                del self.groups[step.path]
            outcomes.append(Outcome(step, error=error))
            if error:
                break
        return outcomes

    def settled(self) -> list[Outcome]:
        late, self.late = self.late, []
        self.late += [one for one in late if one.pending]
        return late

    def shell(self, step: Step) -> str:
        return step.describe()

    def watch(self, files: Iterable[str]) -> None:
        self.watched |= set(files)

    def observe(self, root: str, *, values: bool = True) -> Observed:
        return Observed(
            self.clock.now,
            {
                path: ObservedCgroup(path, self.identities.get(path, 1), values=dict(files))
                for path, files in self.groups.items()
                if path == root or path.startswith(f"{root}/")
            },
        )


class Pods:
    """A runtime whose containers run until stopped; ``refuse`` names pods that cannot start."""

    def __init__(self) -> None:
        self.running: dict[str, ContainerState] = {}
        self.refuse: set[str] = set()
        self.slow: set[str] = set()
        self.stopped: list[tuple[str, float]] = []
        self.forgotten: list[str] = []

    def start(self, pod: Pod, cgroups: dict[str, str]) -> None:
        if pod.uid in self.refuse:
            raise CannotDo("no such program")
        for name, path in cgroups.items():
            self.running[path] = ContainerState(pod.uid, name, path, True, pid=100)

    def poll(self) -> list[ContainerState]:
        return list(self.running.values())

    def stop(self, pod_uid: str, grace_seconds: float) -> None:
        self.stopped.append((pod_uid, grace_seconds))
        if pod_uid in self.slow and grace_seconds:
            return
        for path, state in list(self.running.items()):
            if state.pod_uid == pod_uid:
                del self.running[path]

    def forget(self, pod_uid: str) -> None:
        self.forgotten.append(pod_uid)


def compare(plan: Plan, observed: Observed) -> Work:
    """The plainest comparison: make, set, and remove what is not planned, deepest first."""
    steps = []
    wanted = {group.path for group in plan.cgroups}
    for group in plan.cgroups:
        path = group.path or ""
        seen = observed.cgroups.get(path)
        if seen is None:
            steps.append(Step("create", path))
        found = {} if seen is None else seen.values
        steps += [
            Step("set", path, setting.file, setting.value)
            for setting in group.settings
            if found.get(setting.file) != setting.value
        ]
    extra = sorted(set(observed.cgroups) - wanted, reverse=True)
    steps += [Step("remove", str(path)) for path in extra]
    return Work(len(steps), steps)


def plan_of(*uids: str) -> Plan:
    """A tree with one container for each pod."""
    groups = [Cgroup("/q", "node", (), "/q")]
    pods = []
    for uid in uids:
        container = Container("app", "regular", "spec.containers[0]")
        pod = Pod("default", uid, uid, "t.yaml", (container,))
        shares = Setting("cpu.shares", "2", "rule", (), "kubelet")
        groups.append(Cgroup(f"/q/pod{uid}", "pod", (shares,), f"/q/pod{uid}", pod=pod))
        path = f"/q/pod{uid}/app"
        groups.append(Cgroup(path, "container", (), path, pod=pod, container=container))
        pods.append(PlannedPod(pod, "BestEffort"))
    return Plan(None, tuple(pods), tuple(groups), ())  # type: ignore[arg-type]


def desired(*uids: str) -> Desired:
    """The pods wanted, each with five seconds of grace."""
    plan = plan_of(*uids)
    return Desired(plan, tuple(p.pod for p in plan.pods), dict.fromkeys(uids, 5.0))


class Bench:
    """A wheel with its fakes."""

    def __init__(self, **config: float) -> None:
        self.clock = Clock()
        self.kernel = Kernel(self.clock)
        self.pods = Pods()
        self.config = Config(root="/q", **config)  # type: ignore[arg-type]
        self.wheel = Wheel(self.config, self.kernel, self.kernel, self.pods, self.clock, compare)


def test_one_turn_makes_the_tree_and_starts_the_pods() -> None:
    bench = Bench()
    first = bench.wheel.turn(desired("a", "b"))
    assert set(bench.kernel.groups) == {"/q", "/q/poda", "/q/poda/app", "/q/podb", "/q/podb/app"}
    assert bench.kernel.groups["/q/poda"] == {"cpu.shares": "2"}
    assert len(bench.pods.running) == 2
    assert (first.differences, first.done, first.failed) == (7, 7, 0)
    assert bench.kernel.watched == {"cpu.shares"}
    second = bench.wheel.turn(desired("a", "b"))
    assert second.true
    assert second.summary == "2 pods, 2 of 2 containers running; the tree is as planned"


def test_drift_is_mended() -> None:
    bench = Bench()
    bench.wheel.turn(desired("a"))
    bench.kernel.groups["/q/poda"]["cpu.shares"] = "999"
    bench.wheel.turn(desired("a"))
    assert bench.kernel.groups["/q/poda"]["cpu.shares"] == "2"


def test_a_pod_that_the_kernel_refuses_waits_and_the_others_run() -> None:
    bench = Bench()
    bench.kernel.refuse.add("/q/poda")
    snapshot = bench.wheel.turn(desired("a", "b"))
    assert snapshot.failed == 1
    assert "/q/poda" in snapshot.errors[0]
    assert set(bench.pods.running) == {"/q/podb/app"}
    tried = len([step for step in bench.kernel.steps if step.path == "/q/poda"])
    bench.wheel.turn(desired("a", "b"))
    assert len([step for step in bench.kernel.steps if step.path == "/q/poda"]) == tried
    bench.kernel.refuse.clear()
    bench.clock.now += 2
    bench.wheel.turn(desired("a", "b"))
    assert set(bench.pods.running) == {"/q/poda/app", "/q/podb/app"}


def test_a_pod_that_cannot_start_does_not_stop_others() -> None:
    bench = Bench()
    bench.pods.refuse.add("a")
    snapshot = bench.wheel.turn(desired("a", "b"))
    assert snapshot.errors == ("starting default/a: no such program",)
    assert set(bench.pods.running) == {"/q/podb/app"}


def test_a_pod_that_is_gone_ends_before_its_groups() -> None:
    bench = Bench()
    bench.pods.slow.add("a")
    bench.wheel.turn(desired("a", "b"))
    bench.wheel.turn(desired("b"))
    assert bench.pods.stopped == [("a", 5.0)]
    assert "/q/poda/app" in bench.kernel.groups, "its processes still run"
    del bench.pods.running["/q/poda/app"]
    bench.wheel.turn(desired("b"))
    assert set(bench.kernel.groups) == {"/q", "/q/podb", "/q/podb/app"}
    assert bench.pods.forgotten == ["a"]


def test_a_write_that_waits_in_the_kernel_does_not_hold_the_loop() -> None:
    bench = Bench()
    bench.kernel.slow.add("cpu.shares")
    first = bench.wheel.turn(desired("a"))
    assert set(bench.pods.running) == {"/q/poda/app"}, "the steps after it are done"
    assert first.pending == ("set /q/poda/cpu.shares = 2",)
    assert (first.done, first.failed) == (3, 0)
    assert first.summary.endswith("4 differences, 3 steps done; 1 write pending")
    (waits,) = bench.kernel.late
    bench.kernel.slow.clear()
    bench.kernel.groups["/q/poda"]["cpu.shares"] = "2"
    second = bench.wheel.turn(desired("a"))
    assert second.pending == first.pending, "it is there already, but the write goes on"
    assert second.summary.endswith("1 of 1 containers running; 1 write pending")
    bench.kernel.late = [Outcome(waits.step, error="it failed after all")]
    third = bench.wheel.turn(desired("a"))
    assert (third.pending, third.failed) == ((), 1)
    assert third.errors == ("set /q/poda/cpu.shares = 2: it failed after all",)
    assert bench.wheel.turn(desired("a")).true


def test_what_others_do_to_the_tree_is_said_once_and_mended() -> None:
    bench = Bench()
    bench.wheel.turn(desired("a", "b"))
    bench.kernel.identities["/q/poda"] = 2
    bench.kernel.groups["/q/poda"].clear()
    del bench.kernel.groups["/q/podb/app"]
    snapshot = bench.wheel.turn(desired("a", "b"))
    assert snapshot.notes == (
        "/q/poda was made anew by somebody else; its values are written again",
        "/q/podb/app was removed by somebody else; it is made again",
    )
    assert bench.kernel.groups["/q/poda"] == {"cpu.shares": "2"}
    assert "/q/podb/app" in bench.kernel.groups
    after = bench.wheel.turn(desired("a", "b"))
    assert (after.notes, after.true) == ((), True)


class Asked:
    """Somebody who asks the loop to end."""

    def __init__(self) -> None:
        self.times = 0

    def requested(self) -> int:
        return self.times


class Fixed:
    """A source that never changes; ``fail`` makes it raise."""

    def __init__(self, what: Desired, fail: bool = False) -> None:
        self.what = what
        self.fail = fail

    def current(self) -> Desired:
        if self.fail:
            raise OSError("the disk is gone")
        return self.what


def test_the_loop_ends_by_itself_and_leaves_nothing() -> None:
    bench = Bench(lasts=5.0, interval=1.0)
    seen: list[Snapshot] = []
    run(bench.config, bench.wheel, Fixed(desired("a")), bench.clock, Asked(), seen.append)
    assert [snapshot.cycle for snapshot in seen] == [1, 2, 3, 4, 5, 6]
    assert bench.kernel.groups == {}
    assert bench.pods.stopped == [("a", 5.0)]


def test_an_error_ends_the_loop_and_leaves_nothing() -> None:
    bench = Bench()
    source = Fixed(desired("a"))

    def break_it(snapshot: Snapshot) -> None:
        source.fail = True

    with pytest.raises(OSError, match="the disk is gone"):
        run(bench.config, bench.wheel, source, bench.clock, Asked(), break_it)
    assert bench.kernel.groups == {}
    assert not bench.pods.running


def test_asked_before_the_first_turn_it_does_nothing() -> None:
    bench = Bench()
    asked = Asked()
    asked.times = 1
    run(bench.config, bench.wheel, Fixed(desired("a")), bench.clock, asked, lambda s: None)
    assert bench.kernel.steps == []


def test_a_second_request_hurries() -> None:
    bench = Bench()
    asked = Asked()
    bench.pods.slow.add("a")

    def ask(now: float) -> None:
        asked.times = 1 if now < 3 else 2

    bench.clock.at_sleep = ask
    run(bench.config, bench.wheel, Fixed(desired("a")), bench.clock, asked, lambda s: None)
    assert bench.pods.stopped == [("a", 5.0), ("a", 0.0)]
    assert bench.kernel.groups == {}


def test_what_cannot_be_removed_is_said() -> None:
    bench = Bench(lasts=1.0, settle=1.0)
    bench.wheel.turn(desired("a"))
    bench.kernel.refuse.add("/q/poda/app")
    with pytest.raises(CannotDo, match="could not be undone: remove /q/poda/app"):
        run(bench.config, bench.wheel, Fixed(desired("a")), bench.clock, Asked(), lambda s: None)


def launch(name: str, role: str = "regular", restart: str = "Always") -> Launch:
    """A container of a pod that is never really started."""
    return Launch(name, role, ("x",), (), "/", None, restart)  # type: ignore[arg-type]


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
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]
    life = ended(began(life, now), 1, False, now + 600, Backoff())
    assert life.delay == 10, "a long run resets it"


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
