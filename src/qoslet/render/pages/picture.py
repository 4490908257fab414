"""The node as a picture of its tree: what is reserved, the QoS classes, and in them each pod.

Width is what was requested, so the picture keeps its shape while it is watched; height is what is
used, up to the limit. A pod without a request gets a narrow column, one without a limit has its top
at twice its request, one without either at the capacity of the node.
"""

from __future__ import annotations

from collections.abc import Sequence

from qoslet.core.status.page.node_view import (
    QOS_CLASSES,
    Amounts,
    NodeView,
    PodView,
    Resource,
    amounts,
    requested,
    used,
)
from qoslet.render.pages.draft import Draft, escaped
from qoslet.render.pages.numbers import amount, coordinate

WIDTH, HEIGHT = 1000.0, 226.0
_BAND, _GAP = 30.0, 4.0
_TOP, _TALL = 2 * (_BAND + _GAP), 138.0
_NARROW = 1 / 250
"""Part of the picture that a pod without a request gets at least."""
_LETTER = 7.0
_TITLES = {"memory": "Memory", "cpu": "CPU"}


def draw_picture(draft: Draft, view: NodeView, resource: Resource) -> None:
    """One resource of the node."""
    whole = view.capacity.get(resource)
    if not whole:
        return
    held = min(view.reserved.get(resource, 0.0), whole)
    name = _TITLES[resource]
    draft.add(
        f'<figure class="node"><figcaption id="{resource}-about"><strong>{name}</strong> ',
    )
    draft.text("span", f"{resource}-sum", _summary(view, resource, whole))
    draft.add(
        f'</figcaption><svg class="tree" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" '
        f'aria-labelledby="{resource}-about" preserveAspectRatio="none">'
    )
    held_width = WIDTH * held / whole
    _band(draft, 0, 0, WIDTH, "frame", f"node: {amount(whole, resource)}")
    total = used(view, resource)
    filled = WIDTH * min(1.0, (total or 0.0) / whole)
    draft.shape(
        'rect class="used" x="0" y="0" height="5"', f"{resource}-used", width=coordinate(filled)
    )
    left = WIDTH - held_width
    y = _BAND + _GAP
    _band(draft, 0, y, left, "frame", f"for pods: {amount(whole - held, resource)}")
    if held_width > 2:
        text = f"reserved: {amount(held, resource)}"
        _band(draft, left + 1, y, held_width - 1, "reserved", text)
    _draw_pods(draft, view, resource, left, whole - held)
    draft.add("</svg></figure>")


def _summary(view: NodeView, resource: Resource, whole: float) -> str:
    asked = requested(view, resource)
    return (
        f"{amount(used(view, resource), resource)} used by pods, {amount(asked, resource)} requested "
        f"({100 * asked / whole:.0f}%), {amount(view.reserved.get(resource, 0.0), resource)} reserved, "
        f"of {amount(whole, resource)}"
    )


def _band(draft: Draft, x: float, y: float, width: float, style: str, text: str) -> None:
    draft.add(_rect(style, x, y, width, _BAND))
    if len(text) * _LETTER < width - 8:
        draft.add(f'<text x="{coordinate(x + 6)}" y="{coordinate(y + 20)}">{escaped(text)}</text>')


def _rect(style: str, x: float, y: float, width: float, height: float) -> str:
    box = (coordinate(value) for value in (x, y, max(0.3, width), height))
    return '<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>'.format(style, *box)


def _draw_pods(draft: Draft, view: NodeView, resource: Resource, room: float, whole: float) -> None:
    """The columns of all pods, class by class."""
    index = {pod.row.name: number for number, pod in enumerate(view.pods)}
    least = _NARROW * whole
    asked = {
        pod.row.name: max(amounts(pod.row, resource).requested or 0.0, least) for pod in view.pods
    }
    scale = room / max(whole, sum(asked.values()))
    x = free = 0.0
    for qos in QOS_CLASSES:
        pods = [pod for pod in view.pods if (pod.row.qos or "BestEffort") == qos]
        if not pods:
            continue
        width = sum(asked[pod.row.name] for pod in pods) * scale
        draft.add(f'<g class="{qos}">')
        free = _draw_class(draft, qos, x, width, free)
        for pod in pods:
            one = asked[pod.row.name] * scale
            _draw_pod(draft, pod, resource, index[pod.row.name], x, one, whole)
            x += one
        draft.add("</g>")


def _draw_class(draft: Draft, qos: str, x: float, width: float, free: float) -> float:
    """The line below the columns of a class, with its name at ``free`` or further right; where it ends."""
    y = _TOP + _TALL
    draft.add(_rect("class", x, y, max(0.3, width - 1), 3))
    text = qos
    if len(text) * _LETTER > width - 4:
        text = {"Guaranteed": "G", "Burstable": "B", "BestEffort": "BE"}[qos]
    length = len(text) * _LETTER
    at = min(max(x + 2, free), WIDTH - length)
    draft.add(f'<text class="small" x="{coordinate(at)}" y="222">{text}</text>')
    return at + length + 2


def _draw_pod(
    draft: Draft,
    pod: PodView,
    resource: Resource,
    number: int,
    x: float,
    width: float,
    whole: float,
) -> None:
    """One column. What moves is the top of its filling."""
    have = amounts(pod.row, resource)
    top = scale_of(have, whole)
    inner = max(0.3, width - min(1.0, width / 4))
    style = "pod" if have.limited else "pod open"
    draft.add(
        f'<g data-pod="{number}"><title>{escaped(pod.row.title)}</title>',
        _rect(style, x, _TOP, inner, _TALL),
    )
    ratio = min(1.0, (have.used or 0.0) / top) if top else 0.0
    mark = "used hot" if pod.marks and pod.row.exists else "used"
    draft.shape(
        f'rect x="{coordinate(x)}" width="{coordinate(inner)}"',
        f"{resource}{number}",
        y=coordinate(_TOP + _TALL * (1 - ratio)),
        height=coordinate(_TALL * ratio),
        **{"class": mark},
    )
    for value, kind in (
        (have.protected, "protected"),
        (have.requested, "requested"),
        (have.throttle, "throttle"),
    ):
        if value and top and value <= top:
            y = _TOP + _TALL * (1 - value / top)
            draft.add(
                f'<path class="{kind}" d="M{coordinate(x)} {coordinate(y)}h{coordinate(inner)}"/>'
            )
    if len(pod.name) * _LETTER < width - 6:
        place = f'x="{coordinate(x + 4)}" y="{coordinate(_TOP + 16)}"'
        draft.add(f"<text {place}>{escaped(pod.name)}</text>")
    draft.add("</g>")


def scale_of(have: Amounts, whole: float) -> float:
    """What the full height of a column stands for: the limit, else twice the request; without
    either the ``whole`` node."""
    if have.limited:
        return have.limited
    most = max(have.requested or 0.0, have.throttle or 0.0, have.protected or 0.0)
    return 2 * most or whole


def legend(kinds: Sequence[tuple[str, str]] = ()) -> str:
    """What each mark means."""
    items = "".join(
        f'<li><svg viewBox="0 0 24 12" aria-hidden="true"><g>{_SAMPLES[kind]}</g></svg> {text}</li>'
        for kind, text in kinds or LEGEND
    )
    return f'<ul class="legend">{items}</ul>'


_SAMPLES = {
    "used": '<rect class="used" width="24" height="12"/>',
    "hot": '<rect class="used hot" width="24" height="12"/>',
    "requested": '<path class="requested" d="M0 6h24"/>',
    "throttle": '<path class="throttle" d="M0 6h24"/>',
    "protected": '<path class="protected" d="M0 6h24"/>',
    "pod": '<rect class="pod" x="1" y="1" width="22" height="10"/>',
    "reserved": '<rect class="reserved" width="24" height="12"/>',
}
LEGEND = (
    ("used", "used"),
    ("hot", "used, worth a look"),
    ("requested", "requested"),
    ("protected", "protected"),
    ("throttle", "memory.high"),
    ("pod", "up to the limit"),
    ("reserved", "reserved"),
)
