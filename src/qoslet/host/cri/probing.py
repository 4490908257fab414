"""The probes of one pod in a container runtime: commands by ExecSync, questions over the network to
the pod's address, as a kubelet makes them. Each is a task of its own, which delays nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Protocol

from qoslet.core.workload.probe_spec import Probe
from qoslet.core.workload.probes.pod import DueProbe, PodProbes
from qoslet.core.workload.probes.worker import Result
from qoslet.errors import QosletError
from qoslet.host.containers.net_probe import LOOPBACK, ask, timed_out
from qoslet.host.cri.calls import WORK_SECONDS, CallFailed, Calls
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.pod_record import CriPod

SPARE_SECONDS = WORK_SECONDS
"""How much longer than its probe's timeout a runtime may take to answer: it is the one to end it. One
that hangs is not taken for a command that does. Source: kubelet cri-client remote_runtime.go ExecSync."""

MAX_OUTPUT = 10 * 1024


class ProbeContext(Protocol):
    """What probes need of the engine."""

    calls: Calls
    host_network: bool
    clock: Callable[[], float]

    def changed(self, pod: CriPod) -> None:
        """Something about a pod is to be saved and told."""


class CriProbes:
    """Probes of a pod; ``wake`` is called where a container's life changed. ``adopted``: an agent
    before had the pod, and many others."""

    def __init__(
        self, around: ProbeContext, pod: CriPod, wake: Callable[[], None], *, adopted: bool
    ) -> None:
        self._around, self._pod, self._wake = around, pod, wake
        spread = (lambda period: random.random() * period) if adopted else None
        self._probes = PodProbes(spread)
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """Begin what is due, and look again when more is."""
        pod = self._pod
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if pod.cleared or not any(launch.probes for launch in pod.spec.launches):
            return
        for due in self._probes.due(pod.spec, pod.lives, pod.ending, self._around.clock()):
            task = asyncio.ensure_future(self._make(due))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        at = self._probes.next_at(pod.spec, pod.lives)
        if at is not None:
            seconds = max(0.0, at - self._around.clock())
            self._timer = asyncio.get_running_loop().call_later(seconds, self.look)

    def close(self) -> None:
        """Let go; a command that runs is the runtime's to end."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    async def _make(self, due: DueProbe) -> None:
        """One probe, and what comes of it."""
        pod, name = self._pod, due.launch.name
        try:
            result, text = await (self._exec(due) if due.probe.command else self._ask(due.probe))
        except (QosletError, OSError) as error:
            result, text = "unknown", str(error)
        before = pod.lives[name]
        after = self._probes.took(pod.spec, before, due, result, text, self._around.clock())
        if after != before:
            pod.lives[name] = after
            self._around.changed(pod)
            self._wake()
        self.look()

    async def _exec(self, due: DueProbe) -> tuple[Result, str]:
        """A command in the container. Raises QosletError."""
        probe = due.probe
        request = pb.ExecSyncRequest(
            container_id=self._pod.ids.get(due.launch.name, ""),
            cmd=probe.command,
            timeout=int(probe.timeout),
        )
        calls = self._around.calls
        try:
            answer = await calls(
                "ExecSync", request, pb.ExecSyncResponse, probe.timeout + SPARE_SECONDS
            )
        except CallFailed as error:
            if error.code != "DEADLINE_EXCEEDED":
                raise
            # of the runtime, which then answers, or because nothing came from it
            await calls("Version", pb.VersionRequest(), pb.VersionResponse)
            return "failure", timed_out(probe)
        data = (answer.stdout + answer.stderr)[:MAX_OUTPUT]
        text = " ".join(data.decode("utf-8", "replace").split())
        if not answer.exit_code:
            return "success", text
        return "failure", text or f"exit code {answer.exit_code}"

    async def _ask(self, probe: Probe) -> tuple[Result, str]:
        """A question over the network. Raises QosletError."""
        own = await pod_address(self._around, self._pod)
        if not own:
            return "unknown", "the pod has no address"
        try:
            good, text = await asyncio.wait_for(
                asyncio.to_thread(ask, probe, own), probe.timeout + 0.2
            )
        except TimeoutError:
            return "failure", timed_out(probe, own)
        return ("success" if good else "failure"), text


async def pod_address(around: ProbeContext, pod: CriPod) -> str:
    """A pod's address; that of this host's loopback where it has the host's network. Raises
    QosletError."""
    box = pod.spec.sandbox
    if around.host_network or (box is not None and box.host_network):
        return LOOPBACK
    request = pb.PodSandboxStatusRequest(pod_sandbox_id=pod.sandbox)
    answer = await around.calls("PodSandboxStatus", request, pb.PodSandboxStatusResponse)
    return answer.status.network.ip
