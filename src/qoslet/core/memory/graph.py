"""Pages taken from a group over the last minute, by zone: what a graph is drawn from."""

from __future__ import annotations

from collections.abc import Mapping

from qoslet.core.memory.events import ZONES, Zone

SPAN_SECONDS = 2.0
"""Seconds of one span."""
MAX_SPANS = 30
"""Spans that are kept."""


class ReclaimHistory:
    """Spans of time, each with the pages taken in it. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._spans: dict[int, dict[Zone, float]] = {}

    def add(self, zone: Zone, pages: int, since: float, until: float) -> None:
        """So many pages between two looks: nobody knows when, so evenly."""
        last = int(until // SPAN_SECONDS)
        first = max(int(since // SPAN_SECONDS), last - MAX_SPANS + 1)
        covered = int(until // SPAN_SECONDS) - int(since // SPAN_SECONDS) + 1
        for span in range(first, last + 1):
            found = self._spans.setdefault(span, {})
            found[zone] = found.get(zone, 0.0) + pages / covered
        for old in [one for one in self._spans if one <= last - MAX_SPANS]:
            del self._spans[old]

    def spans(self, now: float) -> Mapping[Zone, tuple[int, ...]]:
        """The last ``MAX_SPANS`` spans by zone; only zones in which anything was taken."""
        last = int(now // SPAN_SECONDS)
        found: dict[Zone, tuple[int, ...]] = {}
        for zone in ZONES:
            row = tuple(
                round(self._spans.get(span, {}).get(zone, 0.0))
                for span in range(last - MAX_SPANS + 1, last + 1)
            )
            if any(row):
                found[zone] = row
        return found
