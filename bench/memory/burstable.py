"""Ways to protect the page cache of a burstable pod beside a best-effort hog: what each is worth to
the pod, where the hog ends, and who is killed.

Build the load where there is a compiler (``cc -static -O2 -o bench/memory/hog bench/memory/hog.c``), then
in a guest: ``make vm-run SYSTEM=trixie CMD='python3 -m bench.memory.burstable measure /out/burstable.json'``;
words after the file: ``swap``: with 256 MiB of swap; ``hide``: the hog's memory is a file that it does not
map; ``all``: it wants more than there is; ``act``: with the guard; names of ways: only those.
``python -m bench.memory.burstable keep FILE...`` makes ``bench/results/burstable.json`` of such files.
``docs/explanation/memory-pressure.md`` has the table.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.memory import memqos
from bench.memory.memqos import number
from bench.memory.pressed import (
    HELD,
    LOAD,
    MIB,
    SERVING,
    Guest,
    Node,
    Served,
    cached,
    guest,
    measure_or_keep,
    node,
    served,
    shrink,
    stat,
    until,
)
from bench.memory.protection import holds, swap
from tests.live.memory.node_load import kibibytes, waited

RESULTS = Path(__file__).parents[1] / "results/burstable.json"
REQUESTS = {"b": 260 * MIB, "g": 180 * MIB}
HARD = 7 / 8
"""The share of its request that variant qoslet gives a Guaranteed pod in memory.min."""
OVER, ALL = 120, 400
"""MiB that the hog wants beyond what can be had without taking from pods: less than they hold, and more
than the machine has."""
SHORT, PLENTY = 64, 192
"""MiB that can be had without taking from pods: a way that answers shortage begins, and ends."""
HUGE_PAGES = 480
"""Of 2 MiB, taken from the machine."""
RATE = 120.0
"""MiB that the hog takes in a second."""
STEP = 0.25
BESIDE = 15.0
"""Seconds that the hog is left beside the others once it has what it wants."""
LONGEST = 60.0
"""Seconds within which it has to get there."""
TTL = Path("/sys/kernel/mm/lru_gen/min_ttl_ms")


class Way(Struct, frozen=True):
    """``low``: requests in memory.low; ``hard``: the share of the burstable pod's that is in
    memory.min, too; ``answer``: what is done to the QoS cgroup of best-effort pods while memory is
    short; ``ttl``: milliseconds of lru_gen's min_ttl_ms."""

    name: str
    low: bool = True
    hard: float = 0.0
    answer: str = ""
    ttl: int = 0


WAYS = (
    Way("nothing", low=False),
    Way("memory.low = request"),
    Way("and memory.min = 50 %", hard=0.5),
    Way("and memory.min = 80 %", hard=0.8),
    Way("and memory.high on best-effort", answer="high"),
    Way("and memory.reclaim of best-effort", answer="reclaim"),
    Way("and min_ttl_ms = 1000", ttl=1000),
)


class Outcome(Struct, frozen=True):
    """A way as it went. ``load``: what the hog does, a word of ``node_load``; ``over``: a
    setting; ``wanted``, ``most``: MiB that the hog wanted, and got; ``reached``,
    ``killed``: seconds until it had that, and until it was gone; ``still``: seconds for which it had
    not grown by 1 MiB, short of what it wanted, when the watch ended; ``oom_kills``: of the machine;
    ``quiet``: whether the quiet best-effort pod lived; ``some``, ``full``: seconds in which some and
    all tasks waited for memory, of ``seconds``; ``files``: memory.min and memory.low in MiB of the
    burstable pod at the end."""

    way: str
    load: str
    over: int
    swap: int
    guard: str
    wanted: int
    most: int
    reached: float | None
    killed: float | None
    still: float
    oom_kills: int
    quiet: bool
    seconds: float
    some: float
    full: float
    files: tuple[int, int]
    pods: dict[str, Served]
    log: list[str]


class Setting(Struct, frozen=True):
    """What all ways of a run have: the hog's load and what it wants too much, swap, both in MiB, and the
    guard."""

    load: str = "hold"
    over: int = OVER
    swap: int = 0
    guard: str = "off"


def spare(made: Node) -> int:
    """MiB that can be had without taking page cache from the serving pods."""
    return kibibytes("MemAvailable") // 1024 - sum(cached(stat(made, name)) for name in SERVING)


def besteffort(made: Node) -> Path:
    """The QoS cgroup of best-effort pods."""
    return Path(made.group("hog")).parent


def protect(made: Node, way: Way) -> None:
    """Write a way's protection on the serving pods, their containers and every cgroup above, wherever
    it does not stand: systemd takes it back when it changes a unit."""
    low = REQUESTS if way.low else dict.fromkeys(REQUESTS, 0)
    hard = {"b": int(low["b"] * way.hard), "g": int(low["g"] * HARD)}
    above = Path(made.group("b")).parent
    rows = [
        (group, hard[name], low[name])
        for name in SERVING
        for group in (Path(made.group(name)), *Path(made.group(name)).glob("*/"))
    ]
    rows.append((above, hard["b"], low["b"]))
    both = sum(hard.values()), sum(low.values())
    rows += [(above.parent, *both), (Path(made.top), *both)]
    for group, least, soft in rows:
        for file, value in (("memory.min", least // 4096 * 4096), ("memory.low", soft)):
            if number(group, file) != value:
                (group / file).write_text(str(value))


def answer(made: Node, way: Way) -> None:
    """What a way does now."""
    group = besteffort(made)
    left = spare(made)
    if way.answer == "high" and left < SHORT and number(group, "memory.high") is None:
        (group / "memory.high").write_text(str(number(group, "memory.current")))
    elif way.answer == "high" and left > PLENTY:
        (group / "memory.high").write_text("max")
    elif way.answer == "reclaim" and left < SHORT:
        with suppress(OSError):  # EAGAIN: less than that could be had
            (group / "memory.reclaim").write_text(str(32 * MIB))


def kills() -> int:
    """OOM kills of the machine so far."""
    lines = Path("/proc/vmstat").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("oom_kill ")))


class _Hog:
    """A hog as it is watched."""

    def __init__(self, made: Node, way: Way, wanted: int) -> None:
        self.made, self.way, self.wanted = made, way, wanted
        self.begun = self.grew = time.monotonic()
        self.most = self.at_grew = 0.0
        self.reached: float | None = None
        self.killed: float | None = None

    def watch(self) -> None:
        """Until it has what it wants and for a while after, or it is gone, or long enough."""
        while (now := time.monotonic() - self.begun) < LONGEST + ((self.reached and BESIDE) or 0):
            protect(self.made, self.way)
            answer(self.made, self.way)
            held = holds(self.made)
            self.most = max(self.most, held)
            if held > self.at_grew + 1:
                self.at_grew, self.grew = held, time.monotonic()
            if not self.made.lives("hog"):
                self.killed = now
                return
            if self.reached is None and held >= self.wanted * 0.97:
                self.reached = now
            if self.reached is not None and now > self.reached + BESIDE:
                return
            time.sleep(STEP)


def measure(made: Node, way: Way, wanted: int, setting: Setting, program: Path) -> Outcome:
    """One way, from warm page cache on."""
    if TTL.exists():
        TTL.write_text(str(way.ttl))
    (besteffort(made) / "memory.high").write_text("max")
    protect(made, way)
    until(made.serving, 60)
    time.sleep(8)
    before, waits, killed = {name: stat(made, name) for name in SERVING}, waited(), kills()
    quiet = Path(made.group("q"))
    spared, said = memqos.kills(quiet), len(made.said("evicting "))
    command = [*LOAD, setting.load, str(wanted)]
    if setting.load == "hold":
        command = [str(program), "hold", str(wanted), str(wanted / RATE)]
    made.create("hog", command, restart="Never")
    until(lambda: made.lives("hog"), 60)
    hog = _Hog(made, way, wanted)
    hog.watch()
    end, now = time.monotonic(), waited()
    after = [((to or 0) - (of or 0)) / 1e6 for of, to in zip(waits, now, strict=True)]
    group = Path(made.group("b"))
    found = Outcome(
        way.name,
        setting.load,
        setting.over,
        setting.swap,
        setting.guard,
        wanted,
        round(hog.most),
        hog.reached and round(hog.reached, 1),
        hog.killed and round(hog.killed, 1),
        0.0 if hog.reached or hog.killed else round(end - hog.grew, 1),
        kills() - killed,
        memqos.kills(quiet) == spared,
        round(end - hog.begun, 1),
        round(after[0], 2),
        round(after[1], 2),
        ((number(group, "memory.min") or 0) // MIB, (number(group, "memory.low") or 0) // MIB),
        {name: served(made, name, before[name], hog.begun, end) for name in SERVING},
        made.said("evicting ")[said:],
    )
    (besteffort(made) / "memory.high").write_text("max")
    made.remove("hog")
    return found


def run(file: Path, words: list[str]) -> None:
    """Measure on one node, and write each row at once."""
    setting = Setting(
        "hide" if "hide" in words else "hold",
        ALL if "all" in words else OVER,
        256 if "swap" in words else 0,
        "act" if "act" in words else "off",
    )
    names = [word for word in words if word not in ("hide", "all", "swap", "act")]
    rows: list[Outcome] = []
    program = memqos.hog(Path("/var/tmp"))
    shrink(HUGE_PAGES)
    swap(setting.swap)
    with node("--guard", setting.guard, "--memory-qos", "off") as made:
        made.put("q", ["hold", str(HELD)])
        made.warm(10.0)
        wanted = spare(made) + setting.over + setting.swap
        for way in WAYS:
            if not names or any(name in way.name for name in names):
                rows.append(measure(made, way, wanted, setting, program))
                print(msgspec.json.encode(rows[-1]).decode(), flush=True)
                file.write_bytes(msgspec.json.encode(guest(rows)))
    swap(0)


if __name__ == "__main__":
    sys.exit(measure_or_keep(__doc__ or "", run, RESULTS, Guest[Outcome]))
