"""What a runtime says of a pod, written into its containers' lives: after a call whose answer never
came, after an event, at the beginning of an agent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from qoslet.core.workload.life import (
    Backoff,
    Life,
    began,
    begun,
    ended,
    failed_to_start,
    lost,
    with_reason,
)
from qoslet.host.containers.records import ContainerTimes
from qoslet.host.cri import requests
from qoslet.host.cri.calls import Away, CallFailed
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.pod_record import CriPod
from qoslet.host.cri.sandboxes import RuntimeContext, Sandboxes
from qoslet.host.cri.shims import end_idle

START_CODE = 128
"""The exit code of a container whose process could not be started, as containerd gives it."""


class StatusContext(RuntimeContext, Protocol):
    """What ``PodRun`` needs beside the calls."""

    backoff: Backoff
    clock: Callable[[], float]

    def changed(self, pod: CriPod) -> None:
        """Something about a pod is to be saved and told."""

    async def answering(self) -> None:
        """Wait until the runtime answers."""

    def away(self, error: Away) -> None:
        """The runtime does not answer."""

    async def network(self) -> str:
        """Why there is no network for pods; empty where there is."""


class StatusSync:
    """A pod beside what its runtime has. ``stale``: the runtime is to be looked at."""

    def __init__(self, around: StatusContext, pod: CriPod, *, stale: bool = False) -> None:
        self.pod = pod
        self.stale = stale
        self._around = around
        self._box = Sandboxes(around, pod)
        self._stopping: dict[str, float] = {}
        self._asked: dict[str, object] = {}
        self._delays: dict[str, float] = {}
        self._tended = ""
        self._unsure = stale

    async def _begin(self, name: str, id: str) -> None:
        """Start what was created."""
        pod = self.pod
        try:
            await self._box.start(id)
        except Away:
            raise
        except CallFailed as error:
            if (await self._box.status(id)).status.state in (
                pb.CONTAINER_CREATED,
                pb.CONTAINER_RUNNING,
            ):
                # it has not ended: the call of an agent that was killed may start it yet
                raise
            now = self._around.clock()
            pod.lives[name] = failed_to_start(
                pod.lives[name], START_CODE, "StartError", now, self._around.backoff
            )
            pod.words[name] = error.message
            started = pod.times.get(name, ContainerTimes()).started
            pod.times[name] = ContainerTimes(started, time.time())
            return
        hooked = pod.spec.launch(name).hook("postStart") is not None
        pod.lives[name] = began(pod.lives[name], self._around.clock(), hooked=hooked)
        pod.words.pop(name, None)
        self._delays.pop(name, None)

    async def _look(self) -> None:
        """Compare what is known with what the runtime has."""
        pod = self.pod
        boxes = await self._box.sandboxes()
        if not pod.sandbox and not pod.cleared:
            whole = next((one for one in boxes if one.state == pb.SANDBOX_READY), None)
            pod.sandbox = whole.id if whole is not None else ""
        numbers = [one.metadata.attempt + 1 for one in boxes]
        pod.attempt = max([pod.attempt, *numbers])
        if self._unsure:
            await self._box.sweep()
        found: dict[str, list[pb.Container]] = {}
        if pod.sandbox:
            for one in await self._box.containers():
                found.setdefault(one.labels.get(requests.CONTAINER, ""), []).append(one)
            listed = {one.id for one in boxes}
            listed |= {one.id for some in found.values() for one in some}
            if lost_ids := {pod.sandbox, *pod.ids.values()} - listed:
                await self._box.end_lost(lost_ids)
        for name in pod.lives:
            await self._compare(name, found.get(name, []))
        for box in boxes:
            if box.id != pod.sandbox:
                await self._drop(box.id)
        if pod.sandbox and not any(
            one.id == pod.sandbox and one.state == pb.SANDBOX_READY for one in boxes
        ):
            await self._broken()
        self._around.changed(pod)

    async def _broken(self) -> None:
        """The sandbox ended: its containers end with it, and they get another one."""
        pod = self.pod
        if pod.ending is None:
            self._around.note(f"{pod.spec.key}: its sandbox exited; recreating it")
        gone = {pod.sandbox, *pod.ids.values()}
        for name, life in pod.lives.items():
            id = pod.ids.get(name)
            if life.alive and id:
                await self._box.stop(id, math.ceil(pod.spec.grace))
                await self._compare_one(name, id)
        # nobody else ends the processes of a shim that was killed
        await self._box.end_lost(gone)
        await self._drop(pod.sandbox)
        for name, life in pod.lives.items():
            if life.alive:
                # what a runtime says that runs on: with the sandbox it is gone
                self._unmade(name, life)
        pod.sandbox = self._tended = ""
        pod.ids.clear()
        pod.pids.clear()

    async def _drop(self, sandbox: str) -> None:
        """Stop and remove a sandbox. Raises ``CallFailed``."""
        try:
            await self._box.drop(sandbox)
        except CallFailed as error:
            pod = self.pod
            # containerd keeps a task of an ended container for as long as its shim lives
            refused = error.code == "FAILED_PRECONDITION" and pod.parent
            if refused and (shims := end_idle(sandbox, pod.parent)):
                self._around.note(f"{pod.spec.key}: killing the shim {shims[0]} of {sandbox}")
            raise

    async def _compare_one(self, name: str, id: str) -> None:
        """How a container ended that was just stopped."""
        try:
            status = (await self._box.status(id)).status
        except CallFailed as error:
            if error.code != "NOT_FOUND":
                raise
            self._lose(name)
            return
        if status.state == pb.CONTAINER_UNKNOWN:
            await self._recreate(name, id)
        elif self.pod.lives[name].phase == "starting" and not status.started_at:
            # who had asked for it was gone before it ran, and the runtime gave up
            self._around.note(
                f"{self.pod.spec.key}/{name}: the runtime gave up the start as its client was gone; starting it again"
            )
            self._unmade(name, self.pod.lives[name])
        else:
            self._over(name, status)

    async def _recreate(self, name: str, id: str) -> None:
        """The runtime does not know how a container is: it may run. As a kubelet's, it is removed and
        started again whatever the policy. Raises ``CallFailed``."""
        await self._box.remove(id)
        self._around.note(
            f"{self.pod.spec.key}/{name}: the runtime lost its state; recreating the container"
        )
        self._lose(name)
        self.pod.lives[name] = replace(self.pod.lives[name], again=self._around.clock())

    async def _compare(self, name: str, found: list[pb.Container]) -> None:
        """One container against those of its name, the newest first."""
        pod, now = self.pod, self._around.clock()
        life = pod.lives[name]
        newest = found[0] if found else None
        number = life.starts - 1
        if newest is not None and newest.state == pb.CONTAINER_CREATED:
            # whoever asked to start it may still be heard, and a second request is an error
            await self._box.remove(newest.id)
            found = found[1:]
            newest = found[0] if found else None
        elif (
            newest is not None
            and newest.metadata.attempt > number
            and newest.id != pod.ids.get(name)
            and not life.alive
        ):
            # begun by an agent that could not write it down
            life = replace(begun(life, now), starts=newest.metadata.attempt + 1)
            pod.lives[name] = life
        if newest is not None:
            pod.ids[name] = newest.id
            pod.logs[name] = requests.log_path(
                self._around.logs, pod.spec, name, newest.metadata.attempt
            )
        for old in found[1:]:
            await self._remove_old(old.id)
        if not life.alive:
            return
        if newest is None or newest.metadata.attempt < life.starts - 1:
            self._unmade(name, life)
        elif newest.state == pb.CONTAINER_RUNNING:
            pod.lives[name] = life if life.phase == "running" else began(life, now)
        else:
            await self._compare_one(name, newest.id)

    async def _remove_old(self, id: str) -> None:
        """Remove an ended container, so that another takes its place. One that the runtime keeps, as containerd
        does while it has a task of it, holds up nothing and goes with the sandbox. Raises ``Away``."""
        try:
            await self._box.remove(id)
        except Away:
            raise
        except CallFailed as error:
            self._around.note(f"{self.pod.spec.key}: {error}; it goes with its sandbox")

    def _unmade(self, name: str, life: Life) -> None:
        """A container that is thought to be alive is not there."""
        if life.phase == "starting":
            self.pod.lives[name] = replace(life, phase="waiting", starts=life.starts - 1)
        else:
            self._lose(name)

    def _lose(self, name: str) -> None:
        """It ended, and nobody knows how."""
        pod = self.pod
        pod.lives[name] = lost(pod.lives[name], False, self._around.clock(), self._around.backoff)
        pod.ids.pop(name, None)
        self._forget_process(name)

    def _over(self, name: str, status: pb.ContainerStatus) -> None:
        """A container has ended as the runtime says."""
        pod = self.pod
        if status.state != pb.CONTAINER_EXITED:
            return
        life, now = pod.lives[name], self._around.clock()
        oom = status.reason == "OOMKilled"
        pod.lives[name] = ended(life, status.exit_code & 0xFF, oom, now, self._around.backoff)
        if status.reason in ("StartError", "ContainerCannotRun"):
            pod.lives[name] = with_reason(pod.lives[name], status.reason)
        if status.message:
            pod.words[name] = " ".join(status.message.split())[:500]
        self._times(name, status)
        self._forget_process(name)

    def _forget_process(self, name: str) -> None:
        """It has no process any more."""
        pod = self.pod
        pod.pids.pop(name, None)
        self._stopping.pop(name, None)
        self._asked.pop(name, None)

    def _times(self, name: str, status: pb.ContainerStatus) -> None:
        """When it was started and ended last."""
        old = self.pod.times.get(name, ContainerTimes())
        self.pod.times[name] = ContainerTimes(
            status.started_at / 1e9 if status.started_at else old.started,
            status.finished_at / 1e9 if status.finished_at else old.finished,
        )
