"""A keeper outlives the package that it was started from: it imports nothing after its start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.host.keeper.client import KeeperRuntime
from qoslet.host.keeper.launch import Starter
from tests.host.keeper.sessions import asked, watched
from tests.host.keeper.test_keeper import BOOT_HERE, Bench, pod, until


class Watched(Bench):
    """Keepers here tell what they import."""

    @property
    def imports(self) -> Path:
        return self.folder.parent / "imports"

    def client(self) -> KeeperRuntime:
        made = KeeperRuntime(self.setting, Starter(self.setting, watched(BOOT_HERE, self.imports)))
        self.clients.append(made)
        return made


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.end()


def test_the_watch_sees_what_is_imported_late(tmp_path: Path) -> None:
    file = tmp_path / "imports"
    late = watched("import sys; import this_is_not_there", file)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", late], capture_output=True, check=False
    )
    assert b"ModuleNotFoundError" in done.stderr
    assert asked(file) >= {"this_is_not_there"}


def test_a_whole_life_of_a_keeper_imports_nothing(bench: Watched) -> None:
    one = bench.client()
    lines = ("app", "echo $((1+1)); exec sleep 600"), ("b", "exit 3"), ("bad", "exec /none")
    spec = pod("u1", *lines, restart="OnFailure")
    bench.begin(one, spec)
    until(one, lambda s: s["u1", "app"].running and s["u1", "b"].restarts > 1)
    one.restart("u1", "app")
    until(one, lambda s: s["u1", "app"].restarts == 1 and s["u1", "app"].running)
    one.update(replace(spec, grace=1.0))
    bench.begin(one, pod("u2", ("app", "trap '' TERM; while :; do sleep 600; done")))
    until(one, lambda s: s["u2", "app"].running)
    bench.kill_keeper(one)
    two = bench.client()
    assert set(two.list_pods()) == {"u1", "u2"}
    two.stop("u2", 0.1)
    until(two, lambda s: two.list_pods()["u2"].ended)
    two.remove_pod("u2")
    two.stop("u1", 5)
    until(two, lambda s: two.list_pods()["u1"].ended)
    assert asked(bench.imports) == set()
