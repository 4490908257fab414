"""What a policy would have done on a recording, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from qoslet.core.problem import plural
from qoslet.core.recording.replay.policy import changed
from qoslet.render.documents.timestamps import moment
from qoslet.render.terminal import pad, printable

if TYPE_CHECKING:
    from qoslet.core.recording.recording import Recording
    from qoslet.core.recording.replay.policy import ReplayPolicy
    from qoslet.core.recording.replay.result import ReplayKill, ReplayResult, ReplayStall

_OUTCOMES = {
    "stalled": "no progress to the end of the recording",
    "progressed": "FALSE: it made progress {} later",
    "gone": "it went by itself or by the kernel {} later",
    "unknown": "unknown: its memory.high was changed {} later",
}


def draw(recording: Recording, policy: ReplayPolicy, result: ReplayResult) -> Iterator[str]:
    """A heading, then stalls with their relief, and kills with what became of them."""
    rows = [f"{name} {value:g}" for name, value in changed(policy).items()]
    title = ", ".join([f"guard {policy.mode}", *rows])
    yield (
        f"{title}: {plural(len(result.stalls), 'stall')}, {plural(len(result.kills), 'kill')}, "
        f"{result.false_kills} of them false"
    )
    yield (
        f"{moment(recording.wall(0))}, {plural(result.moments, 'moment')} in {result.seconds:.0f} s, "
        f"{result.interval:g} s apart: times are that coarse"
    )
    if result.stalls:
        yield ""
        yield from _table(
            ("STALLED", "AT", "FOR", "RELIEF", "BY"), [_stall(one) for one in result.stalls]
        )
    if result.kills:
        yield ""
        head = ("KILLED", "AT", "CAUSE", "OUTCOME")
        yield from _table(head, [_kill(one) for one in result.kills])
    if result.decisions:
        yield ""
        yield "decisions:"
    for one in result.decisions:
        who = f"{one.pod}/{one.container}".strip("/") or one.path or "the node"
        done = one.answer if one.mode == "act" else f"would {one.answer}"
        yield printable(f"  {one.seconds:.1f}s {done} {who}: {one.because}")


def _stall(one: ReplayStall) -> tuple[str, ...]:
    return (
        f"{one.pod}/{one.container}".strip("/") or one.path,
        f"{one.begin:.1f}s",
        "the end" if one.end is None else f"{one.end - one.begin:.1f}s",
        "-" if one.relief is None else f"{one.relief:.1f}s",
        one.relieved_by or "-",
    )


def _kill(one: ReplayKill) -> tuple[str, ...]:
    after = "" if one.after is None else f"{one.after:.1f}s"
    return (
        f"{one.pod}/{one.container}".strip("/") or one.path,
        f"{one.seconds:.1f}s",
        one.cause,
        _OUTCOMES[one.outcome].format(after),
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    shown = [[printable(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(head))]
    for row in shown:
        cells = (pad(cell, width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
