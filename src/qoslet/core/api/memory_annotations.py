"""A pod's memory annotations below ``qoslet.dev/``.

``memory-high`` and ``memory-throttling-factor`` are for each container of the pod,
``memory-high.CONTAINER`` is for one. A value that cannot be meant is refused and counts as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from qoslet.core.api.schema import nearest
from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.quantity import QuantityError, parse

PREFIX = "qoslet.dev/"
SIMULATE = f"{PREFIX}simulate."
"""Before a container's name: what it does on the simulated kernel, which is no policy."""
LINT_IGNORE = f"{PREFIX}lint-ignore"
"""Which rules of ``qoslet lint`` are not meant for the pod, and why; no policy either."""
HIGH, FACTOR = "memory-high", "memory-throttling-factor"
PROTECTION, OOM_GROUP, GUARD = "memory-protection", "memory-oom-group", "guard"
KEYS = (HIGH, FACTOR, PROTECTION, OOM_GROUP, GUARD)

LEAST_HIGH = 1 << 20
"""Bytes below which a ``memory.high`` stops every program."""

GuardMode = Literal["off", "observe", "act"]

_GUARDS: Mapping[str, GuardMode] = {"off": "off", "observe": "observe", "act": "act"}
_SWITCH = {"on": True, "off": False}
_TRUTH = {"true": True, "false": False}
_SHOWN = 60


class AnnotationFinding(Struct, frozen=True, gc=False):
    """What is wrong with the annotation ``key``. An unknown key is a warning, a bad value an
    error."""

    severity: Literal["error", "warning"]
    key: str
    message: str
    hint: str


class MemoryPolicy(Struct, frozen=True, gc=False):
    """The memory settings of a pod's annotations; None: the node decides.

    ``high`` is bytes for each container, ``container_high`` for those named, ``UNLIMITED`` stands
    for ``max``; ``factor`` is above 0 and at most 1. ``given`` holds key and text of what counts,
    ``findings`` what does not.
    """

    high: int | None = None
    container_high: tuple[tuple[str, int], ...] = ()
    factor: float | None = None
    protection: bool | None = None
    oom_group: bool | None = None
    guard: GuardMode | None = None
    given: tuple[tuple[str, str], ...] = ()
    findings: tuple[AnnotationFinding, ...] = ()

    def high_of(self, container: str) -> tuple[int, str] | None:
        """The ``memory.high`` of a container in bytes and the key that says it."""
        for name, amount in self.container_high:
            if name == container:
                return amount, f"{PREFIX}{HIGH}.{name}"
        return None if self.high is None else (self.high, PREFIX + HIGH)

    def text(self, key: str) -> str:
        """What stood at a key; empty where it does not count."""
        return dict(self.given).get(key, "")


NO_POLICY = MemoryPolicy()


def read(
    annotations: Mapping[str, str], containers: Collection[str]
) -> tuple[MemoryPolicy, tuple[AnnotationFinding, ...]]:
    """The policy of a pod with these containers, and the findings about its annotations."""
    ours = {
        key: text
        for key, text in annotations.items()
        if key.startswith(PREFIX) and not key.startswith(SIMULATE) and key != LINT_IGNORE
    }
    if not ours:
        return NO_POLICY, ()
    reading = _Reading(containers)
    for key, text in ours.items():
        reading.take(key, text)
    return reading.policy(), tuple(reading.findings)


class _Reading:
    """Annotations, taken one by one."""

    def __init__(self, containers: Collection[str]) -> None:
        self._containers = containers
        self._values: dict[str, Any] = {}
        self._high: list[tuple[str, int]] = []
        self._given: list[tuple[str, str]] = []
        self.findings: list[AnnotationFinding] = []

    def policy(self) -> MemoryPolicy:
        """What counts."""
        if not self._given:
            return NO_POLICY
        return MemoryPolicy(
            container_high=tuple(sorted(self._high)),
            given=tuple(sorted(self._given)),
            **self._values,
        )

    def take(self, key: str, text: str) -> None:
        """Read one annotation below the prefix: its value, or a finding about it."""
        name = key.removeprefix(PREFIX)
        try:
            if name.startswith(f"{HIGH}."):
                self._container(name.removeprefix(f"{HIGH}."), text)
            elif name in KEYS:
                field, value = _VALUE[name](text)
                self._values[field] = value
            else:
                near = nearest(name, (*KEYS, LINT_IGNORE.removeprefix(PREFIX)))
                hint = near or f"known are {', '.join((*KEYS, f'{HIGH}.CONTAINER'))}"
                self.findings.append(
                    AnnotationFinding("warning", key, "is not a qoslet annotation", hint)
                )
                return
        except _Refused as error:
            self.findings.append(AnnotationFinding("error", key, str(error), error.hint))
            return
        self._given.append((key, text))

    def _container(self, container: str, text: str) -> None:
        if container not in self._containers:
            names = ", ".join(self._containers)
            raise _Refused(f"the pod has no container {_shown(container)}", f"it has {names}")
        self._high.append((container, _amount(text)))


class _Refused(Exception):
    """A value that cannot be meant, with what to write instead."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def _shown(text: str) -> str:
    """A text of somebody else, bounded, for a message."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _amount(text: str) -> int:
    if text == "max":
        return UNLIMITED
    try:
        amount = parse(text).value if len(text) <= _SHOWN else 0
    except QuantityError as error:
        raise _Refused(f"{_shown(text)} {error}", "a quantity such as 200Mi, or max") from error
    if not LEAST_HIGH <= amount < UNLIMITED:
        hint = "a quantity of at least 1Mi, or max for no limit"
        raise _Refused(f"{_shown(text)} is out of range for memory.high", hint)
    return amount


def _factor(text: str) -> float:
    plain = text.replace(".", "", 1)
    value = float(text) if len(text) <= _SHOWN and plain.isascii() and plain.isdecimal() else 0.0
    if not 0 < value <= 1:
        raise _Refused(
            f"{_shown(text)} is not a factor", "a number above 0, at most 1, such as 0.9"
        )
    return value


def _one_of(text: str, known: Mapping[str, object]) -> object:
    if text not in known:
        raise _Refused(f"{_shown(text)} is unknown", f"it is {' or '.join(known)}, in quotes")
    return known[text]


_VALUE: Mapping[str, Callable[[str], tuple[str, object]]] = {
    HIGH: lambda text: ("high", _amount(text)),
    FACTOR: lambda text: ("factor", _factor(text)),
    PROTECTION: lambda text: ("protection", _one_of(text, _SWITCH)),
    OOM_GROUP: lambda text: ("oom_group", _one_of(text, _TRUTH)),
    GUARD: lambda text: ("guard", _one_of(text, _GUARDS)),
}
"""Key to the attribute of ``MemoryPolicy`` and its value."""


def misplaced(
    owner: Mapping[str, str], template: Mapping[str, str], path: str
) -> list[AnnotationFinding]:
    """Annotations of a workload itself that its pods do not get; ``path`` is where they would."""
    message = "has no effect here: pods get the annotations of their template"
    return [
        AnnotationFinding("warning", key, message, f"move it to {path}")
        for key in owner
        if key.startswith(PREFIX) and key not in template
    ]


def keys_of(policy: MemoryPolicy, *names: str) -> Iterator[str]:
    """The keys that count of those ``names``, with those for one container."""
    for key, _ in policy.given:
        name = key.removeprefix(PREFIX)
        if name in names or (HIGH in names and name.startswith(f"{HIGH}.")):
            yield key
