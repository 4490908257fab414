"""Charts of what a cgroup used over the last looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from qoslet.core.status.node_top import TopRow
from qoslet.core.status.page.pod_story import StoryEvent
from qoslet.core.status.page.row_history import RowHistory, Series, Timeline
from qoslet.render.pages.draft import Draft, escaped
from qoslet.render.pages.numbers import coordinate, cores, memory, percent, span

_WIDTH, _HEIGHT = 600.0, 90.0


class Chart(Struct, frozen=True):
    """One chart: its series, its title, how its numbers are written, and the amounts of a row that
    are lines in it, each with its name and class."""

    series: Series
    title: str
    text: Callable[[float | None], str]
    lines: Callable[[TopRow], Sequence[tuple[str, float | None, str]]]
    least: float = 0.0


CHARTS = (
    Chart(
        "memory",
        "Memory",
        memory,
        lambda row: (
            ("request", row.memory_request, "requested"),
            ("memory.high", row.memory_high, "throttle"),
            ("limit", row.memory_limit, "limit"),
        ),
    ),
    Chart(
        "cpu",
        "CPU cores",
        cores,
        lambda row: (
            ("request", row.cpu_request, "requested"),
            ("limit", row.cpu_limit, "limit"),
        ),
        0.01,
    ),
    Chart("throttled", "Throttled", percent, lambda _: (), 10.0),
    Chart("pressure", "Memory pressure (PSI)", percent, lambda _: (), 10.0),
)


def draw_charts(
    draft: Draft,
    row: TopRow,
    key: str,
    history: RowHistory,
    events: Sequence[StoryEvent],
    at: float,
) -> None:
    """The charts of a cgroup; ``key`` makes their identifiers, ``at`` is the last look."""
    draft.add('<div class="charts">')
    for number, chart in enumerate(CHARTS):
        line = history.timeline(row.name, chart.series)
        _draw(draft, chart, row, f"{key}{number}", line, [one.at - at for one in events])
    draft.add("</div>")


def _draw(
    draft: Draft, chart: Chart, row: TopRow, key: str, line: Timeline, ticks: Sequence[float]
) -> None:
    known = [value for value in line.values if value is not None]
    lines = [(name, value, style) for name, value, style in chart.lines(row) if value]
    most = max([chart.least, *known, *(value for _, value, _ in lines)]) or 1.0
    most *= 1.05
    past = -line.seconds[0] if line.seconds else 0.0
    window = max(60.0, past)
    draft.add(
        f'<figure class="chart"><figcaption id="{key}-about">',
        f"<strong>{escaped(chart.title)}</strong> ",
    )
    draft.text("span", f"{key}-now", _about(chart, line, lines))
    draft.add(
        f'</figcaption><svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" '
        f'aria-labelledby="{key}-about" preserveAspectRatio="none">'
    )
    draft.add(f'<rect class="frame" width="{_WIDTH:g}" height="{_HEIGHT:g}"/>')
    area, stroke = _paths(line, window, most)
    draft.shape('path class="area"', f"{key}-area", d=area)
    for name, value, style in lines:
        y = coordinate(_HEIGHT * (1 - (value or 0.0) / most))
        identifier = f"{key}-{name}"
        draft.shape(f'path class="{style}"', identifier, d=f"M0 {y}H{_WIDTH:g}")
    draft.shape('path class="line"', f"{key}-line", d=stroke)
    marks = "".join(
        f"M{coordinate(_WIDTH * (1 + tick / window))} {_HEIGHT:g}v-9"
        for tick in ticks
        if -window <= tick <= 0
    )
    draft.shape('path class="tick"', f"{key}-ticks", d=marks)
    draft.add("</svg></figure>")


def _about(chart: Chart, line: Timeline, lines: Sequence[tuple[str, float | None, str]]) -> str:
    """The chart in words."""
    known = [value for value in line.values if value is not None]
    if not known:
        return "unknown"
    past = span(-line.seconds[0]) if line.seconds else ""
    parts = [chart.text(line.values[-1]), f"most {chart.text(max(known))} in {past}"]
    parts += [f"{name} {chart.text(value)}" for name, value, _ in lines]
    return ", ".join(parts)


def _paths(line: Timeline, window: float, most: float) -> tuple[str, str]:
    """The filled area and the line; both break where a value is unknown."""
    strokes: list[list[str]] = []
    areas: list[str] = []
    run: list[tuple[str, str]] = []

    def close() -> None:
        if run:
            points = [f"{x} {y}" for x, y in run]
            strokes.append(points)
            joined = "L".join(points)
            areas.append(f"M{run[0][0]} {_HEIGHT:g}L{joined}L{run[-1][0]} {_HEIGHT:g}z")
            run.clear()

    for seconds, value in zip(line.seconds, line.values, strict=True):
        if value is None:
            close()
            continue
        x = coordinate(_WIDTH * (1 + seconds / window))
        run.append((x, coordinate(_HEIGHT * (1 - value / most))))
    close()
    return "".join(areas), "".join(f"M{'L'.join(points)}" for points in strokes)
