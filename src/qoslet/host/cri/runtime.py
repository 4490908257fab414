"""The CRI runtime as a port: a thread of its own talks to the runtime, so that no call here waits
for it. Matches ``agent.ports.Runtime``.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping, Sequence

from msgspec import Struct

from qoslet.core.api.schema import shown
from qoslet.core.notes import Notes
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec
from qoslet.errors import CannotDo, QosletError
from qoslet.host.cri.calls import CallFailed, Calls, answered
from qoslet.host.cri.engine import Charge, CriEngine, CriSettings
from qoslet.host.cri.pod_record import CriPod
from qoslet.host.cri.runtime_info import RuntimeFacts, facts_of
from qoslet.host.keeper.pod import check_pod

OPEN_SECONDS = 10.0
"""How long a runtime may take to answer at first."""


class _CriView(Struct):
    """A pod as it was told last."""

    pod: CriPod
    held: RuntimePod
    states: tuple[ContainerState, ...]


def read_facts(endpoint: str) -> RuntimeFacts:
    """What a runtime tells of itself. Raises ``CannotDo`` where nobody answers."""

    async def ask() -> RuntimeFacts:
        calls = Calls(endpoint)
        try:
            return await asyncio.wait_for(facts_of(calls), OPEN_SECONDS)
        finally:
            await calls.close()

    try:
        return answered(ask())
    except (CallFailed, TimeoutError) as error:
        why = error.message if isinstance(error, CallFailed) else "no answer in time"
        raise CannotDo(
            f"the container runtime does not answer: {why.removeprefix('no answer: ')}",
            where=endpoint,
            hint="start it, or give its socket: --container-runtime-endpoint unix:///run/...",
        ) from error


class CriRuntime:
    """Pods in the hands of a container runtime. ``notes`` gathers what could not be done on the
    way, each line once; ``charge`` is called by ``poll``."""

    def __init__(
        self, endpoint: str, facts: RuntimeFacts, setting: CriSettings, charge: Charge | None = None
    ) -> None:
        self.facts = facts
        self.notes = Notes()
        self._charge = charge
        self._charging: list[tuple[str, int]] = []
        self._lock = threading.Lock()
        self._views: dict[str, _CriView] = {}
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._states: tuple[ContainerState, ...] | None = None
        self._engine = CriEngine(
            endpoint, facts.api, setting, self._update_view, self._note, self._charged
        )
        self._engine.begin()
        for pod in self._engine.load():
            self._update_view(pod)
        self._engine.go()

    def start(self, spec: PodSpec, cgroups: Mapping[str, str]) -> None:
        """Begin a pod; its containers' groups are the runtime's business. A pod that is kept stays
        as it is. Raises ``CannotDo`` where it may not be run."""
        with self._lock:
            if spec.uid in self._views:
                return
        check_pod(spec, {one.name: "" for one in spec.launches})
        if spec.messages is None:
            raise CannotDo("no plan for its containers", where=f"Pod {spec.key}")
        pod = CriPod(spec, spec.digest())
        self._update_view(pod)
        self._engine.call(self._engine.start, pod)

    def poll(self) -> Sequence[ContainerState]:
        """The state of every container of every pod that is kept, as far as it is known."""
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            pass
        with self._lock:
            charging, self._charging = self._charging, []
            if self._states is None:
                self._states = tuple(one for view in self._views.values() for one in view.states)
            states = self._states
        for path, pid in charging:
            self._place(path, pid)
        return states

    def list_pods(self) -> Mapping[str, RuntimePod]:
        """The pods that are kept, by UID."""
        with self._lock:
            return {uid: view.held for uid, view in self._views.items()}

    def has_told(self) -> bool:
        """Whether the runtime has told which pods of the root it has: until then only those that have a
        record are kept."""
        return self._engine.has_seen

    def stop(self, uid: str, grace_seconds: float) -> None:
        """Begin to end a pod; ``poll`` tells how it goes."""
        self._engine.call(self._engine.stop, uid, grace_seconds)

    def restart(self, uid: str, container: str) -> None:
        """Begin to end one container; it is started again at once."""
        self._engine.call(self._engine.restart, uid, container)

    def update(self, spec: PodSpec) -> None:
        """Containers that run are given the resources of ``spec``, later starts use all of it. Until
        then ``poll`` says that they are not."""
        with self._lock:
            view = self._views.get(spec.uid)
        if view is not None:
            view.pod.wanted = spec.messages
            self._update_view(view.pod)
        self._engine.call(self._engine.update, spec)

    def remove_pod(self, uid: str) -> None:
        """Drop a pod and its logs; one that is not kept is no fault. Raises ``CannotDo`` if a
        container is running."""
        with self._lock:
            view = self._views.get(uid)
            if view is None:
                return
            if any(state.running for state in view.states):
                raise CannotDo("containers are still running", where=f"Pod {view.held.key}")
            view.pod.forgotten = True
            del self._views[uid]
            self._states = None
        self._engine.call(self._engine.forget, uid)

    def descriptors(self) -> Sequence[int]:
        """Readable when something happened."""
        return [self._event]

    def close(self, seconds: float = 0.0) -> None:
        """Let go; what runs stays."""
        self._engine.end()
        os.close(self._event)

    def _place(self, path: str, pid: int) -> None:
        """Charge a process to its pod."""
        if self._charge is None:
            return
        try:
            self._charge(path, pid)
        except (QosletError, OSError) as error:
            self._note(f"process {pid} of the runtime is not charged to {path}: {error}")

    def _update_view(self, pod: CriPod) -> None:
        """A pod is new or another than it was."""
        with self._lock:
            if pod.forgotten:
                return
            before = self._views.get(pod.spec.uid)
            held = pod.held()
            same = before is not None and before.held == held
            # states that are other values tell the loop to ask what is held
            known = {one.name: one for one in before.states} if before and same else {}
            view = _CriView(pod, held, pod.states(known))
            if view == before:
                return
            self._views[pod.spec.uid] = view
            self._states = None
        os.eventfd_write(self._event, 1)

    def _charged(self, path: str, pid: int) -> None:
        with self._lock:
            self._charging.append((path, pid))
        os.eventfd_write(self._event, 1)

    def _note(self, line: str, over: str = "") -> None:
        """Keep a line for the surface, once; ``over`` is not true any more. The loop wakes."""
        line, over = shown(line, 1000), shown(over, 1000)
        with self._lock:
            if over in self.notes:
                self.notes.remove(over)
            if not self.notes.keep(line):
                return
        os.eventfd_write(self._event, 1)
