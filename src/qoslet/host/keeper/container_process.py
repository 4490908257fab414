"""One run of a container as it is followed: its process, its group's end, what it prints."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from errno import EDQUOT, EIO, ENODEV, ENOENT, ENOSPC, EROFS
from typing import Literal, NamedTuple, Protocol

from qoslet.core.workload.process_spec import ProcessSpec
from qoslet.errors import system_reason
from qoslet.host.containers.log_files import LogFile, Pipes, Stream
from qoslet.host.containers.records import MainProcess, same_process, start_time
from qoslet.host.containers.spawn import NOT_EXECUTABLE, Spawned, StartFailed, begin
from qoslet.host.keeper.container_cgroups import ContainerCgroups, end_group
from qoslet.host.keeper.ending_scopes import PendingCgroup
from qoslet.host.linux.descriptors import EXHAUSTED, ready
from qoslet.host.linux.openat import give_up_kept
from qoslet.host.linux.processes import limit as process_limit
from qoslet.host.linux.processes.limit import NO_PROCESS
from qoslet.host.oci.containers import CreateJob, DeleteJob

WINDOW = 0.1
"""Seconds over which what a container prints is measured."""

NEWS_SECONDS = 0.1
"""How long one look deals with the ends of containers: a pod may have a thousand."""

PATIENCE = 2.0
"""Seconds after which processes that do not go are told of; then they are tried more rarely."""

_MACHINE = (ENOENT, ENODEV, ENOSPC, EDQUOT, EIO, EROFS)
"""Errors of a cgroup that is absent or being removed, and of a full, faulty or read-only disk."""

_SOONEST, _RAREST = 0.001, 0.05


class StartingProcess(Protocol):
    """A process on its way (``spawn.ForkedProcess``, ``containers.CreateJob``). ``pidfd`` is -1 where it is
    not the container's yet."""

    pid: int
    pidfd: int
    report: int
    deadline: float

    def settle(self) -> Spawned | None:
        """What came of it, None while that is open. Raises ``StartFailed``."""


class ContainerProcess:
    """A run from its fork until its group is empty. ``place`` is the path of its pipes without
    their endings. ``over``: its main process has ended, with ``code`` (128 + signal), None
    where nobody could see it, or ``failed`` where it never executed. ``due`` is when it is to
    be looked at without any event. ``group`` is the identity of its cgroup, where that was there before."""

    def __init__(self, place: str, log: LogFile, oom_before: int = 0) -> None:
        folder, _, name = place.rpartition("/")
        self.pipes = Pipes(folder, name, log)
        self.oom_before = oom_before
        self.pid = 0
        self.pidfd = -1
        self.birth: StartingProcess | None = None
        self.clearing: DeleteJob | None = None
        self.clear_at: float | None = None
        self.oom_killed = False
        self._oom_above: int | None = None
        self.group: int | None = None
        self.failed: StartFailed | None = None
        self.over = False
        self.killed = False
        self.code: int | None = None
        self.due: float | None = None
        self.trouble = ""
        self.spent = 0
        self.window = 0.0
        self._start = 0
        self._delay = _SOONEST
        self._over_at = 0.0
        self._asked: list[int] = []
        self._sent: set[int] = set()

    @property
    def main(self) -> int | None:
        """The container's main process, None before there is one."""
        return self.pid if self.pid and self.pidfd >= 0 else None

    @property
    def proc(self) -> MainProcess:
        """What knows the process again."""
        return MainProcess(self.pid, self._start, self.oom_before)

    def count_before(self, groups: ContainerCgroups, path: str, *, new: bool) -> None:
        """Remember what is counted before the run. ``new``: its group is made with it, and may
        go with its last process, as any scope does where systemd ends it for a kill; the group
        above counts on, on v2."""
        if not new:
            self.oom_before = groups.oom_kills(path) or 0
            self.group = groups.identity(path)
        if new or path.endswith(".scope"):
            self._oom_above = groups.oom_kills(os.path.dirname(path))

    def see_oom(
        self, groups: ContainerCgroups, path: str, runs: Iterable[ContainerProcess]
    ) -> None:
        """See whether the kernel killed a process of it for memory; what was seen stays. ``runs``
        are those of its pod: what is counted above was for this one, and for no other."""
        if self.clearing is not None:
            return
        above = os.path.dirname(path)
        if not self.oom_killed:
            count = groups.oom_kills(path)
            again = self.group not in (None, groups.identity(path))
            if count is not None and not again:
                self.oom_killed = count > self.oom_before
            elif self._oom_above is not None and self._struck:
                self.oom_killed = (groups.oom_kills(above) or 0) > self._oom_above
        others = [one for one in runs if one is not self and one._counts_above]
        if self.oom_killed and others and (total := groups.oom_kills(above)) is not None:
            for one in others:
                one._oom_above = total

    @property
    def _struck(self) -> bool:
        """Whether a SIGKILL ended it, or the SIGTERM of who ends its scope, that was not ours."""
        return (self.code or 0) - 128 in {signal.SIGKILL, signal.SIGTERM} - self._sent

    @property
    def _counts_above(self) -> bool:
        """Whether later kills alone can be its own. Of one that has ended and was not collected,
        those counted already may be."""
        if self._oom_above is None:
            return False
        if self.over or self.pidfd < 0:
            return True
        return not ready(self.pidfd)

    def born(self, birth: StartingProcess, start: int) -> None:
        """It was forked; ``start`` is its start time."""
        self.birth, self.pid, self._start = birth, birth.pid, start
        self.pidfd, self.due = birth.pidfd, birth.deadline

    def rejoin(self, birth: StartingProcess) -> None:
        """What a keeper before has begun is waited for."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
        self.pid, self.pidfd, self.over = 0, -1, False
        self.born(birth, 0)

    def settle(self, watch: ExitWatch) -> tuple[str, ...] | None:
        """See what came of the fork: notes when it executes; None before that, after that, and
        where it never will (``failed``)."""
        if self.birth is None:
            return None
        watch.forget(self.birth.report)
        try:
            spawned = self.birth.settle()
        except StartFailed as error:
            self.failed = None if error.unseen else error
            self.over, self.pidfd = True, -1
            self.birth, self.due = None, None
            return None
        if spawned is None:
            watch.again(self, self.birth.report)
            return None
        if self.pidfd != spawned.pidfd:
            self.pid, self.pidfd = spawned.pid, spawned.pidfd
            self._start = start_time(self.pid) or 0
        self.birth, self.due = None, None
        watch.again(self, self.pidfd)
        asked, self._asked = self._asked, []
        for number in asked:
            self.send(number)
        return spawned.notes

    def collect(self, watch: ExitWatch) -> None:
        """Its main process ended."""
        if self.over or self.pidfd < 0:
            return
        try:
            result = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            # A child of one that kept it before us: its code went to nobody.
            self.over = True
        else:
            if result is None:
                return
            exited = result.si_code == os.CLD_EXITED
            self.code = result.si_status if exited else 128 + result.si_status
            self.over = True
        watch.forget(self.pidfd)

    def empty(self, groups: ContainerCgroups, path: str, now: float) -> bool:
        """End the rest of the group; whether nobody is left. If somebody is, ``due`` tells when
        to try again."""
        wrong = end_group(groups, path)
        if wrong is None:
            self.due = None
            return True
        self._over_at = self._over_at or now
        patient = now - self._over_at < PATIENCE
        self.trouble = "" if patient else wrong
        self.due = now + (self._delay if patient else 1.0)
        self._delay = min(self._delay * 2, _RAREST)
        return False

    def send(self, number: int) -> None:
        """A signal to the main process, or to what it will be; one that ended is no fault."""
        self._sent.add(number)
        if self.birth is not None and self.pidfd < 0:
            self._asked.append(number)
            if number == signal.SIGKILL and isinstance(self.birth, CreateJob):
                self.birth.give_up()
        if self.pidfd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def let_go(self, *, drain: bool = False) -> None:
        """Close what is open; with ``drain`` the output is over."""
        if drain:
            self.pipes.close()
        else:
            self.pipes.leave()
        for one in (self.birth, self.clearing):
            if one is not None:
                os.close(one.report)
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


def fork(
    launch: ProcessSpec, joins: Sequence[int], writers: Sequence[int], one: ContainerProcess
) -> None:
    """Begin ``one``; where that fails its pipes go, too. Raises ``StartFailed``, and OSError where
    it failed for want of descriptors or processes."""
    try:
        birth = begin(launch, joins, *writers)
    except (OSError, StartFailed):
        one.pipes.close()
        raise
    one.born(birth, start_time(birth.pid) or 0)


def why(error: Exception) -> StartFailed | str:
    """Why a start failed; as text where that is for a while, and not the container's fault."""
    if isinstance(error, StartFailed):
        return error
    if isinstance(error, PendingCgroup):
        return str(error)
    if not isinstance(error, OSError):
        return StartFailed(NOT_EXECUTABLE, str(error))
    if error.errno in EXHAUSTED:
        give_up_kept()
        return f"{error.strerror}: raise the keeper's limit (ulimit -n 1024, or LimitNOFILE= of the unit)"
    if error.errno in NO_PROCESS:
        return process_limit.reason_of(error.errno or 0)
    reason = system_reason(error)
    return reason if error.errno in _MACHINE else StartFailed(NOT_EXECUTABLE, reason)


def adopt(proc: MainProcess | None, place: str, log: LogFile) -> ContainerProcess:
    """Follow a run that another began; over at once where its process is not there any more."""
    one = ContainerProcess(place, log, proc.oom_before if proc else 0)
    found = same_process(proc) if proc else None
    if proc is not None and found is not None:
        one.pid, one.pidfd, one._start = proc.pid, found, proc.start
    else:
        one.over = True
    one.pipes.take_up()
    return one


class _Owned(NamedTuple):
    """Whose a descriptor is."""

    uid: str
    name: str
    one: ContainerProcess
    stream: Stream | None


class ExitWatch:
    """All descriptors of all runs behind one. What is printed is taken here, from each in turn;
    who prints more than ``rate`` bytes of entries a second has to wait."""

    def __init__(self, rate: int, clock: Callable[[], float]) -> None:
        self._epoll = select.epoll()
        self._budget = max(1, int(rate * WINDOW))
        self._clock = clock
        self._owned: dict[int, _Owned] = {}
        self._names: dict[int, tuple[str, str]] = {}
        self._paused: dict[int, float] = {}

    @property
    def descriptor(self) -> int:
        """Readable when any of them is."""
        return self._epoll.fileno()

    def add(self, uid: str, name: str, one: ContainerProcess) -> None:
        """Follow a run of a pod's container."""
        self._names[id(one)] = (uid, name)
        for stream in one.pipes.streams:
            self._put(stream.descriptor, _Owned(uid, name, one, stream))
        first = one.birth.report if one.birth is not None else one.pidfd
        if first >= 0 and not one.over:
            self.again(one, first)

    def again(self, one: ContainerProcess, descriptor: int) -> None:
        """Watch a descriptor of a run that is followed."""
        uid, name = self._names[id(one)]
        self._put(descriptor, _Owned(uid, name, one, None))

    def _put(self, descriptor: int, owned: _Owned) -> None:
        self._owned[descriptor] = owned
        self._epoll.register(descriptor, select.EPOLLIN)

    def forget(self, descriptor: int) -> None:
        """Do not watch it any more. To be called before it is closed: children that are being
        started may have it too, and the kernel would go on to report it."""
        self._paused.pop(descriptor, None)
        if self._owned.pop(descriptor, None) is not None:
            try:
                self._epoll.unregister(descriptor)
            except OSError:
                return

    def clears(self, one: ContainerProcess, clearing: DeleteJob) -> None:
        """Tell when what is left of a run has been cleared away."""
        one.clearing = clearing
        self.again(one, clearing.report)

    def drop(self, one: ContainerProcess) -> None:
        """Follow a run no longer."""
        for stream in one.pipes.streams:
            self.forget(stream.descriptor)
        if one.pidfd >= 0:
            self.forget(one.pidfd)
        if one.birth is not None:
            self.forget(one.birth.report)
        self._names.pop(id(one), None)

    def ready(self) -> Iterator[tuple[str, str, Literal["ended", "settled"]]]:
        """Take what was printed; tell which runs' processes have news, for ``NEWS_SECONDS``: more is
        told by the next call."""
        self._go_on()
        until = self._clock() + NEWS_SECONDS
        news: list[tuple[int, _Owned]] = []
        for descriptor, _ in self._epoll.poll(0, 256):
            owned = self._owned.get(descriptor)
            if owned is None:
                continue
            if owned.stream is not None:
                self._take(owned.one, owned.stream)
            else:
                news.append((descriptor, owned))
        for descriptor, owned in news:
            if self._owned.get(descriptor) is owned and self._clock() < until:
                early = owned.one.birth is not None or owned.one.clearing is not None
                yield owned.uid, owned.name, "settled" if early else "ended"

    def resume(self) -> float | None:
        """When somebody may print again; None where nobody waits."""
        return min(self._paused.values(), default=None)

    def _take(self, one: ContainerProcess, stream: Stream) -> None:
        """One piece of output."""
        size = stream.take()
        if size == -2:
            self.forget(stream.descriptor)
        if size <= 0:
            return
        now = self._clock()
        if now - one.window >= WINDOW:
            one.window, one.spent = now, 0
        one.spent += size
        if one.spent >= self._budget:
            for other in one.pipes.streams:
                if other.descriptor in self._owned and other.descriptor not in self._paused:
                    self._epoll.modify(other.descriptor, 0)
                    self._paused[other.descriptor] = one.window + WINDOW

    def _go_on(self) -> None:
        """Let those print again who have waited."""
        if not self._paused:
            return
        now = self._clock()
        for descriptor, when in list(self._paused.items()):
            if when <= now:
                del self._paused[descriptor]
                self._epoll.modify(descriptor, select.EPOLLIN)

    def close(self) -> None:
        """Close the one descriptor."""
        self._epoll.close()
