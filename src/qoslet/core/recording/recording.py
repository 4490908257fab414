"""A recording that was read: its moments in order, each decoded when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from qoslet.core.recording.codec import KEY, SESSION, DamagedFrame, Decoder, clocks
from qoslet.core.recording.frames import FORMAT, Frame, format_of, scan
from qoslet.core.recording.moment import Moment, Session
from qoslet.core.recording.values import observed
from qoslet.core.status.node_top import TopRow, live_rows
from qoslet.errors import BadInput


class _Entry(Struct, frozen=True, gc=False):
    """A moment's frame: its payload, both clocks in milliseconds, its session, and the number of
    the key frame that its run begins with."""

    payload: bytes
    wall: int
    at: int
    session: int
    key: int


class Recording:
    """The moments of the segments of a recording, oldest first. ``notes`` say what was damaged."""

    def __init__(self, segments: Sequence[tuple[str, bytes]]) -> None:
        self.notes: list[str] = []
        self._sessions: list[Session] = []
        self._entries: list[_Entry] = []
        for name, data in segments:
            check(name, data)
            self._index(name, data)
        self._name = segments[-1][0] if segments else ""
        self.seconds = self._timeline()
        self._decoder, self._next = Decoder(), -1
        self._last: tuple[int, Moment] = (-1, Moment(0.0, 0.0, {}))

    def __len__(self) -> int:
        """How many moments there are."""
        return len(self._entries)

    def _index(self, name: str, data: bytes) -> None:
        decoder, key = Decoder(), -1
        damaged = 0
        for one in scan(data):
            if not isinstance(one, Frame):
                damaged, key = damaged + one.size, -1
                continue
            if one.payload[:1] == bytes((SESSION,)):
                key = -1
                try:
                    decoder.feed(one.payload)
                except DamagedFrame:
                    damaged += len(one.payload)
                    decoder.session = None
                if decoder.session is not None:
                    self._sessions.append(decoder.session)
                continue
            try:
                _, wall, at, _ = clocks(one.payload)
            except (IndexError, ValueError):
                damaged, key = damaged + len(one.payload), -1
                continue
            if one.payload[0] == KEY:
                key = len(self._entries)
            if decoder.session is None or key < 0:
                damaged += len(one.payload)
                continue
            session = len(self._sessions) - 1
            self._entries.append(_Entry(one.payload, wall, at, session, key))
        if damaged:
            self.notes.append(f"{name}: skipped {damaged} bytes that are damaged or cut off")

    def _timeline(self) -> tuple[float, ...]:
        """Seconds of each moment since the first: by the monotonic clock, across boots by the
        wall clock. They never go back."""
        found: list[float] = []
        for number, entry in enumerate(self._entries):
            if not number:
                found.append(0.0)
                continue
            before = self._entries[number - 1]
            gap = entry.at - before.at if self._is_one_boot(number) else entry.wall - before.wall
            found.append(found[-1] + max(0, gap) / 1000)
        return tuple(found)

    def _is_one_boot(self, number: int) -> bool:
        """Whether a moment and the one before it are of one boot of the machine."""
        before, now = self._entries[number - 1], self._entries[number]
        return self._sessions[before.session].boot == self._sessions[now.session].boot

    def session(self, number: int) -> Session:
        """The run of the recorder that a moment is of."""
        return self._sessions[self._entries[number].session]

    def wall(self, number: int) -> float:
        """When a moment was, in seconds since 1970."""
        return self._entries[number].wall / 1000

    def at_wall(self, wall: float) -> int:
        """The last moment that was not after a time; the first one if all were."""
        times = [number for number in range(len(self)) if self.wall(number) <= wall]
        return times[-1] if times else 0

    def at_seconds(self, seconds: float) -> int:
        """The last moment at most so many seconds after the first; the first one if none was."""
        from bisect import bisect_right

        return max(0, bisect_right(self.seconds, seconds + 0.0005) - 1)

    def moment(self, number: int) -> Moment:
        """A moment. Raises IndexError, and BadInput where its content is not what was written."""
        number = range(len(self._entries))[number]
        if number == self._last[0]:
            return self._last[1]
        entry = self._entries[number]
        begin = self._next if entry.key < self._next <= number else entry.key
        found: Moment | None = None
        self._next = -1
        for one in range(begin, number + 1):
            try:
                found = self._decoder.feed(self._entries[one].payload)
            except DamagedFrame:
                found = None
            if found is None:
                hint = "look at another time, or record again"
                raise BadInput(f"moment {one} is damaged", where=self._name, hint=hint)
        assert found is not None
        self._next, self._last = number + 1, (number, found)
        return found

    def moments(self) -> Iterator[Moment]:
        """Every moment."""
        return (self.moment(number) for number in range(len(self)))

    def top(self, number: int) -> tuple[tuple[TopRow, ...], float]:
        """What ``top`` showed at a moment, and the seconds since the one before it, 0 where rates
        cannot be known."""
        before = None
        if number and self._is_one_boot(number):
            before = observed(self.moment(number - 1))
        moment = self.moment(number)
        now = observed(moment)
        rows = live_rows([one.row for one in moment.rows], before, now)
        return rows, max(0.0, now.at - before.at) if before is not None else 0.0


def check(name: str, data: bytes) -> None:
    """Raises BadInput for what is no recording, or one of an unknown format."""
    number = format_of(data)
    if number is None:
        raise BadInput("is not a recording", where=name, hint="qoslet record FILE writes one")
    if number != FORMAT:
        message = f"has format {number}, this qoslet reads {FORMAT}"
        raise BadInput(message, where=name, hint="read it with the qoslet that wrote it")
