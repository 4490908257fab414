"""YAML text to plain objects, as ``sigs.k8s.io/yaml`` hands them to Kubernetes.

Built from libyaml's events without recursion, so that nothing in a document decides how much
is spent on it: depth, nodes and what aliases expand to are bounded. Scalars are resolved as
go-yaml v2 does (YAML 1.1: ``yes`` is true, ``0777`` octal; dates stay text).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from sys import intern
from typing import Any

from msgspec import Struct

from qoslet.core.api.schema import shown
from qoslet.errors import BadInput
from qoslet.host.files.bounds import READ_ONCE, FileLimits, too_many

DEPTH_MAX = 128
ALIAS_WEIGHT_MAX = 4 * 1024 * 1024
"""What all aliases of a file may stand for: nodes plus characters."""


class YamlDocument(Struct, frozen=True):
    """One document: ``number`` counts from 1 (empty ones too), ``line`` is where it begins."""

    number: int
    line: int
    value: Any


def documents(
    data: bytes, file: str, bounds: FileLimits = READ_ONCE
) -> Iterator[YamlDocument | BadInput]:
    """The documents of ``data`` (UTF-8), without the empty ones.

    A document with faults gives them instead of itself; broken syntax or a bound that is exceeded
    ends the file.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    events = yaml.parse(data, Loader=loader)
    number = used = 0
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                number += 1
                if bounds.documents and number > bounds.documents:
                    raise _Stop(too_many(bounds.documents, "documents", file))
                builder = _Builder(yaml, file, bounds.values, used)
                value = builder.build(events)
                used = builder.used if bounds.whole_file else 0
                if builder.faults:
                    yield from builder.faults
                elif value is not None:
                    line = event.start_mark.line + 1 if event.start_mark else 1
                    yield YamlDocument(number, line, value)
    except yaml.YAMLError as error:
        yield _syntax(error, file, data)
    except RecursionError:
        yield BadInput("is nested too deeply", where=file)
    except _Stop as stop:
        yield stop.fault


class _Stop(Exception):
    """A bound is exceeded: nothing more is read of the file."""

    def __init__(self, fault: BadInput) -> None:
        super().__init__(fault.message)
        self.fault = fault


def _syntax(error: Any, file: str, data: bytes) -> BadInput:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = f"{file}: line {mark.line + 1} column {mark.column + 1}" if mark else file
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    tab = mark is not None and _is_tab(data, mark.line, mark.column)
    hint = "indent with spaces, not tabs" if tab or "'\\t'" in str(problem) else ""
    return BadInput(f"broken YAML: {shown(str(problem))}", where=where, hint=hint)


def _is_tab(data: bytes, line: int, column: int) -> bool:
    """Whether a tab stands at a mark; that of a text that ends early is behind its last line."""
    rest = data.split(b"\n", line + 1)[line:]
    return bool(rest) and rest[0].decode(errors="replace")[column : column + 1] == "\t"


_ABSENT: Any = object()


class _Frame:
    """A list or mapping under construction."""

    __slots__ = ("anchor", "height", "key", "merged", "value", "weight")

    def __init__(self, value: Any, anchor: str | None, weight: int) -> None:
        self.value = value
        self.anchor = anchor
        self.weight = weight
        self.height = 0
        self.key: Any = _ABSENT
        self.merged: list[dict[str, Any]] = []


_MERGE = object()
"""The key ``<<``."""


class _Builder:
    """One document. ``weight`` is what has been built so far, aliases expanded; ``used`` is how
    many values were read."""

    def __init__(self, yaml: Any, file: str, bound: int, used: int) -> None:
        self.faults: list[BadInput] = []
        self.used = used
        self._bound = bound
        self._yaml = yaml
        self._file = file
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        self._open: set[str] = set()
        self._stack: list[_Frame] = []
        self._weight = 0
        self._aliased = 0
        self._root: Any = None

    def build(self, events: Iterator[Any]) -> Any:
        """Consume events to the end of the document."""
        yaml = self._yaml
        scalar, alias, end = yaml.ScalarEvent, yaml.AliasEvent, yaml.DocumentEndEvent
        starts = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
        for event in events:
            kind = type(event)
            if kind is scalar:
                self._scalar(event)
            elif kind in starts:
                self._start(event, {} if kind is starts[0] else [])
            elif kind is alias:
                self._alias(event)
            elif kind is end:
                break
            else:
                self._end(event)
        return self._root

    def _where(self, event: Any) -> str:
        return f"{self._file}: line {event.start_mark.line + 1}"

    def _fault(self, event: Any, message: str, hint: str = "") -> None:
        if len(self.faults) < 1000:
            self.faults.append(BadInput(message, where=self._where(event), hint=hint))

    def _stop(self, event: Any, message: str, hint: str = "") -> _Stop:
        return _Stop(BadInput(message, where=self._where(event), hint=hint))

    def _count(self, event: Any, weight: int) -> None:
        self.used += 1
        self._weight += weight
        if self.used > self._bound:
            raise _Stop(too_many(self._bound, "values", self._where(event)))

    def _scalar(self, event: Any) -> None:
        text: str = event.value
        self._count(event, 1 + len(text))
        frame = self._stack[-1] if self._stack else None
        is_key = frame is not None and type(frame.value) is dict and frame.key is _ABSENT
        tag = event.tag
        if event.implicit[0] and is_key and text == "<<":
            value = _MERGE
        elif tag is None and not event.implicit[0]:
            value = text
        elif tag in (None, "!") or tag == "tag:yaml.org,2002:str":
            value = text if tag else resolve(text)
        else:
            value = self._tagged(event, tag, text)
        if type(value) is float and (value != value or value in (_INF, -_INF)):
            self._fault(event, f"{shown(text, 40)} is not a JSON number", "put it in quotes")
            value = None
        if event.anchor:
            self._anchors[event.anchor] = (text if value is _MERGE else value, 1 + len(text), 0)
        self._put(event, value)

    def _tagged(self, event: Any, tag: str, text: str) -> Any:
        """A scalar with an explicit core tag, which must be what the text reads as."""
        name = tag.removeprefix("tag:yaml.org,2002:")
        value = resolve(text)
        if name == "float" and type(value) is int:
            return float(value)
        wanted = {"int": int, "float": float, "bool": bool, "null": type(None)}.get(name)
        if wanted is None:
            hint = "Kubernetes documents do not use custom tags"
            self._fault(event, f"the tag {shown(tag, 60)} is not allowed", hint)
        elif type(value) is not wanted:
            self._fault(event, f"{shown(text, 40)!r} is not {name}", "remove the tag")
        return value

    def _start(self, event: Any, value: Any) -> None:
        self._count(event, 1)
        tag = event.tag
        wanted = "tag:yaml.org,2002:map" if type(value) is dict else "tag:yaml.org,2002:seq"
        if tag not in (None, "!", wanted):
            hint = "Kubernetes documents do not use custom tags"
            self._fault(event, f"the tag {shown(tag, 60)} is not allowed", hint)
        self._deepen(event, 1)
        if event.anchor:
            self._anchors.pop(event.anchor, None)
            self._open.add(event.anchor)
        self._stack.append(_Frame(value, event.anchor, self._weight))

    def _end(self, event: Any) -> None:
        if type(event).__name__ not in ("MappingEndEvent", "SequenceEndEvent"):
            return
        frame = self._stack.pop()
        value = frame.value
        for merged in frame.merged:
            for key, item in merged.items():
                value.setdefault(key, item)
        if frame.anchor:
            self._open.discard(frame.anchor)
            weight = self._weight - frame.weight + 1
            self._anchors[frame.anchor] = (value, weight, frame.height + 1)
        if self._stack:
            self._stack[-1].height = max(self._stack[-1].height, frame.height + 1)
        self._put(event, value)

    def _deepen(self, event: Any, height: int) -> None:
        """Refuse what would stand deeper than any reader has to follow."""
        if len(self._stack) + height > DEPTH_MAX:
            message = f"is nested more than {DEPTH_MAX} deep"
            raise self._stop(event, message, "Kubernetes documents are not")
        if self._stack:
            self._stack[-1].height = max(self._stack[-1].height, height)

    def _alias(self, event: Any) -> None:
        name = event.anchor
        found = self._anchors.get(name)
        if found is None:
            message = f"*{shown(name, 40)} is an alias without an anchor before it"
            if name in self._open:
                message = f"*{shown(name, 40)} is an alias inside its own anchor"
            self._fault(event, message, "define the anchor first")
            found = (None, 1, 0)
        value, weight, height = found
        self._deepen(event, height)
        self._count(event, weight)
        self._aliased += weight
        if self._aliased > ALIAS_WEIGHT_MAX:
            hint = "write the values in full, or use JSON"
            raise self._stop(event, "expands to too many values through aliases", hint)
        self._put(event, value)

    def _put(self, event: Any, value: Any) -> None:
        """Hand a finished value to what it stands in."""
        if not self._stack:
            self._root = None if value is _MERGE else value
            return
        frame = self._stack[-1]
        if type(frame.value) is list:
            frame.value.append(value)
        elif frame.key is _ABSENT:
            frame.key = value if value is _MERGE else self._key(event, value)
            if frame.key is not _MERGE:
                if frame.key in frame.value:
                    message = f"the key {shown(frame.key, 60)!r} occurs twice"
                    self._fault(event, message, "keep one of them")
                frame.value[frame.key] = None
        else:
            if frame.key is _MERGE:
                self._merge(event, frame, value)
            else:
                frame.value[frame.key] = value
            frame.key = _ABSENT

    def _key(self, event: Any, value: Any) -> str:
        """A key as text: sigs.k8s.io/yaml writes numbers and booleans out."""
        if type(value) is str:
            return intern(value)
        if type(value) is bool:
            return "true" if value else "false"
        if type(value) in (int, float):
            return str(value)
        self._fault(event, "a key must be text", "put it in quotes")
        return ""

    def _merge(self, event: Any, frame: _Frame, value: Any) -> None:
        parts = value if type(value) is list else [value]
        for part in parts:
            if type(part) is not dict:
                self._fault(event, "<< needs a mapping or a list of mappings")
                continue
            frame.merged.append(part)


_INF = float("inf")

_WORDS: dict[str, Any] = {
    word: value
    for value, words in (
        (True, "y Y yes Yes YES true True TRUE on On ON"),
        (False, "n N no No NO false False FALSE off Off OFF"),
        (None, "~ null Null NULL"),
        (_INF, ".inf .Inf .INF +.inf +.Inf +.INF"),
        (-_INF, "-.inf -.Inf -.INF"),
        (float("nan"), ".nan .NaN .NAN"),
    )
    for word in words.split()
} | {"": None}

_INTEGER = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)", re.ASCII
).fullmatch
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII
).fullmatch
_MAYBE = frozenset("+-.0123456789ynYNtTfFoO~")


def resolve(text: str) -> Any:
    """What a plain scalar is: text, a boolean, a number or nothing."""
    if text and text[0] not in _MAYBE:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0].isalpha() or len(text) > 400:
        return text
    plain = text.replace("_", "")
    if _INTEGER(plain):
        return _integer(plain)
    if _FLOAT(plain):
        number = float(plain)
        return text if number in (_INF, -_INF) else number
    return text


def _integer(plain: str) -> int | float:
    digits = plain.lstrip("+-")
    if digits[:1] == "0" and len(digits) > 1 and digits[1].isdigit():
        number = int(digits, 8)
    else:
        number = int(digits, 0)
    number = -number if plain[0] == "-" else number
    # go-yaml: beyond 64 bits an integer is a float
    return number if -(2**63) <= number < 2**64 else float(number)
