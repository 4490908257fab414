"""What the stages of one turn share: the parts, the pods, and what there is to say."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from qoslet.agent.config import Config
from qoslet.agent.ports import CgroupKiller, Clock, DesiredState, PlanView, Runtime, Volumes
from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.core.node.node import Node
from qoslet.core.reconcile.resize import encode_allocation
from qoslet.core.reconcile.steps import Outcome
from qoslet.core.workload.lifecycle import Backoff, ContainerState
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec
from qoslet.errors import QosletError


class SyncLog(Struct):
    """What one turn met and did."""

    differences: int = 0
    outcomes: list[Outcome] = []
    errors: list[str] = []
    notes: list[str] = []
    waiting: list[str] = []
    looked: int = 0


class SyncContext:
    """One for each wheel. ``paces`` are the pods by UID; ``due`` are those to be looked at in
    this turn, ``ending`` those whose containers were asked to end. ``containers`` counts
    those that run and all, ``refused`` the pods that may not run here."""

    def __init__(
        self,
        config: Config,
        executor: CgroupExecutor,
        runtime: Runtime,
        volumes: Volumes,
        clock: Clock,
        killer: CgroupKiller,
    ) -> None:
        self.config = config
        self.executor = executor
        self.runtime = runtime
        self.volumes = volumes
        self.clock = clock
        self.killer = killer
        self.workers: dict[str, PodWorker] = {}
        self.due: set[str] = set()
        self.ending: set[str] = set()
        self.refused: set[str] = set()
        self.containers = (0, 0)
        self._held: Mapping[str, RuntimePod] | None = None
        self.said = SyncLog()
        self.desired: DesiredState | None = None
        self._count = 0
        self._followers: dict[str, set[str]] = {}
        self._timers: dict[str, float] = {}

    @property
    def live(self) -> PlanView:
        """The plan of the pods that count."""
        assert self.desired is not None
        return self.desired.live

    @property
    def node(self) -> Node:
        """The node that is planned for."""
        return self.live.node

    @property
    def now(self) -> float:
        """Monotonic seconds."""
        return self.clock.monotonic()

    def begin_turn(self) -> None:
        """Of this turn nothing is known yet, and what was said since the last one was told;
        those that end are looked at each time."""
        self.said = SyncLog(notes=self.said.notes, errors=self.said.errors)
        self.due = self.woken() | self.ending
        self._held = None

    def say(self, line: str) -> None:
        """A line for people, told with this turn, or between two with the next."""
        self.said.notes.append(line)

    def note(self, worker: PodWorker, states: tuple[ContainerState, ...]) -> None:
        """Keep the states of a pod's containers, and count them."""
        running, every = self.containers
        for sign, found in ((-1, worker.states), (1, states)):
            running += sign * sum(one.running for one in found)
            every += sign * len(found)
        worker.states, self.containers = states, (running, every)

    def held(self, *, anew: bool = False) -> Mapping[str, RuntimePod]:
        """What the runtime keeps, asked once in a turn. Raises ``QosletError``, OSError."""
        if self._held is None or anew:
            self._held = self.runtime.held()
        return self._held

    def add(self, worker: PodWorker) -> None:
        """A pod that comes to be known."""
        self._count += 1
        worker.number = self._count
        self.workers[worker.uid] = worker
        self.due.add(worker.uid)

    def fail(
        self, worker: PodWorker, reason: str, message: str, policy: Backoff | None = None
    ) -> None:
        """A pod's attempt failed: it is said, and tried again after its back-off. With a
        ``policy`` of its own it is only waited for, and nothing is said."""
        if policy is None:
            self.said.errors.append(message)
        worker.fail(reason, message, policy or self.config.retry, self.now, self.clock.wall())
        assert worker.not_before is not None
        self._timers[worker.uid] = worker.not_before

    def ready(self, worker: PodWorker) -> PodSpec:
        """The pod's processes with their volumes, which are provided, and planned scores.
        Raises ``QosletError`` or OSError where a volume cannot be had."""
        assert worker.wanted is not None
        assert worker.pod is not None
        spec = replace(worker.wanted.spec.scored(worker.scores), memo=encode_allocation(worker.pod))
        spec = self.live.equipped(worker.uid, spec)
        if not spec.volumes:
            return spec
        return spec.sourced(self.volumes.provide(worker.uid, spec.volumes))

    def tell(self, worker: PodWorker) -> None:
        """Later starts of the pod's containers use what has changed in place."""
        try:
            self.runtime.update(self.ready(worker))
        except (QosletError, OSError) as error:
            self.fail(worker, "UpdateFailed", f"updating {worker.key}: {error}")

    def turn_to_waiting(self, worker: PodWorker) -> None:
        """The pod's groups are to be made and its containers begun, in this turn."""
        worker.turn_to("waiting", self.clock.wall())
        worker.again = False
        self.refused.discard(worker.uid)
        self.due.add(worker.uid)

    def woken(self) -> set[str]:
        """Pods whose back-off is over."""
        now = self.now
        woken = {uid for uid, at in self._timers.items() if at <= now}
        for uid in woken:
            del self._timers[uid]
        return woken

    def again_in(self, uid: str, seconds: float) -> None:
        """Look at a pod again, though nothing went wrong with it."""
        self._timers[uid] = self.now + seconds

    def follows(self, worker: PodWorker) -> str | None:
        """The pod of before that must be gone before this one is made, None if there is none."""
        for uid in sorted(worker.wanted.after if worker.wanted is not None else ()):
            if uid in self.workers:
                self._followers.setdefault(uid, set()).add(worker.uid)
                return uid
        return None

    def remove(self, worker: PodWorker) -> None:
        """A pod is gone; whoever had to wait for it may go on."""
        self.note(worker, ())
        del self.workers[worker.uid]
        self._timers.pop(worker.uid, None)
        self.due.discard(worker.uid)
        self.ending.discard(worker.uid)
        self.refused.discard(worker.uid)
        self.due |= self._followers.pop(worker.uid, set())

    def next_timer(self) -> float | None:
        """The monotonic time at which the next back-off is over."""
        return min(self._timers.values(), default=None)

    def drop(self, uid: str) -> None:
        """A pod counts no more; those whose CPUs changed with it are looked at."""
        for other in self.live.drop(uid):
            self.replan(other)

    def replan(self, uid: str) -> None:
        """A pod's groups have other values because of another pod."""
        worker = self.workers.get(uid)
        if worker is not None and worker.pod is not None and worker.wanted is not None:
            found = self.live.groups(uid)
            if found.refused is not None:
                return
            worker.plan(found.pod, found.qos, found.groups)
            if worker.stage == "running" and self.node.profile.runtime.oci != "process":
                self.tell(worker)
            if worker.stage == "refused":
                # there is room for it since
                self.turn_to_waiting(worker)
            self.due.add(uid)
