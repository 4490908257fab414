"""What is kept on disk of a pod in a runtime's hands, so that the next agent goes on with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import field
from msgspec.structs import replace

from qoslet.core.workload.container_spec import PodMessages
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.hooks import taken_over
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.host.containers.kept_pod import KeptPod
from qoslet.host.containers.records import PodRecord
from qoslet.host.cri.resource_changes import resources_change


class CriPodRecord(PodRecord, frozen=True, omit_defaults=True):
    """A pod's record. ``sandbox`` is its id, ``attempt`` the number of the next one; ``ids`` are
    containers' by name. ``applied`` are the resources that each was given last, ``cleared`` tells
    that nothing of the pod is left in the runtime."""

    sandbox: str = ""
    attempt: int = 0
    ids: dict[str, str] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)
    applied: dict[str, dict[str, Any]] = field(default_factory=dict)
    cleared: bool = False


class CriPod(KeptPod):
    """A pod as it is known: the containers' lives, what they are called in the runtime, and what
    is to be said of them. ``words`` are sentences by container, ``refusals`` those about its resources.
    ``wanted`` are the resources that the loop asked for last, which ``spec`` has a little later. One that
    is ``forgotten`` may still change in the thread, and is told no more."""

    def __init__(self, spec: PodSpec, digest: str) -> None:
        super().__init__(spec, digest, {})
        self.sandbox = ""
        self.attempt = 0
        self.ids: dict[str, str] = {}
        self.pids: dict[str, int] = {}
        self.applied: dict[str, dict[str, Any]] = {}
        self.words: dict[str, str] = {}
        self.refusals: dict[str, str] = {}
        self.wanted: PodMessages | None = None
        self.cleared = False
        self.forgotten = False

    @classmethod
    def of(cls, record: CriPodRecord) -> CriPod:
        """The pod of a record."""
        pod = cls(record.spec, record.digest)
        pod.lives = {name: taken_over(life) for name, life in record.lives.items()}
        pod.times = dict(record.times)
        pod.ending, pod.sandbox, pod.attempt = record.ending, record.sandbox, record.attempt
        pod.created = record.created
        pod.ids, pod.pids, pod.applied = dict(record.ids), dict(record.pids), dict(record.applied)
        pod.cgroups = {name: path for name, path in record.cgroups.items() if path}
        pod.cleared = record.cleared
        return pod

    def record(self, boot: str) -> CriPodRecord:
        """The pod as it goes to disk."""
        return CriPodRecord(
            **self.record_fields(boot),
            cgroups={name: self.cgroups.get(name, "") for name in self.lives},
            sandbox=self.sandbox,
            attempt=self.attempt,
            ids=dict(self.ids),
            pids=dict(self.pids),
            applied=dict(self.applied),
            cleared=self.cleared,
        )

    @property
    def alive(self) -> bool:
        """Whether any container is."""
        return any(life.alive for life in self.lives.values())

    @property
    def is_starting(self) -> bool:
        """Whether the runtime has been asked to start a container and has not answered."""
        return any(life.phase == "starting" for life in self.lives.values())

    @property
    def parent(self) -> str:
        """The pod's group."""
        return self.spec.messages.parent if self.spec.messages is not None else ""

    @property
    def over(self) -> bool:
        """Whether nothing of the pod is left in the runtime."""
        return self.cleared

    def held(self) -> RuntimePod:
        """The pod as the loop wants it: the cgroups of its containers are the runtime's."""
        return self.running_pod({}, self.parent)

    def states(self, before: Mapping[str, ContainerState]) -> tuple[ContainerState, ...]:
        """Its containers as the loop wants them: one that is as before is the same value."""
        made = (self._state(one) for one in self.spec.launches)
        return tuple(before[one.name] if before.get(one.name) == one else one for one in made)

    def _state(self, launch: ProcessSpec) -> ContainerState:
        name = launch.name
        phase = self.lives[name].phase
        running = phase == "running"
        pid = self.pids.get(name) if running else None
        message = self.words.get(name, "")
        state = self.container_state(launch, pid, running=running, message=message)
        late = self._not_updated(name) if running and self.ending is None else ""
        early = state.starting or phase == "starting"
        return replace(state, starting=early, not_updated=late) if early or late else state

    def _not_updated(self, name: str) -> str:
        """Why a container does not have its planned resources yet; empty where it has."""
        messages = self.wanted or self.spec.messages
        if messages is None or name not in self.ids:
            return ""
        wanted = messages.containers.get(name, {})
        if not resources_change(self.applied.get(name, {}), wanted):
            return ""
        return self.refusals.get(name) or f"{name}: waiting for the runtime to update it"
