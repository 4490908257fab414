"""How a pod's containers are asked to end, and killed where they do not: a container that a runtime was
to ask has its whole grace period from then on, however long the runtime took to hear of it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from qoslet.core.workload.life import Backoff, Life
from qoslet.core.workload.lifecycle import HOOK_GRACE, Ending, deadline_of
from qoslet.core.workload.process_spec import ProcessSpec
from qoslet.errors import QosletError
from qoslet.host.cri.calls import Away
from qoslet.host.cri.pod_record import CriPod
from qoslet.host.cri.status_sync import StatusContext, StatusSync

KILL_AGAIN = 10.0
"""Seconds until a container that was killed and does not end is killed again."""

HELD_SECONDS = 1.0
"""How long a runtime may hold up a pod's work before that time is left out of grace periods."""

STOPS_AT_ONCE = 8
"""Containers of a pod that are asked to end at a time: containerd's shim hangs for good where more of its
children end while it holds its lock than its queue of 32 takes, and each stop is two or three.
Source: containerd issues 13814 and 13849."""
TURN_SECONDS = 1.0
"""After which one that has not ended holds up the next one no longer."""

RETRY = Backoff(first=0.5, longest=60.0, reset_after=0.0)
"""Between attempts at what a runtime refused: a sandbox, an image, a container."""


class ContainerStops(StatusSync):
    """A pod's stops, beside everything else that is done for it."""

    def __init__(self, around: StatusContext, pod: CriPod, *, stale: bool = False) -> None:
        super().__init__(around, pod, stale=stale)
        self._asked: dict[str, object] = {}
        self._wake = asyncio.Event()
        self._free_at = around.clock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(STOPS_AT_ONCE)
        self._later: float | None = None
        if stale:
            self._grant_all_again()

    def look(self) -> None:
        """Something happened: look at the runtime."""
        self.stale = True
        self._wake.set()

    def stop(self, grace: float) -> None:
        """End it within ``grace`` seconds."""
        pod, now = self.pod, self._around.clock()
        if pod.ending is None or now + grace < pod.ending.begun_at + pod.ending.grace:
            pod.ending = Ending(now, grace)
            self._stopping.clear()
            self._asked.clear()
        self._later = None
        self._around.changed(pod)
        self._wake.set()

    def _catch_up(self, now: float) -> None:
        """Leave the time in which the runtime held up this pod out of grace periods: who could not be
        asked to end has not had it."""
        pod, held = self.pod, now - self._free_at
        self._free_at = now
        if held < HELD_SECONDS:
            return
        for name, life in pod.lives.items():
            if life.alive and life.signalled_at is None:
                pod.lives[name] = _later(life, held)
        if pod.ending is not None:
            begun_at = min(now, pod.ending.begun_at + held)
            pod.ending = Ending(begun_at, pod.ending.grace)

    def _put_off(self, name: str, message: str) -> None:
        """The pod as a whole has to wait."""
        self._later = self._around.clock() + self._next_delay(name)
        self._around.note(f"{self.pod.spec.key}: {message}")

    def _next_delay(self, name: str) -> float:
        """Seconds until what was refused is tried again, for a container or, without a name, for the pod:
        twice as many each time."""
        delay = self._delays.get(name, 0.0)
        self._delays[name] = delay = RETRY.after(delay)
        return delay

    def _signal(self, launch: ProcessSpec) -> None:
        """Ask a container to end; the runtime kills it at the end of its grace period."""
        pod, now = self.pod, self._around.clock()
        life = pod.lives[launch.name]
        deadline = deadline_of(life)
        until = now + pod.spec.grace if deadline is None else deadline
        if pod.ending is not None:
            until = max(now + 2.0, pod.ending.begun_at + pod.ending.grace)
        if life.pre_stop:
            until = max(until, now + HOOK_GRACE)
        pod.lives[launch.name] = replace(life, signalled_at=now)
        self._ask(launch.name, max(1, math.ceil(until - now)))

    def _may_kill(self, name: str, now: float) -> bool:
        """Whether a kill that is due is sent: not while the runtime has a request that kills at the end
        of the grace period. A runtime that hung gets to that request late, and counts from then."""
        return name not in self._asked and self._stopping.get(name, -math.inf) + KILL_AGAIN < now

    def _kill(self, launch: ProcessSpec) -> None:
        """End a container now."""
        self._stopping[launch.name] = self._around.clock()
        self._ask(launch.name, 0)

    def _ask(self, name: str, seconds: int) -> None:
        """Stop a container, beside everything else."""
        id = self.pod.ids.get(name)
        if id:
            request = object()
            if seconds:
                self._asked[name] = request
            self._beside(self._ended_by(name, id, seconds, request))
        else:
            self.look()

    async def _ended_by(self, name: str, id: str, seconds: int, request: object) -> None:
        """A stop carried through. Where no answer comes, nobody knows whether the container was asked to
        end: its grace period begins again, as in the next attempt of a kubelet."""
        heard = True
        try:
            async with self._turn():
                await self._box.stop(id, seconds)
        except Away as error:
            self._around.away(error)
            await self._around.answering()
            heard = False
        except QosletError as error:
            self._put_off("", str(error))
        if self._asked.get(name) is request:
            del self._asked[name]
            if not heard:
                self._grant_again(name)
        self.look()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for a turn to ask a container to end, and keep it until it has, or for a moment."""
        await self._turns.acquire()
        loop = asyncio.get_running_loop()
        late = loop.call_later(TURN_SECONDS, self._turns.release)
        try:
            yield
        finally:
            if loop.time() < late.when():
                late.cancel()
                self._turns.release()

    def _grant_again(self, name: str) -> None:
        """Let a container's grace period begin again."""
        pod, now = self.pod, self._around.clock()
        life = pod.lives[name]
        if not life.alive or life.signalled_at is None:
            return
        pod.lives[name] = replace(_later(life, now - life.signalled_at), signalled_at=None)
        if pod.ending is not None:
            pod.ending = Ending(now, pod.ending.grace)

    def _grant_all_again(self) -> None:
        """Let the grace periods begin again that an earlier agent began, as a restarted kubelet does:
        whether the runtime has heard of a stop without an answer, nobody knows."""
        pod, now = self.pod, self._around.clock()
        for name, life in pod.lives.items():
            self._grant_again(name)
            deadline = deadline_of(life)
            if life.alive and life.signalled_at is None and deadline is not None:
                late = now + pod.spec.grace - deadline
                pod.lives[name] = _later(life, max(0.0, late))
        if pod.ending is not None and pod.alive:
            pod.ending = Ending(now, pod.ending.grace)

    def _beside(self, what: Coroutine[Any, Any, None]) -> None:
        """Let something go on beside the rest."""
        task = asyncio.ensure_future(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _later(life: Life, seconds: float) -> Life:
    """A container that is to be ended, with so much more time."""
    return replace(
        life,
        again=None if life.again is None else life.again + seconds,
        end_by=None if life.end_by is None else life.end_by + seconds,
    )
