"""A pod that a runtime of ours keeps, as the loop sees it and as it goes to disk."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import NEW, Life
from qoslet.core.workload.lifecycle import Ending, backoff_seconds, in_post_start
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.probes.verdict import is_ready, probe_kill_text
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.host.containers.records import FORMAT, ContainerTimes


class KeptPod:
    """Containers' lives and times by name. Of ``cgroups`` those count that were given or found.
    ``created`` is when it was started first, in wall-clock seconds; 0: not known."""

    def __init__(self, spec: PodSpec, digest: str, cgroups: Mapping[str, str]) -> None:
        self.spec = spec
        self.digest = digest
        self.cgroups = dict(cgroups)
        self.lives: dict[str, Life] = {launch.name: NEW for launch in spec.launches}
        self.times: dict[str, ContainerTimes] = {}
        self.logs: dict[str, str] = {}
        self.ending: Ending | None = None
        self.created = time.time()

    @property
    def over(self) -> bool:
        """Whether no container runs, and none will run again."""
        raise NotImplementedError

    def running_pod(self, cgroups: dict[str, str], *parents: str) -> RuntimePod:
        """The pod as the loop wants it. ``cgroups`` are those that the loop makes for its
        containers, ``parents`` those of the pod that a runtime makes them in."""
        return RuntimePod(
            self.spec.uid,
            self.spec.key,
            self.digest,
            self.spec.grace,
            cgroups,
            self.over,
            self.spec.memo,
            self.ending is not None,
            parents,
            self.spec.manifest,
            self.spec.roles,
            self.created,
        )

    def container_state(
        self, launch: ProcessSpec, pid: int | None, *, running: bool, message: str = ""
    ) -> ContainerState:
        """One container as the loop wants it."""
        name = launch.name
        life, times = self.lives[name], self.times.get(name, ContainerTimes())
        return ContainerState(
            pod_uid=self.spec.uid,
            name=name,
            cgroup=self.cgroups.get(name, ""),
            running=running,
            pid=pid,
            exit_code=life.exit_code,
            restarts=life.restarts,
            reason=life.reason,
            oom_killed=life.oom_killed,
            started_at=times.started,
            finished_at=times.finished,
            log=self.logs.get(name, ""),
            message=message,
            backoff=0.0 if self.ending else backoff_seconds(launch, life),
            starting=in_post_start(life),
            ready=is_ready(launch, life) if launch.probes else None,
            unhealthy=tuple(life.unhealthy.values()),
            failed_hooks=tuple(life.failed_hooks.items()),
            probe_kills=life.probe_kills,
            killing=probe_kill_text(launch, life),
            probe_ended=life.after_probe,
            end_reason=life.end_reason,
        )

    def record_fields(self, boot: str) -> dict[str, Any]:
        """What every record of a pod has."""
        return {
            "format": FORMAT,
            "boot": boot,
            "spec": self.spec,
            "digest": self.digest,
            "lives": dict(self.lives),
            "times": dict(self.times),
            "ending": self.ending,
            "created": self.created,
        }
