"""What the guard did and holds, as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.core.cgroup.interface_files import UNLIMITED

if TYPE_CHECKING:
    from qoslet.core.pressure.guard_report import GuardReport
    from qoslet.render.documents import Document


def guard_document(report: GuardReport) -> Document:
    """The last decisions, and every memory.high that is another one than planned."""
    from qoslet.render.documents.timestamps import moment

    overrides = [
        {
            "cgroup": one.path,
            "since": moment(one.since),
            "plannedHighBytes": one.planned,
            "highBytes": None if one.value >= UNLIMITED else one.value,
            "because": one.because,
        }
        for one in report.held
    ]
    return {
        "decisions": [
            {
                "time": moment(one.at),
                "cgroup": one.path,
                "pod": one.pod or None,
                "container": one.container or None,
                "mode": one.mode,
                "answer": one.answer,
                "bytes": None if one.value in (0, UNLIMITED) else one.value,
                "because": one.because,
                "numbers": one.numbers or None,
                "error": one.error or None,
            }
            for one in report.decisions
        ],
        "held": overrides,
        "overrides": overrides,
    }
