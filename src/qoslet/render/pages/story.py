"""What happened to a pod, as sentences."""

from __future__ import annotations

from collections.abc import Sequence

from qoslet.core.status.page.pod_story import StoryEvent
from qoslet.render.pages.draft import Draft, escaped
from qoslet.render.pages.numbers import clock, cores, memory, span

_WORDS = {"info": "", "warning": "warning: ", "error": "error: "}


def sentence(event: StoryEvent) -> str:
    """One event, without its time and container."""
    times = "once" if event.amount == 1 else f"{event.amount:.0f} times"
    over = f" over {span(event.seconds)}"
    limit = "" if event.limit is None else f" of {memory(event.limit)}"
    match event.kind:
        case "started":
            return "started"
        case "restarted":
            return "restarted: its cgroup was replaced"
        case "ended" if event.text:
            return event.text
        case "ended":
            return "its cgroup is gone"
        case "removed":
            return "removed from the node"
        case "throttled":
            quota = "" if event.limit is None else f" of {cores(event.limit)} cores"
            return f"slow: throttled for {event.amount:.1f} s{over} by its CPU limit{quota}"
        case "slowed":
            return f"slow: above memory.high{limit} {times}{over}, reclaim holds it up"
        case "waited":
            return f"slow: tasks waited for memory{over}"
        case "at-limit":
            return f"at its memory limit{limit} {times}{over}, reclaim made room"
        case "oom-kill" if event.text:
            return f"killed for memory: {event.text}"
        case "oom-kill":
            processes = "a process" if event.amount <= 1 else f"{event.amount:.0f} processes"
            return f"killed: the kernel OOM-killed {processes} at the memory limit{limit}"
        case "guard":
            return f"guard: {event.text}"
        case _:
            return event.text


def draw_story(draft: Draft, events: Sequence[StoryEvent]) -> None:
    """The events in order."""
    draft.add('<section><h2 id="story">What happened</h2>')
    if not events:
        draft.add("<p>Nothing since the first look.</p></section>")
        return
    draft.add('<ol class="story">')
    for number, event in enumerate(events):
        where = f"{escaped(event.container)}: " if event.container else ""
        draft.add(
            f'<li class="{event.severity}"><time>{clock(event.wall)}</time> '
            f"{_WORDS[event.severity]}{where}"
        )
        draft.text("span", f"story{number}", sentence(event))
        draft.add("</li>")
    draft.add("</ol></section>")
