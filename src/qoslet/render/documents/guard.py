"""What the guard did and holds: as a document for programs, as lines for people, as metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.core.cgroup.interface_files import NO_LIMIT
from qoslet.render.units import size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from qoslet.core.pressure.throttle_guard import GuardReport
    from qoslet.core.status.snapshot import Snapshot
    from qoslet.render.documents.plan import Document

Sample = tuple[tuple[str, ...], float]


def guard_document(report: GuardReport) -> Document:
    """The last decisions, and every memory.high that is another one than planned."""
    from qoslet.render.documents.timestamps import moment

    return {
        "decisions": [
            {
                "time": moment(one.at),
                "cgroup": one.path,
                "pod": one.pod or None,
                "container": one.container or None,
                "mode": one.mode,
                "answer": one.answer,
                "bytes": None if one.value in (0, NO_LIMIT) else one.value,
                "because": one.because,
                "numbers": one.numbers or None,
                "error": one.error or None,
            }
            for one in report.decisions
        ],
        "held": [
            {
                "cgroup": one.path,
                "since": moment(one.since),
                "plannedHighBytes": one.planned,
                "highBytes": None if one.value >= NO_LIMIT else one.value,
                "because": one.because,
            }
            for one in report.held
        ],
    }


def held_lines(document: object, cgroups: Mapping[str, str]) -> Iterator[str]:
    """A line for each hold of a guard's document on these groups, which are given with the
    names of their containers."""
    rows = document.get("held") if isinstance(document, dict) else None
    for row in rows if isinstance(rows, list) else []:
        name = cgroups.get(str(row.get("cgroup"))) if isinstance(row, dict) else None
        if name is None:
            continue
        high, planned = row.get("highBytes"), row.get("plannedHighBytes")
        value = size(high) if isinstance(high, int) else "max"
        instead = size(planned) if isinstance(planned, int) else "?"
        yield f"{name}: memory.high {value} instead of {instead}, by the guard: {row.get('because')}"


def decisions(snapshot: Snapshot) -> Iterator[Sample]:
    """How often the guard decided what, by mode and answer."""
    for key, count in snapshot.memory_view.guard.counts.items():
        mode, _, answer = key.partition("/")
        yield (mode, answer), count


def held(snapshot: Snapshot) -> Iterator[Sample]:
    """How many groups have another memory.high than planned."""
    yield (), len(snapshot.memory_view.guard.held)
