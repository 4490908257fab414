"""Draws a container that grows to its limit on a node that has less, and what its neighbour's reads take
meanwhile, from the kept runs of ``bench.memory.throttling``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from msgspec import Struct

from bench.memory.memqosdraw import STYLE, WIDTH, words
from bench.memory.pressed import Guest, kept
from bench.memory.throttling import RESULTS, Outcome

PICTURE = Path(__file__).with_name("memory-qos-neighbours.svg")
LOAD, PLACE = "touch", "short"
LEFT, TOP, WIDE, TALL, ACROSS, DOWN = 52, 96, 374, 170, 64, 62
BEFORE = 5
"""Seconds before the container begins that are drawn."""
KINDS = {None: "none", 0.9: "guard", 0.8: "stall"}
LABELS = {None: "the limit alone", 0.9: "memory.high, factor 0.9", 0.8: "memory.high, factor 0.8"}

Line = list[tuple[float, float]]


class Frame(Struct, frozen=True):
    """Where a panel's values lie on the paper: seconds up to ``last``, values up to ``most``."""

    left: int
    top: int
    last: int
    most: int

    def x(self, at: float) -> float:
        """Of a time."""
        return round(self.left + WIDE * (at + BEFORE) / (self.last + BEFORE), 1)

    def y(self, value: float) -> float:
        """Of a value; what is above the panel stands at its top."""
        return round(self.top + TALL * (1 - min(value, self.most) / self.most), 1)


def typical(guests: Sequence[Guest[Outcome]], linux: str, factor: float | None) -> Outcome:
    """Of the runs of a kernel, the one whose neighbour's median is the middle one."""
    rows = [
        row
        for guest in guests
        for row in guest.rows
        if (guest.linux, row.load, row.place, row.factor) == (linux, LOAD, PLACE, factor)
    ]
    rows.sort(key=lambda row: row.pods["b"].beside_ms["median"])
    return rows[(len(rows) - 1) // 2]


def used(row: Outcome) -> Line:
    """MiB of the container over seconds, and none after its end."""
    line = [(sample.at, sample.used) for sample in row.samples]
    return line if row.ended is None else [*line[:-1], (row.ended, row.most), (row.ended, 0)]


def reads(row: Outcome) -> Line:
    """The neighbour's reads over seconds as a ratio to what they took before the container began."""
    before = median(value for at, value in row.reads if at < 0)
    return [(at + 0.5, value / before) for at, value in row.reads]


def picture() -> str:
    """The picture of the kept runs."""
    guests = kept(RESULTS, Guest[Outcome])
    kernels = list(dict.fromkeys(guest.linux for guest in guests))
    height = TOP + len(kernels) * (TALL + DOWN) + 8
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">',
        STYLE,
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        words(
            LEFT, 26, "What memory.high spares a neighbour of a container that outgrows it", "title"
        ),
        words(
            LEFT,
            48,
            "A container touches pages up to its limit, 100 MiB more than the node can spare. Over seconds.",
            "soft",
        ),
        words(
            LEFT,
            height - 10,
            f"Measured on {guests[0].date}: {guests[0].machine}, no swap, guard act.",
            "soft",
        ),
    ]
    for number, linux in enumerate(kernels):
        found = {factor: typical(guests, linux, factor) for factor in KINDS}
        top = TOP + number * (TALL + DOWN)
        last = round(max(row.seconds for row in found.values()) + 3)
        limit = found[None].limit
        frame = Frame(LEFT, top, last, (limit // 500 + 1) * 500)
        rows += _axes(frame, f"Linux {linux}: MiB in use by the container", 500)
        rows.append(f'<path class="limit" d="M{LEFT} {frame.y(limit)}H{LEFT + WIDE}"/>')
        rows += _lines(frame, {factor: used(row) for factor, row in found.items()})
        frame = Frame(LEFT + WIDE + ACROSS, top, last, 8)
        rows += _axes(frame, "the neighbour's reads, times what they took before", 2)
        rows += _lines(frame, {factor: reads(row) for factor, row in found.items()})
    at: float = LEFT
    for factor, text in LABELS.items():
        rows.append(words(at, height - 30, text, f"{KINDS[factor]} name"))
        at += 250
    return "\n".join([*rows, "</svg>", ""])


def _axes(frame: Frame, title: str, step: int) -> Iterator[str]:
    right, bottom = frame.left + WIDE, frame.top + TALL
    yield words(frame.left, frame.top - 14, title, "name")
    for value in range(0, frame.most + 1, step):
        y = frame.y(value)
        yield f'<path class="grid" d="M{frame.left} {y}H{right}"/>'
        yield words(frame.left - 6, y + 4, str(value), "soft", "end")
    for at in range(0, frame.last + 1, 5):
        yield words(frame.x(at), bottom + 17, str(at), "soft", "middle")


def _lines(frame: Frame, lines: dict[float | None, Line]) -> Iterator[str]:
    for factor, line in lines.items():
        places = "L".join(f"{frame.x(at)} {frame.y(value)}" for at, value in line)
        yield f'<path class="line {KINDS[factor]}" d="M{places}"/>'


def draw() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(), encoding="utf-8")
