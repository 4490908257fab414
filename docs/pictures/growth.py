"""Draws how a fleet's CPU and memory grow with its pods, from the kept run of ``bench.offline.growth``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from bench.memory.memqosdraw import STYLE, WIDTH, words
from bench.offline.growth import BASE, Cost, Growth, Point, kept

PICTURE = Path(__file__).with_name("fleet-growth.svg")
HEIGHT, TOP, TALL, LEFT, WIDE, BETWEEN = 372, 96, 210, 52, 374, 64
PODS = (10_000, 2_000_000)


class Panel(Struct, frozen=True):
    """One measure over the number of pods, both on logarithmic axes from ``span[0]`` to ``span[1]``;
    ``most`` is what the largest may take."""

    title: str
    of: Callable[[Cost], float]
    span: tuple[float, float]
    most: Callable[[Growth], float]


PANELS = (
    Panel(
        "CPU seconds of all processes",
        lambda cost: cost.cpu,
        (0.3, 300),
        lambda growth: growth.most_cpu,
    ),
    Panel(
        "MB of all processes together",
        lambda cost: cost.memory,
        (10, 2000),
        lambda growth: growth.most_memory,
    ),
)


class Frame(Struct, frozen=True):
    """Where a panel's values lie on the paper."""

    left: int
    span: tuple[float, float]

    def x(self, pods: float) -> float:
        """Of a number of pods."""
        return round(self.left + WIDE * _part(pods, PODS), 1)

    def y(self, value: float) -> float:
        """Of a value."""
        return round(TOP + TALL * (1 - _part(value, self.span)), 1)


def _part(value: float, span: tuple[float, float]) -> float:
    least, most = map(math.log, span)
    return (math.log(value) - least) / (most - least)


def _powers(span: tuple[float, float]) -> Iterator[float]:
    """The powers of ten within."""
    for exponent in range(math.ceil(math.log10(span[0])), math.floor(math.log10(span[1])) + 1):
        yield 10**exponent


def picture() -> str:
    """The picture of the kept run."""
    growth = kept()
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
    measured = f"Measured on {growth.date}: {growth.machine}, load {growth.load:g} before the run."
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}>',
        STYLE,
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        words(LEFT, 26, "What qoslet fleet takes, by the size of the cluster", "title"),
        words(
            LEFT,
            48,
            "Both axes by powers of ten; 30 pods on each node. Unpacking and decoding is one process.",
            "soft",
        ),
        words(LEFT, HEIGHT - 10, measured, "soft"),
    ]
    for number, panel in enumerate(PANELS):
        rows += _panel(growth, panel, Frame(LEFT + number * (WIDE + BETWEEN), panel.span))
    return "\n".join([*rows, "</svg>", ""])


def _panel(growth: Growth, panel: Panel, frame: Frame) -> Iterator[str]:
    right = frame.left + WIDE
    yield words(frame.left, TOP - 14, panel.title, "name")
    for value in _powers(panel.span):
        y = frame.y(value)
        yield f'<path class="grid" d="M{frame.left} {y}H{right}"/>'
        yield words(frame.left - 6, y + 4, f"{value:,g}", "soft", "end")
    for point in growth.points:
        x = frame.x(point.pods)
        yield f'<path class="grid" d="M{x} {TOP}V{TOP + TALL}"/>'
        yield words(x, TOP + TALL + 17, _short(point.pods), "soft", "middle")
    most, last = panel.most(growth), growth.points[-1].pods
    y, begin = frame.y(most), frame.x(last * 0.55)
    yield f'<path class="limit" d="M{begin} {y}H{right}"/>'
    yield words(begin - 6, y + 4, f"at most {most:.0f}", "soft", "end")
    yield from _line(growth, panel, frame, "guard", lambda point: point.ours)
    yield from _line(growth, panel, frame, "none", lambda point: point.floor)
    x = frame.x(growth.at(BASE).pods) - 8
    above, below = (panel.of(side) for side in (growth.at(BASE).ours, growth.at(BASE).floor))
    yield words(x, frame.y(above) - 12, "qoslet", "guard name", "end")
    yield words(x + 22, frame.y(below) + 24, "unpack and decode", "none name")


def _line(
    growth: Growth, panel: Panel, frame: Frame, kind: str, side: Callable[[Point], Cost]
) -> Iterator[str]:
    values = [panel.of(side(point)) for point in growth.points]
    places = [
        (frame.x(point.pods), frame.y(value))
        for point, value in zip(growth.points, values, strict=True)
    ]
    yield f'<path class="line {kind}" d="M{"L".join(f"{x} {y}" for x, y in places)}"/>'
    for x, y in places:
        yield f'<circle class="{kind}" cx="{x}" cy="{y}" r="4"/>'
    x, y = places[-1]
    yield words(x + 8, y + 16, f"{values[-1]:.0f}", f"{kind} name")


def _short(pods: int) -> str:
    """A number of pods in few characters."""
    return f"{pods / 1e6:g}M" if pods >= 1_000_000 else f"{pods // 1000}k"


def draw() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(), encoding="utf-8")
