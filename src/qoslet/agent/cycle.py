"""One turn of the wheel: observe, compare, perform, start, and say it in one sentence.

A failure belongs to the pod that it happened to: its steps wait for its back-off, the others
go on. The kernel and the runtime are ports; the comparison is a pure function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from qoslet.agent.config import Config
from qoslet.agent.ports import Clock, Driver, Observer
from qoslet.core.names import escape
from qoslet.core.observed import Observed
from qoslet.core.pod import Pod
from qoslet.core.podlife import ContainerState
from qoslet.core.snapshot import Snapshot, rows
from qoslet.core.steps import Outcome, Step
from qoslet.core.tree import Plan, Problem
from qoslet.core.usage import between
from qoslet.errors import QosletError


class Work(Struct, frozen=True):
    """How many differences there are, the steps that end them, safely ordered, and the limits
    that wait for the usage to fall, each as a sentence."""

    differences: int
    steps: Sequence[Step]
    waiting: tuple[str, ...] = ()


class Runtime(Protocol):
    """Starts and ends the containers of pods inside cgroups that exist already."""

    def start(self, pod: Pod, cgroups: dict[str, str]) -> None:
        """Begin ``pod``."""

    def poll(self) -> Sequence[ContainerState]:
        """Advance and tell the state of every container."""

    def stop(self, pod_uid: str, grace_seconds: float) -> None:
        """Begin to end a pod."""

    def forget(self, pod_uid: str) -> None:
        """Drop a pod whose containers have all ended."""


Compare = Callable[[Plan, Observed], Work]


class Desired(Struct, frozen=True):
    """What should be. ``pods`` are those that may run; ``grace`` is seconds by UID, for pods
    that are gone too."""

    plan: Plan
    pods: tuple[Pod, ...]
    grace: Mapping[str, float] = {}
    problems: tuple[Problem, ...] = ()


class Machine(Protocol):
    """What the loop asks about the machine as a whole: its CPUs and its memory in bytes."""

    @property
    def cores(self) -> float:
        """CPUs."""

    @property
    def memory(self) -> int:
        """Bytes."""

    def busy_seconds(self) -> float | None:
        """CPU seconds used or stolen on all CPUs since some start; None if unknown."""

    def runnable(self, path: str, pids: Sequence[int]) -> int | None:
        """How many threads of a group's processes want a CPU now; None if unknown."""


class NoMachine:
    """A machine of which nothing is known."""

    cores = 1.0
    memory = 0

    def busy_seconds(self) -> float | None:
        """Unknown."""
        return None

    def runnable(self, path: str, pids: Sequence[int]) -> int | None:
        """Unknown."""
        return None


class _Retry(Struct, frozen=True):
    """A pod that failed: the last delay, and when to try again."""

    delay: float
    not_before: float


class Wheel:
    """The loop's memory between turns; one for each root."""

    def __init__(
        self,
        config: Config,
        driver: Driver,
        observer: Observer,
        runtime: Runtime,
        clock: Clock,
        compare: Compare,
        *,
        machine: Machine | None = None,
    ) -> None:
        self._config = config
        self._driver = driver
        self._observer = observer
        self._runtime = runtime
        self._clock = clock
        self._compare = compare
        self._machine: Machine = machine or NoMachine()
        self._cycle = 0
        self._before: Observed | None = None
        self._index: _Index | None = None
        self._retries: dict[str, _Retry] = {}
        self._started: dict[str, Pod] = {}
        self._stopping: set[str] = set()
        self._grace: dict[str, float] = {}

    @property
    def started(self) -> tuple[str, ...]:
        """UIDs of the pods that were begun and are not gone yet."""
        return tuple(self._started)

    def turn(self, desired: Desired) -> Snapshot:
        """One pass over everything. Raises nothing for what happens to a single pod."""
        self._cycle += 1
        self._grace.update(desired.grace)
        if self._index is None or self._index.plan is not desired.plan:
            self._index = _index(desired.plan)
            self._observer.watch(desired.plan.files)
        errors: list[str] = []
        self._stop_gone(desired, errors)
        observed = self._observer.observe(self._config.root)
        notes = foreign_changes(self._index.paths, self._before, observed)
        work = self._compare(desired.plan, observed)
        outcomes = self._settled(errors)
        outcomes += self._perform(self._held(work.steps), errors)
        if outcomes:
            observed = self._observer.observe(self._config.root)
        self._start_ready(desired, observed, errors)
        states = list(self._runtime.poll())
        usage = between(self._before, observed) if self._before else {}
        self._before = observed
        failed = sum(outcome.error is not None for outcome in outcomes)
        pending = dict.fromkeys(one.step.describe() for one in outcomes if one.pending)
        done = sum(outcome.error is None and not outcome.pending for outcome in outcomes)
        return Snapshot(
            cycle=self._cycle,
            at=observed.at,
            cores=self._machine.cores,
            memory=self._machine.memory,
            busy_seconds=self._machine.busy_seconds(),
            groups=rows(
                desired.plan,
                observed,
                usage,
                states,
                self._demand(observed, states),
            ),
            problems=desired.problems,
            differences=work.differences,
            done=done,
            failed=failed,
            pending=tuple(pending),
            waiting=work.waiting,
            errors=tuple(errors),
            notes=notes,
            summary=summary(desired, states, work, done, failed, len(pending)),
        )

    def _demand(self, observed: Observed, states: Sequence[ContainerState]) -> dict[str, int]:
        """How many threads of each running container want a CPU at this moment."""
        return {
            state.cgroup: wanting
            for state in states
            if state.running
            and (group := observed.cgroups.get(state.cgroup)) is not None
            and (wanting := self._machine.runnable(group.path, group.pids)) is not None
        }

    def _stop_gone(self, desired: Desired, errors: list[str]) -> None:
        """End pods that are no longer wanted; forget those that have ended."""
        wanted = {pod.uid for pod in desired.pods}
        for uid in list(self._started):
            if uid in wanted or uid in self._stopping:
                continue
            try:
                self._runtime.stop(uid, self._grace.get(uid, 30.0))
                self._stopping.add(uid)
            except (QosletError, OSError) as error:
                errors.append(f"stopping {self._started[uid].key}: {error}")
        running = {state.pod_uid for state in self._runtime.poll() if state.running}
        for uid in self._stopping - running:
            self._runtime.forget(uid)
            self._started.pop(uid, None)
            self._stopping.discard(uid)

    def _held(self, steps: Sequence[Step]) -> list[Step]:
        """The steps that may be done now: no group is removed while its pod is ending, and a
        pod in back-off waits."""
        now = self._clock.monotonic()
        ending = tuple(name for uid in self._stopping for name in (uid, escape(uid)))
        held: list[Step] = []
        for step in steps:
            if step.kind == "remove" and any(uid in step.path for uid in ending):
                continue
            retry = self._retries.get(self._owner(step))
            if retry is None or now >= retry.not_before:
                held.append(step)
        return held

    def _settled(self, errors: list[str]) -> list[Outcome]:
        """What came of steps that were pending."""
        late = self._driver.settled()
        errors += [f"{one.step.describe()}: {one.error}" for one in late if one.error is not None]
        return late

    def _perform(self, steps: Sequence[Step], errors: list[str]) -> list[Outcome]:
        """Do the steps in their order. A pod's first failure skips the rest of its own, a group
        that could not be made all that would be done in it."""
        outcomes: list[Outcome] = []
        failed: set[str] = set()
        absent: set[str] = set()
        left = list(steps)
        while left:
            tried = self._driver.perform(left)
            outcomes += tried
            wrong = next((one for one in tried if one.error is not None), None)
            if wrong is None:
                break
            errors.append(f"{wrong.step.describe()}: {wrong.error}")
            failed.add(self._owner(wrong.step))
            if wrong.step.kind == "create":
                absent.add(wrong.step.path)
            left = [
                step
                for step in left[len(tried) :]
                if self._owner(step) not in failed - {""} and not _at_or_below(step.path, absent)
            ]
        now = self._clock.monotonic()
        for owner in failed - {""}:
            last = self._retries.get(owner)
            policy = self._config.retry
            delay = min(last.delay * 2, policy.longest) if last else policy.first
            self._retries[owner] = _Retry(delay, now + delay)
        for owner in {self._owner(step) for step in steps} - failed:
            self._retries.pop(owner, None)
        return outcomes

    def _start_ready(self, desired: Desired, observed: Observed, errors: list[str]) -> None:
        """Begin pods whose groups are all there; one that cannot start does not stop others."""
        for pod in desired.pods:
            if pod.uid in self._started or pod.uid in self._retries:
                continue
            paths = self._paths(pod.uid)
            if not paths or any(path not in observed.cgroups for path in paths.values()):
                continue
            try:
                self._runtime.start(pod, paths)
                self._started[pod.uid] = pod
            except (QosletError, OSError) as error:
                errors.append(f"starting {pod.key}: {error}")
                delay = self._config.retry.longest
                self._retries[pod.uid] = _Retry(delay, self._clock.monotonic() + delay)

    def _paths(self, uid: str) -> dict[str, str]:
        """The containers' groups of a pod, by name."""
        return self._index.containers.get(uid, {}) if self._index else {}

    def _owner(self, step: Step) -> str:
        """Whose failure a step's would be: a pod's UID, the path of a group that is not
        planned any more, empty for node and QoS groups."""
        owner = self._index.owners.get(step.path, "") if self._index else ""
        return owner or (step.path if step.kind == "remove" else "")

    def end(self, hurry: Callable[[], bool]) -> list[str]:
        """Stop every pod, remove every group below the root; what could not be done is returned.

        ``hurry`` is asked on the way: once true, grace periods end at once.
        """
        errors: list[str] = []
        hurried = False
        for uid, pod in self._started.items():
            try:
                self._runtime.stop(uid, self._grace.get(uid, 30.0))
            except (QosletError, OSError) as error:
                errors.append(f"stopping {pod.key}: {error}")
        while any(state.running for state in self._runtime.poll()):
            if hurry() and not hurried:
                hurried = True
                for uid in self._started:
                    self._runtime.stop(uid, 0.0)
            self._clock.sleep(0.05)
        return errors + self._remove_all()

    def _remove_all(self) -> list[str]:
        """Remove the groups below the root, children first; busy ones are tried again."""
        deadline = self._clock.monotonic() + self._config.settle
        while True:
            left = self._observer.observe(self._config.root, values=False).cgroups
            deepest_first = sorted(left, key=lambda path: (-path.count("/"), path))
            wrong = [
                f"{outcome.step.describe()}: {outcome.error}"
                for path in deepest_first
                for outcome in self._driver.perform([Step("remove", path, why="the run ends")])
                if outcome.error is not None
            ]
            if not wrong or self._clock.monotonic() >= deadline:
                return wrong
            self._clock.sleep(0.05)


def _at_or_below(path: str, groups: Collection[str]) -> bool:
    """Whether a path is one of ``groups`` or below one."""
    return any(path == group or path.startswith(f"{group}/") for group in groups)


class _Index(Struct):
    """Look-ups in a plan: which pod a path belongs to, and each pod's containers by name."""

    plan: Plan
    paths: tuple[str, ...] = ()
    owners: dict[str, str] = {}
    containers: dict[str, dict[str, str]] = {}


def _index(plan: Plan) -> _Index:
    """The look-ups of ``plan``."""
    index = _Index(plan, tuple(group.path for group in plan.cgroups if group.path is not None))
    for group in plan.cgroups:
        if group.pod is None or group.path is None:
            continue
        index.owners[group.path] = group.pod.uid
        if group.container is not None:
            paths = index.containers.setdefault(group.pod.uid, {})
            paths[group.container.name] = group.path
    return index


def foreign_changes(
    paths: Sequence[str], before: Observed | None, now: Observed
) -> tuple[str, ...]:
    """Planned groups that somebody else removed, or made anew, since the last turn ended."""
    if before is None:
        return ()
    notes = []
    for path in paths:
        old, new = before.cgroups.get(path), now.cgroups.get(path)
        if old is not None and new is None:
            notes.append(f"{path} was removed by somebody else; it is made again")
        elif old is not None and new is not None and old.identity != new.identity:
            notes.append(f"{path} was made anew by somebody else; its values are written again")
    return tuple(notes)


def summary(
    desired: Desired,
    states: Sequence[ContainerState],
    work: Work,
    done: int,
    failed: int,
    pending: int,
) -> str:
    """The turn in one sentence."""
    running = sum(state.running for state in states)
    people = f"{_many(len(desired.pods), 'pod')}, {running} of {len(states)} containers running"
    waits = [f"{_many(pending, 'write')} pending"] if pending else []
    if work.waiting:
        waits.append(f"{_many(len(work.waiting), 'limit')} above the plan until usage falls")
    if failed:
        return "; ".join([people, f"{_many(failed, 'step')} failed, {done} done", *waits])
    if work.differences:
        found = f"{_many(work.differences, 'difference')}, {_many(done, 'step')} done"
        return "; ".join([people, found, *waits])
    return "; ".join([people, *waits]) if waits else f"{people}; the tree is as planned"


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
