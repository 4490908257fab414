"""The lifecycle hooks of the pods that the process runtime keeps. Nothing here waits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from msgspec import Struct

from qoslet.core.workload.hook_spec import TCP_SOCKET, Hook, HookKind
from qoslet.core.workload.hooks import hook_began, hook_ended, hook_wanted
from qoslet.core.workload.process_spec import ProcessSpec
from qoslet.host.keeper.container_cgroups import ContainerCgroups
from qoslet.host.keeper.pod import ProcessPod
from qoslet.host.keeper.probe_process import ProbeProcess
from qoslet.host.keeper.probe_processes import Place, ProbeProcesses


class HookRun(Struct, frozen=True):
    """A hook of the run ``number`` of a container of pod ``uid``."""

    uid: str
    name: str
    number: int
    hook: Hook


class KeeperHooks:
    """Hooks of all pods."""

    def __init__(self, groups: ContainerCgroups, place: Place, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pool = ProbeProcesses[HookRun](groups, place, clock)
        self._sleeps: dict[HookRun, float] = {}
        self._failed: list[tuple[HookRun, str]] = []

    @property
    def descriptor(self) -> int:
        """Readable when a hook has news."""
        return self._pool.descriptor

    @property
    def pids(self) -> set[int]:
        """The children that are hooks."""
        return self._pool.pids

    def begin(self, pod: ProcessPod, launch: ProcessSpec, kind: HookKind) -> None:
        """Run a hook of a container that runs."""
        life, now = pod.lives[launch.name], self._clock()
        # one that an edit removed meanwhile asks for nothing
        hook = launch.hook(kind) or Hook(kind, sleep=0.0)
        run = HookRun(pod.spec.uid, launch.name, life.starts, hook)
        pod.lives[launch.name] = hook_began(life, kind, now)
        if hook.sleep is not None:
            self._sleeps[run] = now + hook.sleep
        elif not hook.command and hook.http is None:
            self._failed.append((run, TCP_SOCKET))
        else:
            wrong = self._pool.begin(pod, ProbeProcess(run.uid, launch, hook, math.inf), run)
            if wrong is not None:
                self._failed.append((run, wrong))

    def poll(self, pods: Mapping[str, ProcessPod]) -> list[ProcessPod]:
        """Take what hooks came to, and end those that nobody waits for any more. Returns the pods
        whose containers' lives changed."""
        changed: dict[str, ProcessPod] = {}
        for run, error in self._over():
            pod = pods.get(run.uid)
            if pod is not None and self._is_wanted(pods, run):
                life = pod.lives[run.name]
                pod.lives[run.name] = hook_ended(
                    life, run.hook, error, self._clock(), pod.spec.grace
                )
                changed[run.uid] = pod
        self._pool.end(lambda _, run: not self._is_wanted(pods, run))
        self._sleeps = {run: at for run, at in self._sleeps.items() if self._is_wanted(pods, run)}
        return list(changed.values())

    def _over(self) -> list[tuple[HookRun, str | None]]:
        """Those that have ended, each with what is wrong."""
        found: list[tuple[HookRun, str | None]] = [*self._failed]
        self._failed = []
        for one, run, result, text in self._pool.ended():
            code = f"exit code {one.code}" if run.hook.command and one.code else ""
            said = ": ".join(filter(None, (code, text)))
            found.append((run, None if result == "success" else said))
        now = self._clock()
        for run in [run for run, at in self._sleeps.items() if at <= now]:
            del self._sleeps[run]
            found.append((run, None))
        return found

    def _is_wanted(self, pods: Mapping[str, ProcessPod], run: HookRun) -> bool:
        pod = pods.get(run.uid)
        life = None if pod is None else pod.lives.get(run.name)
        return life is not None and hook_wanted(life, run.hook.kind, run.number)

    def next_at(self) -> float | None:
        """When there is something to do without any event."""
        if self._failed:
            return self._clock()
        return min(self._sleeps.values(), default=None)

    def close(self) -> None:
        """Let go; a command that runs ends with its container."""
        self._pool.close()
