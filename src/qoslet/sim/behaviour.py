"""What a simulated container does, from an annotation of its pod.

``qoslet.dev/simulate.CONTAINER: threads=2, memory=200Mi, after=3`` means: two threads that always
want a CPU, and memory that grows to 200Mi, both from three seconds after the start on.
``simulate.qoslet/CONTAINER`` is the older spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from qoslet.core.api.memory_annotations import SIMULATE
from qoslet.core.quantity import QuantityError, parse

OLD_PREFIX = "simulate.qoslet/"
GROWTH = 64 * 1024 * 1024
"""Bytes per second by which memory grows."""


class Behaviour(Struct, frozen=True):
    """``threads`` want a CPU, ``memory`` is where its use ends in bytes, ``after`` seconds from
    its start; it exits by itself after ``lasts`` seconds with code 0 (None: never)."""

    threads: float = 1.0
    memory: int = 1024 * 1024
    after: float = 0.0
    lasts: float | None = None


def old_key(document: Mapping[str, Any], container: str) -> str:
    """The annotation in the older spelling that decides about a container; empty for none."""
    annotations = _annotations(document)
    old = OLD_PREFIX + container
    return old if old in annotations and SIMULATE + container not in annotations else ""


def _annotations(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return (document.get("metadata") or {}).get("annotations") or {}


def behaviour_of(document: Mapping[str, Any], container: str, role: str) -> Behaviour:
    """The behaviour of a container; words that say nothing known are left out. Without an
    annotation it is one busy thread; init containers end after a second."""
    default = Behaviour(lasts=1.0) if role == "init" else Behaviour()
    annotations = _annotations(document)
    text = annotations.get(SIMULATE + container, annotations.get(OLD_PREFIX + container))
    values: dict[str, float] = {}
    for word in str(text or "").replace(",", " ").split():
        name, _, amount = word.partition("=")
        with suppress(QuantityError):
            values[name] = parse(amount).nano / 1e9
    return Behaviour(
        threads=max(0.0, values.get("threads", default.threads)),
        memory=max(0, int(values.get("memory", default.memory))),
        after=max(0.0, values.get("after", default.after)),
        lasts=values.get("lasts", default.lasts),
    )
