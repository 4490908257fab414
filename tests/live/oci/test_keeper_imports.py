"""What a keeper imports where it has real control groups and containers of an OCI runtime: nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from qoslet.host.keeper.client import KeeperRuntime
from qoslet.host.keeper.launch import BOOT, Starter
from qoslet.host.keeper.protocol import KeeperSettings
from tests.contract.drivers import mounts_of
from tests.host.keeper.sessions import asked, watched
from tests.live.oci.bundles import PATIENCE, QUICK, Bench, found, launch

pytestmark = [pytest.mark.live, pytest.mark.timeout(4 * PATIENCE)]


class Watched(Bench):
    """Keepers here tell what they import."""

    @property
    def imports(self) -> Path:
        return self.folder.parent / "imports"

    def client(self) -> KeeperRuntime:
        where = mounts_of(self.hierarchy)
        setting = KeeperSettings(
            root=self.root,
            folder=str(self.folder),
            logs=f"{self.folder}/logs",
            hierarchy=self.hierarchy,
            mounts={"unified": where} if isinstance(where, str) else dict(where),
            size=1 << 20,
            files=3,
            rate=1 << 25,
            backoff=QUICK,
        )
        made = KeeperRuntime(setting, Starter(setting, watched(BOOT, self.imports)))
        self.clients.append(made)
        return made


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Watched]:
    runtime = found("runc")
    if isinstance(runtime, str):
        pytest.skip(runtime)
    made = Watched(tmp_path, runtime)
    try:
        yield made
        made.end()
    finally:
        made.clean()


def test_a_container_made_ended_and_made_again_takes_no_import(bench: Watched) -> None:
    bench.begin("u1", launch("app", restart="Always"))
    first = bench.running()["u1/app"]
    bench.runtime.restart("u1", "app")
    bench.until(lambda s: s["u1/app"].restarts == 1 and s["u1/app"].pid not in (None, first.pid))
    bench.begin("u2", launch("app", "exit 7"))
    bench.until(lambda s: s["u2/app"].exit_code == 7)
    bench.runtime.stop("u1", 5)
    bench.over()
    names = {name for name in asked(bench.imports) if not name.startswith("_")}
    assert names <= {"hashlib"}, "OpenSSL is Python's own, and only keepers with images need it"
