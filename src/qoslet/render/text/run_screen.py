"""What ``qoslet run`` shows: the live tree, a line for each change, the table at the end.

Text in, text out: ``live`` draws a snapshot, ``table`` a report, both for a ``Terminal``.
"""

from __future__ import annotations

from collections.abc import Sequence

from qoslet.core.status.fields import heading, title
from qoslet.core.status.run_report import Got, Report
from qoslet.core.status.snapshot import GroupRow, Snapshot
from qoslet.render.terminal import Terminal, cut, pad, printable, wrap
from qoslet.render.text.memory import screen_lines
from qoslet.render.units import bandwidth, memory, size

WIDEST = 100
"""Columns that the tree uses at most: wider lines are harder to read."""

_BAR = 10
_STATE = 16
_FIXED = _BAR + _STATE + 23
"""Columns of a line that are not its label."""

_QOS_STYLE = {"Guaranteed": "green", "Burstable": "yellow", "BestEffort": "cyan"}
_BLOCKS = " ▏▎▍▌▋▊▉█"


def live(snapshot: Snapshot, terminal: Terminal, elapsed: float, what: str) -> list[str]:
    """The tree with CPU and memory in use, one line for each group."""
    width = min(terminal.width, WIDEST)
    label = max(width - _FIXED, 20)
    clock = f"{int(elapsed) // 60:02d}:{int(elapsed) % 60:02d}"
    head = cut(printable(what), width - 7, "…")
    lines = [
        terminal.paint(pad(head, width - 6), "bold") + terminal.paint(clock, "dim"),
        "",
        terminal.paint(
            f"{pad('', label)} {pad(heading('cpu'), _BAR + 6)} {pad(heading('memory'), 13)}  "
            f"{heading('container_state')}",
            "dim",
        ),
    ]
    lines += [
        _line(row, trunk, snapshot, terminal, label)
        for row, trunk in _with_trunks(snapshot.groups, terminal)
    ]
    lines += screen_lines(snapshot.memory_view, terminal, width)
    good = "green" if snapshot.true else "yellow"
    lines += ["", terminal.paint(cut(printable(snapshot.summary), width, "…"), good)]
    lines += [
        terminal.paint(line, "red")
        for error in [*snapshot.errors, *snapshot.waiting][:3]
        for line in wrap(printable(error), width)
    ]
    return lines


def _with_trunks(rows: Sequence[GroupRow], terminal: Terminal) -> list[tuple[GroupRow, str]]:
    """Each row with the branches that lead to it."""
    paths = {row.path for row in rows}
    children: dict[str, list[GroupRow]] = {}
    for row in rows:
        parent = row.path.rpartition("/")[0]
        children.setdefault(parent if parent in paths else "", []).append(row)
    for below in children.values():
        below.sort(key=lambda row: row.level == "qos")
    drawn: list[tuple[GroupRow, str]] = []
    fork, last, bar = (
        terminal.mark("├─ ", "|- "),
        terminal.mark("└─ ", "`- "),
        terminal.mark("│  ", "|  "),
    )

    def walk(parent: str, indent: str, top: bool) -> None:
        below = children.get(parent, [])
        for index, row in enumerate(below):
            final = index == len(below) - 1
            drawn.append((row, "" if top else indent + (last if final else fork)))
            walk(row.path, "" if top else indent + ("   " if final else bar), False)

    walk("", "", True)
    return drawn


def _line(row: GroupRow, trunk: str, snapshot: Snapshot, terminal: Terminal, label: int) -> str:
    """One group: branch and name, CPU bar and percent, memory, state."""
    name = cut(printable(_name(row)), label - len(trunk), terminal.mark("…", "~"))
    style = _QOS_STYLE.get(row.qos, "bold") if row.level != "container" else ""
    text = terminal.paint(trunk, "dim") + terminal.paint(name, *([style] if style else []))
    space = " " * max(0, label - len(trunk) - len(name))
    share = None if row.cpu is None else row.cpu / snapshot.cores
    percent = "" if share is None else f"{100 * share:4.0f}%"
    used = "" if row.memory is None else size(_rounded(row.memory)).lstrip("~")
    limit = _memory_limit(row)
    amount = f"{used}/{memory(limit)}" if limit and memory(limit) != "max" else used
    return (
        f"{text}{space} {bar(share, terminal)} {pad(percent, 5)} {pad(amount, 13)}  "
        f"{_state(row, terminal)}"
    ).rstrip()


def _rounded(amount: int) -> int:
    """Bytes in whole Mi above one Mi, in whole Ki below: enough for the eye."""
    unit = 1 << 20 if amount >= 1 << 20 else 1 << 10
    return amount // unit * unit


def _name(row: GroupRow) -> str:
    """What the row is called: pods with their class."""
    if row.level == "pod":
        return f"{row.title.removeprefix('default/')} ({row.qos})"
    return row.title


def bar(share: float | None, terminal: Terminal) -> str:
    """A share of the machine, 0 to 1, in ``_BAR`` columns."""
    if share is None:
        return " " * _BAR
    eighths = round(min(max(share, 0.0), 1.0) * _BAR * 8)
    if not terminal.unicode:
        return pad("#" * round(eighths / 8), _BAR)
    full, rest = divmod(eighths, 8)
    text = "█" * full + (_BLOCKS[rest] if rest else "")
    return terminal.paint(text, "blue") + terminal.paint("·" * (_BAR - len(text)), "dim")


def _state(row: GroupRow, terminal: Terminal) -> str:
    """How a container is; groups say nothing unless they are missing."""
    if not row.exists:
        return terminal.paint("absent", "red")
    if row.level != "container":
        return ""
    again = f" {terminal.mark('×', 'x')}{row.restarts + 1}" if row.restarts else ""
    was = ", OOM" if row.oom_killed and row.state == "running" else ""
    text = cut(printable(row.state) + again + was, _STATE, terminal.mark("…", "~"))
    if row.oom_killed:
        return terminal.paint(text, "red")
    return terminal.paint(text, "green" if row.state == "running" else "yellow")


def _memory_limit(row: GroupRow) -> str:
    """The memory limit as found, else as planned."""
    for file in ("memory.limit_in_bytes", "memory.max"):
        value = row.found.get(file, row.planned.get(file))
        if value is not None:
            return value
    return ""


def change_line(snapshot: Snapshot, before: Snapshot | None, elapsed: float) -> str:
    """One line where something changed since ``before`` or is to be noted, else an empty text."""
    same = before is not None and (_facts(before), before.errors) == (
        _facts(snapshot),
        snapshot.errors,
    )
    if same and not snapshot.notes:
        return ""
    old = {} if before is None else dict(_facts(before)[1])
    moved = [
        f"{pod}/{name} {state}"
        for (pod, name), state in _facts(snapshot)[1]
        if old.get((pod, name)) != state and state
    ]
    parts = [snapshot.summary, *moved, *snapshot.notes, *snapshot.errors]
    return printable(f"{elapsed:6.1f}s  " + "; ".join(part for part in parts if part))


def _facts(snapshot: Snapshot) -> tuple[str, tuple[tuple[tuple[str, str], str], ...]]:
    """What counts as a change."""
    states = tuple(
        ((row.pod, row.container), row.state + (f" ({row.restarts})" if row.restarts else ""))
        for row in snapshot.groups
        if row.level == "container"
    )
    return snapshot.summary, states


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
    fair = [got.fair for got in report.containers]
    lines += _columns(cpu, [None, *fair], terminal, width)
    lines.append("")
    lines += _columns(mem, [None] * len(mem), terminal, width)
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
) -> list[str]:
    """Rows as aligned columns; the first one gives way where the line would be too long."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    spare = width - sum(widths[1:]) - 2 * len(widths) - 1
    widths[0] = max(12, min(widths[0], spare))
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


def _cpu_row(got: Got) -> tuple[str, ...]:
    """A container's CPU."""
    row = got.row
    files = {**row.planned, **row.found}
    quota, period = files.get("cpu.cfs_quota_us", ""), files.get("cpu.cfs_period_us", "")
    if "cpu.max" in files:
        quota, _, period = files["cpu.max"].partition(" ")
    return (
        _who(row),
        _asked(row, "cpu"),
        files.get("cpu.shares") or files.get("cpu.weight", "-"),
        bandwidth(quota, period or "100000"),
        "-" if got.cpu is None else f"{got.cpu:.1f}%",
        "-" if got.expected is None else f"{got.expected:.1f}%",
        f"{got.throttled:.1f}s" if got.throttled else "-",
    )


def _memory_row(got: Got) -> tuple[str, ...]:
    """A container's memory."""
    row = got.row
    limit = _memory_limit(row)
    return (
        _who(row),
        _asked(row, "memory"),
        memory(limit) if limit else "-",
        "-" if row.memory_peak is None else size(_rounded(row.memory_peak)).lstrip("~"),
        "-" if row.oom_kills is None else str(row.oom_kills),
        str(row.restarts),
    )


def _asked(row: GroupRow, name: str) -> str:
    """Request and limit: ``500m``, ``500m max 1``, ``-``."""
    request, limit = row.asked.get(f"requests.{name}"), row.asked.get(f"limits.{name}")
    if request and limit and request != limit:
        return f"{request} max {limit}"
    return request or (f"max {limit}" if limit else "-")
