"""What talks to a container runtime in a thread of its own: an event loop with a task for each pod, one
that looks at all of them, and one that hears what the runtime tells.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from msgspec import Struct

from qoslet.core.workload.container_spec import SeccompProfiles
from qoslet.core.workload.life import Backoff
from qoslet.core.workload.lifecycle import Ending
from qoslet.core.workload.process_spec import PodSpec
from qoslet.errors import CannotDo, QosletError
from qoslet.host.containers.log_files import LogLimits, make_room, put_aside, remove_tree
from qoslet.host.containers.records import RecordFolder
from qoslet.host.cri import requests
from qoslet.host.cri.calls import SLOW_SECONDS, Away, CallFailed, Calls, NoteLog, SilentRuntime
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.pod_record import CriPod, CriPodRecord
from qoslet.host.cri.pod_worker import PodRun
from qoslet.host.cri.runtime_info import network_refusal
from qoslet.host.cri.stopped_sandboxes import StoppedSandboxes, has_ended
from qoslet.host.linux.processes.limit import start_thread
from qoslet.host.linux.procfs import this_boot

POLL_SECONDS = 1.0
"""Between two looks at all containers of a runtime that tells no events, as a kubelet's."""
EVENTS_POLL_SECONDS = 10.0
"""The same where it tells them."""
CANCEL_AGAIN = 0.5
LEAVE_SECONDS = 10.0
"""How long an agent that ends waits for containers that are being started: a runtime whose caller goes
gives the start up, and the container has failed (containerd: context canceled)."""
SWITCH_SECONDS = 0.0005
"""How long one thread of the agent computes while another wants to; Python's own is 5 ms."""
_ENDS = (pb.CONTAINER_STOPPED_EVENT, pb.CONTAINER_DELETED_EVENT)

Charge = Callable[[str, int], None]
"""Puts a process beside the containers into the pod's group: the group's path and its number."""


class CriSettings(Struct, frozen=True):
    """Whose pods: the root is their label; ``folder`` keeps records, ``logs`` their output. A
    runtime that tells no events is looked at every ``poll_seconds``; one that does not answer within
    ``slow_seconds`` is told of."""

    root: str
    folder: str
    logs: str
    host_network: bool = False
    seccomp: SeccompProfiles = SeccompProfiles()
    backoff: Backoff = Backoff()
    limits: LogLimits = LogLimits()
    poll_seconds: float = POLL_SECONDS
    slow_seconds: float = SLOW_SECONDS


class CriEngine:
    """What runs in the thread: an event loop with a task for each pod. Methods beside ``begin``,
    ``load``, ``go``, ``call`` and ``end`` are called in it."""

    def __init__(
        self,
        endpoint: str,
        api: str,
        setting: CriSettings,
        told: Callable[[CriPod], None],
        note: NoteLog,
        charged: Charge,
    ) -> None:
        self.root, self.logs = setting.root, setting.logs
        self.host_network, self.seccomp = setting.host_network, setting.seccomp
        self.backoff = setting.backoff
        self._limits = setting.limits
        self._poll_seconds = setting.poll_seconds
        self.clock = time.monotonic
        self.note = note
        self._endpoint, self._api = endpoint, api
        self._told, self._charged = told, charged
        self._records = RecordFolder(setting.folder, this_boot(), CriPodRecord)
        self._runs: dict[str, PodRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.has_seen = False
        self._waiting: dict[str, CriPod] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="cri", daemon=True)
        self._unsaved: set[str] = set()
        self._followed: float | None = None
        self._ended = StoppedSandboxes(note, self.clock)
        self._silence = SilentRuntime(endpoint, note, setting.slow_seconds)

    def begin(self) -> None:
        """Begin the thread."""
        # what the loop computes meanwhile must not hold up an answer
        sys.setswitchinterval(SWITCH_SECONDS)
        start_thread(self._thread)
        self.call(self._open)

    def call(self, what: Callable[..., None], *words: object) -> None:
        """Do something in the thread."""
        self._loop.call_soon_threadsafe(what, *words)

    def load(self) -> list[CriPod]:
        """The pods of before."""
        records, bad = self._records.load()
        for line in bad:
            self.note(line)
        self._before = [CriPod.of(record) for record in records]
        return self._before

    def go(self) -> None:
        """Carry on with what was loaded, and look around."""
        self.call(self._take_up)

    def end(self) -> None:
        """Let go of everything; wait for the thread."""
        self.call(self._stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._closed())
        finally:
            self._loop.close()

    def _stop(self) -> None:
        for uid in list(self._unsaved):
            self._save(uid)
        self._loop.stop()

    async def _closed(self) -> None:
        starting = [self._tasks[uid] for uid, run in self._runs.items() if run.pod.is_starting]
        for run in self._runs.values():
            run.gone = True
            run.look()
        if starting:
            await asyncio.wait(starting, timeout=LEAVE_SECONDS)
        for run in self._runs.values():
            run.close()
        tasks = {one for one in asyncio.all_tasks() if one is not asyncio.current_task()}
        while tasks:
            # again: asyncio.wait_for of Python 3.11 may lose the first
            for task in tasks:
                task.cancel()
            _, tasks = await asyncio.wait(tasks, timeout=CANCEL_AGAIN)
        await self.calls.close()

    def _open(self) -> None:
        """The channel belongs to the loop that it is made in."""
        self.calls = Calls(self._endpoint, self._api)
        self._here = asyncio.Event()
        self._here.set()
        self._again = asyncio.Event()

    def _take_up(self) -> None:
        for pod in self._before:
            self._carry(PodRun(self, pod, stale=True))
        self._tasks[""] = self._loop.create_task(self._watch())

    def _carry(self, run: PodRun) -> None:
        uid = run.pod.spec.uid
        self._runs[uid] = run
        self._tasks[uid] = self._loop.create_task(run.run())

    def start(self, pod: CriPod) -> None:
        """Begin a pod; not before the runtime was asked whether it has it already. One that it has gets these
        values. Where it has it with other containers, these are ended: the loop begins anew what ended unasked."""
        uid = pod.spec.uid
        if not self.has_seen:
            self._waiting[uid] = pod
        elif uid in self._runs:
            run = self._runs[uid]
            self._told(run.pod)
            if run.pod.digest != pod.digest:
                self.note(
                    f"Pod {pod.spec.key}: the runtime has it with other containers; stopping them"
                )
                run.stop(pod.spec.grace)
            else:
                run.update(pod.spec)
        else:
            self._carry(PodRun(self, pod))

    def stop(self, uid: str, grace: float) -> None:
        """End a pod."""
        if (pod := self._waiting.pop(uid, None)) is not None:
            pod.ending, pod.cleared = Ending(self.clock(), grace), True
            self._told(pod)
        if uid in self._runs:
            self._runs[uid].stop(grace)

    def restart(self, uid: str, container: str) -> None:
        """Start a container anew."""
        if uid in self._runs:
            self._runs[uid].restart(container)

    def update(self, spec: PodSpec) -> None:
        """A pod's containers have other values."""
        if spec.uid in self._waiting:
            self._waiting[spec.uid].spec = spec
        if spec.uid in self._runs:
            self._runs[spec.uid].update(spec)

    def forget(self, uid: str) -> None:
        """Drop a pod, its record and its logs."""
        self._waiting.pop(uid, None)
        run = self._runs.pop(uid, None)
        if run is None:
            return
        run.gone = True
        run.look()
        self._tasks.pop(uid, None)
        self._unsaved.discard(uid)
        self._records.drop(uid)
        place = requests.log_path(self.logs, run.pod.spec, "c", 0)
        remove_tree(os.path.dirname(os.path.dirname(place)))

    def changed(self, pod: CriPod) -> None:
        """Save and tell it."""
        if pod.spec.uid in self._runs:
            self._save(pod.spec.uid)
            self._told(pod)

    def _save(self, uid: str) -> None:
        try:
            self._records.save(self._runs[uid].pod.record(self._records.boot))
            self._unsaved.discard(uid)
        except OSError as error:
            self._unsaved.add(uid)
            self.note(f"{self._records.folder}: cannot write records: {error.strerror}")

    def charge(self, pod: CriPod, pid: int) -> None:
        """A process beside a pod's containers."""
        self._charged(pod.parent, pid)

    def away(self, error: Away) -> None:
        """The runtime does not answer: look for it."""
        if self._here.is_set():
            self._silence.begin(str(error))
        self._here.clear()
        self._again.set()

    def _answering(self) -> None:
        """The runtime answers."""
        self._here.set()
        self._silence.end()

    async def answering(self) -> None:
        """Until the runtime answers."""
        await self._here.wait()

    async def network(self) -> str:
        """Why pods get no network; empty where they do."""
        return network_refusal(await self.calls("Status", pb.StatusRequest(), pb.StatusResponse))

    async def _watch(self) -> None:
        """Keep looking at all containers; more rarely while the runtime tells what happens."""
        events: asyncio.Task[None] | None = None
        while True:
            self._again.clear()
            try:
                await self._silence.watched(self._survey())
                self._begin_waiting()
                await self._begin_logs_anew()
                for uid in self._records.absent(self._runs):
                    self._save(uid)
                if not self._here.is_set():
                    self._answering()
                    for run in self._runs.values():
                        run.look()
                if events is None or events.done():
                    events = self._loop.create_task(self._follow())
            except Away as error:
                self.away(error)
                await asyncio.sleep(0.2)
                continue
            except (QosletError, OSError) as error:
                self.note(str(error))
            heard = self._followed is not None and self.clock() > self._followed
            pause = EVENTS_POLL_SECONDS if heard else self._poll_seconds
            with suppress(TimeoutError):
                await asyncio.wait_for(self._again.wait(), pause)

    async def _survey(self) -> None:
        """Look at every container and sandbox of ours; whose state differs is looked at."""
        selector = {requests.OLD_ROOT: self.root}
        # one that ends meanwhile may be in the answer
        known = set(self._runs)
        boxes = await self.calls(
            "ListPodSandbox",
            pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(label_selector=selector)),
            pb.ListPodSandboxResponse,
        )
        found = await self.calls(
            "ListContainers",
            pb.ListContainersRequest(filter=pb.ContainerFilter(label_selector=selector)),
            pb.ListContainersResponse,
        )
        ready = {one.id for one in boxes.items if one.state == pb.SANDBOX_READY}
        running = {one.id for one in found.containers if one.state == pb.CONTAINER_RUNNING}
        for run in self._runs.values():
            pod = run.pod
            alive = {
                pod.ids[n]
                for n, life in pod.lives.items()
                if life.phase == "running" and n in pod.ids
            }
            if (pod.sandbox and pod.sandbox not in ready) or not alive <= running:
                run.look()
        for box in boxes.items:
            if (
                box.labels.get(requests.OLD_ROOT) == self.root
                and box.labels.get(requests.UID) not in known
            ):
                await self._take_sandbox(box, found.containers)

    def _begin_waiting(self) -> None:
        """The runtime has told what it has: pods that it has not are begun."""
        self.has_seen = True
        waiting, self._waiting = self._waiting, {}
        for pod in waiting.values():
            self.start(pod)

    async def _begin_logs_anew(self) -> None:
        """Put logs aside that are large, as a kubelet does: the runtime begins them anew."""
        most = make_room(self.logs, self._limits)
        for run in list(self._runs.values()):
            pod = run.pod
            for name, path in list(pod.logs.items()):
                if pod.lives[name].phase != "running" or name not in pod.ids:
                    continue
                try:
                    if os.stat(path).st_size <= most:
                        continue
                    aside = put_aside(path, self._limits.files)
                except OSError as error:
                    self.note(f"{path}: cannot restart the log: {error.strerror}")
                    continue
                request = pb.ReopenContainerLogRequest(container_id=pod.ids[name])
                try:
                    await self.calls("ReopenContainerLog", request, pb.Empty)
                except CallFailed as error:
                    # it goes on writing into the old one; with its pod both are gone
                    with suppress(FileNotFoundError):
                        os.rename(aside, path)
                    self.note(str(error))

    async def _take_sandbox(self, box: pb.PodSandbox, containers: Iterable[pb.Container]) -> None:
        """A sandbox with our label that no pod of ours has is adopted as what it says; one that ended is
        removed, unless its pod is about to start. Raises ``Away``."""
        uid = box.labels.get(requests.UID, "")
        if uid in self._runs or not uid:
            return
        try:
            pod = requests.pod_of_sandbox(box)
        except CannotDo as error:
            self.note(str(error))
            return
        if uid not in self._waiting and has_ended(box, containers):
            await self._ended.remove(self.calls, box)
            return
        self.note(f"Pod {pod.spec.key}: found in the runtime without a record; adopting it")
        self._carry(PodRun(self, pod, stale=True))
        self.changed(pod)

    async def _follow(self) -> None:
        """Hear what happens, where the runtime tells it."""
        try:
            # what happens before the runtime has begun to tell is seen by looking
            self._followed = self.clock() + EVENTS_POLL_SECONDS
            async for event in self.calls.events():
                if event.container_event_type not in _ENDS:
                    continue
                for run in self._runs.values():
                    if event.container_id in (run.pod.sandbox, *run.pod.ids.values()):
                        run.look()
        except CallFailed as error:
            if error.code == "UNIMPLEMENTED":
                self._followed = None
                await asyncio.sleep(3600)
        except QosletError as error:
            self.note(str(error))
        finally:
            self._followed = None
