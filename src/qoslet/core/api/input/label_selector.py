"""Label selectors as kubectl's ``-l`` takes them.

Source: k8s.io/apimachinery pkg/labels/selector.go (Parse, Requirement.Matches) and
pkg/util/validation (label keys and values).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from qoslet.core.api.schema import shown
from qoslet.errors import BadInput

Operator = Literal["in", "notin", "exists", "absent", "above", "below"]

_TOKEN = re.compile(r"\s*(==|!=|=|!|>|<|\(|\)|,|[^\s=!<>(),]+)")
_PART = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
_HINT = "such as app=web, tier!=db, app in (web, api), !canary"
_SYMBOLS = frozenset(("==", "!=", "=", "!", ">", "<", "(", ")", ","))


class Requirement(Struct, frozen=True):
    """One condition: all of them must hold."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet it. Those without the key meet ``!=`` and ``notin``, too."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
        numbers = [int(one) for one in (value or "", *self.values) if _INTEGER.fullmatch(one)]
        if len(numbers) != 2:
            return False
        return numbers[0] > numbers[1] if self.operator == "above" else numbers[0] < numbers[1]


class Selector(Struct, frozen=True):
    """A selector with its text."""

    text: str
    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether all requirements hold."""
        return all(one.holds(labels) for one in self.requirements)


def label_selector(text: str) -> Selector:
    """``app=web,tier in (front, back),!canary``. Raises BadInput."""
    return Selector(text, tuple(_Parser(text).requirements()))


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def requirements(self) -> list[Requirement]:
        """All of them, separated by commas."""
        if not self._tokens:
            raise self._fault("is empty")
        found = [self._requirement()]
        while self._at < len(self._tokens):
            self._expect(",")
            found.append(self._requirement())
        return found

    def _requirement(self) -> Requirement:
        if self._take("!"):
            return Requirement(self._key(), "absent")
        key, word = self._key(), self._peek()
        if word in ("", ","):
            return Requirement(key, "exists")
        self._at += 1
        if word in ("=", "=="):
            return Requirement(key, "in", (self._value(),))
        if word == "!=":
            return Requirement(key, "notin", (self._value(),))
        if word in (">", "<"):
            value = self._value()
            if not _INTEGER.fullmatch(value):
                raise self._fault(f"{key} {word} needs a whole number, not {value!r}")
            return Requirement(key, "above" if word == ">" else "below", (value,))
        if word == "in":
            return Requirement(key, "in", self._values())
        if word == "notin":
            return Requirement(key, "notin", self._values())
        raise self._fault(f"has {word!r} after {key}, must be =, !=, in, notin, < or >")

    def _values(self) -> tuple[str, ...]:
        self._expect("(")
        found = [self._value()]
        while self._take(","):
            found.append(self._value())
        self._expect(")")
        return tuple(found)

    def _key(self) -> str:
        key = self._peek()
        prefix, slash, name = key.rpartition("/")
        valid = len(prefix) <= 253 and (not slash or _PREFIX.fullmatch(prefix))
        if key in _SYMBOLS or not valid or not _PART.fullmatch(name):
            raise self._fault(f"has no label key at {key!r}" if key else "ends without a label key")
        self._at += 1
        return key

    def _value(self) -> str:
        value = self._peek()
        if value in ("", ",", ")"):
            return ""
        if not _PART.fullmatch(value):
            raise self._fault(f"{value!r} is not a label value")
        self._at += 1
        return value

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._take(token):
            found = self._peek()
            raise self._fault(f"has {found!r} instead of {token}" if found else f"lacks {token}")

    def _fault(self, message: str) -> BadInput:
        where = f"-l {shown(self._text, 60)}"
        return BadInput(shown(message), where=where, hint=_HINT)
