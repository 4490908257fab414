"""The answer of doctor on terminals of every width."""

from __future__ import annotations

import pytest

from qoslet.core.node.doctor.finding import DoctorFinding
from qoslet.render.terminal import Terminal
from qoslet.render.text.doctor import draw

ROWS = [
    DoctorFinding("kernel", "ok", "6.12, new enough for cgroup v2 and for all that is read there"),
    DoctorFinding(
        "CAP_SYS_RESOURCE",
        "missing",
        "not held",
        "the kernel rejects a negative oom_score_adj; pressure triggers need windows of 2 s",
        "run as full root, or give the unit this capability",
    ),
]


@pytest.mark.parametrize("width", [40, 61, 70, 80])
def test_lines_fit_and_say_all(width: int) -> None:
    lines = draw(ROWS, Terminal(width))
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for row in ROWS:
        assert all(word in words for word in f"{row.topic} {row.cost} {row.remedy}".split())


def test_a_pipe_gets_a_line_for_each_text() -> None:
    assert len(draw(ROWS, Terminal())) == 4
