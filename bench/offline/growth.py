"""How ``qoslet fleet`` grows with the cluster, from 15,000 pods to 1,500,000.

Each input is made before, compressed. Per size, in turns: qoslet with all processors, and one process
that unpacks and decodes only. Memory is what all processes of a side have together, sampled five
times a second: pages that processes share count once. Ends with 1 if a bound is missed; ``--keep``
writes the run to ``bench/results/growth.json``, from which ``make docs`` makes the table and the
picture of ``docs/performance.md``. Takes a quarter of an hour and 1 GB of disk.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.offline import fleet
from bench.run import load, machine

KEPT = Path(__file__).parents[1] / "results" / "growth.json"
SIZES = {15_000: 520, 50_000: 1_640, 150_000: 5_000, 500_000: 16_640, 1_500_000: 50_000}
"""Pods to nodes: about 30 on each, and with these numbers pods of as many shapes on each."""
ROUNDS = 3
SAMPLE_SECONDS = 0.2

BASE, LARGEST = 150_000, 1_500_000
MOST_TIMES, MOST_MEMORY = 10.5, 700
"""What ``LARGEST`` may take: so many times the seconds of ``BASE``, and MB."""


class Cost(Struct, frozen=True):
    """What one side took: seconds, seconds of CPU, and MB of all its processes together."""

    seconds: float
    cpu: float
    memory: float


class Point(Struct, frozen=True):
    """One size of a cluster: medians of the rounds."""

    pods: int
    nodes: int
    ours: Cost
    floor: Cost


class Growth(Struct, frozen=True):
    """What was measured, where and when."""

    machine: str
    load: float
    date: str
    points: list[Point]

    def at(self, pods: int) -> Point:
        """The point of that size."""
        return next(point for point in self.points if point.pods == pods)

    @property
    def times(self) -> tuple[float, float]:
        """How often seconds and CPU seconds of ``BASE`` go into those of ``LARGEST``."""
        base, largest = self.at(BASE).ours, self.at(LARGEST).ours
        return largest.seconds / base.seconds, largest.cpu / base.cpu

    @property
    def most_cpu(self) -> float:
        """The CPU seconds that ``LARGEST`` may take."""
        return MOST_TIMES * self.at(BASE).ours.cpu

    @property
    def most_memory(self) -> float:
        """The MB that ``LARGEST`` may take."""
        return MOST_MEMORY

    @property
    def holds(self) -> bool:
        """Whether the bounds are kept."""
        memory = max(point.ours.memory for point in self.points)
        return max(self.times) <= MOST_TIMES and memory <= self.most_memory


def kept() -> Growth:
    """The run that was kept."""
    return msgspec.json.decode(KEPT.read_bytes(), type=Growth)


def _children(pid: int) -> Iterator[int]:
    """A process and those below it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from _children(int(child))


def _together(pid: int) -> float:
    """MB that a process and those below it have now."""
    total = 0
    for one in _children(pid):
        rows = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        total += next(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    return total / 1024


def _cpu() -> float:
    """Seconds of CPU that ended children and those below them took."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measured(command: Sequence[str]) -> tuple[Cost, bytes]:
    """What a command takes and prints."""
    most = 0.0
    with tempfile.TemporaryFile() as out:
        begin, spent = time.perf_counter(), _cpu()
        with subprocess.Popen([sys.executable, *command], stdout=out) as process:
            while process.poll() is None:
                try:
                    most = max(most, _together(process.pid))
                except (OSError, StopIteration):
                    continue  # a process has ended meanwhile
                try:
                    process.wait(SAMPLE_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
        seconds = time.perf_counter() - begin
        out.seek(0)
        printed = out.read()
    if process.returncode or not most:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(seconds, _cpu() - spent, most), printed


def ours(path: Path, pods: int) -> Cost:
    """What ``qoslet fleet`` takes."""
    cost, printed = measured(["-m", "qoslet", "fleet", str(path), "-o", "json"])
    totals = msgspec.json.decode(printed)["totals"]
    if totals["pods"] != pods:
        raise SystemExit(f"qoslet fleet found {totals['pods']} of {pods} pods")
    return cost


def floor(path: Path) -> Cost:
    """What unpacking and decoding takes."""
    return measured(["-m", "bench.offline.growth", "floor", str(path)])[0]


def _medians(costs: Sequence[Cost]) -> Cost:
    columns = [[getattr(cost, name) for cost in costs] for name in Cost.__struct_fields__]
    return Cost(*(round(statistics.median(column), 2) for column in columns))


def measure(sizes: Mapping[int, int], rounds: int, folder: Path) -> list[Point]:
    """All sizes, in turns. Inputs that ``folder`` lacks are made there."""
    paths = {size: folder / f"{size}.json.gz" for size in sizes}
    for size, path in paths.items():
        if not path.exists():
            print(f"{size:,} pods are written ...", file=sys.stderr, flush=True)
            fleet.generate(path, sizes[size], size)
    found: dict[int, list[tuple[Cost, Cost]]] = {size: [] for size in sizes}
    for number in range(1, rounds + 1):
        for size, path in paths.items():
            found[size].append((ours(path, size), floor(path)))
            print(f"round {number}: {size:,} pods: {found[size][-1]}", file=sys.stderr, flush=True)
    return [
        Point(
            size,
            sizes[size],
            _medians([mine for mine, _ in costs]),
            _medians([bare for _, bare in costs]),
        )
        for size, costs in found.items()
    ]


def table(growth: Growth) -> Iterator[str]:
    """The points as a table of Markdown, and how they stand to the bounds."""
    yield "| pods | nodes | qoslet | its CPU | its memory | floor | its CPU | its memory |"
    yield "|---:|---:|---:|---:|---:|---:|---:|---:|"
    for point in growth.points:
        sides = " | ".join(
            f"{side.seconds:.1f} s | {side.cpu:.1f} s | {side.memory:.0f} MB"
            for side in (point.ours, point.floor)
        )
        yield f"| {point.pods:,} | {point.nodes:,} | {sides} |"
    seconds, cpu = growth.times
    yield ""
    yield (
        f"{LARGEST:,} pods take {seconds:.2f} times the seconds and {cpu:.2f} times the CPU of {BASE:,} "
        f"(at most {MOST_TIMES}), and {growth.at(LARGEST).ours.memory:.0f} MB (at most {MOST_MEMORY})."
    )


def main() -> int:
    """Measure and print."""
    here, before, today = machine(), load(), datetime.now(UTC).date().isoformat()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        points = measure(SIZES, ROUNDS, Path(folder))
    growth = Growth(here, round(before, 2), today, points)
    print(f"{here}, load {before:.2f} before the run\n", *table(growth), sep="\n")
    if "--keep" in sys.argv:
        KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(growth), indent=1) + b"\n")
    return int(not growth.holds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["floor"]:
        print(fleet.floor(Path(sys.argv[2])))
    else:
        sys.exit(main())
