"""How ``qoslet fleet`` grows with the cluster, from 15,000 pods to 1,500,000.

Each input is made before, compressed. Per size, in turns: qoslet with all processors, and one process
that unpacks and decodes only. Memory is what all processes of a side have together, sampled five
times a second: pages that processes share count once. Ends with 1 if a bound is missed; ``--keep``
writes the run to ``bench/results/growth.json``, from which ``make docs`` makes the table and the
picture of ``docs/performance.md``. Takes a quarter of an hour and 1 GB of disk.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from bench import fleet
from bench.run import load, machine

KEPT = Path(__file__).parent / "results" / "growth.json"
SIZES = (15_000, 50_000, 150_000, 500_000, 1_500_000)
PODS_PER_NODE = 30
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
    def times(self) -> float:
        """How often the seconds of ``BASE`` go into those of ``LARGEST``."""
        return self.at(LARGEST).ours.seconds / self.at(BASE).ours.seconds

    @property
    def holds(self) -> bool:
        """Whether the bounds are kept."""
        memory = max(point.ours.memory for point in self.points)
        return self.times <= MOST_TIMES and memory <= MOST_MEMORY


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
    return measured(["-m", "bench.growth", "floor", str(path)])[0]


def _medians(costs: Sequence[Cost]) -> Cost:
    columns = [
        [getattr(cost, name) for cost in costs] for name in Cost.__struct_fields__
    ]
    return Cost(*(round(statistics.median(column), 2) for column in columns))


def measure(sizes: Sequence[int], rounds: int, folder: Path) -> list[Point]:
    """All sizes, in turns. Inputs that ``folder`` lacks are made there."""
    paths = {size: folder / f"{size}.json.gz" for size in sizes}
    for size, path in paths.items():
        if not path.exists():
            print(f"{size:,} pods are written ...", file=sys.stderr, flush=True)
            fleet.generate(path, size // PODS_PER_NODE, size)
    found: dict[int, list[tuple[Cost, Cost]]] = {size: [] for size in sizes}
    for number in range(1, rounds + 1):
        for size, path in paths.items():
            found[size].append((ours(path, size), floor(path)))
            print(f"round {number}: {size:,} pods: {found[size][-1]}", file=sys.stderr, flush=True)
    return [
        Point(
            size,
            size // PODS_PER_NODE,
            _medians([mine for mine, _ in costs]),
            _medians([bare for _, bare in costs]),
        )
        for size, costs in found.items()
    ]


def table(growth: Growth) -> Iterator[str]:
    """The points as a table of Markdown."""
    yield "| pods | nodes | qoslet | pods a second | memory | floor | its memory |"
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for point in growth.points:
        mine, bare = point.ours, point.floor
        yield (
            f"| {point.pods:,} | {point.nodes:,} | {mine.seconds:.1f} s "
            f"| {point.pods / mine.seconds:,.0f} | {mine.memory:.0f} MB "
            f"| {bare.seconds:.1f} s | {bare.memory:.0f} MB |"
        )


def main() -> int:
    """Measure and print."""
    if os.sched_getaffinity(0) == {0}:
        print("one processor: the bounds are those of two", file=sys.stderr)
    here, before, today = machine(), load(), datetime.now(UTC).date().isoformat()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        points = measure(SIZES, ROUNDS, Path(folder))
    growth = Growth(here, round(before, 2), today, points)
    print(f"{here}, load {before:.2f} before the run\n", *table(growth), sep="\n")
    print(f"\n{LARGEST:,} pods: {growth.times:.2f} times {BASE:,} (at most {MOST_TIMES})")
    if "--keep" in sys.argv:
        KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(growth), indent=1) + b"\n")
    return int(not growth.holds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["floor"]:
        print(fleet.floor(Path(sys.argv[2])))
    else:
        sys.exit(main())
