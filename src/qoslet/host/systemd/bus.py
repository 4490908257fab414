"""Calls to systemd's manager over D-Bus, also while it restarts: many at once, jobs awaited, a lost
bus found again.

Matches no port: ``host.systemd.unit_driver`` speaks through it. The connection belongs to a loop of its own that
turns only while somebody waits, so the program stays single-threaded. dbus-fast is imported with
the first connection: who does not use systemd does not pay for it.

Source: org.freedesktop.systemd1(5); D-Bus specification, message bus messages.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from qoslet.errors import CannotDo

if TYPE_CHECKING:
    from dbus_fast import Message
    from dbus_fast.aio import MessageBus

SYSTEM_BUS = "unix:path=/run/dbus/system_bus_socket"
SYSTEMD = "org.freedesktop.systemd1"
MANAGER = "org.freedesktop.systemd1.Manager"
PROPERTIES = "org.freedesktop.DBus.Properties"
PLACE = "/org/freedesktop/systemd1"

CALL_SECONDS = 60.0
"""How long systemd may take for an answer; a reload with many units takes seconds."""
JOB_SECONDS = 100.0
"""How long a job may take: systemd itself gives a unit 90 s to stop."""
BACK_SECONDS = 20.0
"""How long systemd may be away from its bus, as while it executes itself again."""
_FORGET_SECONDS = 120.0
"""How long after its last attempt an absence counts as the same: attempts are a minute apart at most."""
_IDLE_SECONDS = 0.5
"""How long a wait is silent: then whoever waits may give signs of life."""
_LOOK_SECONDS = 2.0
"""How long no job's signal may come before systemd is asked: a lost bus loses signals."""
WAITING_SECONDS = 3.0
"""How long a start may wait for other jobs: behind the stop of a slice above, it takes as long as whatever is
stopped there, 90 s."""
_STARTS = frozenset({"StartTransientUnit", "StartUnit"})

_DBUS = "org.freedesktop.DBus"
_MATCH = (
    f"type='signal',sender='{SYSTEMD}',path='{PLACE}',interface='{MANAGER}',member='JobRemoved'"
)
_AWAY = frozenset(
    f"org.freedesktop.DBus.Error.{name}"
    for name in ("NoReply", "ServiceUnknown", "NameHasNoOwner", "Disconnected", "TimedOut")
)
_SPAWN = "org.freedesktop.DBus.Error.Spawn."

_HUNG_UP = (EOFError, ConnectionResetError, BrokenPipeError)

T = TypeVar("T")

Signed = Sequence[tuple[str, str, object]]
"""Properties for a call: name, D-Bus signature, value."""


class BusReply(Exception):
    """systemd answered with an error: its D-Bus ``name`` and its own ``text``. ``again`` is true if the
    call had been made before with an unknown result."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text
        self.again = False

    @property
    def away(self) -> bool:
        """Whether nobody was there to answer, so that the call may be made again."""
        return self.name in _AWAY or self.name.startswith(_SPAWN)


class ConnectionLost(Exception):
    """The connection is gone; whether the call was done is not known."""


def hung_up(error: Exception) -> bool:
    """Whether an error shows that a bus which restarts has closed a new connection. EBADF is one: dbus-fast
    still writes to the socket that it has closed."""
    return isinstance(error, _HUNG_UP) or (
        isinstance(error, OSError) and error.errno == errno.EBADF
    )


class _AbsentPeer:
    """A peer that is absent. It is waited for ``seconds`` in all, not in each call, since nothing else is
    done meanwhile."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._tried = 0.0

    def is_over_long(self, now: float) -> bool:
        """Note that an attempt failed ``now``. Whether the peer has been waited for long enough."""
        if self._since is None or now - self._tried > _FORGET_SECONDS:
            self._since = now
        self._tried = now
        return now - self._since > self._seconds

    def end(self) -> None:
        """The peer answers again."""
        self._since = None


def runtime_directory() -> str:
    """Where this user's session keeps its sockets and files."""
    return os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"


def user_bus() -> str:
    """The address of this user's bus."""
    named = os.environ.get("DBUS_SESSION_BUS_ADDRESS")
    return named or f"unix:path={runtime_directory()}/bus"


class Bus:
    """systemd's manager on the bus at ``address``. ``calls`` counts the method calls made on it.

    ``back_seconds`` is how long a systemd, or a bus that was there, is waited for, in all calls together
    until it is back. Raises ``CannotDo`` where
    there is no bus. Not safe for several threads.
    """

    def __init__(self, address: str = SYSTEM_BUS, *, back_seconds: float = BACK_SECONDS) -> None:
        self.address = address
        self.calls = 0
        self._back = back_seconds
        self._no_bus, self._no_systemd = _AbsentPeer(back_seconds), _AbsentPeer(back_seconds)
        self._loop = asyncio.new_event_loop()
        # dbus-fast leaves a write that the other side hung up on to nobody, whose call is told anyway
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self._bus: MessageBus | None = None
        self._met = False
        self._ended: dict[str, str] = {}
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._asking = 0
        self._told = 0.0
        self._connecting = asyncio.Lock()
        self.idle: Callable[[], None] = lambda: None
        """Called every now and then while something is waited for."""
        self.interrupts: Callable[[], int] = lambda: 0
        """How often it was asked to end: one more, and what does not answer is waited for no longer."""
        self._interrupted = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        self._interrupted = self.interrupts()
        return self._loop.run_until_complete(self._attended(work))

    async def _attended(self, work: Coroutine[Any, Any, T]) -> T:
        """Await the work, and call ``idle`` every now and then meanwhile."""
        task = asyncio.ensure_future(work)
        while not (await asyncio.wait({task}, timeout=_IDLE_SECONDS))[0]:
            self.idle()
        return task.result()

    def _waits(self, peer: _AbsentPeer) -> bool:
        """Whether to go on waiting for an absent peer."""
        over = peer.is_over_long(self._loop.time())
        return not over and self.interrupts() == self._interrupted

    def close(self) -> None:
        """Leave the bus."""
        if self._loop.is_closed():
            return
        if self._bus is not None:
            self._bus.disconnect()
            self._bus = None
            self.run(asyncio.sleep(0))
        self._loop.close()

    async def call(self, member: str, signature: str = "", *body: object) -> list[Any]:
        """A method of the manager; its answer's body. Raises ``BusReply``, ``CannotDo``."""
        return await self._call_with_retry(PLACE, MANAGER, member, signature, body)

    async def get(self, place: str, interface: str, name: str) -> Any:
        """A property of an object of systemd. Raises ``BusReply``, ``CannotDo``."""
        body = (interface, name)
        return (await self._call_with_retry(place, PROPERTIES, "Get", "ss", body))[0].value

    async def ping(self) -> None:
        """Return once systemd has carried out all earlier calls: it handles one message at a time, and
        writes to the kernel before the next one."""
        await self._call_with_retry(PLACE, "org.freedesktop.DBus.Peer", "Ping", "", ())

    async def job(self, member: str, signature: str, *body: object) -> str:
        """Call a method that begins a job, and wait for the job. Returns its result: ``done``, ``failed``,
        ``canceled``, ``timeout``, ``dependency``, ``skipped``, or ``waiting`` if systemd has queued a
        start behind other jobs. A job whose end was missed counts as done, so check its effect. Raises
        ``BusReply``, ``CannotDo``."""
        self._asking += 1
        try:
            (path,) = await self.call(member, signature, *body)
            return await self._result(path, starts=member in _STARTS)
        finally:
            self._asking -= 1
            if not self._asking:
                self._ended.clear()

    async def _result(self, path: str, *, starts: bool) -> str:
        """Wait for a job and return its result. One that ``starts`` a unit is not waited for for long
        while systemd does other jobs first."""
        if path in self._ended:
            return self._ended.pop(path)
        future: asyncio.Future[str] = self._loop.create_future()
        self._waiting[path] = future
        begun = self._loop.time()
        try:
            while (now := self._loop.time()) < begun + JOB_SECONDS:
                done, _ = await asyncio.wait({future}, timeout=_LOOK_SECONDS)
                if done:
                    return future.result()
                late = starts and now >= begun + WAITING_SECONDS
                if self._loop.time() - self._told < _LOOK_SECONDS and not late:
                    continue
                state = await self._job_state(path)
                if not state or (late and state == "waiting"):
                    return state or "done"
            return "timeout"
        finally:
            self._waiting.pop(path, None)

    async def _job_state(self, path: str) -> str:
        """``waiting`` or ``running``; empty where systemd no longer has that job."""
        try:
            await self.call("GetJob", "u", int(path.rpartition("/")[2]))
            return str(await self.get(path, f"{SYSTEMD}.Job", "State"))
        except BusReply:
            return ""

    async def _call_with_retry(
        self, place: str, interface: str, member: str, signature: str, body: Sequence[object]
    ) -> list[Any]:
        """Call a method; again, once, after the connection was lost, and as long as systemd is away."""
        from dbus_fast import Message

        pause, lost, again = 0.02, False, False
        while True:
            bus = await self._connected()
            message = Message(
                destination=SYSTEMD,
                path=place,
                interface=interface,
                member=member,
                signature=signature,
                body=list(body),
            )
            try:
                answer = await self._sent(bus, message)
                self._no_systemd.end()
                return answer
            except ConnectionLost as error:
                if lost:
                    raise CannotDo(
                        f"lost the bus connection twice during {member}: {error}",
                        where=self.address,
                        hint="check systemctl status dbus, then try again",
                    ) from None
                lost = again = True
            except BusReply as error:
                error.again = again
                if not error.away:
                    self._no_systemd.end()
                    raise
                if not self._waits(self._no_systemd):
                    raise self._away(member, error) from None
                again = True
                await asyncio.sleep(pause)
                pause = min(pause * 2, 0.5)

    def _away(self, member: str, error: BusReply) -> CannotDo:
        waited = "" if self.interrupts() != self._interrupted else f" for {self._back:g} s"
        return CannotDo(
            f"systemd does not answer {member}{waited}: {error.text}",
            where=self.address,
            hint="check systemctl status, or use --cgroup-driver cgroupfs",
        )

    async def _sent(self, bus: MessageBus, message: Message) -> list[Any]:
        """Send a message and return the body of its answer. Raises ``BusReply``, ``ConnectionLost``."""
        from dbus_fast import MessageType

        self.calls += 1
        try:
            answer = await self._within(bus.call(message))
        except TimeoutError:
            raise BusReply("org.freedesktop.DBus.Error.TimedOut", "no answer") from None
        except (EOFError, OSError) as error:
            self._drop(bus)
            raise ConnectionLost(str(error) or "closed by the peer") from None
        if answer.message_type is MessageType.ERROR:
            text = str(answer.body[0]) if answer.body else ""
            raise BusReply(answer.error_name or "", text)
        return list(answer.body)

    async def _within(self, question: Coroutine[Any, Any, T]) -> T:
        """Await the answer. Raises TimeoutError if none comes, or if the process was asked to end."""
        call, end = asyncio.ensure_future(question), self._loop.time() + CALL_SECONDS
        try:
            while not (await asyncio.wait({call}, timeout=_IDLE_SECONDS))[0]:
                if self.interrupts() != self._interrupted or self._loop.time() >= end:
                    raise TimeoutError("no answer")
            return call.result()
        finally:
            call.cancel()

    def _drop(self, bus: MessageBus) -> None:
        """Forget a connection that broke."""
        if self._bus is bus:
            self._bus = None

    async def _connected(self) -> MessageBus:
        """The connection, made where there is none."""
        async with self._connecting:
            if self._bus is None or not self._bus.connected:
                self._bus = await self._found()
                self._met = True
            return self._bus

    async def _found(self) -> MessageBus:
        """A new connection. A bus that was there, or that answers and hangs up, is being restarted
        and is waited for. Raises ``CannotDo``."""
        from dbus_fast.errors import AuthError, InvalidAddressError

        pause = 0.02
        while True:
            try:
                found = await self._connect()
                self._no_bus.end()
                return found
            except (OSError, EOFError, TimeoutError, AuthError, InvalidAddressError) as error:
                starts = self._met or hung_up(error)
                if not starts or not self._waits(self._no_bus):
                    raise CannotDo(
                        f"cannot connect to systemd's bus: {error}",
                        where=self.address,
                        hint="install and start dbus, or use --cgroup-driver cgroupfs",
                    ) from None
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.5)

    async def _connect(self) -> MessageBus:
        """A new connection that hears of ended jobs. Raises ``CannotDo``; what stands in the way
        of a connection as it comes."""
        from dbus_fast import Message, MessageType
        from dbus_fast.aio import MessageBus

        bus = MessageBus(bus_address=self.address, auth_timeout=CALL_SECONDS)
        try:
            await self._within(bus.connect())
            match = Message(
                destination=_DBUS,
                path="/org/freedesktop/DBus",
                interface=_DBUS,
                member="AddMatch",
                signature="s",
                body=[_MATCH],
            )
            answer = await self._within(bus.call(match))
        except BaseException:
            bus.disconnect()
            raise
        if answer.message_type is MessageType.ERROR:
            raise CannotDo(
                "cannot subscribe to job signals", where=self.address, hint="check its policy"
            )
        bus.add_message_handler(self._on_signal)
        return bus

    def _on_signal(self, message: Message) -> None:
        """A signal: a job has ended."""
        if message.member != "JobRemoved" or message.interface != MANAGER:
            return
        self._told = self._loop.time()
        _, path, _, result = message.body
        future = self._waiting.get(path)
        if future is not None:
            if not future.done():
                future.set_result(result)
        elif self._asking:
            self._ended[path] = result


def variants(properties: Signed) -> list[list[object]]:
    """Properties as the body of a call has them."""
    from dbus_fast import Variant

    return [[name, Variant(signature, value)] for name, signature, value in properties]
