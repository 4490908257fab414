"""What ``qoslet top --replay`` looks at: a recording, played from a moment on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qoslet.errors import BadInput

if TYPE_CHECKING:
    from qoslet.core.recording.recording import Recording
    from qoslet.core.status.node_top import TopRow

SLACK_SECONDS = 1.0
"""Seconds after the last moment that still mean it."""
_DAY = 86400


class ReplayedTop:
    """A recording at a moment. ``look`` shows it and goes on by ``step`` seconds; ``seek`` moves."""

    def __init__(self, path: str, step: float, note: Callable[[str], None]) -> None:
        from qoslet.app.top.recording import load

        self.recording: Recording = load(path, note)
        self._step = step
        self._at = 0.0
        self._shown = 0
        self._goes_on = False
        self.seconds = 0.0

    @property
    def node(self) -> Mapping[str, Any]:
        """The block about the node at the shown moment."""
        return self.recording.session(self._shown).node

    @property
    def wall(self) -> float:
        """When the shown moment was, in seconds since 1970."""
        return self.recording.wall(self._shown)

    def go_to(self, point: tuple[str, float]) -> None:
        """Show the moment at a point as of ``cli.times.point``. Raises BadInput outside."""
        self._at = self.recording.seconds[position(self.recording, point)]
        self._goes_on = False

    def seek(self, seconds: float) -> None:
        """Move so far from the shown moment, not beyond the ends."""
        shown = self.recording.seconds[self._shown]
        self._at = min(max(0.0, shown + seconds), self.recording.seconds[-1])
        # a step that is shorter than between two moments still moves
        if seconds > 0 and self.recording.at_seconds(self._at) == self._shown:
            self._at = self.recording.seconds[min(self._shown + 1, len(self.recording) - 1)]
        self._goes_on = False

    def look(self) -> tuple[TopRow, ...]:
        """The rows of the moment that is due. Raises BadInput where it is damaged."""
        if self._goes_on:
            self._at = min(self._at + self._step, self.recording.seconds[-1])
        self._goes_on = True
        self._shown = self.recording.at_seconds(self._at)
        rows, self.seconds = self.recording.top(self._shown)
        return rows

    def heading(self) -> str:
        """Which node, when, and where in the recording."""
        from qoslet.render.documents.timestamps import moment as timestamp

        node = self.node
        shown, last = self.recording.seconds[self._shown], self.recording.seconds[-1]
        parts = [
            str(node.get("name") or "a node"),
            f"cgroup {node.get('hierarchy')}",
            timestamp(self.wall),
            f"{clock(shown)} of {clock(last)}",
        ]
        return " · ".join(parts)

    def why(self, row: TopRow) -> Sequence[str]:
        """The planned values of a cgroup at the shown moment, each with its reason."""
        moment = self.recording.moment(self._shown)
        for one in moment.rows:
            if one.row.name == row.name and one.row.path == row.path:
                planned = one.row.planned.items()
                return [
                    "planned at that moment:",
                    *(f"  {file} {value}  {one.because.get(file, '')}" for file, value in planned),
                ]
        return ()


def position(recording: Recording, point: tuple[str, float]) -> int:
    """The number of the moment at a point as of ``cli.times.point``. Raises BadInput for a time
    that is not in the recording."""
    from qoslet.render.documents.timestamps import moment as timestamp

    kind, value = point
    first, last = recording.wall(0), recording.wall(len(recording) - 1)
    if kind == "clock":
        day = last // _DAY * _DAY
        value += day if day + value <= last + SLACK_SECONDS else day - _DAY
        kind = "wall"
    if kind == "wall":
        walls = [recording.wall(number) for number in range(len(recording))]
        inside = min(walls) - SLACK_SECONDS <= value <= max(walls) + SLACK_SECONDS
        found = recording.at_wall(value)
    else:
        value += recording.seconds[-1] if kind == "end" else 0.0
        inside = -0.001 <= value <= recording.seconds[-1] + SLACK_SECONDS
        found = recording.at_seconds(value)
    if not inside:
        hint = (
            f"it goes from {timestamp(first)} to {timestamp(last)}, {clock(recording.seconds[-1])}"
        )
        raise BadInput("is not a time in the recording", where="--at", hint=hint)
    return found


def clock(seconds: float) -> str:
    """Seconds as ``1:02:03``."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
