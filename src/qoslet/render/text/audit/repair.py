"""What ``audit --fix`` did, as lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qoslet.core.problem import plural

if TYPE_CHECKING:
    from qoslet.core.audit.repairs import NotRepaired
    from qoslet.render.documents.audit import Repair


def repair_lines(done: Repair) -> list[str]:
    """Each step, each finding that is left to others, and how to undo it."""
    lines = []
    for one in done.outcomes:
        mark = "failed" if one.error is not None else "done"
        why = f": {one.error}" if one.error is not None else ""
        lines.append(f"{mark}: {one.step.describe()}{why}")
    lines += [f"waits: {text}" for text in done.waiting]
    lines += left_lines(done.left)
    written = sum(one.error is None for one in done.outcomes)
    said = f"{done.root}: {plural(written, 'value')} written"
    if written:
        said += f"; qoslet release --cgroup-root {done.root} restores the values before"
    return [*lines, said, ""]


def left_lines(left: Sequence[NotRepaired]) -> list[str]:
    """The findings that are left, with the line that repairs each."""
    lines = []
    for one in left:
        finding = one.finding
        place = f"{finding.path}/{finding.file}" if finding.file else finding.path
        by_hand = f"; by hand: {finding.fix}" if finding.fix else ""
        lines.append(f"left: {finding.verdict} {place}: {one.reason}{by_hand}")
    return lines
