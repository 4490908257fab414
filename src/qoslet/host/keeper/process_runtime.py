"""The process runtime: a pod's containers as plain processes inside their control groups.

Single-threaded, and it waits for nothing: ``poll`` takes note of what happened, does what is due
and returns. The rules of a pod's life are ``core.workload.lifecycle``; here is only their effect.
"""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Callable, Mapping
from itertools import chain

from qoslet.core.notes import Notes
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.hooks import taken_over
from qoslet.core.workload.life import Backoff, began, begun, ended, failed_to_start, lost, restarted
from qoslet.core.workload.lifecycle import Ending, actions
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.errors import SHORTAGES, CannotDo, QosletError
from qoslet.host.containers.log_files import ContainerLogs
from qoslet.host.containers.records import ProcessRecords
from qoslet.host.containers.spawn import StartFailed, adopt_orphans
from qoslet.host.keeper.container_cgroups import ContainerCgroups, vacate
from qoslet.host.keeper.container_process import ContainerProcess, ExitWatch, adopt, fork, why
from qoslet.host.keeper.ending_scopes import PendingCgroup
from qoslet.host.keeper.hooks import KeeperHooks
from qoslet.host.keeper.oci_runtime import OciLifecycle, collect
from qoslet.host.keeper.pod import (
    ProcessPod,
    StartBudget,
    ask_to_end,
    check_pod,
    kill_container,
    why_not_ended,
)
from qoslet.host.keeper.probing import KeeperProbes
from qoslet.host.linux.openat import give_up_kept
from qoslet.host.oci.containers import OciContainers


class ProcessRuntime:
    """Starts and ends containers as processes of this host; matches ``agent.ports.Runtime``.

    ``notes`` gathers what could not be done on the way, each line once. With ``adopts`` this
    process becomes the parent of what containers leave behind, and collects every child that
    ends: it may have no others. ``take_up`` begins with the pods that ``records`` has.
    """

    def __init__(
        self,
        groups: ContainerCgroups,
        logs: ContainerLogs,
        records: ProcessRecords,
        *,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
        adopts: bool = False,
        bundled: OciContainers | None = None,
    ) -> None:
        self._groups = groups
        self._logs = logs
        self._records = records
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._adopts = adopts
        if adopts:
            adopt_orphans()
        self._pods: dict[str, ProcessPod] = {}
        self._watch = ExitWatch(logs.rate, clock)
        self._timers: list[tuple[float, str]] = []
        self._turn = StartBudget(clock)
        self._changed: dict[str, None] = {}
        self._unsaved: dict[str, None] = {}
        self._states: tuple[ContainerState, ...] | None = None
        self.notes = Notes()
        self.said = 0
        self._oci = OciLifecycle(bundled or OciContainers(""), groups, self._watch, self.note)
        self._probes = KeeperProbes(groups, self._oci.place, clock)
        self._hooks = KeeperHooks(groups, self._oci.place, clock)

    @property
    def kept(self) -> int:
        """How many pods there are."""
        return len(self._pods)

    def noted(self, heard: int) -> list[str]:
        """The notes after the first ``heard`` of the ``said`` ones, as far as they are kept."""
        new = self.said - heard
        return self.notes[-new:] if new else []

    def take_up(self) -> None:
        """Go on with the pods that another has kept before."""
        records, bad = self._records.load()
        for line in bad:
            self.note(line)
        for record in records:
            pod = ProcessPod(record.spec, record.digest, record.cgroups)
            pod.lives = {name: taken_over(life) for name, life in record.lives.items()}
            pod.times, pod.ending = dict(record.times), record.ending
            pod.created = record.created
            self._pods[record.spec.uid] = pod
            for name, path in pod.cgroups.items():
                life, proc = pod.lives[name], record.processes.get(name)
                log = self._logs.path(pod.spec.key, pod.spec.uid, name, max(0, life.starts - 1))
                pod.logs[name] = log if life.starts else ""
                # A first start without a record is made again; that of a runtime has left files.
                seen = self._groups.members(path) if life.starts else self._oci.was_begun(pod, name)
                if proc is None and not life.alive and not seen:
                    continue
                if not life.alive:
                    life = begun(life, self._clock())
                pod.lives[name] = life if life.phase == "running" else began(life, life.began_at)
                place = self._records.place(pod.spec.uid)
                one = adopt(proc, f"{place}/{name}", self._logs.file(log, self.note))
                if pod.spec.bundles is not None and (proc is None or life.phase == "starting"):
                    self._oci.rejoin(pod, name, one)
                    pod.lives[name] = life
                pod.running[name] = one
                self._watch.add(pod.spec.uid, name, one)
            self._probes.look(pod, adopted=True)
            self._tick(pod)

    def start(self, spec: PodSpec, cgroups: Mapping[str, str], digest: str | None = None) -> None:
        """Begin a pod in its groups, which exist; ``cgroups`` is by container name. ``digest`` is
        that of ``spec`` where the caller knows it.

        Raises ``CannotDo`` where it may not be run (``check_pod``).
        """
        if spec.uid in self._pods:
            return
        check_pod(spec, cgroups)
        pod = ProcessPod(spec, spec.digest() if digest is None else digest, cgroups)
        self._pods[spec.uid] = pod
        self._tick(pod)

    def poll(self) -> tuple[ContainerState, ...]:
        """Take note of ends and output, do what is due, save what changed; all containers' states."""
        for uid, name, what in self._watch.ready():
            self._tick(self._pods[uid], name if what == "ended" else "")
        now = self._clock()
        while self._timers and self._timers[0][0] <= now:
            when, uid = heapq.heappop(self._timers)
            due = self._pods.get(uid)
            if due is not None and due.wake == when:
                self._tick(due)
        asked = (*self._probes.poll(self._pods), *self._hooks.poll(self._pods))
        for pod in chain(asked, self._turn.waiting(self._pods)):
            self._tick(pod)
        if self._adopts:
            runs = (one for pod in self._pods.values() for one in pod.running.values())
            collect(runs, self._probes.pids | self._hooks.pids)
        self._save()
        if self._states is None:
            self._states = tuple(state for pod in self._pods.values() for state in pod.states())
        return self._states

    def list_pods(self) -> dict[str, RuntimePod]:
        """The pods that are kept, by UID."""
        return {uid: self.held_pod(uid) for uid in self._pods}

    def held_pod(self, uid: str) -> RuntimePod:
        """One that is kept. Raises KeyError."""
        return self._pods[uid].held()

    def states(self, uid: str) -> tuple[ContainerState, ...]:
        """The containers of one pod; none where it is not kept."""
        pod = self._pods.get(uid)
        return () if pod is None else pod.states()

    def changes(self) -> list[str]:
        """UIDs of the pods that are new, gone or different since the last call."""
        found, self._changed = [*self._changed], {}
        return found

    def stop(self, uid: str, grace_seconds: float) -> None:
        """Begin to end a pod; ``poll`` goes on with it: SIGTERM, then SIGKILL to the whole group after
        its grace period. A second call with a shorter one hurries."""
        pod = self._pods.get(uid)
        if pod is None:
            return
        now = self._clock()
        if pod.ending is None or now + grace_seconds < pod.ending.begun_at + pod.ending.grace:
            pod.ending = Ending(now, grace_seconds)
        self._tick(pod)

    def restart(self, uid: str, container: str) -> None:
        """Begin to end one container; it is started again at once, whatever its policy."""
        pod = self._pods.get(uid)
        if pod is not None and container in pod.lives:
            life = pod.lives[container]
            pod.lives[container] = restarted(life, self._clock(), pod.spec.grace)
            self._tick(pod)

    def update(self, spec: PodSpec) -> None:
        """Later starts use these launches. Raises ``CannotDo`` for other containers."""
        pod = self._pods.get(spec.uid)
        if pod is None:
            return
        if [one.name for one in spec.launches] != [one.name for one in pod.spec.launches]:
            raise CannotDo("the containers differ", where=f"Pod {pod.spec.key}")
        pod.spec = spec
        self._tick(pod)

    def remove_pod(self, uid: str) -> None:
        """Drop a pod and its logs. Raises ``CannotDo`` if a container is running."""
        pod = self._pods.get(uid)
        if pod is None:
            return
        if pod.running:
            raise CannotDo("containers are still running", where=f"Pod {pod.spec.key}")
        if pod.spec.bundles is not None:
            self._oci.forget(pod)
        del self._pods[uid]
        self._probes.forget(uid)
        self._touch(pod)
        self._unsaved.pop(uid, None)
        self._records.drop(uid)
        self._logs.drop(pod.spec.key, uid)

    def descriptors(self) -> list[int]:
        """Readable when a container ended or printed, or a probe or hook is done."""
        return [self._watch.descriptor, self._probes.descriptor, self._hooks.descriptor]

    def wait(self) -> float | None:
        """Seconds until ``poll`` has something to do without any event; None for never."""
        first = self._timers[0][0] if self._timers else None
        parts = (self._watch.resume(), self._probes.next_at(), self._hooks.next_at())
        times = [at for at in (first, *parts, self._turn.next_at()) if at is not None]
        return max(0.0, min(times) - self._clock()) if times else None

    def close(self) -> None:
        """Let go of everything; the processes stay."""
        self._save()
        for pod in self._pods.values():
            for one in pod.running.values():
                one.let_go()
        self._pods.clear()
        self._watch.close()
        self._probes.close()
        self._hooks.close()
        self._oci.close()

    def note(self, line: str) -> None:
        """Keep a line for the surface, once."""
        self.said += self.notes.keep(line)

    def _touch(self, pod: ProcessPod) -> None:
        """Something about a pod changed."""
        self._changed[pod.spec.uid] = self._unsaved[pod.spec.uid] = None
        self._states = None

    def _save(self) -> None:
        """Write the records of the pods that changed."""
        unsaved, self._unsaved = [*self._unsaved], {}
        for uid in unsaved:
            try:
                self._records.save(self._pods[uid].record(self._records.boot))
            except OSError as error:
                self._unsaved[uid] = None
                self.note(f"{self._records.folder}: cannot write records: {error.strerror}")

    def save_absent(self) -> int:
        """Write the records that somebody removed again, with the next ``poll``; how many."""
        gone = self._records.absent(self._pods.keys() - self._unsaved.keys())
        self._unsaved.update(dict.fromkeys(gone))
        return len(gone)

    def _tick(self, pod: ProcessPod, ended: str = "") -> None:
        """Go on with a pod, of which a main process has ``ended``. What this machine is short of is waited
        for: how a container ended is known to nobody else."""
        waits = False
        try:
            if ended:
                self._reap(pod, ended)
            self._go_on(pod)
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
            give_up_kept()
            self.note(f"{pod.spec.key}: waits: {error.strerror}")
            waits = True
        self._touch(pod)
        wake = pod.due_at(self._clock(), waits=waits)
        if wake is not None and wake != pod.wake:
            heapq.heappush(self._timers, (wake, pod.spec.uid))
        pod.wake = wake

    def _go_on(self, pod: ProcessPod) -> None:
        """Carry on what is under way, then do what is due until nothing is, further starts, too."""
        for name, one in list(pod.running.items()):
            self._carry_on(pod, name, one)
        for _ in range(2 * len(pod.spec.launches) + 1):
            due = False
            for action in actions(pod.spec, pod.lives, self._clock(), pod.ending):
                if not self._turn.allows(pod, action):
                    continue
                due = True
                if action.verb == "start":
                    self._start(pod, pod.spec.launch(action.name))
                elif action.verb == "signal":
                    asked = self._oci.stop_signal(pod, pod.spec.launch(action.name))
                    ask_to_end(pod, action.name, asked, self._clock())
                elif action.verb != "kill":
                    self._hooks.begin(pod, pod.spec.launch(action.name), action.verb)
                elif wrong := kill_container(pod, action.name, self._groups, self._clock()):
                    self.note(wrong)
            if not due:
                break
        self._probes.look(pod)

    def _start(self, pod: ProcessPod, launch: ProcessSpec) -> None:
        """One start begun, or its failure, recorded."""
        name, uid, key = launch.name, pod.spec.uid, pod.spec.key
        path, life, now = pod.cgroups[name], pod.lives[name], self._clock()
        log = self._logs.path(key, uid, name, life.starts)
        opened: list[int] = []
        try:
            if not life.starts:
                vacate(self._groups, path)
            plain = pod.spec.bundles is None
            pod.ending_scopes.check(self._groups, name, path, now)
            opened += self._groups.join_fds(path) if plain else []
            joins = len(opened)
            place = f"{self._records.place(uid)}/{name}"
            if not any(other.starts for other in pod.lives.values()):
                # the next keeper would end what nobody recorded
                self._records.save(pod.record(self._records.boot))
            one = ContainerProcess(place, self._logs.file(log, self.note))
            one.count_before(self._groups, path, new=not plain)
            opened += one.pipes.make((launch.identity.uid, launch.identity.gid))
            if plain:
                fork(launch, opened[:joins], opened[joins:], one)
            else:
                self._oci.begin(pod, launch, opened[joins:], one)
        except (StartFailed, PendingCgroup, OSError, QosletError, ValueError) as error:
            if isinstance(reason := why(error), str):
                pod.postpone(name, error, reason, now)
                self.note(f"{key}/{name}: {reason}")
            else:
                self._failed(pod, name, reason)
            return
        finally:
            for descriptor in opened:
                os.close(descriptor)
        pod.logs[name] = log
        pod.record_start(name)
        pod.running[name] = one
        pod.lives[name] = begun(life, now)
        self._watch.add(uid, name, one)

    def _failed(self, pod: ProcessPod, name: str, error: StartFailed) -> None:
        """No process came to be. Only a start that is tried again is noted: the state tells others."""
        life, now = pod.lives[name], self._clock()
        if error.temporary:
            pod.withdraw(name, error.reason, now)
            self.note(f"{pod.spec.key}/{name}: {error.reason}")
        else:
            pod.lives[name] = failed_to_start(life, error.code, error.reason, now, self._backoff)
            pod.record_end(name)

    def _carry_on(self, pod: ProcessPod, name: str, one: ContainerProcess) -> None:
        """Go on with a start that is under way, or a group that is not empty yet."""
        notes = one.settle(self._watch)
        if notes is not None:
            hooked = pod.spec.launch(name).hook("postStart") is not None
            pod.lives[name] = began(pod.lives[name], self._clock(), hooked=hooked)
            for line in notes:
                self.note(f"{pod.spec.key}/{name}: {line}")
        if not one.over or not one.empty(self._groups, pod.cgroups[name], self._clock()):
            if trouble := one.trouble or why_not_ended(pod, name, self._groups, self._clock):
                self.note(f"{pod.spec.key}/{name}: {trouble}")
            return
        one.see_oom(self._groups, pod.cgroups[name], pod.running.values())
        if pod.spec.bundles is not None and not self._oci.cleared(pod, name, one, self._clock()):
            return
        del pod.running[name]
        self._watch.drop(one)
        one.let_go(drain=True)
        if one.failed is not None:
            self._failed(pod, name, one.failed)
            return
        oom, life, now = one.oom_killed, pod.lives[name], self._clock()
        if oom:
            pod.ending_scopes.saw_oom_kill(self._groups, name, pod.cgroups[name], one.group, now)
        if one.code is None:
            pod.lives[name] = lost(life, oom, now, self._backoff)
        else:
            pod.lives[name] = ended(life, one.code, oom, now, self._backoff)
        pod.record_end(name)

    def _reap(self, pod: ProcessPod, name: str) -> None:
        """Collect a main process that ended. A runtime's scope ends soon, with its OOM kills."""
        one = pod.running.get(name)
        if one is not None and one.birth is None:
            one.collect(self._watch)
            if one.over and pod.spec.bundles is not None:
                one.see_oom(self._groups, pod.cgroups[name], pod.running.values())
