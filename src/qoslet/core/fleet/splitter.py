"""JSON text that comes in blocks, cut into the items of its lists; none of it is kept.

A break in the middle costs the item or document that it is in: the text is taken up again at the
next object that has metadata, or that stands at the begin of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from qoslet.core.api.schema import DECODE_ERRORS, shown
from qoslet.core.problem import plural
from qoslet.errors import BadInput, FaultCode

BATCH_BYTES = 1 << 20
"""Items are handed on together from about so many bytes on."""
_ITEM_MAX = 64 << 20
"""The largest item. etcd takes 1.5 MiB for an object."""

_TOKEN = 16
"""Bytes of the longest token that looks wrong while its end is missing."""

_decode = msgspec.json.Decoder(Raw).decode
_TRAILING = "trailing characters (byte "
_SPACE = re.compile(rb"[\s,]*")
_KEY = re.compile(rb'\s*[{,]?\s*"((?:[^"\\]|\\.)*)"\s*:\s*')
_CLOSE = re.compile(rb"\s*\}")
_NEXT = re.compile(rb'(?:[}\]"0-9el]\s*,?\s*|\n)(\{\s*"(?:apiVersion|kind|metadata)")')
_LINE = re.compile(rb'\n(\{\s*"(?:apiVersion|kind|metadata)")')
_HEAD = frozenset((b"apiVersion", b"kind", b"metadata"))


class Batch(Struct, frozen=True, gc=False):
    """Some items of one document: ``data`` holds their text, ``spans`` the begin and end of each.
    ``first`` is the number of the first in its list, -1 for a document that is no list; ``implied``
    the kind that the list gives its items."""

    file: str
    number: int
    first: int
    implied: str | None
    data: bytes
    spans: tuple[tuple[int, int], ...]


class _Head(Struct):
    metadata: Raw = Raw()


class _NeedsMore(Exception):
    """The text ends before the value does."""


class _Broken(Exception):
    """The text is no JSON from here on; the message says why."""


class ItemSplitter:
    """Cuts the text of one file. ``feed`` it block by block, ``finish`` at its end."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._buffer = b""
        self._at = 0
        self._final = False
        self._wanted = 0
        self._state = self._top
        self._number = 0
        self._item = 0
        self._implied: str | None = None
        self._spans: list[tuple[int, int]] = []
        self._begin = self._first = self._closed = 0
        self._bare = False
        """Whether the list that is read is no object's field."""

    @property
    def where(self) -> str:
        """The place that is read, for messages."""
        return f"{self._file}: document {self._number}" if self._number > 1 else self._file

    def feed(self, block: bytes) -> Iterator[Batch | BadInput]:
        """The items that end in ``block``."""
        self._buffer += block
        if len(self._buffer) >= self._wanted:
            yield from self._run()

    def finish(self) -> Iterator[Batch | BadInput]:
        """What is left, and the fault of a text that ends too early."""
        self._final = True
        yield from self._run()

    def _run(self) -> Iterator[Batch | BadInput]:
        self._wanted = 0
        while True:
            try:
                yield from self._state()
            except _NeedsMore:
                break
            except _Broken as error:
                yield from self._flush()
                yield self._fault(str(error))
                self._state = self._resync
        yield from self._flush()
        if self._final and self._state != self._top:
            yield self._early(f"ends in the middle, after {plural(self._item, 'item')}")
            self._state = self._top
        self._buffer, self._at = self._buffer[self._at :], 0
        self._wanted = 2 * len(self._buffer)

    def _fault(self, why: str) -> BadInput:
        where = f"{self.where}: items[{self._item}]" if self._item >= 0 else self.where
        hint = "the items after it are read" if not self._final else "fetch it again"
        message = f"broken JSON: {shown(why)}"
        return BadInput(message, where=where, hint=hint, fault_code=FaultCode.BROKEN_JSON)

    def _top(self) -> Iterator[Batch | BadInput]:
        """Between documents."""
        self._at = self._space(self._at)
        self._number += 1
        begin, self._item, self._implied = self._at, -1, None
        try:
            if self._buffer[begin] == 0x5B:
                self._at, self._item, self._state = begin + 1, 0, self._items
                self._bare = True
                return
            if self._buffer[begin] != 0x7B:
                raise _Broken("a document is an object")
            if self._is_list(begin):
                self._item, self._state = 0, self._items
                return
            end = self._end(begin)
        except _NeedsMore:
            if self._final:
                # the line below may have been taken for the value that is missing
                found = _LINE.search(self._buffer, begin + 1)
                self._at = len(self._buffer) if found is None else found.start(1)
                yield self._early("ends in the middle of a document")
                if found is not None:
                    return
            self._number -= 1
            raise
        self._at = end
        data = self._buffer[begin:end]
        yield Batch(self._file, self._number, -1, None, data, ((0, end - begin),))

    def _early(self, message: str) -> BadInput:
        hint = "fetch it again: what follows is missing"
        code = FaultCode.BROKEN_JSON
        return BadInput(message, where=self.where, hint=hint, fault_code=code)

    def _is_list(self, begin: int) -> bool:
        """Whether the object at ``begin`` has items; then stand at the first."""
        at, kind = begin, ""
        while found := self._key(at):
            key, at = found
            if key == b"items":
                if self._byte(at) != 0x5B:
                    return False
                self._at = at + 1
                base = kind.removesuffix("List")
                self._implied = base if base not in ("", kind) else None
                return True
            if key not in _HEAD:
                return False
            end = self._end(at)
            if key == b"kind":
                kind = self._text(at, end)
            at = end
        return False

    def _key(self, at: int) -> tuple[bytes, int] | None:
        """The key at ``at`` and where its value begins; None at the end of the object."""
        found = _KEY.match(self._buffer, at)
        if found is not None:
            return found[1], found.end()
        closed = _CLOSE.match(self._buffer, at + (self._buffer[at : at + 1] == b"{"))
        if closed is not None:
            self._closed = closed.end()
            return None
        if len(self._buffer) - at < 4096 and not self._final:
            raise _NeedsMore
        raise _NeedsMore if self._final else _Broken("expected a field")

    def _text(self, begin: int, end: int) -> str:
        value = msgspec.json.decode(self._buffer[begin:end])
        return value if isinstance(value, str) else ""

    def _items(self) -> Iterator[Batch | BadInput]:
        """In a list."""
        if not self._spans:
            self._begin, self._first = self._at, self._item
        self._at = self._space(self._at)
        if self._buffer[self._at] == 0x5D:
            yield from self._flush()
            self._at += 1
            self._state = self._top if self._bare else self._tail
            self._bare = False
            return
        begin = self._at
        end = self._end(begin)
        self._spans.append((begin - self._begin, end - self._begin))
        self._item += 1
        self._at = end
        if end - self._begin >= BATCH_BYTES:
            yield from self._flush()

    def _flush(self) -> Iterator[Batch]:
        """The items that were found."""
        if not self._spans:
            return
        data = self._buffer[self._begin : self._begin + self._spans[-1][1]]
        spans, self._spans = tuple(self._spans), []
        yield Batch(self._file, self._number, self._first, self._implied, data, spans)

    def _tail(self) -> Iterator[Batch | BadInput]:
        """The fields after a list."""
        found = self._key(self._at)
        if found is None:
            self._at = self._closed
            self._state = self._top
        else:
            self._at = self._end(found[1])
        yield from ()

    def _resync(self) -> Iterator[Batch | BadInput]:
        """After a break: the next object that has metadata and is followed as an item is."""
        self._item += 1
        while True:
            found = _NEXT.search(self._buffer, self._at)
            if found is None:
                self._at = max(self._at, len(self._buffer) - 4096)
                self._item -= 1
                if self._final:
                    self._at, self._state = len(self._buffer), self._top
                raise _NeedsMore
            self._at = found.start(1)
            try:
                end = self._end(self._at)
                follows = self._buffer[self._space_only(end) : self._space_only(end) + 1]
                head = msgspec.json.decode(self._buffer[self._at : end], type=_Head)
            except _Broken:
                self._at += 1
                continue
            except _NeedsMore:
                below = _LINE.search(self._buffer, self._at + 1) if self._final else None
                if below is not None:
                    # as between documents: the line below was taken for a value
                    self._at = below.start()
                    yield self._early("ends in the middle of a document")
                    continue
                # what stands before it tells where it begins
                self._at = found.start()
                self._item -= 1
                raise
            except DECODE_ERRORS:
                self._at += 1
                continue
            if bytes(head.metadata) and follows in (b",", b"]"):
                self._state = self._items
                break
            if self._buffer[self._at - 1 : self._at] == b"\n" and follows in (b"{", b""):
                # a document on a line of its own
                self._state, self._bare = self._top, False
                break
            self._at += 1
        yield from ()

    def _space_only(self, at: int) -> int:
        while self._buffer[at : at + 1].isspace():
            at += 1
        return at

    def _space(self, at: int) -> int:
        """Behind space and commas."""
        found = _SPACE.match(self._buffer, at)
        at = found.end() if found is not None else at
        if at >= len(self._buffer):
            raise _NeedsMore
        return at

    def _byte(self, at: int) -> int:
        if at >= len(self._buffer):
            raise _NeedsMore
        return self._buffer[at]

    def _end(self, at: int) -> int:
        """Where the value at ``at`` ends."""
        whole = memoryview(self._buffer)
        try:
            _decode(whole[at:])
        except RecursionError:
            raise _Broken("is nested too deeply") from None
        except DECODE_ERRORS as error:
            text = str(error)
            place = text.rfind(_TRAILING)
            if place >= 0:
                return at + int(text[place + len(_TRAILING) : -1]) - 1
            if text.startswith("Input data was truncated"):
                if len(self._buffer) - at > _ITEM_MAX:
                    raise _Broken("an item is larger than 64 MiB") from None
                raise _NeedsMore from None
            why, _, byte = text.partition(" (byte ")
            if not self._final and byte and int(byte.rstrip(")")) + _TOKEN > len(whole) - at:
                # a number or an escape that is cut in two
                raise _NeedsMore from None
            raise _Broken(why.rpartition(": ")[2]) from None
        if not self._final:
            raise _NeedsMore
        return len(self._buffer)
