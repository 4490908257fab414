"""What an audit found, on a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qoslet.core.audit.finding import MEANINGS
from qoslet.core.problem import plural
from qoslet.render.pages.draft import Draft, escaped
from qoslet.render.pages.links import pod_link

if TYPE_CHECKING:
    from qoslet.core.audit.finding import AuditReport, Finding

SHOWN = 200
"""Findings on a page; the audit itself prints all."""


def draw_findings(draft: Draft, report: AuditReport | None, pod: str = "") -> None:
    """The findings, of ``pod`` where it is given."""
    draft.add('<section><h2 id="findings">Audit</h2>')
    if report is None:
        draft.add("<p>The audit has not run yet.</p></section>")
        return
    found = [
        one
        for one in report.findings
        if not pod or (one.pod is not None and "/".join(one.pod) == pod)
    ]
    counting = sum(one.counts for one in found)
    if counting:
        text = f"{plural(counting, 'finding')} of warning or above."
    elif report.compared:
        text = "As planned."
    else:
        text = "Nothing could be compared."
    draft.add(f"<p>{text} {report.compared} values compared on the node.")
    if report.unread:
        draft.add(f" {len(report.unread)} could not be read.")
    draft.add("</p>")
    _draw_list(draft, sorted(found, key=lambda one: not one.counts)[:SHOWN])
    if len(found) > SHOWN:
        draft.add(f"<p>{len(found) - SHOWN} more: qoslet audit prints all.</p>")
    draft.add("</section>")


def _draw_list(draft: Draft, found: Sequence[Finding]) -> None:
    if not found:
        return
    draft.add('<ul class="findings">')
    for one in found:
        place = f"{one.path}/{one.file}" if one.file else one.path
        draft.add(
            f'<li class="{one.severity}"><strong>{one.severity}: {one.verdict}</strong> '
            f'{_whose(one)}<span title="{escaped(MEANINGS[one.verdict])}">{escaped(one.message)}</span>'
            f"<br><code>{escaped(place)}</code>"
        )
        if one.file is not None and (one.expected is not None or one.found is not None):
            draft.add(
                f"<br>expected <code>{escaped(one.expected or 'absent')}</code>, "
                f"found <code>{escaped(one.found or 'absent')}</code>"
            )
        if one.hint:
            draft.add(f"<br>{escaped(one.hint)}")
        if one.fix:
            draft.add(f"<br><code>{escaped(one.fix)}</code>")
        draft.add("</li>")
    draft.add("</ul>")


def _whose(one: Finding) -> str:
    """The pod and the container of a finding, the pod as a link; empty where it is about neither."""
    if one.pod is None:
        return ""
    name = "/".join(one.pod)
    container = f"/{escaped(one.container)}" if one.container else ""
    return f'<a href="{escaped(pod_link(name))}">{escaped(name)}</a>{container}: '
