"""The screen of ``qoslet top``: a table that follows the node, with keys to sort, fold and ask why."""

from __future__ import annotations

import os
import select
import stat
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.css.query import NoMatches
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static
from textual.worker import get_current_worker

from qoslet.core.status.node_top import SORT_KEYS, SortKey, TopRow, arranged
from qoslet.errors import QosletError
from qoslet.render.terminal import Terminal, printable
from qoslet.render.text.live.top import (
    LEAST_WIDTH,
    Layout,
    head,
    headline,
    layout,
    line,
    memory_bar,
    numbers,
    style_of,
)

HISTORY = 60
"""Looks of which the detail shows usage."""
_BLOCKS = "▁▂▃▄▅▆▇█"
_TERMINAL = Terminal(unicode=True)

Why = Callable[[TopRow], Sequence[str]]


def sparkline(values: Iterable[float | None]) -> str:
    """One block for each value, by the largest of them; a space where it is unknown."""
    known = list(values)
    most = max((value for value in known if value is not None), default=0.0) or 1.0
    return "".join(
        " " if value is None else _BLOCKS[min(7, int(8 * value / most))] for value in known
    )


def _has_hung_up() -> bool:
    """Whether the terminal is gone: SIGHUP tells that only to those whose controlling terminal it is."""
    poll = select.poll()
    poll.register(0, 0)
    hung_up = any(what & select.POLLHUP for _, what in poll.poll(0))
    return hung_up and stat.S_ISCHR(os.fstat(0).st_mode)


class Detail(ModalScreen[None]):
    """One cgroup: its history, its events, and why its values are what they are."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Back"),
    ]
    CSS = """
    Detail { align: center middle; }
    Detail VerticalScroll { width: 94%; height: 90%; border: round $accent; background: $surface; padding: 0 1; }
    """

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        """The lines, which scroll."""
        with VerticalScroll():
            yield Static(Text("\n".join(self._lines)))
        yield Footer()


class Rows(DataTable[Text]):
    """The cgroups; a row is one line, so that Home and End mean the first and the last one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("home", "scroll_top", show=False),
        Binding("end", "scroll_bottom", show=False),
    ]


class TopApp(App[None]):
    """``look`` reads the node, in a thread; ``heading`` says which node it is; ``why`` explains a row.
    Every ``interval`` seconds it looks again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("s", "sort", "Sort"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("space", "fold", "Fold"),
        Binding("enter", "detail", "Why", priority=True),
        Binding("p", "pause", "Pause"),
        Binding("escape", "leave_filter", "Clear", show=False),
    ]
    CSS = """
    #summary, #head { height: 1; }
    #head { text-style: bold; }
    #filter { display: none; height: 3; }
    #filter.shown { display: block; }
    DataTable { height: 1fr; }
    """

    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        look: Callable[[], tuple[TopRow, ...]],
        heading: Callable[[], str],
        why: Why,
        interval: float,
        sort: SortKey = "tree",
    ) -> None:
        super().__init__()
        self._look, self._heading, self._why = look, heading, why
        self._interval = interval
        self._rows: tuple[TopRow, ...] = ()
        self._shown: list[TopRow] = []
        self._sort: SortKey = sort
        self._folded: set[str] = set()
        self._wanted = ""
        self._paused = False
        self._trouble = ""
        self._history: dict[str, deque[tuple[float | None, float | None]]] = {}

    def compose(self) -> ComposeResult:
        """A line about the node, the table, the filter and the keys."""
        yield Static("", id="summary", markup=False)
        yield Static("", id="head", markup=False)
        yield Rows(id="rows", cursor_type="row", zebra_stripes=True)
        yield Input(placeholder="a part of a name", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        """Look at once, then again and again."""
        self._table.add_column("", key="line")
        self._table.show_header = False
        self._table.focus()
        self.set_interval(self._interval, self._begin)
        self._begin()

    @property
    def _table(self) -> Rows:
        return self.query_one("#rows", Rows)

    def _begin(self) -> None:
        if _has_hung_up():
            self.exit()
        elif not self._paused:
            self.run_worker(self._read, thread=True, exclusive=True)

    def _read(self) -> None:
        worker = get_current_worker()
        try:
            rows, trouble = self._look(), ""
        except QosletError as error:
            rows, trouble = self._rows, str(error)
        if not worker.is_cancelled:
            self.call_from_thread(self._take, rows, trouble)

    def _take(self, rows: tuple[TopRow, ...], trouble: str) -> None:
        """A new look."""
        self._rows, self._trouble = rows, trouble
        for row in rows:
            kept = self._history.setdefault(row.name, deque(maxlen=HISTORY))
            kept.append((row.cpu, None if row.memory is None else float(row.memory)))
        for name in self._history.keys() - {row.name for row in rows}:
            del self._history[name]
        # the screen is being closed
        with suppress(NoMatches):
            self._draw()

    def _draw(self) -> None:
        """Show what is known; only lines that differ are written."""
        terminal = Terminal(unicode=True, width=max(LEAST_WIDTH, self.size.width - 4))
        fits = layout(terminal)
        shown = arranged(self._rows, self._sort, self._folded, self._wanted)
        texts = [self._text(row, terminal, fits) for row in shown]
        table = self._table
        if [row.name for row in shown] == [row.name for row in self._shown]:
            for row, text in zip(shown, texts, strict=True):
                if table.get_cell(row.name, "line") != text:
                    table.update_cell(row.name, "line", text, update_width=True)
        else:
            at = self._selected
            table.clear()
            for row, text in zip(shown, texts, strict=True):
                table.add_row(text, key=row.name)
            names = [row.name for row in shown]
            if at is not None and at.name in names:
                table.move_cursor(row=names.index(at.name))
        self._shown = shown
        self.query_one("#summary", Static).update(self._summary())
        self.query_one("#head", Static).update(f" {head(fits)}")

    def _text(self, row: TopRow, terminal: Terminal, fits: Layout) -> Text:
        mark = "+ " if row.name in self._folded else ""
        return Text(line(row, terminal, fits, mark), style=style_of(row), no_wrap=True)

    def on_resize(self) -> None:
        """Other columns fit."""
        self._shown = []
        self._draw()

    def _summary(self) -> str:
        state = [f"by {self._sort}"]
        state += [f"filter {self._wanted!r}"] if self._wanted else []
        state += ["paused"] if self._paused else []
        state += [self._trouble] if self._trouble else []
        return headline(self._rows, self._heading(), ", ".join(state), self.size.width)

    @property
    def _selected(self) -> TopRow | None:
        row = self._table.cursor_row
        return self._shown[row] if 0 <= row < len(self._shown) else None

    def action_sort(self) -> None:
        """Sort siblings by the next key."""
        at = SORT_KEYS.index(self._sort)
        self._sort = SORT_KEYS[(at + 1) % len(SORT_KEYS)]
        self._draw()

    def action_fold(self) -> None:
        """Hide or show what is below the selected cgroup."""
        row = self._selected
        if row is not None and any(one.parent == row.name for one in self._rows):
            self._folded ^= {row.name}
            self._draw()

    def action_pause(self) -> None:
        """Keep the screen as it is, or go on."""
        self._paused = not self._paused
        self._draw()

    def action_filter(self) -> None:
        """Ask for a part of a name."""
        box = self.query_one("#filter", Input)
        box.add_class("shown")
        box.focus()

    def action_leave_filter(self) -> None:
        """Show everything again."""
        box = self.query_one("#filter", Input)
        box.value = self._wanted = ""
        box.remove_class("shown")
        self._table.focus()
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """What is typed counts at once."""
        self._wanted = event.value
        self._draw()

    def on_input_submitted(self) -> None:
        """Back to the table, with the filter."""
        self.query_one("#filter", Input).remove_class("shown")
        self._table.focus()

    def action_detail(self) -> None:
        """Open what is known of the selected cgroup."""
        if isinstance(self.focused, Input):
            self.on_input_submitted()
            return
        if isinstance(self.screen, Detail):
            self.screen.dismiss()
            return
        row = self._selected
        if row is not None:
            self.push_screen(Detail(self._detail(row)))

    def _detail(self, row: TopRow) -> list[str]:
        history = self._history.get(row.name, ())
        events = ", ".join(f"{name} {count}" for name, count in row.events.items() if count)
        lines = [
            f"{printable(row.title)}  {printable(row.path or 'no path yet')}",
            "",
            f"CPU     {sparkline(cpu for cpu, _ in history)}",
            f"memory  {sparkline(memory for _, memory in history)}  {memory_bar(row, 30, _TERMINAL)}",
            f"events  {events or 'none'}",
            f"now     {'  '.join(numbers(row))}",
            "",
        ]
        try:
            return [*lines, *self._why(row)]
        except QosletError as error:
            return [*lines, printable(str(error))]
