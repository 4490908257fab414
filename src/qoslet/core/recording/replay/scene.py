"""A moment as the guard's decision reads it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.names import is_below
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.pressure.guard_mode import MODES, Mode
from qoslet.core.recording.moment import NODE, Moment, RecordedRow, Session
from qoslet.core.recording.values import memory_sample, node_memory

INTERVALS = 4
"""Times the recorder's interval that samples of one verdict may lie apart."""


class Scene(Struct, frozen=True):
    """Samples and rows by path. ``seconds`` is since the recording's begin; all samples have it as
    their time. ``fresh`` are the cgroups that were read at this moment."""

    wall: float
    seconds: float
    node: NodeMemory
    samples: Mapping[str, MemorySample]
    rows: Mapping[str, RecordedRow]
    fresh: frozenset[str]
    interval: float
    hierarchy: str

    def gap(self, seconds: float) -> float:
        """The most seconds by which samples of one verdict may lie apart, where a live agent's may by
        ``seconds``."""
        return max(seconds, INTERVALS * self.interval)

    def mode(self, path: str, default: Mode) -> Mode:
        """The guard mode of a cgroup's pod, else ``default``."""
        own = self.rows[path].guard
        return next((mode for mode in MODES if mode == own), default)

    def pod_path(self, path: str) -> str:
        """The cgroup of a cgroup's pod; empty for one above the pods."""
        uid = self.rows[path].uid
        if not uid:
            return ""
        pods = (
            one.row.path for one in self.rows.values() if one.uid == uid and one.row.level == "pod"
        )
        return next(pods, path)

    def above(self, path: str) -> list[str]:
        """The sampled cgroups above a cgroup."""
        return [other for other in self.samples if is_below(path, other)]


def scene_of(moment: Moment, seconds: float, session: Session) -> Scene | None:
    """A moment as a scene; None where the node's memory was not recorded."""
    node = node_memory(moment)
    if node is None:
        return None
    rows = {one.row.path: one for one in moment.rows if one.row.path}
    samples = {}
    for path, series in moment.series.items():
        if path == NODE or path not in rows:
            continue
        sample = memory_sample(series, seconds, session.page_size)
        if sample is not None:
            samples[path] = sample
    return Scene(
        wall=moment.wall,
        seconds=seconds,
        node=replace(node, at=seconds),
        samples=samples,
        rows=rows,
        fresh=moment.fresh,
        interval=session.interval,
        hierarchy=session.hierarchy,
    )
