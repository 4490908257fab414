"""The command line of a kubelet to its flags, and those that are fields of its configuration.

Source: spf13/pflag as cmd/kubelet/app/server.go uses it; component-base/cli/flag
(WordSepNormalizeFunc, MapStringString, LangleSeparatedMapStringString, MapStringBool).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from qoslet.core.node.command_line.flag_fields import FLAG_FIELDS, OTHER_BOOLEANS, Shape

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))

Document = dict[str, Any]


class CommandLine(Struct, frozen=True):
    """A kubelet's flags. ``fields`` is the KubeletConfiguration that they make, in which a map is
    whole; ``others`` are flags that are no field, the last value of each; ``unread`` are flags
    whose value is none that a kubelet takes."""

    fields: Mapping[str, Any] = {}
    others: Mapping[str, str] = {}
    unread: tuple[str, ...] = ()

    def path(self, flag: str, default: str = "") -> str:
        """The value of a flag that is no field."""
        return self.others.get(flag) or default


def flags(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """The flags among ``arguments`` with their values, in their order. ``_`` in a name is ``-``.

    A kubelet takes no arguments but flags, so a word that does not begin with a dash is the value
    of the flag before it.
    """
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(arguments):
        word = arguments[at]
        at += 1
        if word == "--":
            break
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        name = name.replace("_", "-")
        if not equals:
            if _is_boolean(name):
                value = "true"
            elif at < len(arguments) and (name in FLAG_FIELDS or not arguments[at].startswith("-")):
                value = arguments[at]
                at += 1
        found.append((name, value))
    return found


def _is_boolean(name: str) -> bool:
    row = FLAG_FIELDS.get(name)
    return name in OTHER_BOOLEANS if row is None else row.shape == "bool"


def command_line(arguments: Sequence[str]) -> CommandLine:
    """The flags of ``arguments``, which do not begin with the program's name."""
    fields: Document = {}
    others: dict[str, str] = {}
    unread: list[str] = []
    for name, text in flags(arguments):
        row = FLAG_FIELDS.get(name)
        if row is None:
            others[name] = text
            continue
        before = field_of(fields, row.field)
        value = _decoded(row.shape, text, before)
        if value is None:
            unread.append(f"--{name}")
        else:
            set_field(fields, row.field, value)
    return CommandLine(fields, others, tuple(unread))


def field_of(document: Mapping[str, Any], field: str) -> Any:
    """The value of a dotted field; None where it is not there."""
    value: Any = document
    for part in field.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def set_field(document: Document, field: str, value: Any) -> None:
    """Put a value at a dotted field."""
    *path, last = field.split(".")
    for part in path:
        inner = document.get(part)
        if not isinstance(inner, dict):
            inner = document[part] = {}
        document = inner
    document[last] = value


def _decoded(shape: Shape, text: str, before: Any) -> Any:
    """A flag's text as the field's value; None if no kubelet takes it. A flag of a map or a list
    that is given again adds to ``before``."""
    if shape == "text":
        return text
    if shape == "bool":
        return text in _TRUE if text in _TRUE | _FALSE else None
    if shape == "int":
        digits = text.removeprefix("-")
        plain = digits.isascii() and digits.isdigit() and len(digits) < 19
        return int(text) if plain else None
    if shape == "list":
        return [*(before or ()), *(part for part in text.split(",") if part)]
    if shape == "memory":
        found = _reserved_memory(text)
        return None if found is None else [*(before or ()), *found]
    pairs = _pairs(text, "<" if shape == "below" else "=")
    if pairs is not None and shape == "gates":
        if any(word not in _TRUE | _FALSE for word in pairs.values()):
            return None
        return {**(before or {}), **{name: word in _TRUE for name, word in pairs.items()}}
    return None if pairs is None else {**(before or {}), **pairs}


def _pairs(text: str, sign: str) -> dict[str, str] | None:
    """``a=1,b=2`` as a map; None where a part has no sign."""
    found = {}
    for part in text.split(","):
        if not part:
            continue
        key, between, value = part.partition(sign)
        if not between:
            return None
        found[key.strip()] = value.strip()
    return found


def _reserved_memory(text: str) -> list[Document] | None:
    """``0:memory=1Gi,hugepages-2Mi=64Mi;1:memory=1Gi`` as reservations."""
    found: list[Document] = []
    for part in text.split(";") if text else ():
        number, _, limits = part.partition(":")
        pairs = _pairs(limits, "=")
        if pairs is None or not (number.isascii() and number.isdigit() and len(number) < 4):
            return None
        found.append({"numaNode": int(number), "limits": pairs})
    return found
