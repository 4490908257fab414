"""The agent's side of the keeper; matches ``agent.ports.Runtime``.

No call waits for the keeper but the first ``list_pods``: requests are put on their way, starts with
the next ``poll``, and news are taken from what has arrived. A keeper that is not there is started, one that was killed is replaced, and
what it had not answered is asked again: each request may come twice.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Mapping
from itertools import chain

import msgspec
from msgspec.structs import replace

from qoslet.core.notes import Notes
from qoslet.core.status.pod_events import before_agent
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import Backoff
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec
from qoslet.errors import CannotDo
from qoslet.host.containers.log_files import LogLimits
from qoslet.host.keeper.launch import Starter
from qoslet.host.keeper.pod import check_pod, requested_pod
from qoslet.host.keeper.protocol import (
    VERSION,
    Hello,
    KeeperSettings,
    LogMessage,
    MessageTooLong,
    Peer,
    PodChanged,
    PodRemoved,
    PodRequest,
    RemovePod,
    RequestsDone,
    RestartContainer,
    StartPod,
    StopPod,
    UpdatePod,
    Welcome,
    news,
)
from qoslet.host.linux.descriptors import ready
from qoslet.host.state.folder import LOGS

ANSWER_SECONDS = 10.0
"""How long a keeper may take to say what it keeps."""

TRIES = (0.0, 0.1, 0.5, 2.0, 5.0)
"""Seconds to wait before the next keeper, where one after the other ends before it answers."""

"""Lines that are kept for who asks; the oldest go first."""


class KeeperRuntime:
    """Containers in the hands of the keeper of one root. ``notes`` gathers what could not be done
    on the way, each line once; ``pid`` is the keeper's, 0 before it has answered. ``place`` is called
    with the number of each keeper that was begun or answers, and tells what went wrong."""

    def __init__(
        self,
        setting: KeeperSettings,
        starter: Starter | None = None,
        *,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._setting = setting
        self._answer_seconds, self._waits_since = answer_seconds, 0.0
        self._starter = starter or Starter(setting)
        self._peer: Peer | None = None
        self._waits: select.epoll | None = None
        self._pods: dict[str, RuntimePod] = {}
        self._containers: dict[str, tuple[ContainerState, ...]] = {}
        self._told: set[str] = set()
        self._known = True
        self._pending: dict[int, PodRequest] = {}
        self._latest: dict[str, int] = {}
        self._number = 0
        self._failures = 0
        self._retry_at = 0.0
        self._wrong: CannotDo | None = None
        self._states: tuple[ContainerState, ...] | None = None
        self.notes = Notes()
        self._began = time.time()
        self.pid = 0
        self.place: Callable[[int], str] | None = None
        if self._starter.has_records() or self._starter.running():
            self._known = False
            self._reach()

    @classmethod
    def connect(
        cls,
        folder: str,
        root: str,
        hierarchy: str,
        mounts: Mapping[str, str] | str,
        *,
        logs: str | None = None,
        limits: LogLimits | None = None,
        backoff: Backoff | None = None,
        oom_ends_scopes: bool = False,
    ) -> KeeperRuntime:
        """The runtime of ``root``, whose state folder exists and is private. ``mounts`` is as for
        ``layout.layout_of``; ``logs`` is ``podLogsDir`` (``logs`` in the state folder).

        A keeper that runs is reached, one that was killed and has left pods is replaced; else
        the first start, or ``begin``, starts one. Raises ``CannotDo``.
        """
        bounds = limits or LogLimits()
        return cls(
            KeeperSettings(
                root=root,
                folder=folder,
                # without the link, which may be removed
                logs=logs or os.path.realpath(f"{folder}/{LOGS}"),
                hierarchy=hierarchy,
                mounts={"unified": mounts} if isinstance(mounts, str) else dict(mounts),
                size=bounds.size,
                files=bounds.files,
                rate=bounds.rate,
                backoff=backoff or Backoff(),
                oom_ends_scopes=oom_ends_scopes,
                agent=os.getpid(),
            )
        )

    def begin(self) -> None:
        """Start the keeper if there is none; it comes up beside what the caller does next.
        Raises ``CannotDo``."""
        if self._peer is None:
            self._reach()

    def start(self, spec: PodSpec, cgroups: Mapping[str, str]) -> None:
        """Begin a pod; ``cgroups`` is the path of each container's group by its name. A pod
        that is kept already stays as it is. The next ``poll`` sends it, all starts of a sync
        together: a keeper that starts the first pods holds up who makes the cgroups of the
        others. Raises ``CannotDo`` where it may not be run."""
        self._check()
        if spec.uid in self._pods:
            return
        check_pod(spec, cgroups)
        digest = spec.digest()
        request = StartPod(self._next(), replace(spec, problems=()), dict(cgroups), digest)
        self._ask(request, spec.uid)
        self._keep(*requested_pod(spec, cgroups, digest))

    def poll(self) -> tuple[ContainerState, ...]:
        """The state of every container of every pod that is kept, as far as it was told. Raises
        ``CannotDo`` where the keeper is not ours to talk to."""
        self._listen()
        if self._states is None:
            # any change of a pod asks for all again: no line of Python for each
            self._states = tuple(chain.from_iterable(self._containers.values()))
        return self._states

    def list_pods(self) -> Mapping[str, RuntimePod]:
        """The pods that are kept, by UID. Waits for a keeper that was there before us to tell
        them, once. Raises ``CannotDo`` where it does not answer."""
        self._listen()
        deadline = time.monotonic() + ANSWER_SECONDS
        while not self._known:
            left = deadline - time.monotonic()
            if left <= 0:
                raise CannotDo(
                    f"the keeper does not answer within {ANSWER_SECONDS:.0f} s",
                    where=self._setting.folder,
                    hint=self._starter.runtime_error()
                    or "check what it does; if you kill it, another replaces it and containers keep running",
                )
            if self._peer is not None:
                ready(self._peer.socket.fileno(), seconds=min(left, 0.1))
            else:
                time.sleep(0.01)
            self._listen()
        return dict(self._pods)

    def stop(self, uid: str, grace_seconds: float) -> None:
        """Begin to end a pod; ``poll`` tells how it goes. Stopping again with a shorter grace
        period hurries; one that is not kept is no fault."""
        self._listen()
        if uid in self._pods:
            self._ask(StopPod(self._next(), uid, grace_seconds), uid)

    def restart(self, uid: str, container: str) -> None:
        """Begin to end one container; it is started again at once, whatever its policy."""
        self._listen()
        if uid in self._pods:
            self._ask(RestartContainer(self._next(), uid, container), uid)

    def update(self, spec: PodSpec) -> None:
        """Later starts of the pod's containers use these launches; processes stay."""
        self._listen()
        if spec.uid in self._pods:
            self._ask(UpdatePod(self._next(), replace(spec, problems=())), spec.uid)

    def remove_pod(self, uid: str) -> None:
        """Drop a pod and its logs; one that is not kept is no fault. Raises ``CannotDo`` if a
        container is running."""
        self._listen()
        pod = self._pods.get(uid)
        if pod is None:
            return
        if any(state.running for state in self._containers[uid]):
            raise CannotDo("containers are still running", where=f"Pod {pod.key}")
        self._ask(RemovePod(self._next(), uid), uid)
        self._forget(uid)

    def _keep(self, pod: RuntimePod, states: tuple[ContainerState, ...]) -> None:
        """A pod is as given from now on."""
        self._pods[pod.uid], self._containers[pod.uid] = pod, states
        self._states = None

    def _forget(self, uid: str) -> None:
        """A pod is gone."""
        self._pods.pop(uid, None)
        self._containers.pop(uid, None)
        self._states = None

    def descriptors(self) -> list[int]:
        """One that is readable when the keeper has told something, or takes more of what it was
        not sent yet."""
        if self._peer is None or not self._peer.unsent:
            self._forget_waits()
            return [] if self._peer is None else [self._peer.socket.fileno()]
        if self._waits is None:
            self._waits = select.epoll()
            self._waits.register(self._peer.socket, select.EPOLLIN | select.EPOLLOUT)
        return [self._waits.fileno()]

    def _forget_waits(self) -> None:
        """Wait for no more than news."""
        if self._waits is not None:
            self._waits.close()
            self._waits = None

    def close(self, seconds: float = 0.0) -> None:
        """Leave the keeper alone; it ends where it keeps nothing. ``seconds``: how long to wait
        for that."""
        if self._peer is not None:
            deadline = time.monotonic() + max(seconds, 0.1)
            while self._peer.unsent and self._peer.open and time.monotonic() < deadline:
                ready(self._peer.socket.fileno(), seconds=0.05, event=select.POLLOUT)
                self._peer.flush()
            self._peer.close()
            self._peer = None
        self._forget_waits()
        deadline = time.monotonic() + seconds
        while not self._pods and time.monotonic() < deadline and self._starter.running():
            time.sleep(0.002)
        self._starter.collect()

    def _next(self) -> int:
        """The number of a new request."""
        self._number += 1
        return self._number

    def _ask(self, request: PodRequest, uid: str) -> None:
        """Put a request on its way. Raises ``CannotDo`` for one that is too long."""
        if self._peer is None:
            self._reach()
        if self._peer is not None:
            try:
                self._peer.send(request)
            except (ValueError, msgspec.MsgspecError) as error:
                raise CannotDo(f"cannot send to the keeper: {error}", where=f"pod {uid}") from error
            if not isinstance(request, StartPod):
                self._peer.flush()
        self._waits_since = self._waits_since if self._pending else time.monotonic()
        self._pending[request.id] = request
        if isinstance(request, StartPod | RemovePod):
            self._latest[uid] = request.id

    def _reach(self) -> None:
        """Connect, start a keeper where there is none, and ask again what was not answered."""
        if self._wrong is not None or time.monotonic() < self._retry_at:
            return
        fresh = not self._pods and not self._starter.has_records()
        mine = self._starter.child
        self._peer = Peer(self._starter.connect())
        # Nothing can be told by one that began with nothing.
        self._known = self._known and fresh and self._starter.child != mine
        if self._starter.child is not None and self._starter.child != mine:
            # before a container runs, whose stall would wait for this
            self._move(self._starter.child)
        self._told = set()
        self._peer.send(Hello(VERSION, self._setting.root))
        for request in self._pending.values():
            self._peer.send(request)
        self._peer.flush()

    def _listen(self) -> None:
        """Send what waits and take in what the keeper has told. Raises ``CannotDo`` where it does
        not know us."""
        self._check()
        if self._peer is None and (self._pods or self._pending or not self._known):
            self._reach()
        if self._peer is None:
            return
        self._peer.flush()
        try:
            for data in self._peer.arrived():
                self._take(data)
        except (MessageTooLong, msgspec.MsgspecError) as error:
            self.notes.keep(f"invalid message from the keeper (process {self.pid}): {error}")
            self._peer.open = False
        self._check()
        if not self._peer.open:
            self._lost()
        elif self._pending and time.monotonic() - self._waits_since > self._answer_seconds:
            kill = "; if you kill it, another replaces it and containers keep running"
            which, hint = (f" (process {self.pid})", kill) if self.pid else ("", "")
            self.notes.keep(f"the keeper{which} does not answer: pods neither start nor stop{hint}")

    def _check(self) -> None:
        """Raise ``CannotDo`` where the keeper does not know us."""
        if self._wrong is not None:
            raise self._wrong

    def _take(self, data: bytes) -> None:
        """One message of the keeper."""
        said = news.decode(data)
        match said:
            case Welcome():
                self._welcome(said)
            case PodChanged():
                uid = said.held.uid
                self._told.add(uid)
                if said.done >= self._latest.get(uid, 0):
                    self._keep(said.held, said.states)
            case PodRemoved():
                if said.done >= self._latest.get(said.uid, 0):
                    self._forget(said.uid)
            case RequestsDone():
                self._done(said.done)
            case LogMessage():
                # the keeper tells each agent again
                is_old = 0 < said.at < self._began
                self.notes.keep(f"{said.line} ({before_agent(said.at)})" if is_old else said.line)

    def _welcome(self, said: Welcome) -> None:
        """The keeper's first message."""
        self.pid = said.pid
        self._move(said.pid)
        self._failures = 0
        if said.error:
            self._wrong = CannotDo(
                f"cannot use the keeper of these containers (process {said.pid}): {said.error}",
                where=self._setting.folder,
                hint=f"kill {said.pid}: its containers keep running, and the next keeper adopts them",
            )

    def _move(self, pid: int) -> None:
        """Give a keeper its place."""
        if self.place is not None and (wrong := self.place(pid)):
            self.notes.keep(f"cannot move the keeper (process {pid}) out of the service: {wrong}")

    def _done(self, done: int) -> None:
        """Requests were dealt with; the first time, all pods were told."""
        if not self._known or done == 0:
            gone = [uid for uid in self._pods if uid not in self._told | self._latest.keys()]
            for uid in gone:
                self.notes.keep(f"Pod {self._pods[uid].key}: the keeper does not know it")
                self._forget(uid)
            self._known, self._states = True, None
        self._waits_since = time.monotonic()
        for number in [number for number in self._pending if number <= done]:
            del self._pending[number]
        for uid in [uid for uid, number in self._latest.items() if number <= done]:
            del self._latest[uid]

    def _lost(self) -> None:
        """The keeper is gone: reach the next one."""
        self._forget_waits()
        if self._peer is not None:
            self._peer.close()
            self._peer = None
        wait = TRIES[min(self._failures, len(TRIES) - 1)]
        self._failures += 1
        self._retry_at = time.monotonic() + wait
        if self._pods or self._pending:
            words = self._starter.runtime_error()
            about = f": {words}" if words else ""
            which = f" (process {self.pid})" if self.pid else ""
            self.notes.keep(f"the keeper{which} exited{about}; starting another")
        self._known = self._known and not self._pods
        if wait == 0.0 and (self._pods or self._pending):
            self._reach()
