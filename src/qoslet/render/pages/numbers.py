"""Numbers of a node as a page writes them."""

from __future__ import annotations

from datetime import UTC, datetime

from qoslet.core.status.page.node_view import NodeView, Resource
from qoslet.render.units import size

NOTHING = "–"


def cores(amount: float | None) -> str:
    """Cores, with as many digits as the eye takes in."""
    if amount is None:
        return NOTHING
    if amount >= 100:
        return f"{amount:.0f}"
    return f"{amount:.2f}" if amount < 10 else f"{amount:.1f}"


def memory(amount: float | None) -> str:
    """Bytes in a binary unit."""
    if amount is None:
        return NOTHING
    whole = int(amount)
    text = size(whole)
    if len(text) <= 7:
        return text
    unit = 1 << 20 if whole >= 1 << 20 else 1 << 10
    return size(whole // unit * unit)


def amount(value: float | None, resource: Resource) -> str:
    """Cores or bytes."""
    return cores(value) if resource == "cpu" else memory(value)


def percent(value: float | None) -> str:
    """Percent without digits behind the point, where there is room for doubt with one."""
    if value is None:
        return NOTHING
    return f"{value:.1f}%" if 0 < value < 10 else f"{value:.0f}%"


def count(value: float | None) -> str:
    """A count."""
    return NOTHING if value is None else f"{value:.0f}"


def read_at(view: NodeView, wall: float) -> str:
    """When a node was looked at, with the day where it does not change: that of a bundle may be long ago."""
    if view.interval is not None:
        return clock(wall)
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d %H:%M:%S")


def clock(wall: float) -> str:
    """A moment as the time of day in UTC."""
    return datetime.fromtimestamp(wall, UTC).strftime("%H:%M:%S")


def span(seconds: float) -> str:
    """A time that passed."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def coordinate(value: float) -> str:
    """A place in a picture."""
    return f"{value:.1f}".removesuffix(".0")
