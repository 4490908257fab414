"""Whether a guarded memory.high protects neighbours better than the limit alone: a container that
grows over its limit, or streams files, beside pods that need their page cache.

Build the load where there is a compiler (``cc -static -O2 -o bench/memory/hog bench/memory/hog.c``), then
in a guest: ``make vm-run SYSTEM=trixie CMD='python3 -m bench.memory.throttling measure /out/throttling.json'``;
names of loads or places after the file measure only those. ``python -m bench.memory.throttling keep FILE...``
makes ``bench/results/throttling.json`` of such files. ``docs/explanation/memory-qos.md`` has the table,
``docs/pictures/throttling.py`` draws the picture.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from bench.memory.burstable import RATE, kills, spare
from bench.memory.curves import Sample
from bench.memory.memqos import hog, number
from bench.memory.pressed import (
    LOAD,
    MIB,
    SERVING,
    Guest,
    Node,
    Served,
    guest,
    measure_or_keep,
    milliseconds,
    node,
    served,
    shrink,
    stat,
    until,
)
from tests.live.memory.node_load import waited

RESULTS = Path(__file__).parents[1] / "results/throttling.json"
FACTORS = (None, 0.9, 0.8)
LOADS = ("touch", "read", "files")
PLACES = {"room": 256, "short": None}
"""The limit in MiB on a node with room for it; None: more than can be had without taking page cache
from the serving pods, by ``OVER``."""
OVER = 100
BEYOND = 64
"""MiB that the container wants beyond its limit."""
HUGE_PAGES = 300
"""Of 2 MiB, taken from the machine."""
STEP = 0.2
LASTS = 20.0
"""Seconds for which a container is watched at most."""


class Outcome(Struct, frozen=True):
    """A container under a factor (None: the limit alone). ``high``, ``limit``, ``most``: MiB;
    ``ended``: seconds until it was gone, by an OOM kill or evicted; ``some``, ``full``: seconds in
    which some and all tasks of the node waited for memory, of ``seconds``; ``reads``: the median of
    the burstable pod's reads in each second; ``log``: what the agent said."""

    load: str
    place: str
    factor: float | None
    limit: int
    high: float | None
    most: float
    ended: float | None
    oom_kills: int
    evicted: bool
    seconds: float
    some: float
    full: float
    pods: dict[str, Served]
    samples: list[Sample]
    reads: list[tuple[int, float]]
    log: list[str]


def command(load: str, limit: int, program: Path) -> list[str]:
    """What the container runs."""
    amount = limit + BEYOND
    if load == "files":
        return [*LOAD, "stream", "/var/tmp/stream", str(amount)]
    return [str(program), load, str(amount), str(amount / RATE)]


def watched(made: Node, begun: float) -> tuple[list[Sample], float | None]:
    """Sample the pod until it is gone or long enough; when it was gone, in seconds."""
    samples: list[Sample] = []
    group = Path(made.group("hog"))
    while (at := round(time.monotonic() - begun, 1)) < LASTS:
        if not made.lives("hog"):
            return samples, at
        used = (number(group, "memory.current") or 0) / MIB
        high = next(filter(None, (number(one, "memory.high") for one in group.glob("*/"))), None)
        samples.append(Sample(at, round(used, 1), high and round(high / MIB, 1)))
        time.sleep(STEP)
    return samples, None


def measure(
    made: Node, load: str, place: str, limit: int, factor: float | None, program: Path
) -> Outcome:
    """One container, from warm page cache on."""
    until(made.serving, 60)
    time.sleep(5)
    before, waits, killed = {name: stat(made, name) for name in SERVING}, waited(), kills()
    said = len(made.said("guard: ", "evicting "))
    made.create(
        "hog",
        command(load, limit, program),
        f"{{requests: {{memory: 16Mi}}, limits: {{memory: {limit}Mi}}}}",
        {"qoslet.dev/memory-throttling-factor": str(factor)} if factor else {},
        "Never",
    )
    until(lambda: made.lives("hog"), 60)
    begun = time.monotonic()
    samples, ended = watched(made, begun)
    end, now = time.monotonic(), waited()
    log = made.said("guard: ", "evicting ")[said:]
    after = [((to or 0) - (of or 0)) / 1e6 for of, to in zip(waits, now, strict=True)]
    found = Outcome(
        load,
        place,
        factor,
        limit,
        next((sample.high for sample in samples if sample.high), None),
        max((sample.used for sample in samples), default=0.0),
        ended,
        kills() - killed,
        any("evicting " in line for line in log),
        round(end - begun, 1),
        round(after[0], 2),
        round(after[1], 2),
        {name: served(made, name, before[name], begun, end) for name in SERVING},
        samples,
        list(_medians(made.took("b"), begun, end)),
        log,
    )
    made.remove("hog")
    return found


def _medians(took: list[tuple[float, float]], begun: float, end: float) -> Any:
    for second in range(-5, int(end - begun) + 1):
        found = milliseconds(took, begun + second, begun + second + 1)
        if found["reads"]:
            yield second, found["median"]


def run(file: Path, names: list[str]) -> None:
    """Measure on one node, and write each row at once."""
    rows: list[Outcome] = []
    program = hog(Path("/var/tmp"))
    shrink(HUGE_PAGES)
    with node("--memory-qos", "qoslet") as made:
        made.tiers["hog"] = "burstable"
        made.warm(10.0)
        until(made.serving, 60)
        limits = {place: limit or spare(made) + OVER for place, limit in PLACES.items()}
        for load in LOADS:
            for place, limit in limits.items():
                if names and not {load, place, f"{load}-{place}"} & set(names):
                    continue
                for factor in FACTORS:
                    rows.append(measure(made, load, place, limit, factor, program))
                    print(msgspec.json.encode(rows[-1]).decode(), flush=True)
                    file.write_bytes(msgspec.json.encode(guest(rows)))


if __name__ == "__main__":
    sys.exit(measure_or_keep(__doc__ or "", run, RESULTS, Guest[Outcome]))
