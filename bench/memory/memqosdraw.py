"""Draws usage over time as SVG, for ``README.md`` and ``docs/explanation/memory-qos.md``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.memory.curves import Curve, Results

WIDTH = 880
"""Pixels: about what a forge gives a README, so that the text keeps its size."""
LEFT, TOP, RIGHT, BOTTOM = 40, 96, 14, 52
BETWEEN = (46, 62)
"""Between panels, across and down: room for numbers and titles."""

STYLE = """<style>
text { font: 13px "DejaVu Sans", Verdana, Arial, sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: bold }
.name { font-weight: bold }
.soft { fill: #59636e; font-size: 12px }
.paper { fill: #ffffff }
path { fill: none; stroke-width: 1 }
.grid { stroke: #e4e8ec }
.limit { stroke: #1f2328; stroke-width: 1.5 }
.high { stroke: #59636e; stroke-dasharray: 2 4 }
.line { stroke-width: 2.5 }
.stall { stroke: #c2410c } text.stall, circle.stall { fill: #c2410c; stroke: none }
.guard { stroke: #1d4ed8 } text.guard, circle.guard { fill: #1d4ed8; stroke: none }
.none { stroke: #6b7280 } text.none, circle.none { fill: #59636e; stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.soft { fill: #9da7b1 }
.paper { fill: #0d1117 }
.grid { stroke: #262c34 }
.limit { stroke: #e6edf3 }
.high { stroke: #9da7b1 }
.stall { stroke: #ff9060 } text.stall, circle.stall { fill: #ff9060 }
.guard { stroke: #79b8ff } text.guard, circle.guard { fill: #79b8ff }
.none { stroke: #9da7b1 } text.none, circle.none { fill: #9da7b1 }
}
</style>"""


class Line(Struct, frozen=True):
    """Curves of the same kind under one label.

    ``place``: where the label begins, or ends if ``end``, in seconds and MiB.
    """

    cases: tuple[str, ...]
    label: str
    kind: str
    place: tuple[float, float]
    end: bool = False


class Panel(Struct, frozen=True):
    """Axes with a title of their own, and the lines in them."""

    title: str
    lines: tuple[Line, ...]


class Picture(Struct, frozen=True):
    """A picture: its file, title and load, what its axes span (MiB, seconds), how many panels stand
    beside each other, the height of each, and the panels."""

    file: str
    title: str
    load: str
    used: range
    seconds: int
    columns: int
    height: int
    panels: tuple[Panel, ...]


NEEDS = "A container with request 16Mi takes 300 MiB. At its limit of 256Mi the kernel kills it"
TOUCHES, READS = "writes to each page", "fills a buffer in one read()"
LOW, LOWER = (10, 192), (10, 185)


def alone(load: str, names: Sequence[str], place: tuple[float, float], end: bool) -> Line:
    """The label of formulas without the guard."""
    cases = tuple(f"{load} {name}" for name in names)
    title = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    return Line(cases, f"Kubernetes {title}, no guard:\n", "stall", place, end)


def stalls(load: str, title: str, *lines: Line) -> Panel:
    """A kind of load: no memory.high, each formula with the guard, and these lines."""
    guarded = tuple(f"{load} {name} guarded" for name in ("1.22", "1.27", "design", "1.36"))
    return Panel(
        title,
        (
            Line((f"{load} 1.37",), "no memory.high: ", "none", LOWER),
            Line(guarded, "each formula, guarded: ", "guard", LOW),
            *lines,
        ),
    )


def formula(load: str, name: str, title: str) -> Panel:
    """One formula with and without the guard."""
    used = 238 if name == "1.22" else 211
    return Panel(
        title,
        (
            Line((f"{load} {name} guarded",), "guard act: ", "guard", (12, 185)),
            Line((f"{load} {name}",), "guard off: ", "stall", (99, used), True),
        ),
    )


FORMULAS = {
    "1.22": "1.22, factor 0.8",
    "1.27": "1.27, factor 0.9",
    "design": "design, factor 0.9",
    "1.36": "1.36, factor 0.9",
    "qoslet": "qoslet, pod's factor 0.9",
}
LATER = ("1.27", "design", "1.36")
"""They have one formula, but for the rounding to pages."""

PICTURES = (
    Picture(
        "memory-qos-stall.svg",
        "memory.high can hang a container below its limit. The guard ends the stall.",
        NEEDS,
        range(180, 265, 20),
        100,
        2,
        280,
        (
            stalls(
                "touch",
                f"A program that {TOUCHES}, as heaps grow",
                alone("touch", ["1.22"], (12, 222), False),
                alone("touch", LATER, (12, 249), False),
            ),
            stalls(
                "read",
                f"A program that {READS}",
                alone("read", ["1.22"], (99, 218), True),
                alone("read", LATER, (99, 247), True),
            ),
        ),
    ),
    Picture(
        "memory-qos-formulas.svg",
        "Each formula of memory.high, with and without the guard",
        NEEDS,
        range(180, 265, 20),
        100,
        2,
        120,
        tuple(
            formula(load, name, f"{title}: {does}")
            for name, title in FORMULAS.items()
            for load, does in (("touch", TOUCHES), ("read", READS))
        ),
    ),
    Picture(
        "memory-qos-job.svg",
        "memory.high holds up a job that stays below its limit. The guard ends the stall.",
        "A container with limit 280Mi takes 240 MiB within 20 s",
        range(0, 301, 50),
        100,
        1,
        220,
        (
            Panel(
                "",
                (
                    Line(("job 1.37",), "no memory.high: ", "none", (22, 255)),
                    Line(("job 1.22 guarded",), "1.22, factor 0.7, guard: ", "guard", (22, 235)),
                    Line(("job 1.22",), "1.22, factor 0.7, no guard: ", "stall", (22, 177)),
                ),
            ),
        ),
    ),
)


def draw(results: Path, folder: Path) -> None:
    """Write the pictures of these results into a folder."""
    measured = msgspec.json.decode(results.read_bytes(), type=Results)
    for picture in PICTURES:
        (folder / picture.file).write_text(svg(picture, measured))


class Frame(Struct, frozen=True):
    """Where a panel's values lie on the paper: from ``left`` and ``top`` on, ``width`` and ``height``
    pixels for these MiB and seconds."""

    left: int
    top: int
    width: int
    height: int
    used: range
    seconds: int

    def x(self, at: float) -> float:
        """Of a time."""
        return round(self.left + self.width * at / self.seconds, 1)

    def y(self, used: float) -> float:
        """Of an amount."""
        least, most = self.used.start, self.used.stop
        return round(self.top + self.height * (most - used) / (most - least), 1)


def frames(picture: Picture) -> Iterator[Frame]:
    """Where the panels are."""
    across, down = BETWEEN
    columns = picture.columns
    width = (WIDTH - LEFT - RIGHT - across * (columns - 1)) // columns
    for number in range(len(picture.panels)):
        row, column = divmod(number, columns)
        left, top = LEFT + (width + across) * column, TOP + (picture.height + down) * row
        yield Frame(left, top, width, picture.height, picture.used, picture.seconds)


def svg(picture: Picture, results: Results) -> str:
    """One picture."""
    curves = {curve.name: curve for curve in results.curves}
    placed = list(frames(picture))
    height = placed[-1].top + picture.height + BOTTOM
    kernel = results.kernel.split("+")[0]
    measured = f"Measured on {results.date}: Linux {kernel}, {results.machine}."
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">',
        STYLE,
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        words(LEFT, 26, picture.title, "title"),
        words(LEFT, 48, f"MiB in use over seconds. {picture.load}.", "soft"),
        words(LEFT, height - 10, measured, "soft"),
    ]
    for number, (frame, panel) in enumerate(zip(placed, picture.panels, strict=True)):
        groups = [[curves[name] for name in line.cases] for line in panel.lines]
        rows += axes(frame, panel.title, [curve for group in groups for curve in group])
        box = f'x="{frame.left}" y="{frame.top}" width="{frame.width}" height="{frame.height}"'
        rows.append(f'<clipPath id="panel{number}"><rect {box}/></clipPath>')
        for line, group in zip(panel.lines, groups, strict=True):
            rows += [row for curve in group for row in drawn(curve, line.kind, frame, number)]
        for line, group in zip(panel.lines, groups, strict=True):
            rows += label(line, group, frame)
    return "\n".join([*rows, "</svg>", ""])


def words(x: float, y: float, text: str, name: str = "", anchor: str = "start") -> str:
    """Text at a place."""
    return f'<text x="{x}" y="{y}" class="{name}" text-anchor="{anchor}">{text}</text>'


def axes(frame: Frame, title: str, curves: Sequence[Curve]) -> list[str]:
    """What is behind the curves: the grid with its numbers, the limit, and each memory.high."""
    right, bottom = frame.left + frame.width, frame.top + frame.height
    rows = [words(frame.left, frame.top - 14, title, "name")]
    for used in frame.used:
        y = frame.y(used)
        rows.append(f'<path class="grid" d="M{frame.left} {y}H{right}"/>')
        rows.append(words(frame.left - 6, y + 4, str(used), "soft", "end"))
    for at in range(0, frame.seconds + 1, 20):
        rows += [words(frame.x(at), bottom + 17, str(at), "soft", "middle")]
    y = frame.y(curves[0].limit)
    rows.append(f'<path class="limit" d="M{frame.left} {y}H{right}"/>')
    rows.append(words(right, y - 5, f"limit {curves[0].limit}", "soft", "end"))
    for high in sorted({high for curve in curves if (high := curve.samples[0].high)}):
        y = frame.y(high)
        rows.append(f'<path class="high" d="M{frame.left} {y}H{right}"/>')
        rows.append(words(right, y + 14, f"memory.high {high:.0f}", "soft", "end"))
    return rows


def drawn(curve: Curve, kind: str, frame: Frame, panel: int) -> list[str]:
    """One curve, and a dot where its process ended."""
    samples = curve.samples
    points = [(sample.at, sample.used) for sample in samples]
    if curve.ended is not None:
        # what a process that ends gives back is not its usage
        most = max(range(len(points)), key=lambda place: samples[place].used)
        level = curve.limit if curve.killed else points[most][1]
        points = [*points[: most + 1], (curve.ended, level)]
    path = "L".join(f"{frame.x(at)} {frame.y(used)}" for at, used in points)
    clip = f'clip-path="url(#panel{panel})"'
    rows = [f'<path class="line {kind}" d="M{path}" {clip}/>']
    if curve.ended is not None and curve.ended <= frame.seconds:
        x, y = frame.x(points[-1][0]), frame.y(points[-1][1])
        rows.append(f'<circle class="{kind}" cx="{x}" cy="{y}" r="4.5"/>')
    return rows


def label(line: Line, curves: Sequence[Curve], frame: Frame) -> list[str]:
    """What the curves are, and what became of their processes."""
    (at, used), anchor = line.place, "end" if line.end else "start"
    lines = f"{line.label}{outcome(curves)}".split("\n")
    return [
        words(frame.x(at), frame.y(used) + 16 * row, text, f"{line.kind} name", anchor)
        for row, text in enumerate(lines)
    ]


def outcome(curves: Sequence[Curve]) -> str:
    """What became of the processes of some curves."""
    ended = [curve.ended for curve in curves if curve.ended is not None]
    standing = [curve.samples[-1] for curve in curves if curve.ended is None]
    parts = []
    if standing:
        seconds = min(sample.at for sample in standing)
        used = span([sample.used for sample in standing])
        parts.append(f"still at {used} MiB after {seconds:.0f} s")
    if ended:
        verb = "killed" if curves[0].killed else "done"
        parts.append(f"{verb} after {span(ended)} s")
    return " or ".join(parts)


def span(values: Sequence[float]) -> str:
    """The least and the most, rounded; once where they are equal."""
    least, most = f"{min(values):.0f}", f"{max(values):.0f}"
    return least if least == most else f"{least} to {most}"
