"""What is kept on disk of a pod in a runtime's hands, so that the next agent goes on with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import field

from qoslet.core.workload.lifecycle import NEW, ContainerState, Ending, Life
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec
from qoslet.host.containers.records import FORMAT, ContainerTimes, PodRecord


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


class CriPod:
    """A pod as it is known: the containers' lives, what they are called in the runtime, and what
    is to be said of them. ``messages`` are sentences by container; one that is ``forgotten`` may
    still change in the thread, and is told no more."""

    def __init__(self, spec: PodSpec, digest: str) -> None:
        self.spec = spec
        self.digest = digest
        self.lives: dict[str, Life] = {one.name: NEW for one in spec.launches}
        self.times: dict[str, ContainerTimes] = {}
        self.ending: Ending | None = None
        self.sandbox = ""
        self.attempt = 0
        self.ids: dict[str, str] = {}
        self.pids: dict[str, int] = {}
        self.cgroups: dict[str, str] = {}
        self.applied: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        self.words: dict[str, str] = {}
        self.cleared = False
        self.forgotten = False

    @classmethod
    def of(cls, record: CriPodRecord) -> CriPod:
        """The pod of a record."""
        pod = cls(record.spec, record.digest)
        pod.lives, pod.times = dict(record.lives), dict(record.times)
        pod.ending, pod.sandbox, pod.attempt = record.ending, record.sandbox, record.attempt
        pod.ids, pod.pids, pod.applied = dict(record.ids), dict(record.pids), dict(record.applied)
        pod.cgroups = {name: path for name, path in record.cgroups.items() if path}
        pod.cleared = record.cleared
        return pod

    def record(self, boot: str) -> CriPodRecord:
        """The pod as it goes to disk."""
        return CriPodRecord(
            format=FORMAT,
            boot=boot,
            spec=self.spec,
            digest=self.digest,
            cgroups={name: self.cgroups.get(name, "") for name in self.lives},
            lives=dict(self.lives),
            times=dict(self.times),
            ending=self.ending,
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
    def parent(self) -> str:
        """The pod's group."""
        return self.spec.messages.parent if self.spec.messages is not None else ""

    def held(self) -> RuntimePod:
        """The pod as the loop wants it: the groups of its containers are not the loop's."""
        spec = self.spec
        return RuntimePod(
            spec.uid,
            spec.key,
            self.digest,
            spec.grace,
            {},
            self.cleared,
            spec.memo,
            self.ending is not None,
            (self.parent,),
        )

    def states(self, before: Mapping[str, ContainerState]) -> tuple[ContainerState, ...]:
        """Its containers as the loop wants them: one that is as before is the same value."""
        made = (self._state(one.name) for one in self.spec.launches)
        return tuple(before[one.name] if before.get(one.name) == one else one for one in made)

    def _state(self, name: str) -> ContainerState:
        life, times = self.lives[name], self.times.get(name, ContainerTimes())
        return ContainerState(
            pod_uid=self.spec.uid,
            name=name,
            cgroup=self.cgroups.get(name, ""),
            running=life.phase == "running",
            pid=self.pids.get(name) if life.phase == "running" else None,
            exit_code=life.exit_code,
            restarts=life.restarts,
            reason=life.reason,
            oom_killed=life.oom_killed,
            started_at=times.started,
            finished_at=times.finished,
            log=self.logs.get(name, ""),
            message=self.words.get(name, ""),
        )
