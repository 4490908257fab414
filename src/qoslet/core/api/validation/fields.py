"""The members of a decoded object by type, and the faults found in it.

As in Go, null is an absent member. Source: k8s.io/api core/v1 types.go, sigs.k8s.io/json.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from qoslet.core.api.container_resources import FieldFault, is_label, is_subdomain
from qoslet.core.api.schema import ContainerShape, PodSpecShape, child, nearest, shown, type_name


class Place(Struct, frozen=True, gc=False):
    """What a rule must know beside the spec. ``prefix`` is the path of a template, empty for a pod
    itself; ``added`` names the volumes that the owner adds, None where that is not known."""

    prefix: str = ""
    added: tuple[str, ...] | None = ()


LABEL_HINT = "use lowercase letters, digits and -, at most 63 characters"
SUBDOMAIN_HINT = "use lowercase letters, digits, - and ., at most 253 characters"


class Fields:
    """One object at ``path``. What a method cannot return is a fault and counts as absent."""

    __slots__ = ("faults", "path", "value")

    def __init__(self, value: dict[str, Any], path: str, faults: list[FieldFault]) -> None:
        self.value = value
        self.path = path
        self.faults = faults

    def refuse(self, name: str, message: str, hint: str) -> None:
        """Add a fault at member ``name``; at the object itself where it is empty."""
        path = child(self.path, name) if name else self.path
        self.faults.append(FieldFault(path, message, hint))

    def text(self, name: str) -> str:
        """A string; empty where it is absent."""
        value = self.value.get(name)
        if value is None or isinstance(value, str):
            return value or ""
        self._wrong(name, "a string", value)
        return ""

    def number(self, name: str, bits: int = 32) -> int | None:
        """A whole number of at most ``bits`` bits; None where it is absent."""
        value = self.value.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong(name, "a whole number", value)
            return None
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            self.refuse(name, f"does not fit {bits} bits", "use a smaller number")
            return None
        return value

    def flag(self, name: str) -> bool | None:
        """A boolean; None where it is absent."""
        value = self.value.get(name)
        if value is None or isinstance(value, bool):
            return value
        self._wrong(name, "a boolean", value)
        return None

    def inside(self, name: str) -> Fields | None:
        """The object ``name``; None where it is absent."""
        value = self.value.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            self._wrong(name, "an object", value)
            return None
        return Fields(value, child(self.path, name), self.faults)

    def items(self, name: str) -> list[Fields]:
        """The objects of the array ``name``."""
        return objects(self.value.get(name), child(self.path, name), self.faults)

    def texts(self, name: str) -> list[str]:
        """The strings of the array ``name``."""
        value = self.value.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self._wrong(name, "an array", value)
            return []
        for index, item in enumerate(value):
            if not (item is None or isinstance(item, str)):
                self._wrong(f"{name}[{index}]", "a string", item)
        return [item if isinstance(item, str) else "" for item in value]

    def need(self, name: str) -> str:
        """A string that must be there."""
        text = self.text(name)
        if not text and self.value.get(name) in (None, ""):
            self.faults.append(
                FieldFault(child(self.path, name), "is missing", f"set {name}", missing=True)
            )
        return text

    def choose(self, name: str, known: tuple[str, ...]) -> str:
        """A string that is empty or one of ``known``."""
        text = self.text(name)
        if text and text not in known:
            hint = f"known are {', '.join(known)}" if len(known) > 1 else f"only {known[0]} is"
            near = nearest(text, known)
            self.refuse(name, f"{shown(text, 60)!r} is unknown", near or hint)
        return text

    def between(self, name: str, least: int, most: int, bits: int = 32) -> int | None:
        """A whole number from ``least`` to ``most``."""
        number = self.number(name, bits)
        if number is not None and not least <= number <= most:
            self.refuse(name, f"{number} is out of range", f"use {least} to {most}")
        return number

    def not_negative(self, *names: str) -> None:
        """Refuse whole numbers below 0."""
        for name in names:
            number = self.number(name)
            if number is not None and number < 0:
                self.refuse(name, f"{number} is negative", "use 0 or more")

    def label(self, name: str) -> None:
        """Refuse a string that is neither empty nor a DNS label."""
        text = self.text(name)
        if text and not is_label(text):
            self.refuse(name, f"{shown(text)!r} is not a DNS label", LABEL_HINT)

    def subdomain(self, name: str) -> None:
        """Refuse a string that is neither empty nor a DNS name."""
        text = self.text(name)
        if text and not is_subdomain(text):
            self.refuse(name, f"{shown(text)!r} is not a DNS name", SUBDOMAIN_HINT)

    def _wrong(self, name: str, wanted: str, value: Any) -> None:
        path = f"{self.path}.{name}" if "[" in name else child(self.path, name)
        scalar = isinstance(value, bool | int | float)
        hint = "put it in quotes" if scalar and wanted == "a string" else f"write {wanted}"
        self.faults.append(FieldFault(path, f"must be {wanted}, is {type_name(value)}", hint))


def objects(value: Any, path: str, faults: list[FieldFault]) -> list[Fields]:
    """The objects of an array at ``path``; null is an empty object in it."""
    if value is None:
        return []
    if not isinstance(value, list):
        message = f"must be an array, is {type_name(value)}"
        faults.append(FieldFault(path, message, "write an array"))
        return []
    found = []
    for index, item in enumerate(value):
        place = f"{path}[{index}]"
        if item is None or isinstance(item, dict):
            found.append(Fields(item or {}, place, faults))
        else:
            message = f"must be an object, is {type_name(item)}"
            faults.append(FieldFault(place, message, "write an object"))
    return found


def containers_of(spec: PodSpecShape) -> Iterator[tuple[str, ContainerShape]]:
    """Every container with its path."""
    for field, shapes in (
        ("spec.initContainers", spec.init_containers),
        ("spec.containers", spec.containers),
        ("spec.ephemeralContainers", spec.ephemeral_containers),
    ):
        for index, shape in enumerate(shapes or ()):
            yield f"{field}[{index}]", shape


def remember(passed: set[Any], item: Any, most: int = 4096) -> None:
    """Keep what passed, at most ``most`` of it."""
    if len(passed) >= most:
        passed.clear()
    passed.add(item)
