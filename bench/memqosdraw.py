"""Draws usage over time as SVG, for ``docs/memory-qos.md``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.memqos import Curve, Look

WIDTH, HEIGHT = 780, 340
LEFT, TOP, RIGHT, BOTTOM = 54, 50, 215, 44
ACROSS, DOWN = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM


class Line(Struct, frozen=True):
    """One curve of a picture: its case, what it is called, its colour and whether it is dashed."""

    case: str
    label: str
    colour: str
    dashed: bool = False


class Picture(Struct, frozen=True):
    """A picture: its file, title, limit (MiB), seconds and lines."""

    file: str
    title: str
    limit: int
    seconds: float
    lines: tuple[Line, ...]


PICTURES = (
    Picture(
        "memory-qos-hog.svg",
        "A process that needs 300 MiB under a limit of 256 MiB",
        256,
        60,
        (
            Line("off", "no memory.high", "#6b7280"),
            Line("1.22", "1.22, unguarded", "#c2410c"),
            Line("1.27", "1.27 to 1.36, unguarded", "#b45309", dashed=True),
            Line("1.22 guarded", "1.22, guarded", "#1d4ed8"),
            Line("qoslet", "qoslet with a factor, guarded", "#15803d", dashed=True),
        ),
    ),
    Picture(
        "memory-qos-job.svg",
        "A job that needs 240 MiB within 20 s under a limit of 280 MiB",
        280,
        60,
        (
            Line("job off", "no memory.high", "#6b7280"),
            Line("job 1.22", "1.22, unguarded", "#c2410c"),
            Line("job 1.22 guarded", "1.22, guarded", "#1d4ed8"),
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
    """Where a picture's values lie on the paper: ``most`` MiB, ``seconds``."""

    most: int
    seconds: float

    def x(self, at: float) -> float:
        """Of a time."""
        return round(LEFT + ACROSS * min(at, self.seconds) / self.seconds, 1)

    def y(self, used: float) -> float:
        """Of an amount."""
        return round(TOP + DOWN * (1 - used / self.most), 1)


def svg(picture: Picture, curves: dict[str, Curve], kernel: str) -> str:
    """One picture."""
    frame = Frame(-(-picture.limit // 50) * 50 + 10, picture.seconds)
    font = 'font-family="DejaVu Sans, Verdana, sans-serif" font-size="11" fill="#374151"'
    box = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
    bold = 'font-size="13" font-weight="bold" fill="#111827"'
    below = f"seconds (Linux {kernel}, emulated)"
    rows = [
        f"<svg {box} {font}>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        words(LEFT, 20, picture.title, bold),
        *grid(frame),
        words(LEFT, TOP - 8, "MiB in use"),
        words(LEFT + ACROSS, TOP + DOWN + 32, below, 'text-anchor="end"'),
        stroke(f"M{LEFT} {frame.y(picture.limit)}H{LEFT + ACROSS}", "#111827", "2 3"),
        words(LEFT + 4, frame.y(picture.limit) - 4, f"memory.max {picture.limit}"),
    ]
    for place, line in enumerate(picture.lines):
        rows += drawn(line, curves[line.case], frame, TOP + 12 + 40 * place)
    return "\n".join([*rows, "</svg>", ""])


def words(x: float, y: float, text: str, more: str = "") -> str:
    """Text at a place."""
    return f'<text x="{x}" y="{y}" {more}>{text}</text>'


def stroke(path: str, colour: str, dash: str = "", width: int = 1) -> str:
    """A line along a path."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>'


def grid(frame: Frame) -> list[str]:
    """The lines behind the curves, with their numbers."""
    rows = []
    for used in range(0, frame.most + 1, 50):
        y = frame.y(used)
        rows.append(stroke(f"M{LEFT} {y}H{LEFT + ACROSS}", "#e5e7eb"))
        rows.append(words(LEFT - 6, y + 4, str(used), 'text-anchor="end"'))
    for at in range(0, int(frame.seconds) + 1, 10):
        x = frame.x(at)
        rows.append(stroke(f"M{x} {TOP}V{TOP + DOWN}", "#f3f4f6"))
        rows.append(words(x, TOP + DOWN + 16, str(at), 'text-anchor="middle"'))
    return rows


def drawn(line: Line, curve: Curve, frame: Frame, top: int) -> list[str]:
    """One curve, a dot where its process ended, and its legend at a height."""
    dash, side = "6 3" if line.dashed else "", LEFT + ACROSS + 12
    points = [f"{frame.x(one.at)} {frame.y(one.used)}" for one in kept(curve.looks)]
    rows = [stroke(f"M{'L'.join(points)}", line.colour, dash, 2)]
    if curve.ended:
        x, y = points[-1].split()
        rows.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{line.colour}"/>')
    return [
        *rows,
        stroke(f"M{side} {top - 4}h22", line.colour, dash, 2),
        words(side + 28, top, line.label, 'fill="#111827"'),
        words(side + 28, top + 14, end_of(curve)),
    ]


def kept(looks: Sequence[Look]) -> list[Look]:
    """Those that a line needs: not the ones in between two of the same usage."""
    return [
        one
        for place, one in enumerate(looks)
        if place in (0, len(looks) - 1)
        or not looks[place - 1].used == one.used == looks[place + 1].used
    ]
