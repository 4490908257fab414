"""The screen of ``qoslet top --replay``: that of ``top``, with keys to move in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType

from qoslet.cli.screens.top import TopApp, Why
from qoslet.core.status.node_top import SortKey, TopRow

STEP, LEAP = 10.0, 300.0
"""Seconds that the arrows move, alone and with shift."""
_ALL = float("inf")


class ReplayApp(TopApp):
    """``seek`` moves by seconds from the shown moment; ``infinity`` means an end."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", f"seek({-STEP})", "-10 s", priority=True),
        Binding("right", f"seek({STEP})", "+10 s", priority=True),
        Binding("shift+left", f"seek({-LEAP})", "-5 min", priority=True, show=False),
        Binding("shift+right", f"seek({LEAP})", "+5 min", priority=True, show=False),
        Binding("b", "begin", "Begin"),
        Binding("e", "end", "End"),
    ]

    def __init__(
        self,
        look: Callable[[], tuple[TopRow, ...]],
        heading: Callable[[], str],
        why: Why,
        interval: float,
        sort: SortKey,
        seek: Callable[[float], None],
    ) -> None:
        super().__init__(look, heading, why, interval, sort)
        self._seek = seek

    def action_seek(self, seconds: float) -> None:
        """Move in time, also while paused."""
        self._seek(seconds)
        self.run_worker(self._read, thread=True, exclusive=True)

    def action_begin(self) -> None:
        """Show the first moment."""
        self.action_seek(-_ALL)

    def action_end(self) -> None:
        """Show the last moment."""
        self.action_seek(_ALL)
