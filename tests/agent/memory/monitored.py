"""A bench that counts looks at the memory of cgroups, and two quiet pods in it."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.agent.config import Config
from qoslet.agent.memory.monitor import LIMIT_POLL_SECONDS
from qoslet.core.memory.rows import MemoryRow
from qoslet.core.memory.sample import MemorySample
from tests.agent.fixtures import ROOT, Bench

SERVICE = Config(root=ROOT, interval_seconds=None)
MIB = 1 << 20


class Counted(Bench):
    """A bench that counts looks."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, config=SERVICE, **more)
        self.looked: list[str] = []
        sample = self.memory.sample

        def noting(path: str) -> MemorySample | None:
            self.looked.append(path)
            return sample(path)

        self.memory.sample = noting  # type: ignore[method-assign]

    def app(self, name: str) -> str:
        [path] = [one for one in self.groups(name) if one.endswith("/app")]
        return path

    def row(self, title: str) -> MemoryRow:
        rows = self.reconciler.snapshot().memory_view.groups
        [found] = [row for row in rows if row.title == title]
        return found

    @property
    def quiet(self) -> bool:
        """Whether nobody is looked at soon; the machine is, now and then."""
        at = self.reconciler.memory.next_at()
        return at is None or at - self.clock.now > 2 * LIMIT_POLL_SECONDS

    def happen(self, path: str, kind: str, count: int, **more: Any) -> None:
        """The counters of a group and those above it, as a kernel of v2 counts."""
        self.memory.set(path, events={kind: count}, local={kind: count}, **more)
        at = path.rpartition("/")[0]
        while at:
            self.memory.set(at, events={kind: count})
            at = at.rpartition("/")[0]


@pytest.fixture
def bench() -> Counted:
    made = Counted("v2")
    made.put("a", "memory=64Mi")
    made.put("b", "memory=64Mi")
    made.turn()
    made.turn(1.0)
    made.turn(5.0)
    made.looked.clear()
    return made
