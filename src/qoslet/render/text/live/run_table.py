"""The table at the end of ``qoslet run``: requested, written and used, for every container."""

from __future__ import annotations

from collections.abc import Sequence

from qoslet.core.status.fields import heading, title
from qoslet.core.status.run_report import ReceivedResources, Report
from qoslet.core.status.snapshot import GroupRow
from qoslet.render.terminal import Terminal, cut, pad, printable, wrap
from qoslet.render.units import bandwidth, memory, rounded, size

_NARROWEST = 12
"""Columns that the names of containers get at least."""
_CPU_DROPS, _MEMORY_DROPS = (1, 2, 5, 3), (1, 5, 2)
"""Columns that go on a narrow terminal, the first one first."""


def table(report: Report, terminal: Terminal) -> list[str]:
    """Asked, written, got: the CPU of every container, then its memory."""
    arrow = terminal.mark("→", "->")
    head = f"asked {arrow} written {arrow} got"
    over = f"{report.seconds:.0f} s on {report.cores:g} CPUs"
    if report.elsewhere >= 1:
        over += f", of which others used {report.elsewhere:.0f}%"
    cpu = [
        (
            heading("cpu"),
            title("requested"),
            f"{arrow} {_weight_name(report)}",
            title("cpu_quota"),
            f"{arrow} {title('cpu_got')}",
            title("cpu_expected"),
            title("cpu_throttled"),
        ),
        *map(_cpu_row, report.containers),
    ]
    mem = [
        (
            heading("memory"),
            title("requested"),
            f"{arrow} {title('memory_limit')}",
            f"{arrow} {title('memory_peak')}",
            title("oom_kills"),
            title("container_restarts"),
        ),
        *map(_memory_row, report.containers),
    ]
    width = min(terminal.width, 80)
    lines = [terminal.paint(head, "bold") + terminal.paint(f"   {over}", "dim"), ""]
    if len(head) + 3 + len(over) > terminal.width:
        lines = [
            terminal.paint(head, "bold"),
            *(terminal.paint(line, "dim") for line in wrap(over, width)),
            "",
        ]
    fair = [got.fair for got in report.containers]
    lines += _columns(cpu, [None, *fair], terminal, width, _CPU_DROPS)
    lines.append("")
    lines += _columns(mem, [None] * len(mem), terminal, width, _MEMORY_DROPS)
    return lines


def _weight_name(report: Report) -> str:
    """What the kernel calls the weight: shares on v1."""
    v2 = any("cpu.weight" in {**got.row.planned, **got.row.found} for got in report.containers)
    return "weight" if v2 else "shares"


def _columns(
    rows: Sequence[tuple[str, ...]],
    verdicts: Sequence[bool | None],
    terminal: Terminal,
    width: int,
    drops: Sequence[int],
) -> list[str]:
    """Rows as aligned columns; where the lines would be too long, the first one gives way, then
    those at ``drops`` go one after the other."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    shown = list(range(len(widths)))
    for drop in (*drops, None):
        spare = width - sum(widths[at] for at in shown[1:]) - 2 * len(shown) - 1
        if spare >= _NARROWEST or drop is None:
            break
        shown.remove(drop)
    rows = [tuple(row[at] for at in shown) for row in rows]
    widths = [max(_NARROWEST, min(widths[0], spare)), *(widths[at] for at in shown[1:])]
    lines = []
    for index, (row, verdict) in enumerate(zip(rows, verdicts, strict=True)):
        cells = [pad(cut(row[0], widths[0], terminal.mark("…", "~")), widths[0])]
        cells += [pad(cell, widths[at + 1], right=at >= 1) for at, cell in enumerate(row[1:])]
        line = "  ".join(cells)
        if index == 0:
            lines.append(terminal.paint(line.rstrip(), "dim"))
        else:
            lines.append(f"{line}  {_verdict(verdict, terminal)}".rstrip())
    return lines


def _verdict(fair: bool | None, terminal: Terminal) -> str:
    """Whether it is what it should be."""
    if fair is None:
        return ""
    if fair:
        return terminal.paint(terminal.mark("✓", "ok"), "green")
    return terminal.paint(terminal.mark("✗", "OFF"), "red")


def _who(row: GroupRow) -> str:
    """``pod/container``, the namespace only where it is not the default one."""
    return printable(f"{row.pod.removeprefix('default/')}/{row.container}")


def _cpu_row(got: ReceivedResources) -> tuple[str, ...]:
    """A container's CPU."""
    row = got.row
    files = {**row.planned, **row.found}
    quota, period = files.get("cpu.cfs_quota_us", ""), files.get("cpu.cfs_period_us", "")
    if "cpu.max" in files:
        quota, _, period = files["cpu.max"].partition(" ")
    return (
        _who(row),
        _requests_and_limits(row, "cpu"),
        files.get("cpu.shares") or files.get("cpu.weight", "-"),
        bandwidth(quota, period or "100000"),
        "-" if got.cpu is None else f"{got.cpu:.1f}%",
        "-" if got.expected is None else f"{got.expected:.1f}%",
        f"{got.throttled:.1f}s" if got.throttled else "-",
    )


def _memory_row(got: ReceivedResources) -> tuple[str, ...]:
    """A container's memory."""
    row = got.row
    limit = _memory_limit(row)
    return (
        _who(row),
        _requests_and_limits(row, "memory"),
        memory(limit) if limit else "-",
        "-" if row.memory_peak is None else size(rounded(row.memory_peak)).lstrip("~"),
        "-" if row.oom_kills is None else str(row.oom_kills),
        str(row.restarts),
    )


def _memory_limit(row: GroupRow) -> str:
    """The memory limit as found, else as planned."""
    for file in ("memory.limit_in_bytes", "memory.max"):
        value = row.found.get(file, row.planned.get(file))
        if value is not None:
            return value
    return ""


def _requests_and_limits(row: GroupRow, name: str) -> str:
    """Request and limit: ``500m``, ``500m max 1``, ``-``."""
    request, limit = row.asked.get(f"requests.{name}"), row.asked.get(f"limits.{name}")
    if request and limit and request != limit:
        return f"{request} max {limit}"
    return request or (f"max {limit}" if limit else "-")
