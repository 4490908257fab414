"""What ``qoslet run`` shows while it goes on: the live tree, or a line for each change.

Text in, text out, for a ``Terminal``; ``run_table`` draws the table at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from qoslet.core.status.fields import heading
from qoslet.core.status.pod_events import PodEvent
from qoslet.core.status.snapshot import GroupRow, Snapshot
from qoslet.core.status.usage import cpu_limit, memory_limit, share
from qoslet.render.terminal import Terminal, cut, display_width, pad, printable, wrap
from qoslet.render.text.memory import screen_lines
from qoslet.render.text.streams import spelled
from qoslet.render.units import memory, rounded, size

WIDEST = 100
"""Columns that the tree uses at most: wider lines are harder to read."""

_QOS_STYLE = {"Guaranteed": "green", "Burstable": "yellow", "BestEffort": "cyan"}
_BLOCKS = " ▏▎▍▌▋▊▉█"
_NEAR = 0.9
"""From this share of a limit on a value is drawn in red."""


class ScreenLayout(Struct, frozen=True):
    """How wide each cell after the label is, from ``width`` columns on; 0 leaves it out."""

    width: int
    bar: int
    cpu: int
    cpu_share: int
    throttled: int
    memory: int
    memory_share: int
    state: int

    @property
    def label(self) -> int:
        """Columns that a line of this width leaves for the label."""
        return self.width - sum(1 + cell for cell in self._cells if cell)

    @property
    def _cells(self) -> tuple[int, ...]:
        return (self.bar, self.cpu, self.cpu_share, self.throttled, self.memory,
                self.memory_share, self.state)  # fmt: skip


_LAYOUTS = (
    ScreenLayout(100, bar=10, cpu=5, cpu_share=6, throttled=9, memory=13, memory_share=6, state=16),
    ScreenLayout(80, bar=5, cpu=5, cpu_share=6, throttled=9, memory=12, memory_share=0, state=16),
    ScreenLayout(60, bar=0, cpu=5, cpu_share=6, throttled=0, memory=13, memory_share=0, state=14),
    ScreenLayout(40, bar=0, cpu=5, cpu_share=0, throttled=0, memory=6, memory_share=0, state=11),
    ScreenLayout(20, bar=0, cpu=0, cpu_share=0, throttled=0, memory=0, memory_share=0, state=9),
)


def layout(width: int) -> tuple[ScreenLayout, int]:
    """What a line of ``width`` columns has room for, and the columns of its label."""
    chosen = next((one for one in _LAYOUTS if one.width <= width), _LAYOUTS[-1])
    return chosen, max(chosen.label + width - chosen.width, 4)


def live(snapshot: Snapshot, terminal: Terminal, elapsed: float, what: str) -> list[str]:
    """The tree with CPU and memory in use, one line for each group; no line is wider than the
    terminal."""
    width = min(terminal.width, WIDEST)
    cells, label = layout(width)
    clock = f"{int(elapsed) // 60:02d}:{int(elapsed) % 60:02d}"
    dots = terminal.mark("…", "~")
    title = printable(spelled(what, "utf-8" if terminal.unicode else "ascii"))
    head = cut(title, width - 7, dots)
    lines = [
        terminal.paint(pad(head, width - 6), "bold") + terminal.paint(clock, "dim"),
        "",
        terminal.paint(f"{pad('', label)}{_heading(cells)}", "dim"),
    ]
    lines += [
        _line(row, trunk, snapshot, terminal, cells, label)
        for row, trunk in _with_trunks(snapshot.groups, terminal)
    ]
    lines += screen_lines(snapshot.memory_view, terminal, width)
    good = "green" if snapshot.true else "yellow"
    lines += ["", terminal.paint(cut(printable(snapshot.summary), width, dots), good)]
    lines += [
        terminal.paint(line, "red")
        for error in [*snapshot.errors, *snapshot.waiting][:3]
        for long in wrap(printable(error), width)
        for line in _broken(long, width)
    ]
    return lines


def _broken(text: str, width: int) -> list[str]:
    """A line in pieces that fit: a word of its own may be longer."""
    pieces = []
    while display_width(text) > width:
        end = width
        while display_width(text[:end]) > width:
            end -= 1
        pieces.append(text[:end])
        text = text[end:]
    return [*pieces, text]


def _heading(cells: ScreenLayout) -> str:
    """The titles above the cells."""
    titles = (
        (cells.bar, ""),
        (cells.cpu, heading("cpu")),
        (cells.cpu_share, "/LIMIT"),
        (cells.throttled, heading("cpu_throttled")),
        (cells.memory, heading("memory")),
        (cells.memory_share, "/LIMIT"),
        (cells.state, heading("container_state")),
    )
    return "".join(f" {pad(title, wide)}" for wide, title in titles if wide).rstrip()


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


def _line(
    row: GroupRow,
    trunk: str,
    snapshot: Snapshot,
    terminal: Terminal,
    cells: ScreenLayout,
    label: int,
) -> str:
    """One group: branch and name, CPU bar and percent, memory, state."""
    trunk = trunk[-max(label - 4, 0) :] if len(trunk) > label - 4 else trunk
    room = label - len(trunk)
    name = printable(_name(row))
    if display_width(name) > room:
        name = cut(printable(_title(row)), room, terminal.mark("…", "~"))
    style = _QOS_STYLE.get(row.qos, "bold") if row.level != "container" else ""
    text = terminal.paint(trunk, "dim") + terminal.paint(name, *([style] if style else []))
    text += " " * max(0, label - len(trunk) - display_width(name))
    used = None if row.cpu is None else row.cpu / snapshot.cores
    drawn = (
        (cells.bar, bar(used, terminal, cells.bar)),
        (cells.cpu, pad("" if used is None else f"{100 * used:4.0f}%", cells.cpu)),
        (cells.cpu_share, _share(share(row.cpu, cpu_limit(row)), terminal, cells.cpu_share)),
        (cells.throttled, pad(_throttled(row), cells.throttled)),
        (cells.memory, pad(_amount(row, cells.memory), cells.memory)),
        (
            cells.memory_share,
            _share(share(row.memory, memory_limit(row)), terminal, cells.memory_share),
        ),
        (cells.state, _state(row, terminal, cells)),
    )
    return (text + "".join(f" {cell}" for wide, cell in drawn if wide)).rstrip()


def _share(value: float | None, terminal: Terminal, width: int) -> str:
    """A share of a limit in percent."""
    if value is None:
        return " " * width
    text = pad(f"{100 * value:4.0f}%", width)
    return terminal.paint(text, "red") if value >= _NEAR else text


def _throttled(row: GroupRow) -> str:
    """The time for which the CPU quota held the group back."""
    return f"{row.throttled_seconds:.1f}s" if row.throttled_seconds else ""


def _amount(row: GroupRow, width: int) -> str:
    """Memory in use, with its limit where there is room."""
    used = "" if row.memory is None else size(rounded(row.memory)).lstrip("~")
    limit = memory_limit(row)
    both = f"{used}/{memory(str(limit))}" if limit else used
    return both if len(both) <= width else used


def _title(row: GroupRow) -> str:
    """What the row is called, the namespace only where it is not the default one."""
    return row.title.removeprefix("default/") if row.level == "pod" else row.title


def _name(row: GroupRow) -> str:
    """The same, pods with their class."""
    return f"{_title(row)} ({row.qos})" if row.level == "pod" else row.title


def bar(share: float | None, terminal: Terminal, width: int = 10) -> str:
    """A share of the machine, 0 to 1, in ``width`` columns."""
    if share is None:
        return " " * width
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    if not terminal.unicode:
        return pad("#" * round(eighths / 8), width)
    full, rest = divmod(eighths, 8)
    text = "█" * full + (_BLOCKS[rest] if rest else "")
    return terminal.paint(text, "blue") + terminal.paint("·" * (width - len(text)), "dim")


def _state(row: GroupRow, terminal: Terminal, cells: ScreenLayout) -> str:
    """How a container is; groups say nothing unless they are missing. Without a column for it,
    one that is held back by its quota is ``throttled``."""
    if not row.exists:
        return terminal.paint("absent", "red")
    if row.level != "container":
        return ""
    word = row.state
    if row.throttled and word == "running" and not cells.throttled:
        word = "throttled"
    again = f" {terminal.mark('×', 'x')}{row.restarts + 1}" if row.restarts else ""
    was = ", OOM" if row.oom_killed and row.state == "running" else ""
    text = cut(printable(word) + again + was, cells.state, terminal.mark("…", "~"))
    if row.oom_killed:
        return terminal.paint(text, "red")
    return terminal.paint(text, "green" if word == "running" else "yellow")


def change_line(snapshot: Snapshot, before: Snapshot | None, elapsed: float) -> str:
    """One line where something changed since ``before`` or is to be noted, else an empty text. Of a
    container it says what happened, else its state."""
    ends = container_ends(snapshot)
    same = before is not None and (_facts(before), before.errors) == (
        _facts(snapshot),
        snapshot.errors,
    )
    if same and not snapshot.notes and not ends:
        return ""
    old = {} if before is None else dict(_facts(before)[1])
    told = {(event.pod, event.container) for event in ends}
    moved = [
        f"{pod}/{name} {state}"
        for (pod, name), state in _facts(snapshot)[1]
        if old.get((pod, name)) != state and state and (pod, name) not in told
    ]
    lines = [event.line for event in ends]
    notes = [note for note in snapshot.notes if note not in lines]
    parts = [snapshot.summary, *moved, *lines, *notes, *snapshot.errors]
    return printable(f"{elapsed:6.1f}s  " + "; ".join(part for part in parts if part))


_ENDS = frozenset(
    {
        "ContainerExited",
        "ContainerKilling",
        "ContainerRestarted",
        "ContainerStartFailed",
        "ContainerUnhealthy",
        "ContainerHookFailed",
    }
)


def container_ends(snapshot: Snapshot) -> list[PodEvent]:
    """What happened to containers other than that they run: ends, starts after one, failed probes."""
    return [event for event in snapshot.events if event.event in _ENDS]


def _facts(snapshot: Snapshot) -> tuple[str, tuple[tuple[tuple[str, str], str], ...]]:
    """What counts as a change."""
    states = tuple(
        ((row.pod, row.container), row.state + (f" ({row.restarts})" if row.restarts else ""))
        for row in snapshot.groups
        if row.level == "container"
    )
    return snapshot.summary, states
