"""The page of a node: its picture, the table of its pods, and what the audit found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.core.problem import plural
from qoslet.core.status.page.node_view import RESOURCES, NodeView, PodView
from qoslet.render.pages.draft import Draft, HtmlPage, escaped
from qoslet.render.pages.findings import draw_findings
from qoslet.render.pages.frame import begin, end
from qoslet.render.pages.links import pod_link
from qoslet.render.pages.numbers import NOTHING, cores, count, memory, percent, read_at
from qoslet.render.pages.picture import draw_picture, legend

if TYPE_CHECKING:
    from qoslet.core.audit.finding import AuditReport


class PageColumn(Struct, frozen=True):
    """A column of the table: its title, the key by which the server sorts, its cell, and a longer
    title where the short one needs it."""

    title: str
    cell: Callable[[PodView, float], str]
    key: str = ""
    about: str = ""


def throttled_share(pod: PodView, seconds: float) -> float | None:
    """Percent of the time in which the pod's quota, or a container's, throttled it."""
    known = [row.throttled for row in (pod.row, *pod.containers) if row.throttled is not None]
    return 100 * max(known) / seconds if known and seconds else None


COLUMNS = (
    PageColumn("CPU", lambda pod, _: cores(pod.row.cpu), "cpu", "CPU in cores"),
    PageColumn("request", lambda pod, _: cores(pod.row.cpu_request), "", "CPU request in cores"),
    PageColumn("limit", lambda pod, _: cores(pod.row.cpu_limit), "", "CPU limit in cores"),
    PageColumn(
        "throttled",
        lambda pod, seconds: percent(throttled_share(pod, seconds)),
        "throttled",
        "part of the time in which its quota throttled it",
    ),
    PageColumn("memory", lambda pod, _: memory(pod.row.memory), "memory"),
    PageColumn("request", lambda pod, _: memory(pod.row.memory_request), "", "memory request"),
    PageColumn("limit", lambda pod, _: memory(pod.row.memory_limit), "", "memory limit"),
    PageColumn(
        "PSI",
        lambda pod, _: percent(pod.row.pressure),
        "pressure",
        "part of the last ten seconds in which it waited for memory",
    ),
    PageColumn("OOM", lambda pod, _: count(pod.row.oom_kills), "", "processes killed for memory"),
)


def node_page(
    view: NodeView,
    report: AuditReport | None,
    wall: float,
    sort: str = "",
    wanted: str = "",
) -> HtmlPage:
    """The page. ``sort`` and ``wanted`` arrange the table where the browser runs no scripts."""
    draft = Draft()
    begin(draft, view, f"{view.plan.node.name or 'this node'} · qoslet", read_at(view, wall))
    draft.add(
        "<h1>Node</h1>",
        f'<p id="counts">{plural(len(view.pods), "pod")}, {plural(len(view.rows), "cgroup")}. ',
        "A column is as wide as its pod's request, and full at its limit.</p>",
    )
    for resource in RESOURCES:
        draw_picture(draft, view, resource)
    draft.add(legend())
    _draw_table(draft, view, sort, wanted)
    draw_findings(draft, report)
    return end(draft, "/api/v1/node")


def _draw_table(draft: Draft, view: NodeView, sort: str, wanted: str) -> None:
    draft.add(
        '<h2 id="pods-title">Pods</h2><form class="tools" role="search" method="get" action="/">'
        '<label for="filter">Filter</label>'
        f'<input id="filter" name="q" type="search" value="{escaped(wanted)}" autocomplete="off" '
        'placeholder="a part of a name, class or state"><button>Filter</button>'
        '<span id="shown" role="status"></span></form>'
        '<div class="wide" tabindex="0" role="region" aria-labelledby="pods-title">'
        '<table id="pods"><thead><tr>',
        _head("pod", "name", "", sort),
        _head("QoS", "", "", sort),
        _head("state", "", "why the pod is worth a look", sort),
        *(_head(one.title, one.key, one.about, sort, "n") for one in COLUMNS),
        "</tr></thead><tbody>",
    )
    number = {pod.row.name: at for at, pod in enumerate(view.pods)}
    for pod in arranged_pods(view.pods, sort, wanted):
        _draw_row(draft, pod, number[pod.row.name], view.seconds)
    draft.add("</tbody></table></div>")


def _head(title: str, key: str, about: str, sort: str, style: str = "") -> str:
    order = "descending" if key not in ("", "name") else "ascending"
    sorted_by = f' aria-sort="{order}"' if key and key == sort else ""
    label = f' aria-label="{escaped(about)}" title="{escaped(about)}"' if about else ""
    inner = f'<a href="/?sort={key}"{label}>{title}</a>' if key else title
    tip = f' title="{escaped(about)}"' if about and not key else ""
    return f'<th scope="col" class="{style}"{sorted_by}{tip}>{inner}</th>'


def _draw_row(draft: Draft, pod: PodView, number: int, seconds: float) -> None:
    row = pod.row
    draft.add(
        f'<tr data-pod="{number}"><th scope="row"><a href="{pod_link(row.title)}">'
        f"{escaped(row.title)}</a></th><td>{escaped(row.qos or NOTHING)}</td>"
    )
    draft.text('td class="marks"', f"m{number}", ", ".join(pod.marks))
    for at, column in enumerate(COLUMNS):
        draft.text('td class="n"', f"c{number}-{at}", column.cell(pod, seconds))
    draft.add("</tr>")


def arranged_pods(pods: Sequence[PodView], sort: str, wanted: str) -> list[PodView]:
    """The pods with ``wanted`` in their names, classes or marks, by ``sort``: an amount of their
    rows, or ``name``."""
    text = wanted.casefold()
    found = [
        pod for pod in pods if text in " ".join((pod.row.title, pod.row.qos, *pod.marks)).casefold()
    ]
    if sort == "name":
        return sorted(found, key=lambda pod: pod.row.title)
    if sort in {one.key for one in COLUMNS if one.key}:
        return sorted(found, key=lambda pod: -(getattr(pod.row, sort) or 0.0))
    return found
