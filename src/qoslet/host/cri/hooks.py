"""The lifecycle hooks of one pod in a container runtime: commands by ExecSync, requests to the pod's
address. Each is a task of its own, given up with its container.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from qoslet.core.workload.hook_spec import TCP_SOCKET, Hook, HookKind
from qoslet.core.workload.hooks import hook_began, hook_ended, hook_wanted
from qoslet.core.workload.process_spec import ProcessSpec
from qoslet.errors import QosletError
from qoslet.host.containers.net_probe import ask
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.pod_record import CriPod
from qoslet.host.cri.probing import MAX_OUTPUT, ProbeContext, pod_address
from qoslet.host.linux.processes.limit import start_thread


async def _beside(question: Callable[[], tuple[bool, str]]) -> tuple[bool, str]:
    """Ask in a thread that holds up no end: a hook has no timeout."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[bool, str]] = loop.create_future()

    def answer(found: tuple[bool, str]) -> None:
        if not future.done():
            future.set_result(found)

    def run() -> None:
        found = question()
        # the loop ends with the agent, whatever a server keeps back
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(answer, found)

    start_thread(threading.Thread(target=run, name="hook", daemon=True))
    return await future


class CriHooks:
    """Hooks of a pod; ``wake`` is called where a container's life changed."""

    def __init__(self, around: ProbeContext, pod: CriPod, wake: Callable[[], None]) -> None:
        self._around, self._pod, self._wake = around, pod, wake
        self._tasks: dict[tuple[str, int, Hook], asyncio.Task[None]] = {}

    def begin(self, launch: ProcessSpec, kind: HookKind) -> None:
        """Run a hook of a container that runs."""
        pod, name = self._pod, launch.name
        # one that an edit removed meanwhile asks for nothing
        hook = launch.hook(kind) or Hook(kind, sleep=0.0)
        life = pod.lives[name]
        pod.lives[name] = hook_began(life, kind, self._around.clock())
        self._around.changed(pod)
        key = (name, life.starts, hook)
        task = self._tasks[key] = asyncio.ensure_future(self._make(name, life.starts, hook))
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    def look(self) -> None:
        """Give up those that nobody waits for any more."""
        for (name, number, hook), task in list(self._tasks.items()):
            if not hook_wanted(self._pod.lives[name], hook.kind, number):
                task.cancel()

    def close(self) -> None:
        """Let go; a command that runs ends with its container."""
        for task in list(self._tasks.values()):
            task.cancel()

    async def _make(self, name: str, number: int, hook: Hook) -> None:
        """One hook, and what comes of it."""
        pod = self._pod
        try:
            error = await self._run(name, hook)
        except (QosletError, OSError) as failure:
            error = str(failure)
        life = pod.lives[name]
        if hook_wanted(life, hook.kind, number):
            now = self._around.clock()
            pod.lives[name] = hook_ended(life, hook, error, now, pod.spec.grace)
            self._around.changed(pod)
            self._wake()

    async def _run(self, name: str, hook: Hook) -> str | None:
        """What is wrong with a hook that ended; None where nothing is. Raises QosletError."""
        if hook.sleep is not None:
            await asyncio.sleep(hook.sleep)
            return None
        if hook.command:
            return await self._exec(name, hook)
        if hook.http is None:
            return TCP_SOCKET
        own = await pod_address(self._around, self._pod)
        if not own:
            return "the pod has no address"
        good, text = await _beside(lambda: ask(hook, own))
        return None if good else text

    async def _exec(self, name: str, hook: Hook) -> str | None:
        """A command in the container. Raises QosletError."""
        id = self._pod.ids.get(name, "")
        request = pb.ExecSyncRequest(container_id=id, cmd=hook.command, timeout=0)
        calls = self._around.calls
        answer = await calls("ExecSync", request, pb.ExecSyncResponse, hook.timeout)
        if not answer.exit_code:
            return None
        data = (answer.stdout + answer.stderr)[:MAX_OUTPUT]
        text = " ".join(data.decode("utf-8", "replace").split())
        return ": ".join(filter(None, (f"exit code {answer.exit_code}", text)))
