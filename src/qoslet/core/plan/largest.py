"""The pods that make most of a sum, kept in order while pods come and go."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

from msgspec import Struct

from qoslet.core.plan.totals import TemplateSummary

MOST_NAMED = 3
"""Shapes that a row about a sum names."""

_FEW = 8
"""Up to so many changes are put in their place; more are sorted in."""


class Part(Struct, frozen=True, order=True, gc=False):
    """What the pods of one shape ask for: ``count`` pods, of which ``pod`` is the first, as
    ``namespace/name``, with the UID ``uid``. Parts are in order of their amounts, the largest first."""

    below_zero: int
    pod: str
    count: int
    uid: str

    @property
    def amount(self) -> int:
        """Millicores, or units of what is asked for."""
        return -self.below_zero


class Largest:
    """The shapes that ask for most of a resource. ``summary`` gives what is known of a shape by its
    number, None for one that no pod has. Changes are ranked when somebody asks, so a node on which
    everything fits ranks nothing."""

    def __init__(self, summary: Callable[[int], TemplateSummary | None]) -> None:
        self._summary = summary
        self._changed: set[int] = set()
        self._parts: dict[int, dict[tuple[str, bool], Part]] = {}
        self._ranked: dict[tuple[str, bool], list[Part]] = {}

    def changed(self, shape: int) -> None:
        """Pods of a shape came, went or were renamed."""
        self._changed.add(shape)

    def of(self, name: str, *, limits: bool = False) -> Sequence[Part]:
        """The largest requests for a resource, or limits of it; no empty ones."""
        self._rank()
        ranked = self._ranked.get((name, limits), [])
        return [part for part in ranked[:MOST_NAMED] if part.amount > 0]

    def _rank(self) -> None:
        place = insort if len(self._changed) <= _FEW else list.append
        for shape in self._changed:
            for key, part in self._parts.pop(shape, {}).items():
                ranked = self._ranked[key]
                del ranked[bisect_left(ranked, part)]
        for shape in self._changed:
            summary = self._summary(shape)
            if summary is None:
                continue
            parts = self._parts[shape] = _parts(summary)
            for key, part in parts.items():
                place(self._ranked.setdefault(key, []), part)
        if place is not insort:
            for ranked in self._ranked.values():
                ranked.sort()
        self._changed.clear()


def _parts(summary: TemplateSummary) -> dict[tuple[str, bool], Part]:
    pod, count = summary.pod, summary.count
    return {
        (name, limits): Part(
            -count * (quantity.milli if name == "cpu" else quantity.value), pod.key, count, pod.uid
        )
        for limits, quantities in ((False, summary.requests), (True, summary.limits))
        for name, quantity in quantities.items()
    }
