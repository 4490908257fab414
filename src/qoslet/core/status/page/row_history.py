"""What cgroups used over the last looks: a ring of numbers for each, and the points between them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import isnan, nan
from typing import Literal

from msgspec import Struct

from qoslet.core.status.node_top import TopRow

Series = Literal["cpu", "throttled", "memory", "pressure", "cpu_pressure"]
SERIES: tuple[Series, ...] = ("cpu", "throttled", "memory", "pressure", "cpu_pressure")
LOOKS = 300
"""Looks that are kept of each cgroup: ten minutes of one every two seconds."""


class Timeline(Struct, frozen=True):
    """One series: seconds before the last look, which are zero or less, and values; None where it
    was unknown."""

    seconds: tuple[float, ...]
    values: tuple[float | None, ...]


class RowHistory:
    """The rings of all cgroups of a node, ``looks`` long, by their names."""

    def __init__(self, looks: int = LOOKS) -> None:
        self._looks = looks
        self._at = array("d")
        self._rings: dict[str, tuple[array[float], ...]] = {}

    def add(self, rows: Sequence[TopRow], at: float, seconds: float) -> None:
        """One look at ``at`` monotonic seconds; throttled time is kept as the share of
        ``seconds``, in percent. Cgroups that are gone are forgotten."""
        self._at.append(at)
        length = len(self._at)
        known = {row.name for row in rows}
        for name in self._rings.keys() - known:
            del self._rings[name]
        for row in rows:
            if row.name not in self._rings:
                self._rings[row.name] = tuple(array("d", [nan] * (length - 1)) for _ in SERIES)
            share = None if row.throttled is None or not seconds else 100 * row.throttled / seconds
            values = (row.cpu, share, row.memory, row.pressure, row.cpu_pressure)
            for ring, value in zip(self._rings[row.name], values, strict=True):
                ring.append(nan if value is None else float(value))
        if length > self._looks:
            del self._at[0]
            for rings in self._rings.values():
                for ring in rings:
                    del ring[0]

    def timeline(self, name: str, series: Series) -> Timeline:
        """One series of a cgroup; empty where it is unknown."""
        rings = self._rings.get(name)
        if rings is None or not self._at:
            return Timeline((), ())
        last = self._at[-1]
        ring = rings[SERIES.index(series)]
        return Timeline(
            tuple(at - last for at in self._at),
            tuple(None if isnan(value) else value for value in ring),
        )
