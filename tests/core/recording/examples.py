"""Moments of nodes that do not exist, for the tests of recordings."""

from __future__ import annotations

import random
from collections.abc import Iterator

from qoslet.core.recording.codec import Encoder
from qoslet.core.recording.frames import FIRST_LINE, frame
from qoslet.core.recording.moment import Moment, RecordedRow, Series, Session
from qoslet.core.recording.values import values_v2
from qoslet.core.status.node_top import PlannedRow

MIB = 1 << 20
SESSION = Session("boot-1", 1000.0, 5.0, "v2", 4096, {"name": "n1", "hierarchy": "v2"})


def row(name: str, level: str = "container", **fields: object) -> RecordedRow:
    parent = name.rpartition("/")[0]
    title = name.rpartition("/")[2]
    planned = PlannedRow(name, name, level, title, parent, name.count("/") - 1)  # type: ignore[arg-type]
    return RecordedRow(planned, **fields)  # type: ignore[arg-type]


def moment(at: float, *series: Series, rows: tuple[RecordedRow, ...] = ()) -> Moment:
    paths = {one.path: one for one in series}
    return Moment(1_000_000.0 + at, at, paths, rows, frozenset(paths))


def recording(*moments: Moment, session: Session = SESSION) -> bytes:
    """The bytes of a recording with one run."""
    encoder = Encoder()
    frames = [frame(encoder.session(session))]
    frames += [frame(encoder.moment(one, key=not number)) for number, one in enumerate(moments)]
    return FIRST_LINE + b"".join(frames)


class SyntheticNode:
    """A node of ``pods`` with two containers each, of which ``busy`` work: they compute, allocate
    and free, read files and wait. A fixed seed makes the same node every time."""

    def __init__(self, pods: int, busy: int) -> None:
        self._random = random.Random(17)
        self._busy = busy
        self._pods = [f"/kubepods/burstable/pod{number:04d}" for number in range(pods)]
        self._numbers: dict[str, dict[str, int]] = {}
        self.rows = tuple(self._rows())

    def _rows(self) -> Iterator[RecordedRow]:
        because = {"memory.max": "the limits of its containers: 128Mi + 128Mi"}
        planned = {"memory.max": str(256 * MIB), "cpu.weight": "4", "cpu.max": "20000 100000"}
        yield row("/kubepods", "node")
        yield row("/kubepods/burstable", "qos")
        for number, pod in enumerate(self._pods):
            key = f"default/web-{number}"
            for path in (pod, f"{pod}/{number:064x}", f"{pod}/{number + 1000:064x}"):
                level = "pod" if path == pod else "container"
                one = row(path, level, uid=f"u{number}", pod=key, because=because)
                yield RecordedRow(
                    PlannedRow(path, path, one.row.level, key, one.row.parent, 2, planned=planned),
                    one.uid, key, "", because=because,
                )  # fmt: skip

    def moment(self, at: float) -> Moment:
        """The node ``at`` seconds after its start."""
        found, fresh = {}, set()
        for number, one in enumerate(self.rows):
            path, busy = one.row.path, number < 2 + 3 * self._busy
            numbers = self._numbers.get(path)
            if numbers is None:
                numbers = self._numbers[path] = self._first()
                busy, first = True, True
            else:
                first = False
            if busy and not first:
                self._work(numbers)
            if busy:
                fresh.add(path)
            found[path] = Series(path, 1000 + number, dict(numbers))
        return Moment(1_700_000_000.0 + at, at, found, self.rows, frozenset(fresh))

    def _first(self) -> dict[str, int]:
        stat = "\n".join(f"{name} {self._random.randrange(1000) * 4096}" for name in (
            "anon", "file", "kernel", "sock", "shmem", "slab_reclaimable", "inactive_anon",
            "active_anon", "inactive_file", "active_file", "file_dirty", "file_writeback", "pgscan",
            "pgsteal", "workingset_refault_anon", "workingset_refault_file", "pswpin", "pswpout",
        ))  # fmt: skip
        pressure = "some avg10=1.00 avg60=0.00 avg300=0.00 total=1234567"
        return values_v2({
            "memory.current": str(90 * MIB), "memory.high": "max", "memory.max": str(256 * MIB),
            "memory.low": "0", "memory.min": "0", "memory.swap.current": "0",
            "memory.swap.max": "0", "memory.stat": stat,
            "memory.events": "low 0\nhigh 0\nmax 3\noom 0\noom_kill 0",
            "memory.events.local": "low 0\nhigh 0\nmax 3\noom 0\noom_kill 0",
            "memory.pressure": f"{pressure}\nfull{pressure[4:]}",
            "cpu.pressure": f"{pressure}\nfull{pressure[4:]}",
            "cpu.stat": "usage_usec 123456789\nuser_usec 100000000\nthrottled_usec 5000",
            "cpu.max": "20000 100000",
        })  # fmt: skip

    def _work(self, numbers: dict[str, int]) -> None:
        some = self._random
        for name, most in (
            ("memory.current", 512), ("stat.anon", 512), ("stat.file", 256), ("stat.kernel", 16),
            ("stat.inactive_anon", 400), ("stat.active_anon", 100), ("stat.inactive_file", 256),
            ("stat.file_dirty", 32),
        ):  # fmt: skip
            numbers[name] = max(4096, numbers[name] + some.randint(-most, most) * 4096)
        numbers["stat.slab_reclaimable"] += some.randint(-4000, 4000)
        numbers["cpu.usage_usec"] += some.randint(100_000, 900_000)
        numbers["cpu.user_usec"] += some.randint(90_000, 600_000)
        numbers["cpu.pressure.some.avg10"] = some.randint(0, 2000)
        numbers["cpu.pressure.some.total"] += some.randint(0, 500_000)
        if some.random() < 0.3:
            numbers["cpu.throttled_usec"] += some.randint(0, 300_000)
