"""A moment of ``qoslet record`` on 110 pods of two containers, beside the bare reads of its files.

All pods count as busy: each file is read, parsed and encoded. Quiet pods, of which one file is
read, are shown beside.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from itertools import count

from bench.figures import Figure, paired, show
from qoslet.core.recording.codec import Encoder
from qoslet.core.recording.frames import frame
from qoslet.core.recording.moment import RecordedRow
from qoslet.core.recording.values import FILES_V1, FILES_V2
from qoslet.core.status.node_top import PlannedRow
from qoslet.host.cgroupfs.layout import layout_of
from qoslet.host.machine.probe import probe
from qoslet.host.memory.moment_reader import QUIET_SECONDS, MomentReader

PODS = 110
ROUNDS = 15


def rows_of(root: str) -> Iterator[RecordedRow]:
    """The node's cgroup, and each pod with two containers."""
    yield RecordedRow(PlannedRow(root, root, "node", root, "", 0))
    for number in range(PODS):
        pod = f"{root}/pod{number:032x}"
        for path in (pod, f"{pod}/{1:064x}", f"{pod}/{2:064x}"):
            level = "pod" if path == pod else "container"
            row = PlannedRow(path, path, level, path, root, 1)  # type: ignore[arg-type]
            yield RecordedRow(row, uid=str(number))


class Bench:
    """Cgroups without processes, a reader, and the files that it reads."""

    def __init__(self) -> None:
        found = probe()
        self.hierarchy = found.hierarchy or "v2"
        self.where = dict(found.mounts or {}) if self.hierarchy == "v1" else found.unified or ""
        self.rows = tuple(rows_of(f"/qoslet-bench-{secrets.token_hex(4)}"))
        self.layout = layout_of(self.hierarchy, self.where)
        names = FILES_V1 if self.hierarchy == "v1" else FILES_V2
        trees = [self.layout.tree_of(name.partition(".")[0]) for name in names]
        places = [(tree.point, name) for tree, name in zip(trees, names, strict=True) if tree]
        self.points = sorted({point for point, _ in places})
        self.made: list[str] = []
        for row in self.rows:
            if self.hierarchy == "v2":
                self.layout.create(row.row.path)
            for point in self.points:
                self.made.append(point + row.row.path)
                os.makedirs(self.made[-1], exist_ok=True)
        every = (f"{point}{row.row.path}/{name}" for row in self.rows for point, name in places)
        self.files = [file for file in every if os.path.exists(file)]

    def moments(self, step: float) -> Iterator[float]:
        """Milliseconds of each moment, the clock of the reader ``step`` seconds on."""
        ticks = count()
        reader = MomentReader(self.hierarchy, self.where, clock=lambda: step * next(ticks))
        encoder = Encoder()
        for number in count():
            begun = time.perf_counter()
            frame(encoder.moment(reader.read(self.rows), key=not number))
            yield (time.perf_counter() - begun) * 1000

    def bare(self) -> float:
        """Milliseconds of open, read and close of each file."""
        begun = time.perf_counter()
        for file in self.files:
            descriptor = os.open(file, os.O_RDONLY)
            os.read(descriptor, 65536)
            os.close(descriptor)
        return (time.perf_counter() - begun) * 1000

    def remove(self) -> None:
        """Remove the cgroups."""
        for path in reversed(self.made):
            os.rmdir(path)


def main() -> None:
    """Measure and print."""
    bench = Bench()
    try:
        busy, quiet = bench.moments(QUIET_SECONDS), bench.moments(0.001)
        next(busy), next(quiet)
        ours, floor = paired(lambda: next(busy), bench.bare, ROUNDS)
        still, _ = paired(lambda: next(quiet), lambda: 0.0, ROUNDS)
    finally:
        bench.remove()
    name = f"{len(bench.files)} bare open, read, close"
    show(
        [
            Figure("record: a moment of 110 busy pods", "ms", ours, floor, name, 2.0),
            Figure("record: a moment of 110 quiet pods", "ms", still, floor, name, None),
        ]
    )


if __name__ == "__main__":
    main()
