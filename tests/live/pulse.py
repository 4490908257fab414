"""When a node came to be short of memory, and when that was over: read off its pulse."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from qoslet.core.memsample import NodeMemory, Pressure
from qoslet.core.pressure import MARKS, node_stall, waits

WINDOW = 0.5
"""Seconds over which a rate is taken."""


class Times(Struct, frozen=True):
    """Monotonic seconds; None where it did not happen. ``onset``: the first half second in which
    memory was short by the marks of ``core.pressure``; ``gone``: no process is left in the group;
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
    looks = [_node(row) for row in found]
    wanted = MARKS.wanted(looks[-1].total)
    onset = gone = relief = None
    shares = []
    first = 0
    for at, now in enumerate(looks):
        while now.at - looks[first + 1].at >= WINDOW if first + 1 < at else False:
            first += 1
        if now.at - looks[first].at < WINDOW:
            continue
        stall = node_stall(looks[first], now)
        shares.append(stall.full)
        short = now.available < wanted and waits(stall, MARKS, now.available)
        if onset is None and short:
            onset = now.at
        was = any(row["left"][group] for row in found[:at])
        if gone is None and was and not found[at]["left"][group]:
            gone = now.at
        later = [one for one in looks[at:] if one.at <= now.at + 1.0]
        calm = all(one.available >= wanted for one in later)
        if onset is not None and relief is None and calm:
            relief = now.at
    known = [one for one in shares if one is not None]
    least = min(one.available for one in looks)
    return Times(onset, gone, relief, least, max(known, default=None))


def _node(row: dict[str, Any]) -> NodeMemory:
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
