"""Events of ``audit --watch`` as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qoslet.render.documents.timestamps import moment
from qoslet.render.terminal import printable
from qoslet.render.text.audit.labels import place_label

if TYPE_CHECKING:
    from qoslet.core.audit.events import FindingEvent
    from qoslet.render.terminal import Terminal

_MARKS = {"appeared": ("+", "red"), "changed": ("~", "yellow"), "gone": ("-", "green")}


def event_lines(at: float, event: FindingEvent, terminal: Terminal) -> Iterator[str]:
    """The line of an event; ``at`` is in wall-clock seconds."""
    one, (mark, color) = event.finding, _MARKS[event.kind]
    kind = terminal.paint(f"{mark} {event.kind} {one.verdict}", color)
    was = ""
    if event.before is not None and event.before.found != one.found:
        was = f" (was {event.before.found})"
    yield f"{moment(at)} {kind} {printable(place_label(one))}: {printable(one.message + was)}"
