"""A pod's sandbox and containers in a runtime: made, looked at, ended. What is due is decided by
``pod_worker``; here is what that comes to in calls.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from qoslet.core.workload.container_spec import SeccompProfiles
from qoslet.core.workload.process_spec import ProcessSpec
from qoslet.errors import CannotDo
from qoslet.host.containers.log_files import make_private
from qoslet.host.containers.records import same_process
from qoslet.host.cri import requests
from qoslet.host.cri.calls import PULL_SECONDS, WORK_SECONDS, Away, CallFailed, Calls
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.pod_record import CriPod
from qoslet.host.cri.shims import (
    LostPod,
    end,
    group_of,
    leftovers,
    monitor_of,
    pid_of,
    strays,
    survivors,
    ticks,
)
from qoslet.host.cri.stopped_sandboxes import not_removed
from qoslet.host.cri.validation import identifier
from qoslet.host.linux.descriptors import ready

SHIM_SECONDS = 5.0
"""How long a runtime's own process may take to end after its sandbox was removed."""


class NotStartable(CannotDo):
    """A container cannot be begun as it is now: ``reason`` is a kubelet's word for it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RuntimeContext(Protocol):
    """What all pods of a runtime share."""

    calls: Calls
    root: str
    logs: str
    host_network: bool
    seccomp: SeccompProfiles

    def charge(self, pod: CriPod, pid: int) -> None:
        """A process beside the containers is to be charged to the pod."""

    def note(self, line: str) -> None:
        """Keep a line for the surface."""


class Sandboxes:
    """The calls about one pod, whose state is ``pod``."""

    def __init__(self, around: RuntimeContext, pod: CriPod) -> None:
        self._around = around
        self._calls = around.calls
        self._pod = pod
        self._monitors: dict[int, int] = {}
        self._had: set[str] = {pod.sandbox} - {""}
        self._next: dict[str, int] = {}
        self._since: int | None = None

    @property
    def _on_host(self) -> bool:
        """Whether the pod is on the host's network."""
        box = self._pod.spec.sandbox
        return self._around.host_network or (box is not None and box.host_network)

    async def make(self) -> None:
        """Make the sandbox where there is none. Raises ``CallFailed``, ``NotStartable``."""
        pod, around = self._pod, self._around
        if pod.sandbox:
            return
        if owner := await self._elsewhere():
            raise NotStartable(
                "FailedCreatePodSandBox",
                f"{owner} runs a pod of this name and UID in the same runtime: remove it there, or give this one another UID",
            )
        logs = os.path.dirname(os.path.dirname(requests.log_path(around.logs, pod.spec, "c", 0)))
        make_private(logs)
        config = requests.sandbox_config(
            pod.spec, pod.digest, around.root, logs, pod.attempt, self._on_host
        )
        handler = pod.spec.sandbox.handler if pod.spec.sandbox is not None else ""
        pod.attempt += 1
        begun = ticks()
        try:
            made = await self._calls(
                "RunPodSandbox",
                pb.RunPodSandboxRequest(config=config, runtime_handler=handler),
                pb.RunPodSandboxResponse,
                WORK_SECONDS,
            )
        except Away:
            self._since = begun if self._since is None else self._since
            raise
        except CallFailed as error:
            raise NotStartable("FailedCreatePodSandBox", error.message) from error
        pod.sandbox = identifier(made.pod_sandbox_id, "RunPodSandboxResponse.pod_sandbox_id")
        self._had.add(pod.sandbox)

    async def tend(self) -> None:
        """Find the sandbox's own processes: who watches is charged to the pod. Raises
        ``CallFailed``, and ``NotStartable`` where the sandbox is outside the pod's group."""
        pod = self._pod
        answer = await self._calls(
            "PodSandboxStatus",
            pb.PodSandboxStatusRequest(pod_sandbox_id=pod.sandbox, verbose=True),
            pb.PodSandboxStatusResponse,
        )
        pid = pid_of(answer.info)
        if pid is None:
            return
        if pod.parent and not group_of(pid, pod.parent):
            if not os.path.exists(f"/proc/{pid}"):
                return
            raise NotStartable(
                "CgroupDriverMismatch",
                f"the runtime created its sandbox outside {pod.parent}: does it use another cgroup driver?",
            )
        self.watch_over(pid)

    def watch_over(self, pid: int) -> None:
        """Whoever watches over this process of the pod is charged to the pod."""
        one = monitor_of(pid)
        if one is None or one.pid in self._monitors:
            return
        descriptor = same_process(one)
        if descriptor is not None:
            self._monitors[one.pid] = descriptor
            self._around.charge(self._pod, one.pid)

    async def image(self, launch: ProcessSpec) -> str:
        """What the runtime calls the image of a container; it is pulled as its policy says.
        Raises ``CallFailed``, ``NotStartable``."""
        asked = launch.contained
        assert asked is not None
        found = None if asked.pull == "Always" else await self._look_up(asked.image)
        if found is None:
            if asked.pull == "Never":
                raise NotStartable(
                    "ErrImageNeverPull",
                    f"{asked.image} is not present and imagePullPolicy is Never",
                )
            spec = pb.ImageSpec(image=asked.image)
            try:
                await self._calls(
                    "PullImage",
                    pb.PullImageRequest(image=spec),
                    pb.PullImageResponse,
                    PULL_SECONDS,
                    "ImageService",
                )
            except Away:
                raise
            except CallFailed as error:
                raise NotStartable("ErrImagePull", f"{asked.image}: {error.message}") from error
            found = await self._look_up(asked.image)
        if found is None:
            raise NotStartable("ErrImagePull", f"{asked.image}: pulled, but not present")
        if asked.non_root and asked.uid is None and _is_root(found):
            raise NotStartable(
                "CreateContainerConfigError",
                f"runAsNonRoot is set and {asked.image} would run as root",
            )
        return found.id or asked.image

    async def _look_up(self, name: str) -> pb.Image | None:
        """An image that is there."""
        answer = await self._calls(
            "ImageStatus",
            pb.ImageStatusRequest(image=pb.ImageSpec(image=name)),
            pb.ImageStatusResponse,
            service="ImageService",
        )
        return answer.image if answer.HasField("image") and answer.image.id else None

    async def create(self, launch: ProcessSpec, image: str, attempt: int) -> str:
        """Create a container; its id. The attempt is a later one where the runtime still has a container of
        that, as a kubelet counts on from what it is told: one that ``ctr containers rm`` removed is listed,
        and its name taken, until containerd is restarted. Raises ``CallFailed``, ``NotStartable``."""
        pod, around = self._pod, self._around
        attempt = max(attempt, self._next.get(launch.name, 0))
        log = requests.log_path(around.logs, pod.spec, launch.name, attempt)
        make_private(os.path.dirname(log))
        logs = os.path.dirname(os.path.dirname(log))
        box = requests.sandbox_config(
            pod.spec, pod.digest, around.root, logs, max(0, pod.attempt - 1), self._on_host
        )
        config = requests.container_config(
            pod.spec, launch, image, around.root, attempt, self._on_host, around.seccomp
        )
        request = pb.CreateContainerRequest(
            pod_sandbox_id=pod.sandbox, config=config, sandbox_config=box
        )
        try:
            made = await self._calls(
                "CreateContainer", request, pb.CreateContainerResponse, WORK_SECONDS
            )
        except Away:
            raise
        except CallFailed as error:
            raise NotStartable("CreateContainerError", error.message) from error
        pod.logs[launch.name] = log
        self._next[launch.name] = attempt + 1
        return identifier(made.container_id, "CreateContainerResponse.container_id")

    async def start(self, id: str) -> None:
        """Start a container. Raises ``CallFailed``."""
        request = pb.StartContainerRequest(container_id=id)
        await self._calls("StartContainer", request, pb.Empty, WORK_SECONDS)

    async def stop(self, id: str, seconds: int) -> None:
        """Ask a container to end, kill it after ``seconds``; it has ended then, or is gone.
        Raises ``CallFailed``."""
        request = pb.StopContainerRequest(container_id=id, timeout=seconds)
        await self._unless_gone(
            self._calls("StopContainer", request, pb.Empty, seconds + WORK_SECONDS)
        )

    async def remove(self, id: str) -> None:
        """Remove a container. Raises ``CallFailed``."""
        request = pb.RemoveContainerRequest(container_id=id)
        await self._unless_gone(self._calls("RemoveContainer", request, pb.Empty, WORK_SECONDS))

    async def update(self, id: str, block: Mapping[str, Any]) -> None:
        """Give a container these resources. Raises ``CallFailed``."""
        request = pb.UpdateContainerResourcesRequest(
            container_id=id, linux=requests.resources(block)
        )
        await self._calls("UpdateContainerResources", request, pb.Empty, WORK_SECONDS)

    async def status(self, id: str, *, verbose: bool = False) -> pb.ContainerStatusResponse:
        """How a container is. Raises ``CallFailed``."""
        request = pb.ContainerStatusRequest(container_id=id, verbose=verbose)
        return await self._calls("ContainerStatus", request, pb.ContainerStatusResponse)

    async def ready(self) -> bool:
        """Whether the sandbox is there and works. Raises ``CallFailed``."""
        request = pb.PodSandboxStatusRequest(pod_sandbox_id=self._pod.sandbox)
        try:
            answer = await self._calls("PodSandboxStatus", request, pb.PodSandboxStatusResponse)
        except CallFailed as error:
            if error.code == "NOT_FOUND":
                return False
            raise
        return answer.status.state == pb.SANDBOX_READY

    async def sandboxes(self) -> list[pb.PodSandbox]:
        """All sandboxes of the pod, the newest first. Raises ``CallFailed``."""
        selector = {requests.OLD_ROOT: self._around.root, requests.UID: self._pod.spec.uid}
        request = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(label_selector=selector))
        answer = await self._calls("ListPodSandbox", request, pb.ListPodSandboxResponse)
        # a runtime that does not know selectors gives all
        own = [one for one in answer.items if selector.items() <= dict(one.labels).items()]
        self._had.update(one.id for one in own)
        return sorted(own, key=lambda one: (one.metadata.attempt, one.created_at), reverse=True)

    async def _elsewhere(self) -> str:
        """Who else has a sandbox of this name and UID that works, for which a runtime has one name;
        empty where nobody has. Raises ``CallFailed``."""
        request = pb.ListPodSandboxRequest(
            filter=pb.PodSandboxFilter(label_selector={requests.UID: self._pod.spec.uid})
        )
        answer = await self._calls("ListPodSandbox", request, pb.ListPodSandboxResponse)
        for one in answer.items:
            key = f"{one.metadata.namespace}/{one.metadata.name}"
            same = (key, one.metadata.uid) == (self._pod.spec.key, self._pod.spec.uid)
            root = one.labels.get(requests.OLD_ROOT)
            if same and root != self._around.root and one.state == pb.SANDBOX_READY:
                return f"the agent of {root}" if root else "another client"
        return ""

    async def containers(self) -> list[pb.Container]:
        """The containers of the sandbox, the newest first. Raises ``CallFailed``."""
        wanted = pb.ContainerFilter(pod_sandbox_id=self._pod.sandbox)
        request = pb.ListContainersRequest(filter=wanted)
        answer = await self._calls("ListContainers", request, pb.ListContainersResponse)
        # each once: whoever removes all but the newest must not meet that one again
        own = {x.id: x for x in answer.containers if x.pod_sandbox_id == self._pod.sandbox}
        return sorted(own.values(), key=lambda one: one.metadata.attempt, reverse=True)

    async def drop(self, sandbox: str) -> None:
        """Stop and remove a sandbox with all in it; says what stays all the same. Raises ``CallFailed``."""
        stop = pb.StopPodSandboxRequest(pod_sandbox_id=sandbox)
        await self._unless_gone(self._calls("StopPodSandbox", stop, pb.Empty, WORK_SECONDS))
        remove = pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox)
        call = self._calls("RemovePodSandbox", remove, pb.Empty, WORK_SECONDS)
        if (gone := await self._unless_gone(call)) is None:
            return
        known = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox)
        look = self._calls("PodSandboxStatus", known, pb.PodSandboxStatusResponse)
        if await self._unless_gone(look) is None:
            # it was a container in it that the runtime did not find
            self._around.note(not_removed(self._pod.spec.key, sandbox, gone))

    async def _unless_gone(self, call: Any) -> CallFailed | None:
        """Wait for a call about what may be gone already; what it says of that."""
        try:
            await call
        except CallFailed as error:
            if error.code != "NOT_FOUND":
                raise
            return error
        return None

    async def sweep(self) -> None:
        """End what a runtime left behind that was killed, or whose client was, while it made or ended
        a sandbox or a container of the pod: no call names it. Raises ``CallFailed``."""
        pod = self._pod
        if not pod.parent:
            return
        known = {one.id for one in await self.sandboxes()}
        labels = {requests.OLD_ROOT: self._around.root, requests.UID: pod.spec.uid}
        request = pb.ListContainersRequest(filter=pb.ContainerFilter(label_selector=labels))
        answer = await self._calls("ListContainers", request, pb.ListContainersResponse)
        over = {one.id for one in answer.containers if one.state == pb.CONTAINER_EXITED}
        for one in answer.containers:
            own = labels.items() <= dict(one.labels).items()
            if own:
                name, number = one.metadata.name, one.metadata.attempt + 1
                self._next[name] = max(number, self._next.get(name, 0))
            if own and one.id in over and one.pod_sandbox_id not in known:
                # no sandbox goes with it, and the next container would have its name
                self._around.note(f"{pod.spec.key}: removing container {one.id}: it has no sandbox")
                await self.remove(one.id)
        known |= {one.id for one in answer.containers}
        mains, had = frozenset(pod.pids.values()), frozenset(self._had)
        socket = self._calls.endpoint.removeprefix("unix://")
        shims = strays(LostPod(pod.parent, frozenset(known), mains, had, self._since, socket))
        left = leftovers(pod.parent, known - over)
        for found, what in (
            (shims, "of the runtime has a sandbox that the runtime does not know"),
            (left, "is left of a container that the runtime gave up"),
        ):
            for process in found:
                end(process)
                self._around.note(f"{pod.spec.key}: process {process.pid} {what}; killing it")

    async def end_lost(self, ids: Collection[str]) -> None:
        """End what runs on of a sandbox and containers that the runtime knows no more, as after its
        state was removed: the pod's next containers would run beside it. Raises ``CallFailed``."""
        deadline = time.monotonic() + SHIM_SECONDS
        told: set[int] = set()
        while self._pod.parent and (left := survivors(self._pod.parent, ids)):
            for one in left:
                end(one)
            pids = {one.pid for one in left} - told
            told |= pids
            if pids:
                self._around.note(
                    f"{self._pod.spec.key}: processes {', '.join(map(str, sorted(pids)))} run in containers that the runtime does not know any more; killing them"
                )
            if time.monotonic() > deadline:
                raise CannotDo(
                    f"processes {', '.join(map(str, sorted(told)))} of lost containers do not end",
                    where=self._pod.parent,
                )
            await asyncio.sleep(0.02)
        await self.sweep()

    async def alone(self) -> None:
        """Wait until the runtime's own processes of the pod have ended, for a while."""
        deadline = time.monotonic() + SHIM_SECONDS
        for pid, descriptor in list(self._monitors.items()):
            while not ready(descriptor) and time.monotonic() < deadline:
                await asyncio.sleep(0.002)
            if not ready(descriptor):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                self._around.note(f"process {pid} of the runtime outlived its pod; killing it")
            os.close(descriptor)
            del self._monitors[pid]

    def close(self) -> None:
        """Let go of what is watched."""
        for descriptor in self._monitors.values():
            os.close(descriptor)
        self._monitors.clear()


def _is_root(image: pb.Image) -> bool:
    """Whether an image says that its containers run as root."""
    if image.HasField("uid"):
        return image.uid.value == 0
    return image.username in ("", "root")
