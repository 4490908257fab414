"""A runtime whose containers are values: what it is asked, and what comes of it as time passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import NEW, Backoff, Life, began, ended
from qoslet.core.workload.lifecycle import Ending, actions, finished, next_due
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import (
    PodSpec,
)
from qoslet.errors import CannotDo
from qoslet.sim.kernel import SimKernel
from tests.agent.fixtures import Clock

BACKOFF = Backoff(first=1.0, longest=4.0)
On = Callable[[str], None]
"""Told what is about to be changed; may raise what the kernel or the runtime would."""


class Kept(Struct):
    """A pod in the runtime."""

    spec: PodSpec
    cgroups: dict[str, str]
    digest: str
    lives: dict[str, Life]
    pids: dict[str, int] = {}
    ending: Ending | None = None

    def copy(self) -> Kept:
        return replace(self, lives=dict(self.lives), pids=dict(self.pids))


class Runtime:
    """Containers as processes of the simulated kernel, by the rules of ``core.podlife``.
    ``begins`` counts how often each pod was begun, ``lag`` seconds is how long ``slow``
    containers take to end; ``dead`` gathers the processes that may be forgotten."""

    lag = 0.3
    work = 0.2

    def __init__(self, kernel: SimKernel, clock: Clock, on: On) -> None:
        self.kernel = kernel
        self.clock = clock
        self.on = on
        self.kept: dict[str, Kept] = {}
        self.begins: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.asked: tuple[str, tuple[Any, ...]] = ("", ())
        self._told: dict[str, tuple[ContainerState, ...]] = {}

    def copy(self, kernel: SimKernel, clock: Clock, on: On) -> Runtime:
        """The same containers on the copy of a kernel."""
        other = Runtime(kernel, clock, on)
        other.kept = {uid: kept.copy() for uid, kept in self.kept.items()}
        other.begins = Counter(self.begins)
        other.asked = self.asked
        return other

    def _asked(self, verb: str, uid: str, *what: Any) -> None:
        """Something is asked for: what was asked last may be done later (``late``)."""
        self.asked = verb, what
        self.on(f"{verb} {uid}")

    def late(self, verb: str, what: tuple[Any, ...]) -> None:
        """Do what somebody has asked for who is not there any more."""
        try:
            getattr(self, verb)(*what)
        except CannotDo:
            return

    def start(self, spec: PodSpec, cgroups: Mapping[str, str]) -> None:
        self._asked("start", spec.uid, spec, cgroups)
        if spec.uid in self.kept:
            return
        lives = {one.name: NEW for one in spec.launches}
        self.kept[spec.uid] = Kept(spec, dict(cgroups), spec.digest(), lives)
        self.begins[spec.uid] += 1
        self._advance(self.kept[spec.uid])

    def stop(self, uid: str, grace_seconds: float) -> None:
        self._asked("stop", uid, uid, grace_seconds)
        kept = self.kept.get(uid)
        if kept is not None:
            kept.ending = kept.ending or Ending(self.clock.now, grace_seconds)
            self._advance(kept)

    def restart(self, uid: str, container: str) -> None:
        raise NotImplementedError

    def update(self, spec: PodSpec) -> None:
        self._asked("update", spec.uid, spec)
        kept = self.kept.get(spec.uid)
        if kept is not None:
            kept.spec = spec

    def remove_pod(self, uid: str) -> None:
        self._asked("remove_pod", uid, uid)
        kept = self.kept.get(uid)
        if kept is not None and kept.pids:
            raise CannotDo("containers are still running", where=uid)
        self.kept.pop(uid, None)

    def poll(self) -> list[ContainerState]:
        self.on("poll")
        for kept in self.kept.values():
            self._advance(kept)
        return [
            ContainerState(
                uid,
                name,
                kept.cgroups[name],
                name in kept.pids,
                pid=kept.pids.get(name),
                exit_code=life.exit_code,
                restarts=life.restarts,
                reason=life.reason,
            )
            for uid, kept in self.kept.items()
            for name, life in kept.lives.items()
        ]

    def moved(self) -> dict[str, tuple[ContainerState, ...]]:
        now: dict[str, tuple[ContainerState, ...]] = {}
        for state in self.poll():
            now[state.pod_uid] = (*now.get(state.pod_uid, ()), state)
        before, self._told = self._told, now
        return {uid: now.get(uid, ()) for uid in {*before, *now} if before.get(uid) != now.get(uid)}

    def list_pods(self) -> dict[str, RuntimePod]:
        self.on("list_pods")
        return {
            uid: RuntimePod(
                uid,
                kept.spec.key,
                kept.digest,
                kept.spec.grace,
                kept.cgroups,
                not kept.pids and (kept.ending is not None or finished(kept.spec, kept.lives)),
                kept.spec.memo,
                kept.ending is not None,
            )
            for uid, kept in self.kept.items()
        }

    def descriptors(self) -> Sequence[int]:
        return ()

    def due(self) -> float | None:
        """Seconds until something happens by itself."""
        times = [one - self.clock.now for kept in self.kept.values() for one in self._times(kept)]
        return min((one for one in times if one > 0), default=None)

    def _times(self, kept: Kept) -> Iterable[float]:
        now = self.clock.now
        for name in kept.pids:
            at = self._ends(kept, name)
            if at is not None:
                yield at
        due = next_due(kept.spec, kept.lives, now, kept.ending)
        if due is not None:
            yield now + due

    def _ends(self, kept: Kept, name: str) -> float | None:
        """When a container ends by itself, or because it was asked to."""
        life = kept.lives[name]
        argv = next(one.argv for one in kept.spec.launches if one.name == name)
        asked = life.signalled_at
        if asked is not None:
            return asked + (self.lag if argv[0] == "slow" else 0.0)
        return life.began_at + self.work if argv[0] == "true" else None

    def _advance(self, kept: Kept) -> None:
        """Let happen what is due."""
        for _ in range(20):
            now = self.clock.now
            for name, pid in list(kept.pids.items()):
                at, life = self._ends(kept, name), kept.lives[name]
                code = self.kernel.processes[pid].exit_code if pid in self.kernel.processes else 137
                if code is None and at is not None and at <= now:
                    code = 0 if life.signalled_at is None else 143
                    self.kernel.end(pid, code)
                if code is not None:
                    self._over(kept, name, code)
            due = actions(kept.spec, kept.lives, now, kept.ending)
            if not due:
                return
            for action in due:
                self._do(kept, action.verb, action.name)

    def _do(self, kept: Kept, verb: str, name: str) -> None:
        now, life = self.clock.now, kept.lives[name]
        match verb:
            case "start":
                kept.lives[name] = began(life, now)
                try:
                    kept.pids[name] = self.kernel.spawn(kept.cgroups[name])
                except OSError as error:
                    self.wrong.append(f"{kept.spec.uid}/{name}: {error}")
                    self._over(kept, name, 126)
            case "signal":
                kept.lives[name] = replace(life, signalled_at=now)
            case "kill":
                self.kernel.end(kept.pids[name], 137)
                self._over(kept, name, 137)

    def _over(self, kept: Kept, name: str, code: int) -> None:
        self.kernel.processes.pop(kept.pids.pop(name, 0), None)
        kept.lives[name] = ended(kept.lives[name], code, False, self.clock.now, BACKOFF)
