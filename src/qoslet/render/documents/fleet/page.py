"""A fleet as one HTML page with pictures: nothing is loaded from elsewhere, no script runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from qoslet.core.fleet.change import RATIOS
from qoslet.render.documents.fleet.fleet import (
    STATES,
    brief,
    counted,
    fit_texts,
    grave,
    other_outcomes,
    outcome_text,
    requested_part,
)
from qoslet.render.terminal import printable
from qoslet.render.units import rounded, size

if TYPE_CHECKING:
    from qoslet.core.fleet.plan import Fleet
    from qoslet.core.fleet.problems import FleetProblem

_COLORS = {"ok": "#2e7d32", "warning": "#e69f00", "error": "#c62828", "broken": "#8e44ad"}
_NODES = 200
"""Nodes that the table lists, the gravest first."""
_PROBLEMS = 200
_CELLS = 6000
"""Nodes that are drawn one by one."""
_STYLE = """\
:root{color-scheme:light dark;--ground:#fff;--ink:#222;--edge:#ccc;--bar:#33658a}
@media (prefers-color-scheme:dark){:root{--ground:#14181d;--ink:#e8ebee;--edge:#48525c;--bar:#5b8fd0}}
body{font:15px/1.45 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:var(--ink);background:var(--ground)}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.86rem}
th,td{text-align:right;padding:.2rem .5rem;border-bottom:1px solid var(--edge)}
th:first-child,td:first-child,td.text,th.text{text-align:left}td:first-child{white-space:nowrap}
.tiles{display:flex;flex-wrap:wrap;gap:.8rem}.tile{border:1px solid var(--edge);border-radius:6px;padding:.5rem .9rem}
.tile b{display:block;font-size:1.35rem}td.text{overflow-wrap:anywhere;min-width:16rem}
svg{max-width:100%;height:auto}svg text{fill:var(--ink);font-size:11px}svg.bars{min-width:21rem}svg.bars rect{fill:var(--bar)}
.legend span{display:inline-block;margin-right:1rem}.legend i{display:inline-block;width:.8rem;height:.8rem;margin-right:.3rem}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(fleet: Fleet, other: str = "") -> str:
    """The whole page. ``other`` is what the other side has instead, as the command line says it."""
    parts = [
        *([f"<p>The other side: <code>{_safe(other)}</code></p>"] if other else []),
        *_tiles(fleet),
        "<h2>Nodes by outcome</h2>",
        *_outcomes(fleet),
        "<h2>Memory margin above the eviction threshold</h2>",
        "<p>What is left when every pod uses its memory request, as a part of allocatable.</p>",
        _bars(_margins(fleet), "node"),
        *_protection(fleet),
        *_throttled(fleet),
        *_cpu(fleet),
        "<h2>Nodes</h2>",
        *_nodes(fleet),
        "<h2>Problems</h2>",
        *_problems(fleet),
    ]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>qoslet fleet: {counted(len(fleet.nodes), 'node')}</title>\n<style>\n{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>Fleet: {counted(len(fleet.nodes), 'node')}, {counted(fleet.pods, 'pod')}</h1>\n{body}\n</body>\n</html>\n"
    )


def _safe(text: str) -> str:
    return escape(printable(text))


def _tiles(fleet: Fleet) -> Iterator[str]:
    nodes = [one.outcome for one in fleet.nodes]
    yield '<div class="tiles">'
    for name in ("cpu", "memory"):
        asked, left, part = requested_part(nodes, name)
        shown = f"{brief(name, asked)} of {brief(name, left)}"
        yield _tile(part or "unknown", f"{name} requested: {shown}")
    yield _tile(f"{sum(one.throttled for one in nodes):,}", "containers throttled at memory.high")
    over = sum(one.overcommitted for one in nodes)
    yield _tile(f"{over:,}", "nodes with overcommitted protection")
    changes = [one.change for one in fleet.nodes if one.change is not None]
    if changes:
        worse, better = sum(one.worse for one in changes), sum(one.better for one in changes)
        changed = sum(one.changed for one in changes)
        yield _tile(f"{changed:,}", "values differ on the other side")
        yield _tile(f"{worse:,} / {better:,}", "values worse / better on the other side")
    fits = [one.fit for one in fleet.nodes if one.fit is not None]
    if fits:
        about = f"more of {_safe(fleet.fit_pod)} fit"
        if fleet.fit_ignored:
            about += f"; not considered: {', '.join(fleet.fit_ignored)}"
        yield _tile(f"{sum(one.count for one in fits):,}", about)
        others = [one.fit_after for one in fleet.nodes if one.fit_after is not None]
        if others:
            count = sum(one.count for one in others)
            yield _tile(f"{count:,}", f"more of {_safe(fleet.fit_pod)} fit on the other side")
    yield _tile(f"{fleet.unscheduled:,}", "pods without a node")
    yield "</div>"


def _tile(number: str, about: str) -> str:
    return f'<div class="tile"><b>{number}</b>{about}</div>'


def _outcomes(fleet: Fleet) -> Iterator[str]:
    """A square for each node, in the order of the input; a bar where there are very many."""
    counts = {state: sum(one.outcome.state == state for one in fleet.nodes) for state in STATES}
    yield '<p class="legend">'
    for state, count in counts.items():
        yield f'<span><i style="background:{_COLORS[state]}"></i>{count:,} {state}</span>'
    yield "</p>"
    if others := other_outcomes(fleet.nodes):
        yield f"<p>On the other side: {others}</p>"
    if len(fleet.nodes) > _CELLS:
        yield _bars(list(counts.items()), "node")
        return
    columns = min(100, max(10, len(fleet.nodes)))
    height = (len(fleet.nodes) + columns - 1) // columns * 10
    yield f'<svg viewBox="0 0 {columns * 10} {height}" width="{columns * 10}" role="img" aria-label="nodes by outcome">'
    for at, one in enumerate(fleet.nodes):
        x, y = at % columns * 10, at // columns * 10
        title = (
            f"{_safe(one.outcome.name)}: {one.outcome.state}, {counted(one.outcome.pods, 'pod')}"
        )
        fill = _COLORS[one.outcome.state]
        yield f'<rect x="{x}" y="{y}" width="9" height="9" fill="{fill}"><title>{title}</title></rect>'
    yield "</svg>"


def _margins(fleet: Fleet) -> list[tuple[str, int]]:
    bounds = (0, 10, 25, 50, 75)
    names = [
        "below 0",
        *(f"{a} to {b}%" for a, b in itertools.pairwise(bounds)),
        "75% and more",
    ]
    counts = [0] * len(names)
    for one in fleet.nodes:
        memory = one.outcome.allocatable.get("memory", 0)
        if one.outcome.at_requests is not None and memory:
            part = one.outcome.at_requests * 100 / memory
            counts[sum(part >= bound for bound in bounds)] += 1
    return list(zip(names, counts, strict=True))


def _protection(fleet: Fleet) -> Iterator[str]:
    """Nodes by what their pods claim of protection, against what kubepods holds."""
    claiming = [one.outcome for one in fleet.nodes if one.outcome.claimed]
    if not claiming:
        return
    yield "<h2>Protection that pods claim</h2>"
    yield "<p>memory.min and memory.low of all pods, as a part of what kubepods has: above 100% some have no effect.</p>"
    bounds = (50, 80, 100)
    names = ["up to 50%", "50 to 80%", "80 to 100%", "above 100%"]
    counts = [0] * len(names)
    for one in claiming:
        parts = [
            claim * 100 / one.held[file] if one.held.get(file) else 101.0
            for file, claim in one.claimed.items()
        ]
        counts[sum(max(parts) > bound for bound in bounds)] += 1
    yield _bars(list(zip(names, counts, strict=True)), "node")


def _throttled(fleet: Fleet) -> Iterator[str]:
    """Nodes by how many of their containers are throttled."""
    if not any(one.outcome.throttled for one in fleet.nodes):
        return
    yield "<h2>Throttled containers</h2>"
    yield "<p>Containers whose memory.high is met before a memory.max, by node.</p>"
    bounds = (1, 6, 21)
    names = ["none", "1 to 5", "6 to 20", "21 and more"]
    counts = [0] * len(names)
    for one in fleet.nodes:
        counts[sum(one.outcome.throttled >= bound for bound in bounds)] += 1
    yield _bars(list(zip(names, counts, strict=True)), "node")


def _cpu(fleet: Fleet) -> Iterator[str]:
    changes = [one.change for one in fleet.nodes if one.change is not None]
    if not changes:
        return
    yield "<h2>CPU winners and losers</h2>"
    yield "<p>Pods by their CPU share when all compete: the share after the change, divided by the share before it.</p>"
    bounds = ["0", *(f"{bound:g}" for bound in RATIOS)]
    names = [f"{a} to {b}" for a, b in itertools.pairwise(bounds)] + [f"{bounds[-1]} and more"]
    counts = [sum(one.ratios[at] for one in changes) for at in range(len(names))]
    yield _bars(list(zip(names, counts, strict=True)), "pod")
    losers = sorted(
        fleet.nodes, key=lambda one: -(one.change.pods_with_less_cpu if one.change else 0)
    )
    rows = [
        (one.outcome.name, one.change.pods_with_less_cpu, one.change.pods_with_more_cpu)
        for one in losers[:10]
        if one.change is not None and one.change.pods_with_less_cpu
    ]
    if rows:
        yield from _table(("node", "pods with less CPU", "pods with more CPU"), rows)


def _bars(rows: Sequence[tuple[str, int]], what: str) -> str:
    """Horizontal bars with their numbers."""
    most = max((count for _, count in rows), default=0) or 1
    drawn = [
        f'<div class="wide"><svg class="bars" viewBox="0 0 420 {len(rows) * 18}" width="560" role="img" aria-label="{what}s">'
    ]
    for at, (name, count) in enumerate(rows):
        y, width = at * 18, count * 210 / most
        drawn.append(
            f'<text x="95" y="{y + 12}" text-anchor="end">{_safe(name)}</text>'
            f'<rect x="102" y="{y + 2}" width="{width:.1f}" height="13"/>'
            f'<text x="{107 + width:.1f}" y="{y + 12}">{counted(count, what)}</text>'
        )
    return "".join([*drawn, "</svg></div>"])


def _nodes(fleet: Fleet) -> Iterator[str]:
    head = ["node", "outcome", "pods", "cpu", "memory", "margin", "throttled", "problems"]
    changed = any(one.change is not None for one in fleet.nodes)
    fitted = any(one.fit is not None for one in fleet.nodes)
    head += ["worse", "better"] * changed + ["fit", "binds"] * fitted
    rows = []
    for one in sorted(fleet.nodes, key=grave)[:_NODES]:
        outcome, change = one.outcome, one.change
        row: list[object] = [outcome.name, outcome_text(one, "→"), outcome.pods]
        row += [requested_part([outcome], name)[2] for name in ("cpu", "memory")]
        margin = outcome.at_requests
        row += ["" if margin is None else size(rounded(margin)), outcome.throttled]
        row.append(outcome.problem_count)
        if changed:
            row += ["", ""] if change is None else [change.worse, change.better]
        if fitted:
            row += fit_texts(one, "→")
        rows.append(row)
    yield from _table(head, rows)
    if len(fleet.nodes) > _NODES:
        yield f"<p>and {counted(len(fleet.nodes) - _NODES, 'more node')}</p>"


def _table(head: Iterable[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield (
        '<div class="wide"><table><thead><tr>'
        + "".join(f"<th>{one}</th>" for one in head)
        + "</tr></thead><tbody>"
    )
    for row in rows:
        yield "<tr>" + "".join(f"<td>{_safe(str(one))}</td>" for one in row) + "</tr>"
    yield "</tbody></table></div>"


def _problems(fleet: Fleet) -> Iterator[str]:
    if not fleet.problems:
        yield "<p>none</p>"
        return
    yield '<div class="wide"><table><thead><tr><th>severity</th><th>nodes</th><th class="text">problem</th></tr></thead><tbody>'
    for row in fleet.problems[:_PROBLEMS]:
        yield _problem(row)
    yield "</tbody></table></div>"
    left = len(fleet.problems) - _PROBLEMS + fleet.dropped
    if left > 0:
        yield f"<p>and {counted(left, 'more problem')}</p>"


def _problem(row: FleetProblem) -> str:
    problem = row.problem
    hint = f" ({problem.hint})" if problem.hint else ""
    text = _safe(f"{problem.where}: {problem.message}{hint}")
    return f'<tr><td>{problem.severity}</td><td>{row.count:,}</td><td class="text">{text}</td></tr>'
