"""The process runtime: a pod's containers as plain processes inside their control groups.

Single-threaded: ``poll`` reaps, restarts, signals and kills what is due, and returns. The rules
of a pod's life are ``core.podlife``; here is only their effect on this machine.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.pod import Pod
from qoslet.core.podlife import (
    NEW,
    Backoff,
    ContainerState,
    Ending,
    Life,
    actions,
    began,
    ended,
    failed_to_start,
)
from qoslet.core.podspec import Launch, PodSpec
from qoslet.errors import CannotDo, QosletError
from qoslet.host.runtimes.groups import Groups, end_group
from qoslet.host.runtimes.logs import Logs
from qoslet.host.runtimes.spawn import (
    NOT_EXECUTABLE,
    Spawned,
    StartFailed,
    adopt_orphans,
    reap_orphans,
    spawn,
)

TRIM_SECONDS = 1.0
"""How often logs are kept within bounds."""


class _Process(Struct):
    """A running main process and what the group's OOM counter said before it."""

    spawned: Spawned
    oom_before: int


class _Running(Struct):
    """A pod that was begun."""

    spec: PodSpec
    cgroups: Mapping[str, str]
    lives: dict[str, Life]
    processes: dict[str, _Process]
    ending: Ending | None = None


class ProcessRuntime:
    """Starts and ends containers as processes of this host; matches ``agent.ports.Runtime``.

    ``spec_of`` gives the processes of a pod by UID. ``notes`` gathers what could not be done
    on the way, each line once. With ``adopts`` this process becomes the parent of what
    containers leave behind, and collects every child that ends: it may have no others.
    """

    def __init__(
        self,
        groups: Groups,
        spec_of: Callable[[str], PodSpec],
        logs: Logs,
        *,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
        adopts: bool = False,
    ) -> None:
        self._groups = groups
        self._spec_of = spec_of
        self._logs = logs
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._adopts = adopts
        if adopts:
            adopt_orphans()
        self._pods: dict[str, _Running] = {}
        self._trimmed = clock()
        self.notes: list[str] = []

    def start(self, pod: Pod, cgroups: dict[str, str]) -> None:
        """Begin ``pod`` in its groups, which exist; ``cgroups`` is by container name.

        Raises ``CannotDo`` where the pod may not be run (``PodSpec.runnable``).
        """
        if pod.uid in self._pods:
            return
        spec = self._spec_of(pod.uid)
        if not spec.runnable:
            raise CannotDo("this pod is not run", where=f"Pod {pod.key}")
        lives = {launch.name: NEW for launch in spec.launches}
        self._pods[pod.uid] = _Running(spec, cgroups, lives, {})
        self._advance(self._pods[pod.uid])

    def poll(self) -> list[ContainerState]:
        """Reap what ended, do what is due, and tell the state of every container."""
        for running in self._pods.values():
            self._reap(running)
            self._advance(running)
        if self._adopts:
            reap_orphans({p.spawned.pid for p in self._processes()})
        if self._clock() >= self._trimmed + TRIM_SECONDS:
            self._trimmed = self._clock()
            self._logs.trim()
        return [state for running in self._pods.values() for state in _states(running)]

    def stop(self, pod_uid: str, grace_seconds: float) -> None:
        """Begin to end a pod; ``poll`` goes on with it: SIGTERM, then SIGKILL to the whole
        group after the grace period. It is over when no container is running. Stopping again
        with a shorter grace period hurries."""
        running = self._pods.get(pod_uid)
        if running is None:
            return
        now = self._clock()
        if running.ending is None:
            running.ending = Ending(now, grace_seconds)
        else:
            left = running.ending.begun_at + running.ending.grace - now
            if grace_seconds < left:
                running.ending = Ending(now, grace_seconds)
        self._advance(running)

    def forget(self, pod_uid: str) -> None:
        """Drop a pod whose containers have all ended. Raises ``CannotDo`` if one is running."""
        running = self._pods.get(pod_uid)
        if running is None:
            return
        if running.processes:
            raise CannotDo("containers are still running", where=f"Pod {running.spec.key}")
        del self._pods[pod_uid]

    def descriptors(self) -> list[int]:
        """pidfds of all running containers: readable when one ended."""
        return [process.spawned.pidfd for process in self._processes()]

    def _processes(self) -> list[_Process]:
        """The main processes that run."""
        return [one for run in self._pods.values() for one in run.processes.values()]

    def _advance(self, running: _Running) -> None:
        """Do what is due until nothing is; starts may make further starts due."""
        for _ in range(2 * len(running.spec.launches) + 1):
            due = actions(running.spec, running.lives, self._clock(), running.ending)
            if not due:
                return
            for action in due:
                launch = next(one for one in running.spec.launches if one.name == action.name)
                if action.verb == "start":
                    self._start(running, launch)
                elif action.verb == "signal":
                    self._signal(running, launch)
                else:
                    self._kill(running, launch)

    def _start(self, running: _Running, launch: Launch) -> None:
        """One start, or its failure, recorded."""
        life = running.lives[launch.name]
        path = running.cgroups[launch.name]
        now = self._clock()
        try:
            before = self._groups.oom_kills(path) or 0
            spawned = self._spawn(running.spec, launch, path)
        except StartFailed as error:
            end_group(self._groups, path)
            running.lives[launch.name] = failed_to_start(
                life, error.code, error.reason, now, self._backoff
            )
            self._note(f"{running.spec.key}/{launch.name}: {error.reason}")
            return
        for note in spawned.notes:
            self._note(f"{running.spec.key}/{launch.name}: {note}")
        running.processes[launch.name] = _Process(spawned, before)
        running.lives[launch.name] = began(life, now)

    def _spawn(self, spec: PodSpec, launch: Launch, path: str) -> Spawned:
        """Open what the child needs, start it, close it again."""
        opened: list[int] = []
        try:
            opened += self._groups.join_fds(path)
            output = self._logs.open(spec, launch.name)
            opened.append(output)
            return spawn(launch, opened[:-1], output)
        except OSError as error:
            raise StartFailed(NOT_EXECUTABLE, f"{error.strerror}: {error.filename}") from error
        except QosletError as error:
            raise StartFailed(NOT_EXECUTABLE, str(error)) from error
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _note(self, line: str) -> None:
        """Keep a line for the surface, once."""
        if line not in self.notes:
            self.notes.append(line)

    def _reap(self, running: _Running) -> None:
        """Collect main processes that ended; the rest of their group ends with them."""
        for name, process in list(running.processes.items()):
            code = _exit_code(process.spawned.pidfd)
            if code is None:
                continue
            path = running.cgroups[name]
            gone = end_group(self._groups, path)
            if not gone:
                self._note(f"{running.spec.key}/{name}: processes are left in {path}")
            os.close(process.spawned.pidfd)
            del running.processes[name]
            oom = (self._groups.oom_kills(path) or 0) > process.oom_before
            running.lives[name] = ended(
                running.lives[name], code, oom, self._clock(), self._backoff
            )

    def _signal(self, running: _Running, launch: Launch) -> None:
        """Ask the main process to end."""
        process = running.processes.get(launch.name)
        number = getattr(signal, launch.stop_signal, signal.SIGTERM)
        if process is not None:
            _send(process.spawned.pidfd, number)
        life = running.lives[launch.name]
        running.lives[launch.name] = replace(life, signalled_at=self._clock())

    def _kill(self, running: _Running, launch: Launch) -> None:
        """End the whole group and collect its main process."""
        path = running.cgroups[launch.name]
        process = running.processes.get(launch.name)
        if process is not None:
            _send(process.spawned.pidfd, signal.SIGKILL)
        end_group(self._groups, path)
        self._reap(running)


def _send(pidfd: int, number: int) -> None:
    """A signal through a pidfd; one that ended already is no fault."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return


def _exit_code(pidfd: int) -> int | None:
    """The exit code of a child that ended (128 + signal if killed), None while it runs."""
    result = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    if result is None:
        return None
    if result.si_code == os.CLD_EXITED:
        return result.si_status
    return 128 + result.si_status


def _states(running: _Running) -> list[ContainerState]:
    """The containers of a pod as the loop wants them."""
    states = []
    for launch in running.spec.launches:
        life = running.lives[launch.name]
        process = running.processes.get(launch.name)
        states.append(
            ContainerState(
                pod_uid=running.spec.uid,
                name=launch.name,
                cgroup=running.cgroups[launch.name],
                running=process is not None,
                pid=process.spawned.pid if process else None,
                exit_code=life.exit_code,
                restarts=life.restarts,
                reason=life.reason,
                oom_killed=life.oom_killed,
            )
        )
    return states
