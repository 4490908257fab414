"""Containers that were killed and do not end."""

from __future__ import annotations

import os
import time
from pathlib import Path

from qoslet.host.keeper.container_process import PATIENCE
from tests.host.keeper.sessions import Sessions
from tests.host.keeper.test_process_runtime import Bench, ended, shell


class Frozen(Sessions):
    """Cgroups below one that another process froze: nothing in them dies."""

    def __init__(self) -> None:
        self.thawed = False

    def strike(self, path: str) -> bool:
        return super().strike(path) if self.thawed else False

    def frozen(self, path: str) -> str | None:
        return None if self.thawed else "/g"


def test_what_was_killed_and_does_not_end_is_told_with_the_reason(tmp_path: Path) -> None:
    groups = Frozen()
    bench = Bench(tmp_path, shell("app", "sleep 100"), groups=groups)
    bench.start()
    bench.until(lambda states: states["app"].pid is not None and not states["app"].starting)
    pid = bench.states()["app"].pid
    assert pid is not None
    # stands for a process that SIGKILL does not reach
    one = bench.runtime._pods["u"].running["app"]
    sent, one.send = one.send, lambda number: None  # type: ignore[method-assign]
    bench.runtime.stop("u", 0)
    bench.states()
    assert bench.runtime.notes == []
    assert bench.runtime.wait() is not None
    time.sleep(PATIENCE + 0.1)
    bench.states()
    told = f"default/p/app: process {pid} was killed and has not ended: /g is frozen; thaw it"
    assert bench.runtime.notes == [told]
    groups.thawed, one.send = True, sent  # type: ignore[method-assign]
    os.kill(pid, 9)
    bench.until(ended)
