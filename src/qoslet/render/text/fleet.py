"""A fleet for people: totals, the nodes that need a look first, and problems by what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from qoslet.core.api.schema import shown
from qoslet.render.documents.fleet.fleet import (
    STATES,
    brief,
    counted,
    fit_texts,
    grave,
    other_outcomes,
    outcome_text,
    requested_part,
    totals,
)
from qoslet.render.terminal import Terminal, cut, pad, printable, wrap
from qoslet.render.units import rounded, size

if TYPE_CHECKING:
    from qoslet.core.fleet.fit import Fit
    from qoslet.core.fleet.plan import Fleet, NodeResult
    from qoslet.core.fleet.problems import FleetProblem

_NODES = 20
_PROBLEMS = 8
_STYLES = {"broken": "red", "error": "red", "warning": "yellow", "ok": "green", "info": "dim"}


def draw(fleet: Fleet, terminal: Terminal, verbose: bool) -> list[str]:
    """The whole answer; ``verbose`` lists every node and every problem."""
    return [
        *_summary(fleet),
        "",
        *_nodes(fleet, terminal, verbose),
        *_problems(fleet, terminal, verbose),
    ]


def _summary(fleet: Fleet) -> Iterator[str]:
    nodes = [one.outcome for one in fleet.nodes]
    states = [f"{sum(one.state == state for one in nodes):,} {state}" for state in STATES]
    outcomes = [text for text in states if not text.startswith("0 ")]
    rest = [f"{fleet.unscheduled:,} unscheduled"] if fleet.unscheduled else []
    rest += [f"{fleet.ended:,} ended"] if fleet.ended else []
    tail = f" ({', '.join(rest)})" if rest else ""
    pods = f"{counted(fleet.pods, 'pod')}{tail} of {counted(fleet.shapes, 'shape')}"
    yield f"{counted(len(nodes), 'node')}: {', '.join(outcomes)}; {pods}"
    found = totals(fleet)
    for name in ("cpu", "memory"):
        asked, left, part = requested_part(nodes, name)
        tail = f" ({part})" if part else ""
        yield f"{name}: {brief(name, asked)} requested of {brief(name, left)} allocatable{tail}"
    throttled, over = found["throttled"], found["overcommitted"]
    if throttled or over:
        yield f"{counted(int(str(throttled)), 'container')} throttled at memory.high, {counted(int(str(over)), 'node')} with overcommitted protection"
    yield from _what_if(fleet)


def _what_if(fleet: Fleet) -> Iterator[str]:
    changes = [one.change for one in fleet.nodes if one.change is not None]
    if changes:
        worse, better = sum(one.worse for one in changes), sum(one.better for one in changes)
        less = sum(one.pods_with_less_cpu for one in changes)
        more = sum(one.pods_with_more_cpu for one in changes)
        changed = sum(one.changed for one in changes)
        if others := other_outcomes(fleet.nodes):
            yield f"on the other side: {others}"
        yield f"changes: {changed:,}, {worse:,} worse, {better:,} better; CPU share when all compete: {counted(less, 'pod')} less, {more:,} more"
    fits = [one.fit for one in fleet.nodes if one.fit is not None]
    if fits:
        yield _fitting(fits, f" of {printable(fleet.fit_pod)}")
        after = [one.fit_after for one in fleet.nodes if one.fit_after is not None]
        if after and after != fits:
            yield f"on the other side: {_fitting(after)}"
        if fleet.fit_ignored:
            yield f"not considered: {', '.join(fleet.fit_ignored)}"


def _fitting(fits: Sequence[Fit], of: str = "") -> str:
    """How many fit on all nodes, and what binds on how many."""
    names = sorted({one.binding for one in fits})
    binding = ", ".join(f"{name} on {sum(one.binding == name for one in fits):,}" for name in names)
    return f"{sum(one.count for one in fits):,} more{of} fit; what binds: {binding}"


def _nodes(fleet: Fleet, terminal: Terminal, verbose: bool) -> Iterator[str]:
    nodes: Sequence[NodeResult] = fleet.nodes
    if not verbose:
        nodes = sorted(nodes, key=grave)[:_NODES]
    head = ["node", "outcome", "pods", "cpu", "memory", "margin", "throttled", "problems"]
    head += ["worse", "better"] if any(one.change for one in nodes) else []
    head += ["fit", "binds"] if any(one.fit for one in nodes) else []
    rows = [_row(one, head, terminal) for one in nodes]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    yield terminal.paint(_line(head, widths), "bold")
    for row, one in zip(rows, nodes, strict=True):
        text = _line(row, widths)
        state = (one.after or one.outcome).state
        yield terminal.paint(text, _STYLES[state]) if state != "ok" else text
    if len(nodes) < len(fleet.nodes):
        yield f"and {counted(len(fleet.nodes) - len(nodes), 'more node')} (-v lists all)"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    left = (0, 1)
    return "  ".join(
        pad(cell, width, right=at not in left)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ).rstrip()


def _row(result: NodeResult, head: Sequence[str], terminal: Terminal) -> list[str]:
    outcome = result.outcome
    cells = [
        cut(printable(outcome.name), 40, "..."),
        outcome_text(result, terminal.mark("→", "->")),
        str(outcome.pods),
        *(requested_part([outcome], name)[2] for name in ("cpu", "memory")),
        "" if outcome.at_requests is None else size(rounded(outcome.at_requests)),
        str(outcome.throttled),
        str(outcome.problem_count),
    ]
    if "worse" in head:
        change = result.change
        cells += ["", ""] if change is None else [str(change.worse), str(change.better)]
    if "fit" in head:
        cells += fit_texts(result, terminal.mark("→", "->"))
    return cells


def _problems(fleet: Fleet, terminal: Terminal, verbose: bool) -> Iterator[str]:
    rows = [one for one in fleet.problems if verbose or one.problem.severity != "info"]
    told = rows if verbose else rows[:_PROBLEMS]
    if told:
        yield ""
    for row in told:
        yield from _problem(row, terminal)
    left = len(fleet.problems) - len(told) + fleet.dropped
    if left:
        more = "" if verbose else " (-v lists them)"
        yield f"and {counted(left, 'more problem')}{more}"


def _problem(row: FleetProblem, terminal: Terminal) -> Iterator[str]:
    problem = row.problem
    name = shown(row.node or "")
    node = f"{name}: " if name and name not in problem.where else ""
    more = f" (and {row.count - 1:,} more)" if row.count > 1 else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    text = printable(f"{node}{problem.where}{more}: {problem.message}{hint}")
    first, *rest = wrap(text, terminal.width - 9)
    yield terminal.paint(pad(problem.severity, 7), _STYLES[problem.severity]) + f"  {first}"
    for line in rest:
        yield f"{'':9}{line}"
