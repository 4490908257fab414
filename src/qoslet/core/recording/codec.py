"""Moments as payloads of frames and back: the first of each run whole, then what changed.

Every frame begins with its kind, its number in the run and both clocks; the rest is a part of one
compressed stream for each run, so that what repeats costs little. A run begins with a key frame,
and needs nothing of what stands before it but the session.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from qoslet.core.recording import varints
from qoslet.core.recording.moment import Moment, RecordedRow, Series, Session

SESSION, KEY, DELTA = b"HKD"
"""The kinds of frames, as their first byte."""
MAX_RAW = 64 << 20
"""Bytes that one frame unpacks to, at most."""

_WINDOW = -15
_LAST_TIME = 253_402_300_799_000
_JSON = msgspec.json.Encoder()


class DamagedFrame(ValueError):
    """A frame whose checksum holds and whose content does not."""


class _Changes(Struct, omit_defaults=True):
    """What is not numbers: new names of values, new series, series that are gone, and rows, each
    with the key of the one before it."""

    names: list[str] = []
    series: list[tuple[int, str, int]] = []
    gone: list[int] = []
    rows: list[tuple[str, RecordedRow]] = []
    dropped: list[str] = []


class _State:
    """What both sides know before a delta."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.ids: dict[str, int] = {}
        self.next_id = 0
        self.series: dict[int, Series] = {}
        self.rows: list[RecordedRow] = []


class Encoder:
    """Makes payloads of moments."""

    def __init__(self) -> None:
        self._state = _State()
        self._number_of: dict[str, int] = {}
        self._packer = zlib.compressobj(6, zlib.DEFLATED, _WINDOW)
        self._count = 0

    def session(self, session: Session) -> bytes:
        """The payload that describes a run of the recorder; a key frame has to follow."""
        return bytes((SESSION,)) + zlib.compress(_JSON.encode(session))

    def moment(self, moment: Moment, *, key: bool) -> bytes:
        """The payload of a moment. The first one has to be a ``key``."""
        if key:
            self._state, self._number_of, self._count = _State(), {}, 0
            self._packer = zlib.compressobj(6, zlib.DEFLATED, _WINDOW)
        head = bytearray((KEY if key else DELTA,))
        for number in (self._count, round(moment.wall * 1000), round(moment.at * 1000)):
            varints.put(head, max(0, number))
        self._count += 1
        changes, numbers = _Changes(), bytearray()
        self._rows(moment, changes)
        self._series(moment, changes, numbers)
        text = _JSON.encode(changes)
        raw = bytearray()
        varints.put(raw, len(text))
        packed = self._packer.compress(bytes(raw) + text + bytes(numbers))
        return bytes(head) + packed + self._packer.flush(zlib.Z_SYNC_FLUSH)

    def _rows(self, moment: Moment, changes: _Changes) -> None:
        known = self._state.rows
        if known == list(moment.rows):
            return
        now = {row.key: row for row in moment.rows}
        before = {row.key: row for row in known}
        changes.dropped = [key for key in before if key not in now]
        above = ""
        for key, row in now.items():
            if before.get(key) != row:
                changes.rows.append((above, row))
            above = key
        if _with_rows(known, changes) != list(now.values()):
            changes.dropped = list(before)
            keys = ["", *now]
            changes.rows = list(zip(keys, now.values(), strict=False))
        self._state.rows = list(now.values())

    def _series(self, moment: Moment, changes: _Changes, numbers: bytearray) -> None:
        state = self._state
        for path, number in list(state.ids.items()):
            now = moment.series.get(path)
            if now is None or now.identity != state.series[number].identity:
                changes.gone.append(number)
                del state.ids[path], state.series[number]
        touched: list[tuple[int, Series]] = []
        for path, series in moment.series.items():
            known = state.ids.get(path)
            if known is None:
                known = state.ids[path] = state.next_id
                state.next_id += 1
                state.series[known] = Series(path, series.identity)
                changes.series.append((known, path, series.identity))
            elif path not in moment.fresh and state.series[known].values == series.values:
                continue
            touched.append((known, series))
        varints.put(numbers, len(touched))
        last = -1
        for number, series in sorted(touched, key=lambda one: one[0]):
            is_fresh = series.path in moment.fresh
            varints.put(numbers, (number - last - 1) << 1 | is_fresh)
            last = number
            self._values(state.series[number].values, series.values, changes, numbers)
            state.series[number] = series

    def _values(
        self,
        before: Mapping[str, int],
        now: Mapping[str, int],
        changes: _Changes,
        numbers: bytearray,
    ) -> None:
        """What changed of one series: pairs of a value's number and its change, or that it went."""
        changed: list[tuple[int, int]] = []
        for name, value in now.items():
            old = before.get(name)
            if old != value:
                changed.append((self._number(name, changes) << 1, value - (old or 0)))
        if len(before) + len(changed) > len(now):
            changed += [(self._number_of[name] << 1 | 1, 0) for name in before if name not in now]
        varints.put(numbers, len(changed))
        changed.sort()
        last = -1
        for number, change in changed:
            varints.put(numbers, number - last - 1)
            last = number
            if not number & 1:
                varints.put(numbers, varints.folded(change))

    def _number(self, name: str, changes: _Changes) -> int:
        number = self._number_of.get(name)
        if number is None:
            number = self._number_of[name] = len(self._number_of)
            changes.names.append(name)
        return number


class Decoder:
    """Makes moments of payloads again. After a gap, ``lost`` skips what needs the frames in it."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self._state: _State | None = None
        self._unpacker = zlib.decompressobj(_WINDOW)
        self._count = 0

    def lost(self) -> None:
        """Frames are missing: the next moment is that of a key frame."""
        self._state = None

    def feed(self, payload: bytes) -> Moment | None:
        """The moment of a payload; None for a session, and for a delta without what it changes.
        Raises DamagedFrame."""
        try:
            return self._feed(payload)
        except (ValueError, IndexError, KeyError, zlib.error, msgspec.MsgspecError) as error:
            self.lost()
            raise DamagedFrame(str(error)) from None

    def _feed(self, payload: bytes) -> Moment | None:
        kind = payload[0]
        if kind == SESSION:
            text = zlib.decompressobj().decompress(payload[1:], MAX_RAW)
            self.session = msgspec.json.decode(text, type=Session)
            self.lost()
            return None
        if kind not in (KEY, DELTA):
            raise ValueError(f"unknown kind of frame {kind}")
        count, wall, at, start = clocks(payload)
        if kind == KEY:
            self._state, self._count = _State(), 0
            self._unpacker = zlib.decompressobj(_WINDOW)
        state = self._state
        if state is None or count != self._count:
            self.lost()
            return None
        self._count += 1
        raw = self._unpacker.decompress(payload[start:], MAX_RAW)
        size, begin = varints.take(raw, 0)
        changes = msgspec.json.decode(raw[begin : begin + size], type=_Changes)
        fresh = _apply(state, changes, raw, begin + size)
        series = {one.path: one for one in state.series.values()}
        return Moment(wall / 1000, at / 1000, series, tuple(state.rows), frozenset(fresh))


def clocks(payload: bytes) -> tuple[int, int, int, int]:
    """The number in its run, wall and monotonic milliseconds of a moment's payload, and where the
    rest begins. Raises IndexError and ValueError."""
    count, at = varints.take(payload, 1)
    wall, at = varints.take(payload, at)
    monotonic, at = varints.take(payload, at)
    if max(wall, monotonic) > _LAST_TIME:
        raise ValueError("a time after the year 9999")
    return count, wall, monotonic, at


def _apply(state: _State, changes: _Changes, raw: bytes, at: int) -> list[str]:
    """Take in one frame. Returns the paths that were read at that moment."""
    state.names += changes.names
    state.rows = _with_rows(state.rows, changes)
    for number in changes.gone:
        del state.series[number]
    for number, path, identity in changes.series:
        state.series[number] = Series(path, identity)
    fresh = []
    count, at = varints.take(raw, at)
    number = -1
    for _ in range(count):
        step, at = varints.take(raw, at)
        number += (step >> 1) + 1
        series = state.series[number]
        values = dict(series.values)
        at = _apply_values(state.names, values, raw, at)
        state.series[number] = Series(series.path, series.identity, values)
        if step & 1:
            fresh.append(series.path)
    return fresh


def _apply_values(names: list[str], values: dict[str, int], raw: bytes, at: int) -> int:
    changed, at = varints.take(raw, at)
    number = -1
    for _ in range(changed):
        step, at = varints.take(raw, at)
        number += step + 1
        name = names[number >> 1]
        if number & 1:
            del values[name]
            continue
        change, at = varints.take(raw, at)
        values[name] = values.get(name, 0) + varints.unfolded(change)
    return at


def _with_rows(rows: list[RecordedRow], changes: _Changes) -> list[RecordedRow]:
    """The rows after a change: replaced where they stand, else after the one that is named."""
    if not changes.rows and not changes.dropped:
        return rows
    by_key = {row.key: row for row in rows}
    for key in changes.dropped:
        del by_key[key]
    fresh = [(above, row) for above, row in changes.rows if row.key not in by_key]
    by_key.update((row.key, row) for _, row in changes.rows if row.key in by_key)
    after: dict[str, list[RecordedRow]] = {}
    for above, row in fresh:
        after.setdefault(above, []).append(row)
    found: list[RecordedRow] = []
    waiting = list(reversed(after.pop("", [])))
    rest = list(reversed(by_key.values()))
    while waiting or rest:
        row = waiting.pop() if waiting else rest.pop()
        found.append(row)
        waiting += reversed(after.pop(row.key, []))
    if after:
        raise KeyError("a row stands after an unknown one")
    return found
