"""The page of a pod: why it was slow or killed, what it used, and what the audit found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qoslet.core.status.node_top import TopRow
from qoslet.core.status.page.node_view import NodeView, PodView
from qoslet.core.status.page.pod_story import StoryEvent
from qoslet.render.pages.draft import Draft, HtmlPage, escaped
from qoslet.render.pages.findings import draw_findings
from qoslet.render.pages.frame import begin, end
from qoslet.render.pages.links import pod_link
from qoslet.render.pages.numbers import NOTHING, cores, count, memory, percent, read_at
from qoslet.render.pages.story import draw_story
from qoslet.render.pages.timeline import draw_charts

if TYPE_CHECKING:
    from qoslet.core.audit.finding import AuditReport
    from qoslet.core.status.page.row_history import RowHistory


def pod_page(
    view: NodeView,
    name: str,
    pod: PodView | None,
    history: RowHistory,
    events: Sequence[StoryEvent],
    report: AuditReport | None,
    wall: float,
) -> HtmlPage:
    """The page of the pod ``name``; None where it is gone."""
    draft = Draft()
    begin(draft, view, f"{name} · qoslet", read_at(view, wall))
    draft.add(
        '<nav aria-label="Breadcrumb"><a href="/">Node</a> / ',
        f'<span aria-current="page">{escaped(name)}</span></nav>',
        f"<h1>{escaped(name)}</h1>",
    )
    if pod is None:
        draft.add("<p>The pod is gone. This is what happened to it.</p>")
        draw_story(draft, events)
        return end(draft, f"/api/v1{pod_link(name)}")
    draft.add(f'<p class="facts">{escaped(pod.row.qos or NOTHING)} · ')
    draft.text("strong", "marks", ", ".join(pod.marks) or "nothing unusual")
    draft.add(f" · <code>{escaped(pod.row.path or pod.row.name)}</code></p>")
    draw_story(draft, events)
    draft.add('<section><h2 id="now">Now</h2>')
    _draw_rows(draft, pod, view.seconds)
    draft.add('</section><section><h2 id="timelines">Timelines</h2>')
    draw_charts(draft, pod.row, "p", history, events, view.at)
    for number, row in enumerate(pod.containers):
        opened = " open" if len(pod.containers) == 1 else ""
        draft.add(
            f'<details id="d{number}"{opened}><summary>container {escaped(row.title)}</summary>'
        )
        own = [one for one in events if one.container in ("", row.title)]
        draw_charts(draft, row, f"k{number}-", history, own, view.at)
        draft.add("</details>")
    draft.add("</section>")
    draw_findings(draft, report, name)
    return end(draft, f"/api/v1{pod_link(name)}")


_HEADS = ("CPU", "request", "limit", "throttled", "memory", "request", "protected",
          "high", "limit", "PSI", "OOM")  # fmt: skip


def _cells(row: TopRow, seconds: float) -> tuple[str, ...]:
    share = 100 * row.throttled / seconds if row.throttled is not None and seconds else None
    return (
        cores(row.cpu),
        cores(row.cpu_request),
        cores(row.cpu_limit),
        percent(share),
        memory(row.memory),
        memory(row.memory_request),
        memory(row.memory_protected or None),
        memory(row.memory_high),
        memory(row.memory_limit),
        percent(row.pressure),
        count(row.oom_kills),
    )


def _draw_rows(draft: Draft, pod: PodView, seconds: float) -> None:
    heads = "".join(f'<th scope="col" class="n">{head}</th>' for head in _HEADS)
    draft.add(
        '<div class="wide" tabindex="0" role="region" aria-labelledby="now"><table>',
        f'<thead><tr><th scope="col">cgroup</th>{heads}</tr></thead><tbody>',
    )
    for number, row in enumerate((pod.row, *pod.containers)):
        title = "pod" if row.level == "pod" else f"container {row.title}"
        draft.add(f'<tr><th scope="row">{escaped(title)}</th>')
        for at, text in enumerate(_cells(row, seconds)):
            draft.text('td class="n"', f"n{number}-{at}", text)
        draft.add("</tr>")
    draft.add("</tbody></table></div>")
