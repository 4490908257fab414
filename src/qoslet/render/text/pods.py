"""The agent's pods as a table for people."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from qoslet.core.status.fields import BY_NAME, heading
from qoslet.core.status.pod_reason import NOT_RUN
from qoslet.render.text.memory import held_lines, remarks
from qoslet.render.units import rounded, size

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
_ALWAYS = ("pod_name", "pod_ready", "pod_status", "container_restarts", "pod_created", "pod_qos")
_USAGE = ("pod_cpu", "pod_cpu_share", "pod_throttled", "pod_memory", "pod_memory_share")
_WIDE = ("container_exit", "container_restart_at", *_USAGE, "pod_resize", "pod_uid", "pod_manifest")

_RECENT_SECONDS = 3600
"""So long the reason of a restart is shown."""

_GOOD = frozenset(("Running", "Succeeded", "Completed"))
_COLOURS = {"Running": "green", "Succeeded": "dim", "Failed": "red", "Pending": "yellow"}


def _colour(item: Mapping[str, object]) -> str:
    """By the phase; red for a status that tells of a failure."""
    status, phase = str(item.get("status")), str(item.get("phase"))
    if status == "Completed":
        return "dim"
    if phase == "Running" and status not in _GOOD:
        return "red"
    return _COLOURS.get(phase, "bold")


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
    at = heads.index(heading("pod_status"))
    for item, row in zip(items, clean, strict=True):
        drawn = [pad(cell, width) for cell, width in zip(row, widths, strict=True)]
        drawn[at] = terminal.paint(drawn[at], _colour(item))
        lines.append("  ".join(drawn).rstrip())
        said = [*_remarks(item, now), *_memory(item, memory or {}, terminal)]
        lines += [f"  {terminal.paint(printable(line), 'dim')}" for line in said]
    return lines


def stale_line(seconds: object, terminal: Terminal) -> list[str]:
    """That statuses are of the middle of a sync, ``lastSyncSeconds`` after the last one."""
    if not isinstance(seconds, int | float):
        return []
    text = f"the agent waits for systemd: its last sync ended {age(seconds)} ago; usage is left out"
    return [terminal.paint(text, "yellow")]


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
            containers = [one for one in _containers(item) if one.get("role") != "init"]
            ready = sum(bool(one.get(field.key, one.get("running"))) for one in containers)
            # an agent of an earlier version does not tell of those that are not made yet
            return f"{ready}/{max(_whole(item.get('containersWanted')), len(containers))}"
        case "container_restarts":
            return str(sum(_whole(one.get(field.key)) for one in _containers(item)))
        case "pod_status":
            reason = item.get(BY_NAME["pod_reason"].key)
            phase = item.get(BY_NAME["pod_phase"].key)
            return (
                f"{phase} ({reason})"
                if reason and (value in (None, reason) or phase == "Terminating")
                else str(value or phase)
            )
        case "pod_created":
            born = _seconds(value) or _seconds(item.get(BY_NAME["pod_since"].key))
            return "-" if born is None else age(now - born)
        case "container_exit" | "container_restart_at":
            return _exit_cell(name, item, now)
        case "pod_resize":
            rejected = item.get(BY_NAME["pod_edit"].key)
            return "Rejected" if rejected else str(value or "-")
    if name in _USAGE:
        used = item.get("usage")
        return usage_cell(name, used.get(field.key) if isinstance(used, dict) else None)
    return str(value or "-") if name in _WIDE else str(value)


def usage_cell(name: str, value: object) -> str:
    """A field of a pod's usage; ``-`` where it is not known."""
    if not isinstance(value, int | float):
        return "-"
    if name.endswith("_share"):
        return f"{100 * value:.0f}%"
    match name:
        case "pod_cpu":
            return f"{1000 * value:.0f}m"
        case "pod_throttled":
            return f"{value:.1f}s"
    return size(rounded(int(value)))


def _exit_cell(name: str, item: Mapping[str, object], now: float) -> str:
    """Exit code or time to the next start of the container that the status is about."""
    ended = [one for one in _containers(item) if _has_failed(one)]
    container = next((one for one in ended if one.get("restartAt")), next(iter(ended), None))
    value = None if container is None else container.get(BY_NAME[name].key)
    if name == "container_exit":
        return "-" if value is None else str(value)
    restart, again = _seconds(value), item.get("retryInSeconds")
    if restart is None or container is None:
        return age(again) if isinstance(again, int | float) else "-"
    return age(_until(restart, container, now))


def _has_failed(container: Mapping[str, object]) -> bool:
    """Whether it ended and waits to start again, or ended with another code than 0. One that is being
    started again has no reason."""
    code = container.get("exitCode")
    if container.get("running") or code is None or not container.get("exitReason"):
        return False
    return code != 0 or bool(container.get("restartAt"))


def _until(restart: float, container: Mapping[str, object], now: float) -> float:
    """Seconds until a container starts again: its back-off at most, wherever the clock was set meanwhile."""
    ended = _seconds(container.get("finishedAt"))
    return restart - now if ended is None else min(restart - now, restart - ended)


def _seconds(moment: object) -> float | None:
    """RFC 3339 as wall-clock seconds."""
    return datetime.fromisoformat(moment).timestamp() if isinstance(moment, str) else None


def _containers(item: Mapping[str, object]) -> list[Mapping[str, object]]:
    found = item.get("containers")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _remarks(item: Mapping[str, object], now: float) -> Iterable[str]:
    """Why a pod is not as its manifest says, and when it is tried again."""
    message, again = item.get("message"), item.get("retryInSeconds")
    if message:
        later = f"; retry in {age(again)}" if isinstance(again, int | float) else ""
        yield f"{message}{later}"
    for container in _containers(item):
        if _has_failed(container):
            yield _exit_remark(container, now)
        elif container.get("status") == NOT_RUN:
            yield f"{container.get('name')}: {container.get('reason')}"
        else:
            yield from _restart_remark(container, now)
    if item.get("resize") not in (None, "Done"):
        why = item.get("resizeReason")
        yield f"resize {item['resize']}" + (f": {why}" if why else "")
    rejected = item.get("editRejected")
    if rejected and not (isinstance(message, str) and message.endswith(str(rejected))):
        yield f"edit rejected, the pod is unchanged: {rejected}"


def _exit_remark(container: Mapping[str, object], now: float) -> str:
    """How a container ended, and when it starts again: ``app: Error, exit code 7; restart in 8s``."""
    restart = _seconds(container.get("restartAt"))
    later = "" if restart is None else f"; restart in {age(_until(restart, container, now))}"
    reason, detail = container.get("exitReason"), container.get("reason")
    why = f"{reason} ({detail})" if detail != reason else str(reason)
    probe = _after_probe(container.get("lastExit"))
    return f"{container.get('name')}: {why}, exit code {container['exitCode']}{probe}{later}"


def _restart_remark(container: Mapping[str, object], now: float) -> Iterable[str]:
    """Why a container that runs again was restarted in the last hour: ``app: restarted 8s ago:
    OOMKilled, exit code 137``."""
    last = container.get("lastExit")
    if not container.get("running") or not isinstance(last, dict):
        return
    begun = _seconds(container.get("startedAt"))
    if begun is None or not 0 <= now - begun < _RECENT_SECONDS:
        return
    text = f"{last['reason']}, exit code {last['exitCode']}{_after_probe(last)}"
    yield f"{container.get('name')}: restarted {age(now - begun)} ago: {text}"


def _after_probe(last: object) -> str:
    is_after = isinstance(last, dict) and last.get("afterProbe")
    return ", after a failed probe" if is_after else ""
