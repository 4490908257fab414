"""A pod as the process runtime keeps it: its containers' lives, processes and times."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import postponed, withdrawn
from qoslet.core.workload.lifecycle import Action, finished, next_due
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.errors import CannotDo, QosletError
from qoslet.host.containers.kept_pod import KeptPod
from qoslet.host.containers.process_namespaces import process_namespaces
from qoslet.host.containers.records import ContainerTimes, PodRecord
from qoslet.host.keeper.container_cgroups import ContainerCgroups
from qoslet.host.keeper.container_process import PATIENCE, ContainerProcess
from qoslet.host.keeper.ending_scopes import OomKillState, PendingCgroup
from qoslet.host.linux.signals import signal_number

ABSENT_SECONDS = 1.0
"""How long a start waits for a group that is not there: who makes groups makes it again."""

MOST_SECONDS = 30.0
"""Between two attempts to start what this machine refuses."""

TURN_SECONDS = 0.25
"""How long one turn starts containers: a pod may have a thousand."""


class ProcessPod(KeptPod):
    """A pod in the process runtime. ``wake`` is when it is to be looked at without any event."""

    def __init__(self, spec: PodSpec, digest: str, cgroups: Mapping[str, str]) -> None:
        super().__init__(spec, digest, cgroups)
        self.running: dict[str, ContainerProcess] = {}
        self.wake: float | None = None
        self.ending_scopes = OomKillState()
        self._awaiting: set[str] = set()
        self._attempts: dict[str, tuple[float, float]] = {}

    @property
    def over(self) -> bool:
        """Whether no container runs, and none will run again."""
        if self.running:
            return False
        return self.ending is not None or finished(self.spec, self.lives)

    def due_at(self, now: float, *, waits: bool) -> float | None:
        """When something of it is due that no event tells; None for never. ``waits``: not before this machine
        may have what it lacks."""
        if waits:
            return now + ABSENT_SECONDS
        due = next_due(self.spec, self.lives, now, self.ending)
        times = [] if due is None else [now + due]
        times += [one.due for one in self.running.values() if one.due is not None]
        return min(times, default=None)

    def postpone(self, name: str, error: Exception, reason: str, now: float) -> None:
        """A container is started later, for no fault of its own."""
        absent = isinstance(error, FileNotFoundError | PendingCgroup)
        self._awaiting |= {name} if absent else set()
        seconds = error.seconds if isinstance(error, PendingCgroup) else ABSENT_SECONDS
        seconds = seconds if absent else self._next_attempt(name, now)
        self.lives[name] = postponed(self.lives[name], reason, now + seconds)

    def withdraw(self, name: str, reason: str, now: float) -> None:
        """A start came to nothing for want of what is this machine's; it is tried again."""
        self.lives[name] = withdrawn(self.lives[name], reason, now + self._next_attempt(name, now))

    def _next_attempt(self, name: str, now: float) -> float:
        """Seconds until a container that this machine could not start is tried again: twice as many
        each time."""
        seconds, until = self._attempts.get(name, (0.0, now))
        again = min(seconds * 2, MOST_SECONDS) if seconds and now < until + MOST_SECONDS else 0.0
        self._attempts[name] = (again or ABSENT_SECONDS, now + (again or ABSENT_SECONDS))
        return self._attempts[name][0]

    def record(self, boot: str) -> PodRecord:
        """The pod as it goes to disk."""
        processes = {name: one.proc for name, one in self.running.items()}
        return PodRecord(
            **self.record_fields(boot),
            cgroups=self.cgroups,
            processes=processes,
            namespaces=process_namespaces(),
        )

    def record_start(self, name: str) -> None:
        """A container is started now."""
        self._awaiting.discard(name)
        self.times[name] = ContainerTimes(time.time(), self._times(name).finished)

    def record_end(self, name: str) -> None:
        """A container has ended now, or did not come to be."""
        self.times[name] = ContainerTimes(self._times(name).started, time.time())

    def _times(self, name: str) -> ContainerTimes:
        return self.times.get(name, ContainerTimes())

    def states(self) -> tuple[ContainerState, ...]:
        """Its containers as the loop wants them."""
        return tuple(self._state(launch) for launch in self.spec.launches)

    def held(self) -> RuntimePod:
        """The pod as the loop wants it."""
        return self.running_pod(self.cgroups)

    def _state(self, launch: ProcessSpec) -> ContainerState:
        """One container."""
        name = launch.name
        one = self.running.get(name)
        pid = one.main if one is not None else None
        state = self.container_state(launch, pid, running=one is not None)
        never_ran = one is not None and (one.birth is not None or one.failed is not None)
        early = state.starting or never_ran
        awaits = one is None and name in self._awaiting
        return replace(state, starting=early, awaits_cgroup=awaits)


class StartBudget:
    """What a turn of the runtime still has time for. The pods whose starts wait for the next one have
    their turns in the order in which they came."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: float | None = None
        self._serves = ""
        self._waiting: dict[str, None] = {}

    def next_at(self) -> float | None:
        """When the next one is due; None where no start waits for it."""
        return self._clock() if self._waiting else None

    def allows(self, pod: ProcessPod, action: Action) -> bool:
        """Whether to do this now: a start waits for its turn, and what was killed is not killed again."""
        if action.verb == "kill":
            return not pod.running[action.name].killed
        if action.verb != "start":
            return True
        uid = pod.spec.uid
        if (self._serves == uid or not self._waiting) and not self._is_over():
            if self._until is None:
                self._until = self._clock() + TURN_SECONDS
            return True
        self._waiting.setdefault(uid)
        return False

    def waiting(self, pods: Mapping[str, ProcessPod]) -> Iterator[ProcessPod]:
        """The pods whose starts wait, while there is time, to the end of this turn; one that does not
        get done comes last."""
        while self._waiting and not self._is_over():
            self._serves = next(iter(self._waiting))
            del self._waiting[self._serves]
            if self._serves in pods:
                yield pods[self._serves]
        self._serves, self._until = "", None

    def _is_over(self) -> bool:
        # one start is begun in each, however long it takes to get there
        return self._until is not None and self._clock() >= self._until


def ask_to_end(pod: ProcessPod, name: str, stop_signal: str, now: float) -> None:
    """Ask a container's main process to end."""
    pod.running[name].send(signal_number(stop_signal))
    pod.lives[name] = replace(pod.lives[name], signalled_at=now)


def kill_container(pod: ProcessPod, name: str, groups: ContainerCgroups, now: float) -> str:
    """End a container's whole group; the end of its main process is an event. What went wrong."""
    one = pod.running[name]
    one.killed, one.due = True, now + PATIENCE
    one.send(signal.SIGKILL)
    try:
        groups.strike(pod.cgroups[name])
    except (QosletError, OSError, ValueError) as error:
        return f"{pod.spec.key}/{name}: {error}"
    return ""


def why_not_ended(
    pod: ProcessPod, name: str, groups: ContainerCgroups, clock: Callable[[], float]
) -> str:
    """Why a container that was killed has not ended; once, ``PATIENCE`` seconds later. Else empty."""
    one = pod.running[name]
    if not one.killed or one.over or one.birth is not None or one.due is None:
        return ""
    if clock() < one.due:
        return ""
    one.due = None
    frozen = groups.frozen(pod.cgroups[name])
    why = f"{frozen} is frozen; thaw it" if frozen else "the kernel has not let it go yet"
    return f"process {one.pid} was killed and has not ended: {why}"


def check_pod(spec: PodSpec, cgroups: Mapping[str, str]) -> None:
    """Raise ``CannotDo`` where a pod may not be run, or cannot be kept under its names."""
    where = f"Pod {spec.key}"
    if not spec.runnable:
        raise CannotDo("this pod is not run", where=where)
    names = [launch.name for launch in spec.launches]
    if len({*names}) != len(names) or {*names} != cgroups.keys():
        raise CannotDo("the plan does not have one cgroup per container", where=where)
    if spec.bundles is not None:
        planned = spec.bundles.blocks
        if any(not planned[one].path for one in names if one in planned) or {*names} - {*planned}:
            raise CannotDo("the plan has no cgroups for its containers", where=where)
    for text in (spec.uid, *spec.key.split("/"), *names):
        if not text or text in (".", "..") or "/" in text or "\0" in text or len(text) > 253:
            raise CannotDo(f"{text!r} cannot be part of a path", where=where)


def requested_pod(
    spec: PodSpec, cgroups: Mapping[str, str], digest: str
) -> tuple[RuntimePod, tuple[ContainerState, ...]]:
    """A pod and its containers as they are until its keeper tells of them."""
    held = RuntimePod(
        spec.uid,
        spec.key,
        digest,
        spec.grace,
        dict(cgroups),
        allocation=spec.memo,
        manifest=spec.manifest,
        roles=spec.roles,
        created=time.time(),
    )
    waiting = tuple(
        ContainerState(spec.uid, launch.name, cgroups[launch.name], running=False)
        for launch in spec.launches
    )
    return held, waiting
