"""An audit for people: whether the node is as planned, then each finding with what repairs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qoslet.core.audit.finding import MEANINGS
from qoslet.core.problem import GRAVEST_FIRST, plural
from qoslet.render.terminal import display_width, printable, wrap
from qoslet.render.text.audit.labels import pod_label

if TYPE_CHECKING:
    from qoslet.core.audit.finding import AuditReport, Finding
    from qoslet.core.resources.cgroup_tree import Plan
    from qoslet.render.terminal import Terminal

_MARKS = {
    "error": ("✗", "x", "red"),
    "warning": ("!", "!", "yellow"),
    "info": ("·", "-", "dim"),
}
_NOUNS = {"error": "error", "warning": "warning", "info": "note"}
_MOST_UNREAD = 5


def draw(plan: Plan, report: AuditReport, terminal: Terminal, verbose: bool) -> list[str]:
    """The whole answer; ``verbose`` adds derivation, source, and who may have written."""
    drawn = _decision(plan, report, terminal)
    for severity in GRAVEST_FIRST:
        for verdict, meaning in MEANINGS.items():
            rows = [
                one
                for one in report.findings
                if one.verdict == verdict and one.severity == severity
            ]
            if rows:
                nice, plain, color = _MARKS[severity]
                title = terminal.paint(f"{terminal.mark(nice, plain)} {verdict}", color, "bold")
                drawn += ["", f"{title}  {terminal.paint(f'{meaning} ({len(rows)})', 'dim')}"]
                for one in rows:
                    drawn += _finding(one, terminal, verbose)
    drawn += _unread(report, terminal, verbose)
    for text in report.notes:
        drawn += ["", *wrap(printable(text), terminal.width)]
    return drawn


def _decision(plan: Plan, report: AuditReport, terminal: Terminal) -> list[str]:
    node = plan.node
    between = terminal.mark(" · ", ", ")
    counts = {name: sum(one.severity == name for one in report.findings) for name in GRAVEST_FIRST}
    said = [plural(count, _NOUNS[name]) for name, count in counts.items() if count]
    if report.compared == 0:
        word, color = "nothing could be compared", "red"
    elif counts["error"] or counts["warning"]:
        word, color = "not as planned", "red"
    else:
        word, color = "as planned", "green"
    whole = f"{report.compared} values in {report.cgroups} cgroups"
    about = [f"cgroup {node.hierarchy}", node.driver, f"Kubernetes {node.profile.kubernetes}"]
    name = printable(node.name or "this node")
    facts = printable(between.join([*said, whole, *about]))
    head = terminal.paint(f"{name}: {word}", color, "bold")
    if display_width(f"{name}: {word}  {facts}") <= terminal.width:
        return [f"{head}  {facts}"]
    return [head, *wrap(facts, terminal.width, "  ")]


def _finding(one: Finding, terminal: Terminal, verbose: bool) -> Iterator[str]:
    label = pod_label(one) or one.name
    yield f"  {terminal.paint(printable(label), 'bold')}"
    yield from wrap(printable(one.message), terminal.width, "    ")
    dim = [one.path] if one.path != label else []
    if one.reset_by:
        dim.append(one.reset_by)
    if one.hint:
        dim.append(one.hint)
    if verbose:
        dim += [f"{one.writer or 'nothing on this node'} writes it"] if one.file else []
        dim += [f"{one.because} ({one.source})"] if one.because else []
        dim += [f"may have: {text}" for text in one.may_have]
        dim += [f"{one.property_name}={one.property_text}"] if one.property_text is not None else []
    for text in dim:
        for line in wrap(printable(text), terminal.width, "    "):
            yield terminal.paint(line, "dim")
    if one.fix:
        yield f"    {terminal.mark('→', '->')} {printable(one.fix)}"


def _unread(report: AuditReport, terminal: Terminal, verbose: bool) -> list[str]:
    if not report.unread:
        return []
    count = len(report.unread)
    shown = report.unread if verbose else report.unread[:_MOST_UNREAD]
    title = f"? {plural(count, 'file')} could not be read"
    lines = ["", terminal.paint(title, "yellow")]
    for one in shown:
        place = f"{one.path}/{one.file}" if one.file else one.path
        lines.append(f"  {printable(place)}: {printable(one.error)}")
    if len(shown) < count:
        lines.append(f"  and {count - len(shown)} more: -v lists them")
    return lines
