"""What a kernel is too old for: files of a conversion that it does not have.

Source: ``core.cgroup.kernel_files``; opencontainers/cgroups fs/cpu.go and fs2/cpu.go ("If CPU burst
knob is not available (e.g. older kernel), ignore it"); any other file that is missing ends the start of
a container.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from qoslet.core.cgroup.kernel_files import COMPLETE, ROWS, since, telling
from qoslet.core.convert.options import kernel_of
from qoslet.core.node.missing_files import MissingFiles, text
from qoslet.core.node.node import Node
from qoslet.core.node.validation.kubelet import lacking
from qoslet.core.oci.result import BlockResult, Hierarchy, Row, Unsupported
from qoslet.core.problem import Problem

_RESERVATIONS = next(row for row in ROWS if row.name == ".rsvd.")
_BURST = ("cpu.max.burst", "cpu.cfs_burst_us")


def has_every_file(kernel: str) -> bool:
    """Whether nothing is known that a kernel lacks: it is new, or patched so that its version does
    not tell. Raises BadInput for a version that is none."""
    return not telling(kernel) or kernel_of(kernel) >= COMPLETE


def has_reservations(kernel: str, hierarchy: Hierarchy) -> bool:
    """Whether a kernel limits reservations of hugepages: runtimes write them only where it does."""
    first = since(_RESERVATIONS, hierarchy)
    return has_every_file(kernel) or first is None or kernel_of(kernel) >= first


def without_gaps(part: BlockResult, kernel: str, hierarchy: Hierarchy, family: str) -> BlockResult:
    """The part without the files that the kernel does not have, each named; ``family`` is the
    runtime's. Raises BadInput for a version that is none."""
    if has_every_file(kernel):
        return part
    missing = MissingFiles(hierarchy, frozenset(), kernel_of(kernel))
    gone = [row for row in part.rows if missing.row(row.file) is not None]
    if not gone:
        return part
    rows = tuple(row for row in part.rows if missing.row(row.file) is None)
    lost: dict[tuple[str, str], Unsupported] = {}
    for row in gone:
        lost.setdefault((row.field, missing.why(row.file)), _lost(row, missing, family))
    return structs.replace(part, rows=rows, lost=(*part.lost, *lost.values()))


def _lost(row: Row, missing: MissingFiles, family: str) -> Unsupported:
    known = missing.row(row.file)
    assert known is not None
    skipped = family == "runc" and row.file in _BURST
    return Unsupported(
        row.file,
        missing.why(row.file),
        f"Linux {text(since(known, missing.hierarchy))} or later",
        "ignored" if skipped else "refused",
        row.field,
    )


def on_kernel(
    node: Node, problems: Sequence[Problem], kernel: str | None
) -> tuple[Node, tuple[Problem, ...]]:
    """A node with another kernel, and its problems with what that one lacks."""
    if kernel is None:
        return node, tuple(problems)
    before = {(row.where, row.message) for row in lacking(node)}
    rsvd = node.host.hugetlb_rsvd and has_reservations(kernel, node.host.hierarchy)
    host = structs.replace(node.host, kernel=kernel, hugetlb_rsvd=rsvd)
    origins = {**node.origins, "host.kernel": "--kernel"}
    node = structs.replace(node, host=host, origins=origins)
    others = [row for row in problems if (row.where, row.message) not in before]
    return node, (*others, *lacking(node))
