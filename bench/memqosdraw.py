"""Draws usage over time as SVG, for ``docs/explanation/memory-qos.md``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.memqos import Curve, Look

LEFT, TOP, RIGHT, BOTTOM = 54, 62, 16, 48
BETWEEN = (44, 74)
"""Between panels, across and down: room for numbers and titles."""
GREY, RED, BLUE = "#6b7280", "#c2410c", "#1d4ed8"


class Line(Struct, frozen=True):
    """One curve: its case, what it is called, and its colour."""

    case: str
    label: str
    colour: str


class Panel(Struct, frozen=True):
    """Axes with a title of their own, and the lines in them."""

    title: str
    lines: tuple[Line, ...]


class Picture(Struct, frozen=True):
    """A picture: its file, title, limit (MiB), seconds, how many panels stand beside each other,
    the size of each, and the panels."""

    file: str
    title: str
    limit: int
    seconds: float
    columns: int
    size: tuple[int, int]
    panels: tuple[Panel, ...]


def both(name: str, title: str) -> Panel:
    """A form's panel: with and without guard."""
    lines = (Line(name, "guard off", RED), Line(f"{name} guarded", "guard act", BLUE))
    return Panel(title, lines)


PICTURES = (
    Picture(
        "memory-qos-hog.svg",
        "A process that needs 300 MiB under a limit of 256 MiB, under each form",
        256,
        60,
        3,
        (230, 150),
        (
            both("1.22", "1.22, factor 0.8"),
            both("1.27", "1.27, factor 0.9"),
            both("design", "design, factor 0.9"),
            both("1.36", "1.36, factor 0.9"),
            both("1.37", "1.37: no factor, no memory.high"),
            both("qoslet", "qoslet, where a pod asks for 0.9"),
        ),
    ),
    Picture(
        "memory-qos-job.svg",
        "A job that needs 240 MiB within 20 s under a limit of 280 MiB",
        280,
        60,
        1,
        (700, 220),
        (
            Panel(
                "",
                (
                    Line("job off", "no memory.high", GREY),
                    Line("job 1.22", "1.22, factor 0.7, guard off", RED),
                    Line("job 1.22 guarded", "1.22, factor 0.7, guard act", BLUE),
                ),
            ),
        ),
    ),
)


def end_of(curve: Curve) -> str:
    """What became of the process."""
    at = f"{curve.looks[-1].at:.0f} s"
    if curve.killed:
        return f"killed at its limit, {at}"
    return f"done, {at}" if curve.ended else f"hangs at {curve.looks[-1].used:.0f} MiB"


def draw(folder: Path) -> None:
    """Write the pictures beside the figures."""
    document = json.loads((folder / "memory-qos.json").read_text())
    curves = {one.name: one for one in msgspec.convert(document["curves"], list[Curve])}
    for picture in PICTURES:
        (folder / picture.file).write_text(svg(picture, curves, document["kernel"]))


class Frame(Struct, frozen=True):
    """Where a panel's values lie on the paper: from ``left`` and ``top`` on, ``size`` wide and
    high, for ``most`` MiB and ``seconds``."""

    left: int
    top: int
    size: tuple[int, int]
    most: int
    seconds: float

    def x(self, at: float) -> float:
        """Of a time."""
        return round(self.left + self.size[0] * min(at, self.seconds) / self.seconds, 1)

    def y(self, used: float) -> float:
        """Of an amount."""
        return round(self.top + self.size[1] * (1 - used / self.most), 1)


def frames(picture: Picture) -> list[Frame]:
    """Where the panels are."""
    most = -(-picture.limit // 50) * 50 + 10
    across, down = (side + gap for side, gap in zip(picture.size, BETWEEN, strict=True))
    places = (divmod(number, picture.columns) for number in range(len(picture.panels)))
    return [
        Frame(LEFT + across * column, TOP + down * row, picture.size, most, picture.seconds)
        for row, column in places
    ]


def svg(picture: Picture, curves: dict[str, Curve], kernel: str) -> str:
    """One picture."""
    placed = frames(picture)
    width = max(one.left for one in placed) + picture.size[0] + RIGHT
    height = max(one.top for one in placed) + picture.size[1] + BOTTOM
    font = 'font-family="DejaVu Sans, Verdana, sans-serif" font-size="11" fill="#374151"'
    box = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
    bold = 'font-size="13" font-weight="bold" fill="#111827"'
    below = f"MiB in use over seconds (Linux {kernel}, emulated)"
    rows = [
        f"<svg {box} {font}>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        words(LEFT, 22, picture.title, bold),
        words(width - RIGHT, height - 12, below, 'text-anchor="end"'),
    ]
    for frame, panel in zip(placed, picture.panels, strict=True):
        rows += axes(frame, panel, picture.limit)
        for place, line in enumerate(panel.lines):
            rows += drawn(line, curves[line.case], frame, len(panel.lines) - place)
    return "\n".join([*rows, "</svg>", ""])


def words(x: float, y: float, text: str, more: str = "") -> str:
    """Text at a place."""
    return f'<text x="{x}" y="{y}" {more}>{text}</text>'


def stroke(path: str, colour: str, dash: str = "", width: int = 1) -> str:
    """A line along a path."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>'


def axes(frame: Frame, panel: Panel, limit: int) -> list[str]:
    """The lines behind the curves, with their numbers, the limit, and the panel's title."""
    right, bottom = frame.left + frame.size[0], frame.top + frame.size[1]
    rows = [words(frame.left, frame.top - 10, panel.title, 'font-weight="bold"')]
    for used in range(0, frame.most + 1, 50):
        y = frame.y(used)
        rows.append(stroke(f"M{frame.left} {y}H{right}", "#e5e7eb"))
        rows.append(words(frame.left - 6, y + 4, str(used), 'text-anchor="end"'))
    for at in range(0, int(frame.seconds) + 1, 10):
        x = frame.x(at)
        rows.append(stroke(f"M{x} {frame.top}V{bottom}", "#f3f4f6"))
        rows.append(words(x, bottom + 16, str(at), 'text-anchor="middle"'))
    y = frame.y(limit)
    rows.append(stroke(f"M{frame.left} {y}H{right}", "#111827", "2 3"))
    rows.append(words(right, y - 4, f"memory.max {limit}", 'text-anchor="end"'))
    return rows


def drawn(line: Line, curve: Curve, frame: Frame, place: int) -> list[str]:
    """One curve, a dot where its process ended, and its legend, so many lines above the axis."""
    points = [f"{frame.x(one.at)} {frame.y(one.used)}" for one in kept(curve.looks)]
    rows = [stroke(f"M{'L'.join(points)}", line.colour, width=2)]
    if curve.ended:
        x, y = points[-1].split()
        rows.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{line.colour}"/>')
    right, base = frame.left + frame.size[0] - 6, frame.top + frame.size[1] + 10 - 18 * place
    legend = f"{line.label}: {end_of(curve)}"
    more = f'text-anchor="end" fill="{line.colour}" font-weight="bold"'
    return [*rows, words(right, base, legend, more)]


def kept(looks: Sequence[Look]) -> list[Look]:
    """Those that a line needs: not the ones in between two of the same usage."""
    return [
        one
        for place, one in enumerate(looks)
        if place in (0, len(looks) - 1)
        or not looks[place - 1].used == one.used == looks[place + 1].used
    ]
