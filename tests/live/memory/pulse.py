"""When a node came to be short of memory, and when that was over: read off its pulse."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from qoslet.core.memory.sample import NodeMemory, Pressure
from qoslet.core.pressure.node_pressure import PRESSURE_THRESHOLDS, node_stall, waits

WINDOW = 0.5
"""Seconds over which a rate is taken."""
LASTS = 1.0
"""Seconds within which it is short again, where it is no matter of a moment."""


class Times(Struct, frozen=True):
    """Monotonic seconds; None where it did not happen. ``onset``: the first half second in which
    memory was short by the marks of ``core.pressure``, of which another follows within a second, or
    the end of the group's processes; ``gone``: no process is left in the group;
    ``relief``: as much can be had as is wanted, from then on for a second; ``least`` bytes could be
    had, ``full`` is the largest share of time in which everything waited."""

    onset: float | None
    gone: float | None
    relief: float | None
    least: int
    full: float | None


def rows(log: Path) -> list[dict[str, Any]]:
    """What was written down; a last line that is not whole is left out."""
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    return [json.loads(line) for line in lines]


def times(found: Sequence[dict[str, Any]], group: int = 0) -> Times:
    """The times of a pulse and one of its groups."""
    looks = [node(row) for row in found]
    wanted = PRESSURE_THRESHOLDS.wanted_bytes(looks[-1].total)
    shares, short = _windows(looks, wanted)
    gone = next(
        (
            looks[at].at
            for at in range(1, len(found))
            if found[at - 1]["left"][group] and not found[at]["left"][group]
        ),
        None,
    )
    onset = next((at for at in short if _lasts(at, short, gone)), None)
    relief = None
    for number, now in enumerate(looks):
        later = [one for one in looks[number:] if one.at <= now.at + 1.0]
        if onset is not None and now.at >= onset and all(one.available >= wanted for one in later):
            relief = now.at
            break
    known = [one for one in shares if one is not None]
    least = min(one.available for one in looks)
    return Times(onset, gone, relief, least, max(known, default=None))


def _windows(looks: Sequence[NodeMemory], wanted: int) -> tuple[list[float | None], list[float]]:
    """Of each half second the share of time in which everything waited, and the ends of those in
    which memory was short."""
    shares, short = [], []
    first = 0
    for at, now in enumerate(looks):
        while now.at - looks[first + 1].at >= WINDOW if first + 1 < at else False:
            first += 1
        if now.at - looks[first].at < WINDOW:
            continue
        stall = node_stall(looks[first], now)
        shares.append(stall.full_ratio)
        if now.available < wanted and waits(stall, PRESSURE_THRESHOLDS, now.available):
            short.append(now.at)
    return shares, short


def _lasts(end: float, short: Sequence[float], gone: float | None) -> bool:
    """Whether it is short again soon after a half second that ended then, or the group is gone."""
    until = end + WINDOW + LASTS
    if gone is not None and end <= gone <= until:
        return True
    return any(end + WINDOW <= one <= until for one in short)


def node(row: dict[str, Any]) -> NodeMemory:
    """A row as a look."""
    psi = None
    if row["some"] is not None:
        psi = Pressure(0.0, row["some"], 0.0, row["full"])
    return NodeMemory(
        at=row["at"],
        total=row["total"],
        available=row["available"],
        free=0,
        pressure=psi,
        scanned=row["scanned"],
        stolen=row["stolen"],
    )
