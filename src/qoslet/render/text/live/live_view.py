"""Shows a run while it goes on: the tree redrawn in place on a terminal, else lines of change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec.structs import replace

from qoslet.agent.snapshots import SyncResult
from qoslet.core.problem import Problem
from qoslet.core.status.run_report import report
from qoslet.core.status.snapshot import Snapshot
from qoslet.render.terminal import Terminal, cut, display_width, printable
from qoslet.render.text.live.run_screen import change_line, container_ends, live
from qoslet.render.text.live.run_table import table

_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
KEPT = 4096
"""Snapshots kept for the report; beyond that, every second one of the older ones goes."""


_STYLES = re.compile(r"\x1b\[[0-9;]*m")


def _columns(line: str) -> int:
    """What a drawn line takes on a terminal that is wide enough."""
    return display_width(_STYLES.sub("", line))


class Output(Protocol):
    """Where text goes."""

    def write(self, text: str, /) -> int:
        """Write it."""

    def flush(self) -> None:
        """Let it be seen."""


class Watching:
    """Takes every snapshot. ``size`` tells columns and rows of the terminal as it is now, None where
    the output is no terminal. ``log_lines`` gives what containers printed, each (container, line);
    ``told`` are the problem rows that were shown before. Without ``watched`` no snapshots come,
    only turns."""

    def __init__(
        self,
        out: Output,
        terminal: Terminal,
        title: str,
        *,
        size: Callable[[], tuple[int, int]] | None = None,
        log_lines: Callable[[], list[tuple[str, str]]] | None = None,
        told: Iterable[Problem] = (),
        watched: bool = True,
    ) -> None:
        self._out = out
        self._terminal = terminal
        self._title = title
        self._size = size
        self._log_lines = log_lines
        self._drawn: list[str] = []
        self._told = set(told)
        self._watched = watched
        self.snapshots: list[Snapshot] = []

    def synced(self, result: SyncResult) -> None:
        """Print what a sync did, unless snapshots are shown: one sentence, and each error."""
        if self._watched or (result.quiet and result.cycle > 1):
            return
        for line in (result.summary, *result.notes, *result.errors):
            self._write(f"{printable(line)}\n")
        self.logs()

    def publish(self, snapshot: Snapshot) -> None:
        """Show ``snapshot`` and keep it for the report."""
        before = self.snapshots[-1] if self.snapshots else None
        self.snapshots.append(snapshot)
        if len(self.snapshots) > KEPT:
            del self.snapshots[1 : KEPT // 2 : 2]
        elapsed = snapshot.at - self.snapshots[0].at
        if self._size is None:
            self._problems(snapshot)
            self.logs()
            line = change_line(snapshot, before, elapsed)
            if line:
                self._write(line + "\n")
            return
        width, height = self._size()
        drawn_for = replace(self._terminal, width=max(width, 20))
        lines = live(snapshot, drawn_for, elapsed, self._title)
        room = max(height - 1, 4)
        if len(lines) > room:
            hidden = len(lines) - room + 3
            dots = self._terminal.mark("…", "...")
            lines = [*lines[: room - 3], f"{dots} {hidden} more lines", *lines[-2:]]
        self._erase(drawn_for.width)
        self._problems(snapshot)
        ends = [event.line for event in container_ends(snapshot)]
        for note in dict.fromkeys([*ends, *snapshot.notes]):
            self._write(f"{printable(note)}\n")
        self.logs()
        self._write(_HIDE + "".join(f"{line}\n" for line in lines))
        self._drawn = lines

    def _problems(self, snapshot: Snapshot) -> None:
        """Say what has come up since the start, each row once."""
        for row in snapshot.problems:
            if row in self._told:
                continue
            self._told.add(row)
            hint = f" ({row.hint})" if row.hint else ""
            self._write(f"{printable(f'{row.severity}: {row.where}: {row.message}{hint}')}\n")

    def logs(self) -> None:
        """Print what containers printed, each line with its container's name."""
        if self._log_lines is None:
            return
        for title, line in self._log_lines():
            name = self._terminal.paint(f"{printable(title)} | ", "dim")
            self._write(f"{name}{cut(printable(line), 2000, '…')}\n")

    def log(self, line: str) -> None:
        """One line beside the snapshots, such as that the run is ending."""
        self._write(f"{printable(line)}\n")
        self._drawn = []

    def end(self, with_table: bool = True) -> None:
        """Give the cursor back and show the table."""
        if self._size is not None:
            self._write(_SHOW)
        self.logs()
        if with_table and self.snapshots:
            lines = table(report(self.snapshots), self._terminal)
            self._write("\n" + "".join(f"{line}\n" for line in lines))

    def _erase(self, width: int) -> None:
        """Go back to where the last tree began: on a terminal that has become narrower its lines
        take more rows."""
        if self._drawn:
            rows = sum(max(1, -(-_columns(line) // width)) for line in self._drawn)
            self._write(f"\x1b[{rows}A\x1b[J")
            self._drawn = []

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
