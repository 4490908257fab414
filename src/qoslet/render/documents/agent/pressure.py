"""What was decided where memory was short, as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qoslet.core.pressure.eviction_ranking import PressureReport
    from qoslet.render.documents import Document


def pressure_document(report: PressureReport) -> Document:
    """The last decisions, oldest first."""
    from qoslet.render.documents.timestamps import moment

    return {
        "decisions": [
            {
                "time": moment(one.at),
                "cgroup": one.path or None,
                "verdict": one.verdict,
                "pod": one.pod or None,
                "freedBytes": one.freed,
                "because": one.because,
            }
            for one in report.decisions
        ]
    }
