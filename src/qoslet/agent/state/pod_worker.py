"""What the agent keeps of one pod: its cgroups, its phase, its back-off, and the status it
reports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from qoslet.agent.ports import DesiredPod
from qoslet.agent.state.pod_phases import WorkerPhase, enter
from qoslet.core.api.pod import Pod, QosClass
from qoslet.core.cgroup.names import escape
from qoslet.core.reconcile.resize import ResizeState
from qoslet.core.resources.cgroup_tree import Cgroup
from qoslet.core.status.pod_events import PodStatus
from qoslet.core.status.pod_reason import pod_reason
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import Backoff
from qoslet.core.workload.pod_status import PodPhase, PodRow, PodUsage, RuntimePod
from qoslet.core.workload.process_spec import PodSpec

LEFTOVER_BACKOFF = Backoff(first=0.01, longest=1.0, reset_after=0.0)
"""Spaces attempts at what ends by itself within moments: the last processes of a cgroup."""
_FROZEN = "nothing in it runs until it is thawed"


class PodWorker(Struct):
    """A pod that the agent works on. Times are monotonic seconds unless named otherwise."""

    uid: str
    key: str
    """``namespace/name``."""
    phase: WorkerPhase = WorkerPhase.PENDING
    """Set by ``pod_phases.enter`` only."""
    desired: DesiredPod | None = None
    """None for a pod that only terminates."""
    pod: Pod | None = None
    """As it was planned last."""
    cgroups: tuple[Cgroup, ...] = ()
    """Those that it has or will get."""
    qos: QosClass = "BestEffort"
    container_cgroups: dict[str, str] = {}
    """Paths by container name."""
    top_cgroups: tuple[str, ...] = ()
    """Paths of the topmost ones."""
    spec_digest: str = ""
    """Of the ``PodSpec`` that it was started with."""
    grace_seconds: float = 30.0
    kept_manifest: str | None = None
    """The file that an earlier agent had it from, while nobody knows whether it is desired: it
    stays as it is. None once that is known."""
    restart_pending: bool = False
    """It starts again once it has terminated."""
    refused_stop_seconds: float | None = None
    """The grace period of a stop that the runtime refused: it is asked again."""
    stop_seconds: float | None = None
    """The grace period of the last stop, where that is not the pod's own."""
    cleanup_done: bool = False
    """Its volumes and cgroups are removed."""
    failed: bool = False
    """We ended it, and it counts as failed."""
    eviction_reason: tuple[str, str] = ("", "")
    """Reason and sentence that are reported until it starts again."""
    container_states: tuple[ContainerState, ...] = ()
    reason: str = ""
    message: str = ""
    since_wall_seconds: float = 0.0
    """Wall-clock time at which its phase or reason began."""
    created_wall_seconds: float = 0.0
    """Wall-clock time at which it was started first, or desired; of a kept pod the runtime's."""
    retries: int = 0
    backoff_seconds: float = 0.0
    retry_at: float | None = None
    status_phase: PodPhase = "Pending"
    """The phase that is reported."""
    rejected_edit: str = ""
    """Why what its manifest wants now may not run, while it runs as it was."""
    not_ended: str = ""
    """What of it has not ended, long after it was asked to."""
    resize_state: ResizeState = ""
    resize_reason: str = ""
    adopted: bool = False
    """It was started by an earlier agent."""
    reported: PodStatus | None = None
    """What events were told up to."""
    sequence: int = 0
    """The order in which pods came."""

    @property
    def oom_score_adjs(self) -> dict[str, int | None]:
        """The planned ``oom_score_adj`` by container name."""
        return {one.container.name: one.oom_score_adj for one in self.cgroups if one.container}

    @property
    def existing_cgroups(self) -> tuple[Cgroup, ...]:
        """Its cgroups but for those that a runtime creates and has not created yet."""
        begun = {one.name for one in self.container_states if one.running and one.pid is not None}
        return tuple(
            one
            for one in self.cgroups
            if not one.by_runtime or (one.container is not None and one.container.name in begun)
        )

    @property
    def named_paths(self) -> dict[str, str]:
        """Where the runtime says that containers are whose cgroups it chooses, by name. A path that is not
        directly below the pod's cgroup, or another container's, is not followed."""
        chosen = {one.container.name for one in self.cgroups if one.container and one.path is None}
        found: dict[str, str] = {}
        for state in self.container_states if chosen else ():
            inside = state.cgroup.rpartition("/")[0] in self.top_cgroups
            if inside and state.name in chosen and state.cgroup not in found.values():
                found[state.name] = state.cgroup
        return found

    @property
    def placed_cgroups(self) -> tuple[Cgroup, ...]:
        """Its cgroups, those that the runtime chooses with their paths as far as it tells them."""
        named = self.named_paths
        if not named:
            return self.cgroups
        return tuple(
            replace(one, path=named[one.container.name])
            if one.path is None and one.container is not None and one.container.name in named
            else one
            for one in self.cgroups
        )

    @property
    def unwanted(self) -> bool:
        """Whether it is to go: not desired, and not kept because that is unknown."""
        return self.desired is None and self.kept_manifest is None

    @property
    def running(self) -> bool:
        """Whether any of its containers runs."""
        return any(state.running for state in self.container_states)

    @property
    def awaits_cgroup(self) -> bool:
        """Whether a container starts as soon as its cgroup was created again."""
        return any(state.awaits_cgroup for state in self.container_states)

    def plan(self, pod: Pod, qos: QosClass, groups: Sequence[Cgroup]) -> None:
        """Set the cgroups that it is to have."""
        self.pod, self.qos, self.cgroups = pod, qos, tuple(groups)
        self.container_cgroups = container_paths(groups)
        pods = tuple(one.path for one in groups if one.level == "pod" and one.path is not None)
        self.top_cgroups = pods or tuple(self.container_cgroups.values())

    def set_reason(self, reason: str, message: str, wall: float) -> None:
        """Set why it is as it is; the time stays while the reason does."""
        if reason != self.reason:
            self.since_wall_seconds = wall
        self.reason, self.message = reason, message

    def back_off(self, reason: str, message: str, policy: Backoff, now: float, wall: float) -> None:
        """Count a failed attempt; the next one waits."""
        self.set_reason(reason, message, wall)
        self.retries += 1
        self.backoff_seconds = policy.after(self.backoff_seconds)
        self.retry_at = now + self.backoff_seconds

    def clear_backoff(self) -> None:
        """Forget failed attempts: the last one succeeded."""
        self.retries, self.backoff_seconds, self.retry_at = 0, 0.0, None

    def enter_phase(self, phase: WorkerPhase, wall: float) -> None:
        """Enter a phase without a reason and without back-off."""
        enter(self, phase)
        self.refused_stop_seconds, self.rejected_edit, self.not_ended = None, "", ""
        self.clear_backoff()
        self.set_reason("", "", wall)

    def in_backoff(self, now: float) -> bool:
        """Whether it waits for its next attempt."""
        return self.retry_at is not None and now < self.retry_at

    @property
    def is_retried(self) -> bool:
        """Whether what it is to have could not be made or written, and is tried again."""
        return bool(self.retries) and self.phase in (WorkerPhase.PENDING, WorkerPhase.RUNNING)

    def update_status(self, wall: float) -> None:
        """Work out the reported phase."""
        phase = status_phase_of(self)
        if phase != self.status_phase:
            self.status_phase, self.since_wall_seconds = phase, wall

    def pod_status(self) -> PodStatus:
        """What events follow from."""
        began = any(one.running or one.exit_code is not None for one in self.container_states)
        return PodStatus(
            self.status_phase,
            began=began or self.adopted,
            adopted=self.adopted,
            reason=self.reason or self.eviction_reason[0],
            message=self.message or self.eviction_reason[1],
            resize=self.resize_state,
            resize_reason=self.resize_reason,
            edit_rejected=self.rejected_edit,
        )

    def status_row(
        self,
        now: float,
        rejected_edit: str = "",
        usage: Mapping[str, PodUsage] | None = None,
        frozen: Collection[str] = (),
    ) -> PodRow:
        """The pod as surfaces show it. ``rejected_edit`` tells why its manifest does not count,
        ``frozen`` names the cgroups that keep processes of it from running."""
        namespace, _, name = self.key.partition("/")
        wait = None if self.retry_at is None else max(0.0, self.retry_at - now)
        phase = self.status_phase
        reason, message = self._status_reason(frozen)
        own = "" if phase == "Terminating" else self.reason or self.eviction_reason[0]
        if self.kept_manifest is not None:
            rejected_edit = rejected_edit or self.message
        roles = {one.name: one.role for one in self.pod.containers} if self.pod else {}
        return PodRow(
            uid=self.uid,
            namespace=namespace,
            name=name,
            qos=self.qos,
            phase=phase,
            reason=reason,
            message=message,
            since=self.since_wall_seconds,
            retries=self.retries,
            retry_in=wait,
            resize=self.resize_state,
            resize_reason=self.resize_reason,
            manifest=self.kept_manifest or ("" if self.desired is None else self.desired.manifest),
            containers=self.container_states,
            status=own or pod_reason(phase, self.container_states, roles),
            created=self.created,
            edit_rejected=rejected_edit or self.rejected_edit,
            roles=roles,
            usage=usage or {},
            restart_policy=restart_policy(self.desired.spec) if self.desired is not None else "",
            controller=self.pod.controller if self.pod is not None else None,
        )

    def _status_reason(self, frozen: Collection[str]) -> tuple[str, str]:
        """Its own reason and message, else its eviction's, else those of the first container that waits;
        what keeps it from ending or running stands behind the message."""
        reason, message = (self.reason, self.message) if self.reason else self.eviction_reason
        if not reason:
            waiting = (one for one in self.container_states if one.message and not one.running)
            first = next(waiting, None)
            reason, message = ("", "") if first is None else (first.reason, first.message)
        frozen_lines = (f"{one} is frozen: {_FROZEN}" for one in sorted(frozen))
        return reason, "; ".join(filter(None, (message, self.not_ended, *frozen_lines)))

    @property
    def created(self) -> float:
        """When it was started first, in wall-clock seconds; a start that an earlier version of the
        runtime did not note is at most that of its oldest container."""
        starts = (one.started_at for one in self.container_states)
        return self.created_wall_seconds or min(filter(None, starts), default=0.0)


def status_phase_of(worker: PodWorker) -> PodPhase:
    """The phase as core/v1 has it. Source: kubelet_pods.go getPhase."""
    if worker.phase is WorkerPhase.REJECTED:
        return "Failed"
    if worker.phase is WorkerPhase.TERMINATED:
        return "Failed" if worker.failed or _any_failed(worker) else "Succeeded"
    if worker.phase in (WorkerPhase.TERMINATING, WorkerPhase.CLEANING_UP):
        return "Terminating"
    if worker.phase is WorkerPhase.PENDING:
        return "Pending"
    begun = [one for one in worker.container_states if _role(worker, one.name) == "regular"]
    if any(
        (one.running and not one.starting) or one.restarts or one.exit_code is not None
        for one in begun
    ):
        return "Running"
    return "Pending"


def _any_failed(worker: PodWorker) -> bool:
    """Whether a container that counts ended with another code than 0."""
    return any(
        one.exit_code not in (0, None)
        for one in worker.container_states
        if _role(worker, one.name) != "sidecar"
    )


def _role(worker: PodWorker, container: str) -> str:
    """The role of a container; regular where nothing is known."""
    pod = worker.pod
    found = (one.role for one in pod.containers if one.name == container) if pod else ()
    return next(iter(found), "regular")


def container_paths(groups: Sequence[Cgroup]) -> dict[str, str]:
    """The cgroups of containers by their name."""
    return {
        group.container.name: group.path
        for group in groups
        if group.container is not None and group.path is not None
    }


def adopted_worker(runtime_pod: RuntimePod, wall: float) -> PodWorker:
    """A pod that a runtime kept from an earlier agent; not desired yet."""
    worker = PodWorker(
        runtime_pod.uid,
        runtime_pod.key,
        spec_digest=runtime_pod.spec_digest,
        grace_seconds=runtime_pod.grace_seconds,
        since_wall_seconds=wall,
        created_wall_seconds=runtime_pod.created,
        adopted=True,
    )
    enter(worker, WorkerPhase.RUNNING)
    worker.container_cgroups = dict(runtime_pod.container_cgroups)
    worker.top_cgroups = runtime_pod.top_cgroups or top_cgroups_of(
        runtime_pod.uid, runtime_pod.container_cgroups
    )
    return worker


def top_cgroups_of(uid: str, cgroups: Mapping[str, str]) -> tuple[str, ...]:
    """The topmost cgroups of a pod, from its containers': the pod's own one, where it has one."""
    above = {path.rpartition("/")[0] for path in cgroups.values()}
    leaf = next(iter(above)).rpartition("/")[2] if len(above) == 1 else ""
    if uid in leaf or escape(uid) in leaf:
        return tuple(above)
    return tuple(cgroups.values())


def never_restarts(spec: PodSpec) -> bool:
    """Whether the pod's restart policy is Never."""
    return restart_policy(spec) == "Never"


def restart_policy(spec: PodSpec) -> str:
    """The policy that all regular containers of a pod have; Always where they differ, empty without
    one."""
    policies = {launch.restart for launch in spec.launches if launch.role == "regular"}
    return policies.pop() if len(policies) == 1 else "Always" if policies else ""
