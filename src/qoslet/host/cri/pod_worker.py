"""One pod's life in a runtime: what ``core.workload.lifecycle`` finds due is done by ``Sandboxes``, what the
runtime says happened is written into the containers' lives.

A call whose answer never came may have been heard: after each such, the runtime is looked at before
anything else is done.
"""

from __future__ import annotations

import asyncio
import math
import re

from msgspec.structs import replace

from qoslet.core.workload.life import begun, postponed, restarted
from qoslet.core.workload.lifecycle import (
    actions,
    finished,
    next_due,
)
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.errors import QosletError
from qoslet.host.cri.calls import Away, CallFailed
from qoslet.host.cri.container_stops import KILL_AGAIN, ContainerStops
from qoslet.host.cri.hooks import CriHooks
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.pod_record import CriPod
from qoslet.host.cri.probing import CriProbes
from qoslet.host.cri.resource_changes import resources_change
from qoslet.host.cri.sandboxes import NotStartable
from qoslet.host.cri.shims import pid_and_group
from qoslet.host.cri.status_sync import StatusContext

_ID = re.compile("[0-9a-f]{64}")
"""Of a container or sandbox: each attempt has another."""


class PodRun(ContainerStops):
    """The life of one pod. ``gone``: nobody wants to know of it any more."""

    def __init__(self, around: StatusContext, pod: CriPod, *, stale: bool = False) -> None:
        super().__init__(around, pod, stale=stale)
        self.gone = False
        self._adopted = pod.sandbox if stale else ""
        self._worked = -math.inf
        self._probes = CriProbes(around, pod, self._wake.set, adopted=stale)
        self._hooks = CriHooks(around, pod, self._wake.set)

    def restart(self, name: str) -> None:
        """End one container and start it anew."""
        pod = self.pod
        if name in pod.lives:
            now = self._around.clock()
            pod.lives[name] = restarted(pod.lives[name], now, pod.spec.grace)
            self._wake.set()

    def update(self, spec: PodSpec) -> None:
        """These are its containers and resources from now on."""
        self.pod.spec = spec
        self._around.changed(self.pod)
        self._wake.set()

    async def run(self) -> None:
        """Carry it until it is gone. Nothing that a runtime does raises."""
        around = self._around
        while not self.gone:
            self._wake.clear()
            self._later = None
            try:
                if self.stale:
                    self.stale = False
                    await self._look()
                await self._work()
                self._delays.pop("", None)
            except Away as error:
                self.stale = self._unsure = True
                around.away(error)
                around.changed(self.pod)
                await around.answering()
                continue
            except (QosletError, OSError) as error:
                self.stale = True
                self._worked = around.clock()
                self._put_off("", str(error))
            around.changed(self.pod)
            self._probes.look()
            self._hooks.look()
            await self._wait()
        self.close()

    def close(self) -> None:
        """Let go; what runs stays."""
        for task in self._tasks:
            task.cancel()
        self._probes.close()
        self._hooks.close()
        self._box.close()

    async def _wait(self) -> None:
        """Until something happens or is due."""
        if self._wake.is_set():
            # not free in between: what held up this work holds up what was asked meanwhile
            await asyncio.sleep(0)
            return
        pod, now = self.pod, self._around.clock()
        # as of the work: what became due since was not done
        since = min(self._worked, now)
        due = None if pod.cleared else next_due(pod.spec, pod.lives, since, pod.ending)
        times = [since + due - now] if due is not None else []
        times += [self._later - now] if self._later is not None else []
        times += [at + KILL_AGAIN - now for at in self._stopping.values() if pod.alive]
        seconds = max(0.0, min(times)) if times else None
        try:
            await asyncio.wait_for(self._wake.wait(), seconds)
        except TimeoutError:
            pass
        self._free_at = self._around.clock()

    async def _work(self) -> None:
        """Do what is due until nothing is."""
        pod = self.pod
        self._worked = self._around.clock()
        if pod.cleared:
            return
        for _ in range(2 * len(pod.spec.launches) + 1):
            now = self._worked = self._around.clock()
            self._catch_up(now)
            due = [
                action
                for action in actions(pod.spec, pod.lives, now, pod.ending)
                if action.verb != "kill" or self._may_kill(action.name, now)
            ]
            for action in due:
                if self.gone:
                    return
                launch = pod.spec.launch(action.name)
                if action.verb == "start":
                    await self._start(launch)
                elif action.verb == "signal":
                    self._signal(launch)
                elif action.verb == "kill":
                    self._kill(launch)
                else:
                    self._hooks.begin(launch, action.verb)
            if not due:
                break
            self._around.changed(pod)
        await self._tend()
        await self._apply()
        if not pod.alive and (pod.ending is not None or finished(pod.spec, pod.lives)):
            await self._clear()

    async def _start(self, launch: ProcessSpec) -> None:
        """One start, or why it has to wait."""
        pod, name = self.pod, launch.name
        try:
            if not pod.sandbox and not (pod.spec.sandbox and pod.spec.sandbox.host_network):
                reason = "" if self._around.host_network else await self._around.network()
                if reason:
                    raise NotStartable(
                        "NetworkNotReady", f"{reason} (hostNetwork: true needs none)"
                    )
            await self._box.make()
            self._around.changed(pod)
            if pod.sandbox != self._tended:
                # before anything runs outside the pod's cgroup
                await self._tend()
                if not pod.sandbox:
                    return
            image = await self._box.image(launch)
            old = pod.ids.pop(name, "")
            if old:
                await self._remove_old(old)
            attempt = pod.lives[name].starts
            # an update may come while the runtime makes it
            messages = pod.spec.messages
            id = await self._box.create(launch, image, attempt)
        except NotStartable as error:
            self._refused(name, error)
            return
        pod.ids[name] = id
        pod.applied[name] = dict(messages.containers.get(name, {})) if messages else {}
        pod.lives[name] = begun(pod.lives[name], self._around.clock())
        self._around.changed(pod)
        if self.gone:
            # the next agent starts it: this one does not stay for the answer
            return
        await self._begin(name, id)
        if pod.lives[name].phase == "running":
            # who guards its memory needs its cgroup, and the next start may take seconds
            await self._find_process(name, id)

    def _refused(self, name: str, error: NotStartable) -> None:
        """A container has to wait."""
        pod = self.pod
        if error.reason in ("FailedCreatePodSandBox", "CreateContainerError"):
            # an earlier request, whose answer never came, was heard late, or something of before is left
            self.stale = self._unsure = True
        until = self._around.clock() + self._next_delay(name)
        life = postponed(pod.lives[name], error.reason, until)
        if life.phase == "ended":
            life = replace(life, reason=error.reason)
        pod.lives[name] = life
        told = _ID.sub("", pod.words.get(name, ""))
        pod.words[name] = error.message
        if told != _ID.sub("", error.message):
            self._around.note(f"{pod.spec.key}/{name}: {error.reason}: {error.message}")

    async def _tend(self) -> None:
        """Learn what processes the sandbox and its containers have."""
        pod = self.pod
        if pod.sandbox and pod.sandbox != self._tended:
            try:
                await self._box.tend()
            except NotStartable as error:
                if pod.sandbox != self._adopted:
                    await self._misplaced(error)
                    return
                # it was where it belongs when an earlier agent started it
                self._around.note(
                    f"{pod.spec.key}: another process moved its sandbox out of {pod.parent}: leaving it"
                )
            self._tended = pod.sandbox
        for name, id in pod.ids.items():
            if pod.lives[name].phase == "running" and not pod.pids.get(name):
                await self._find_process(name, id)

    async def _find_process(self, name: str, id: str) -> None:
        """Learn the first process of a container, and with it the cgroup."""
        pod = self.pod
        answer = await self._box.status(id, verbose=True)
        self._times(name, answer.status)
        pid, group = pid_and_group(answer.info, pod.parent)
        if pid is not None and answer.status.state == pb.CONTAINER_RUNNING:
            pod.pids[name] = pid
            pod.cgroups[name] = group or pod.cgroups.get(name, "")
            self._box.watch_over(pid)
        elif answer.status.state == pb.CONTAINER_EXITED:
            self._over(name, answer.status)
            self._wake.set()
        self._around.changed(pod)

    async def _misplaced(self, error: NotStartable) -> None:
        """The sandbox is not where it belongs: nothing may run in it."""
        pod = self.pod
        await self._box.drop(pod.sandbox)
        pod.sandbox = ""
        pod.ids.clear()
        pod.pids.clear()
        for launch in pod.spec.launches:
            life = pod.lives[launch.name]
            if life.alive:
                pod.lives[launch.name] = replace(life, phase="waiting", starts=life.starts - 1)
            self._refused(launch.name, error)

    async def _apply(self) -> None:
        """Give running containers the resources that are planned for them."""
        pod = self.pod
        if pod.spec.messages is None or pod.ending is not None:
            return
        for name, id in pod.ids.items():
            wanted = dict(pod.spec.messages.containers.get(name, {}))
            had = pod.applied.get(name, {})
            block = resources_change(had, wanted)
            if not block or pod.lives[name].phase != "running":
                continue
            try:
                await self._box.update(id, block)
            except Away:
                raise
            except CallFailed as error:
                if error.code == "NOT_FOUND":
                    self.stale = True
                    continue
                refusal = f"{name}: cannot update resources: {error.message}"
                pod.refusals[name] = refusal
                self._put_off(name, refusal)
                continue
            pod.applied[name] = wanted
            pod.refusals.pop(name, None)
            self._delays.pop(name, None)
            self._around.changed(pod)

    async def _clear(self) -> None:
        """Leave nothing of the pod in the runtime."""
        pod = self.pod
        await self._tend_monitors()
        for box in {one.id for one in await self._box.sandboxes()} | ({pod.sandbox} - {""}):
            await self._drop(box)
        await self._box.alone()
        if self._unsure:
            await self._box.sweep()
        pod.sandbox = ""
        pod.ids.clear()
        pod.pids.clear()
        pod.cleared = True

    async def _tend_monitors(self) -> None:
        """Know who watches over the sandbox before it goes, to wait for their end."""
        pod = self.pod
        if pod.sandbox and pod.sandbox != self._tended:
            try:
                await self._box.tend()
            except (NotStartable, CallFailed):
                return
