"""The keeper: the process that is the parent of a root's containers, so that no agent has to be.

It is single-threaded and waits in one place. It holds the lock of its state folder for as long
as it lives, so there is one for each root; it ends when it keeps nothing and nobody is there.
Killed, it leaves the containers running: the next one takes them up by their records.

It outlives the files that it was started from: everything of this package is imported at its start.
"""

from __future__ import annotations

import encodings.ascii  # noqa: F401
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable

import msgspec

import qoslet.host.cgroupfs.v1
import qoslet.host.cgroupfs.v2  # noqa: F401
from qoslet.errors import QosletError
from qoslet.host.containers.log_files import ContainerLogs, LogLimits
from qoslet.host.containers.records import ProcessRecords
from qoslet.host.keeper.container_cgroups import ContainerCgroups, KernelContainerCgroups
from qoslet.host.keeper.keeper_files import KeeperFiles
from qoslet.host.keeper.process_runtime import ProcessRuntime
from qoslet.host.keeper.protocol import (
    VERSION,
    Hello,
    KeeperSettings,
    LogMessage,
    MessageTooLong,
    Peer,
    PodChanged,
    PodRemoved,
    RemovePod,
    RequestsDone,
    RestartContainer,
    StartPod,
    StopPod,
    UpdatePod,
    Welcome,
    requests,
)
from qoslet.host.linux.descriptors import polled
from qoslet.host.linux.mlock import lock_memory
from qoslet.host.linux.mountinfo import mounts, systemds_own
from qoslet.host.linux.peer import peer_of
from qoslet.host.linux.procfs import this_boot
from qoslet.host.oci.containers import OciContainers
from qoslet.host.state.folder import KEEPER
from qoslet.host.state.keepers import CHECK_SECONDS, LOCK_DESCRIPTOR

LOCK, LISTENER = LOCK_DESCRIPTOR, 4
"""The descriptors that a keeper is started with: its lock, and its socket, listening."""

CLIENTS = 16
"""Connections at a time; more are closed at once."""

AT_ONCE = 8
"""Requests of one client that are dealt with before others have their turn."""


class _Client:
    """A connection, with the number of who is at its other end. ``done`` is its last request
    that was dealt with."""

    def __init__(self, peer: Peer, pid: int) -> None:
        self.peer = peer
        self.pid = pid
        self.greeted = False
        self.done = 0
        self.told = 0
        self.heard = 0


class Keeper:
    """Serves one runtime to the clients of one listening socket."""

    def __init__(self, runtime: ProcessRuntime, listener: socket.socket, root: str) -> None:
        self._runtime = runtime
        self._listener = listener
        self._root = root
        self._clients: dict[int, _Client] = {}
        self._poll = select.poll()
        self._poll.register(listener.fileno(), select.POLLIN)
        for descriptor in runtime.descriptors():
            self._poll.register(descriptor, select.POLLIN)
        listener.setblocking(False)
        self._served = False
        self._noted, self._noted_at = 0, dict[str, float]()

    def clients(self) -> set[int]:
        """The processes that are connected."""
        return {client.pid for client in self._clients.values()}

    def watch(self, descriptor: int) -> None:
        """Turn when this becomes readable, too."""
        self._poll.register(descriptor, select.POLLIN)

    def over(self, lingered: bool) -> bool:
        """Whether nothing is kept, and nobody is connected any more; ``lingered``: nobody will
        come for the first time."""
        return (self._served or lingered) and not self._clients and not self._runtime.kept

    def turn(self, longest: float | None) -> None:
        """Wait until something happens, at most ``longest`` seconds, and deal with it."""
        waits = [one for one in (longest, self._runtime.wait()) if one is not None]
        if any(client.peer.waiting for client in self._clients.values()):
            waits = [0.0]
        # poll(2) counts whole milliseconds: one more, so that what is due is due.
        timeout = None if not waits else int(min(waits) * 1000) + (min(waits) > 0)
        for descriptor, event in polled(self._poll, timeout):
            client = self._clients.get(descriptor)
            if descriptor == self._listener.fileno():
                self._accept()
            elif client is not None and event & ~select.POLLOUT:
                client.peer.fill()
        for client in list(self._clients.values()):
            self._serve(client)
            if client.peer.waiting and not client.peer.open:
                # An agent that was killed is heard to its end before the next one.
                break
        self._runtime.poll()
        self._send_changes()

    def _accept(self) -> None:
        """Let a client in, if it is our own user's."""
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        who = peer_of(connection)
        if who.uid != os.geteuid() or len(self._clients) >= CLIENTS:
            connection.close()
            return
        self._served = True
        self._clients[connection.fileno()] = _Client(Peer(connection), who.pid)
        self._poll.register(connection.fileno(), select.POLLIN)

    def _serve(self, client: _Client) -> None:
        """Deal with some of a client's requests."""
        try:
            for _ in range(AT_ONCE):
                data = client.peer.next() if client.peer.open or client.peer.waiting else None
                if data is None:
                    break
                self._request(client, data)
        except MessageTooLong:
            client.peer.send(LogMessage("message too long; closing the connection"))
            client.peer.flush()
            client.peer.open = False

    def _request(self, client: _Client, data: bytes) -> None:
        """One request; what is wrong with it is answered in one line."""
        number, uid, begun = 0, "", False
        try:
            asked = requests.decode(data)
            if isinstance(asked, Hello):
                self._greet(client, asked)
                return
            if not client.greeted:
                raise ValueError("no hello before it")
            number = asked.id
            uid = asked.spec.uid if isinstance(asked, StartPod | UpdatePod) else asked.uid
            match asked:
                case StartPod():
                    self._runtime.start(asked.spec, asked.cgroups, asked.digest)
                    begun = True
                case StopPod():
                    self._runtime.stop(asked.uid, asked.grace)
                case RestartContainer():
                    self._runtime.restart(asked.uid, asked.container)
                case UpdatePod():
                    self._runtime.update(asked.spec)
                case RemovePod():
                    self._runtime.remove_pod(asked.uid)
        except (QosletError, msgspec.MsgspecError, ValueError, OSError, RecursionError) as error:
            client.done = max(client.done, number)
            client.peer.send(LogMessage(f"request rejected: {error}"[:1000], number))
            if uid:
                self._news(client, uid)
        client.done = max(client.done, number)
        if begun:
            # One that was kept already has nothing new to tell, but its asker waits for it.
            self._news(client, uid)

    def _greet(self, client: _Client, hello: Hello) -> None:
        """Welcome a client, or tell why it is not."""
        wrong = ""
        if hello.version != VERSION:
            wrong = f"this keeper has protocol version {VERSION}, not {hello.version}"
        elif hello.root != self._root:
            wrong = f"this is the keeper of {self._root}"
        client.peer.send(Welcome(VERSION, os.getpid(), wrong))
        if wrong:
            client.peer.flush()
            client.peer.open = False
            return
        client.greeted = True
        for uid in self._runtime.list_pods():
            self._news(client, uid)
        client.peer.send(RequestsDone())

    def _news(self, client: _Client, uid: str) -> None:
        """What is to be known about a pod."""
        states = self._runtime.states(uid)
        if states:
            client.peer.send(PodChanged(self._runtime.held_pod(uid), states, client.done))
        else:
            client.peer.send(PodRemoved(uid, client.done))

    def _send_changes(self) -> None:
        """Tell every client what has changed, and let go of those that are gone."""
        changed = self._runtime.changes()
        if self._runtime.said != self._noted:
            now, self._noted = time.time(), self._runtime.said
            self._noted_at = {one: self._noted_at.get(one, now) for one in self._runtime.notes}
        for number, client in list(self._clients.items()):
            if client.greeted:
                for uid in changed:
                    self._news(client, uid)
                for line in self._runtime.noted(client.heard):
                    client.peer.send(LogMessage(line, at=self._noted_at[line]))
                client.heard = self._runtime.said
                if client.told != client.done:
                    client.told = client.done
                    client.peer.send(RequestsDone(client.done))
            client.peer.flush()
            more = select.POLLOUT if client.peer.unsent else 0
            self._poll.modify(number, select.POLLIN | more)
            if not client.peer.open and not client.peer.waiting:
                self._poll.unregister(number)
                client.peer.close()
                del self._clients[number]


def _kernel(setting: KeeperSettings) -> ContainerCgroups:
    """This machine's groups."""
    own = systemds_own(mounts()) if setting.hierarchy == "v1" else []
    return KernelContainerCgroups(
        setting.hierarchy,
        setting.mounts,
        setting.root,
        own,
        oom_ends_scopes=setting.oom_ends_scopes,
    )


def main(
    groups_of: Callable[[KeeperSettings], ContainerCgroups] = _kernel,
    check_seconds: float = CHECK_SECONDS,
) -> None:
    """Run as the keeper that ``launch`` starts: the setting comes on standard input. It looks
    every ``check_seconds`` whether its files are there."""
    os.umask(0o077)
    os.chdir("/")
    os.closerange(LISTENER + 1, 2**31 - 1)
    setting = msgspec.json.decode(sys.stdin.buffer.read(), type=KeeperSettings)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.set_inheritable(LOCK, False)
    listener = socket.socket(fileno=LISTENER)
    listener.set_inheritable(False)
    _prepare_children()
    # it has to end containers while memory is short; where it may not, it is slower then
    lock_memory()
    serve(setting, groups_of(setting), listener, _Wakes(), check_seconds)


def serve(
    setting: KeeperSettings,
    groups: ContainerCgroups,
    listener: socket.socket,
    wakes: _Wakes,
    check_seconds: float,
) -> None:
    """Keep containers until nothing is kept and nobody is there, or SIGTERM comes: then they
    are left to the next keeper."""
    records = ProcessRecords(f"{setting.folder}/{KEEPER}", this_boot())
    logs = ContainerLogs(setting.logs, LogLimits(setting.size, setting.files, setting.rate))
    bundled = OciContainers(setting.folder)
    runtime = ProcessRuntime(
        groups, logs, records, backoff=setting.backoff, adopts=True, bundled=bundled
    )
    if isinstance(groups, KernelContainerCgroups):
        # its holders are no containers before it is connected, too
        groups.makers = lambda: {setting.agent}
    runtime.take_up()
    files = KeeperFiles(
        setting.folder, LOCK, LISTENER, runtime.save_absent, runtime.note, check_seconds
    )
    keeper = Keeper(runtime, listener, setting.root)
    if isinstance(groups, KernelContainerCgroups):
        groups.makers = keeper.clients
    keeper.watch(wakes.reader)
    deadline = time.monotonic() + setting.linger
    while not wakes.drain() and files.check():
        left = deadline - time.monotonic()
        if keeper.over(lingered=left <= 0):
            # The socket goes before the lock, which ends with this process.
            files.leave()
            records.close()
            break
        keeper.turn(min(left, files.wait()) if left > 0 else files.wait())
    runtime.close()


class _Wakes:
    """Signals as something that can be waited for: SIGCHLD only wakes, SIGTERM ends. A terminal
    that goes away, and its keys, concern the agent."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._ends = False
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, _: object) -> None:
        self._ends = self._ends or number == signal.SIGTERM

    def drain(self) -> bool:
        """Take note of what came so far; whether it is time to end."""
        try:
            os.read(self.reader, 4096)
        except BlockingIOError:
            pass
        return self._ends


def _prepare_children() -> None:
    """As many descriptors as may be had for this process, as few as usual for its children, who
    get neither the lock nor the socket, however long they take to start. None of them is real-time
    because the agent is: shares and quotas do not bound that, and a v1 kernel with RT_GROUP_SCHED
    lets it into no cgroup."""
    if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK in (os.SCHED_FIFO, os.SCHED_RR):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def child() -> None:
        os.close(LOCK)
        os.close(LISTENER)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    os.register_at_fork(after_in_child=child)


if __name__ == "__main__":
    main()
