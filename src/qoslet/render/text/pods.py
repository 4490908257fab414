"""The agent's pods as a table for people."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from qoslet.core.status.fields import BY_NAME, heading
from qoslet.render.text.memory import held_lines, remarks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from qoslet.render.terminal import Terminal


def age(seconds: float) -> str:
    """A span as people say it: ``42s``, ``3m5s``, ``7h``, ``12d``. Source: kubectl's ages."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, rest = divmod(minutes, 60)
    if hours < 8:
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


_SPACES = ("pod_namespace",)
_ALWAYS = ("pod_name", "pod_ready", "pod_phase", "container_restarts", "pod_since", "pod_qos")
_WIDE = ("pod_resize", "pod_uid", "pod_manifest")

_COLOURS = {"Running": "green", "Succeeded": "dim", "Failed": "red", "Pending": "yellow"}


def _columns(wide: bool, spaces: bool) -> tuple[str, ...]:
    """The shown fields of a pod."""
    return (*(_SPACES if spaces else ()), *_ALWAYS, *(_WIDE if wide else ()))


def table(
    items: Sequence[Mapping[str, object]],
    now: float,
    terminal: Terminal,
    wide: bool,
    spaces: bool,
    memory: Mapping[str, object] | None = None,
) -> list[str]:
    """The pods of a ``PodStates`` document, a line each; ``spaces`` shows namespaces. ``memory``
    is that of the document: what happened to them."""
    from qoslet.render.terminal import pad, printable

    heads = [heading(name) for name in _columns(wide, spaces)]
    cells = [_cells(item, now, wide, spaces) for item in items]
    clean = [[printable(cell) for cell in row] for row in cells]
    widths = [max(len(row[at]) for row in [heads, *clean]) for at in range(len(heads))]
    lines = [
        "  ".join(pad(head, width) for head, width in zip(heads, widths, strict=True)).rstrip()
    ]
    at = heads.index(heading("pod_phase"))
    for item, row in zip(items, clean, strict=True):
        drawn = [pad(cell, width) for cell, width in zip(row, widths, strict=True)]
        drawn[at] = terminal.paint(drawn[at], _COLOURS.get(str(item.get("phase")), "bold"))
        lines.append("  ".join(drawn).rstrip())
        said = [*_remarks(item), *_memory(item, memory or {}, terminal)]
        lines += [f"  {terminal.paint(printable(line), 'dim')}" for line in said]
    return lines


def _memory(
    item: Mapping[str, object], memory: Mapping[str, object], terminal: Terminal
) -> Iterable[str]:
    """What happened to the memory of a pod's containers."""
    rows, page = memory.get("groups"), memory.get("pageSize")
    known = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    mine = [row for row in known if row.get("uid") == item.get("uid")]
    yield from remarks(mine, page if isinstance(page, int) else 4096, terminal)
    groups = {str(one.get("cgroup")): str(one.get("name")) for one in _containers(item)}
    yield from held_lines(memory.get("guard"), groups)


def _cells(item: Mapping[str, object], now: float, wide: bool, spaces: bool) -> list[str]:
    return [_cell(name, item, now) for name in _columns(wide, spaces)]


def _cell(name: str, item: Mapping[str, object], now: float) -> str:
    """One field of a pod."""
    field = BY_NAME[name]
    value = item.get(field.key)
    match name:
        case "pod_ready":
            containers = _containers(item)
            return f"{sum(bool(one.get(field.key)) for one in containers)}/{len(containers)}"
        case "container_restarts":
            return str(sum(_whole(one.get(field.key)) for one in _containers(item)))
        case "pod_phase":
            reason = item.get(BY_NAME["pod_reason"].key)
            return f"{value} ({reason})" if reason else str(value)
        case "pod_since":
            born = datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
            return "-" if born is None else age(now - born)
        case _:
            return str(value or "-") if name in _WIDE else str(value)


def _containers(item: Mapping[str, object]) -> list[Mapping[str, object]]:
    found = item.get("containers")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _remarks(item: Mapping[str, object]) -> Iterable[str]:
    """Why a pod is not as asked, and when it is tried again."""
    message, again = item.get("message"), item.get("retryInSeconds")
    if message:
        later = f"; retry in {age(again)}" if isinstance(again, int | float) else ""
        yield f"{message}{later}"
    if item.get("resize") not in (None, "Done"):
        why = item.get("resizeReason")
        yield f"resize {item['resize']}" + (f": {why}" if why else "")
