"""What somebody does to loads while they stall: a hand at limits, another writer, a pause, an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from tests.live.memory.zoo.load import Load

MIB = 1 << 20


class Stage(Protocol):
    """What of a scene's stage is needed here."""

    def write(self, load: Load) -> None:
        """The manifest of a load, as it is to be now."""

    def groups(self, load: Load) -> Sequence[Path]:
        """The cgroups of a load's containers that are there."""

    def put(self, loads: Sequence[Load]) -> None:
        """Begin loads, and wait until they run."""

    def end(self, loads: Sequence[Load]) -> None:
        """Remove loads, and wait until nothing of them is left."""


def _limits(stage: Stage, loads: Sequence[Load]) -> None:
    """Limits go up and down, and each is enough."""
    for more in (16, 4, 32, 0):
        time.sleep(1.5)
        for load in loads:
            stage.write(replace(load, limit=load.limit + more))


def _put(stage: Stage, loads: Sequence[Load], file: str, value: str) -> None:
    for load in loads:
        for group in stage.groups(load):
            with suppress(OSError):
                (group / file).write_text(value)


def _other_writer(stage: Stage, loads: Sequence[Load]) -> None:
    """Somebody else writes another memory.high again and again, and each is less than what is used."""
    for number in range(20):
        time.sleep(0.4)
        for load in loads:
            _put(stage, [load], "memory.high", str((load.limit * 3 // 4 - number % 4) * MIB))


def _nothing(stage: Stage, loads: Sequence[Load]) -> None:
    """Somebody wants all memory of containers reclaimed, and leaves a memory.high of zero."""
    time.sleep(1.0)
    _put(stage, loads, "memory.high", "0")


def _pauses(stage: Stage, loads: Sequence[Load]) -> None:
    """Somebody freezes containers for a second and a half, three times."""
    for value in "101010":
        time.sleep(1.5)
        _put(stage, loads, "cgroup.freeze", value)


def _ends(stage: Stage, loads: Sequence[Load]) -> None:
    """Pods are deleted, and come again: before a decision, when it is due, after it."""
    for seconds in (0.5, 1.0, 1.5):
        time.sleep(seconds)
        stage.end(loads)
        stage.put(loads)


def _annotations(stage: Stage, loads: Sequence[Load]) -> None:
    """Annotations ask for another memory.high again and again, and none is enough."""
    for share in (0.7, 0.5, 0.9, 0.02, 0.6):
        time.sleep(1.2)
        for load in loads:
            stage.write(replace(load, high=str(int(load.limit * share * MIB))))


def _switched(stage: Stage, loads: Sequence[Load]) -> None:
    """The guard is switched off for a pod, and on again."""
    for guard in ("off", "act", "off", "act"):
        time.sleep(1.5)
        for load in loads:
            stage.write(replace(load, guard=guard))


def _permits(stage: Stage, loads: Sequence[Load]) -> None:
    """What was only to be observed may be acted on now."""
    time.sleep(4.0)
    for load in loads:
        stage.write(replace(load, guard="act"))


def _resizes(stage: Stage, loads: Sequence[Load]) -> None:
    """Loads get the limit of their row."""
    time.sleep(2.0)
    for load in loads:
        if load.resized:
            stage.write(replace(load, limit=load.resized))


MEDDLING: Final[Mapping[str, Callable[[Stage, Sequence[Load]], None]]] = {
    "limits": _limits,
    "other writer": _other_writer,
    "nothing left": _nothing,
    "pauses": _pauses,
    "ends": _ends,
    "annotations": _annotations,
    "switched": _switched,
    "permits": _permits,
    "resizes": _resizes,
}
"""By the name that a scene has for it."""
