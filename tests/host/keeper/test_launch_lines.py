"""The program that an agent starts its keeper by names a module of the files on disk, which may be
newer than the agent: each line that a version has used starts a keeper of this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.host.keeper.client import KeeperRuntime
from qoslet.host.keeper.launch import BOOT, Starter
from tests.host.keeper.test_keeper import Bench, pod, until
from tests.paths import REPO

BEGIN = "import sys; sys.modules['typing_extensions'] = None; sys.path += sys.argv[2:]; "
LINES = (
    f"{BEGIN}from qoslet.host.runtimes.keeper import main; main()",
    f"{BEGIN}from qoslet.host.keeper.server import main; main()",
)
"""Of all versions. A line is added where the program changes, none is changed or goes."""


def test_the_line_of_this_version_is_known() -> None:
    assert LINES[-1] == BOOT


@pytest.mark.parametrize("line", LINES)
def test_each_line_starts_a_keeper(line: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    here = (
        f"sys.path.append({str(REPO)!r}); from tests.host.keeper.sessions import Sessions; "
        "main(lambda _: Sessions())"
    )
    client = KeeperRuntime(bench.setting, Starter(bench.setting, line.replace("main()", here)))
    bench.clients.append(client)
    bench.begin(client, pod("u1", ("app", "exit 3")))
    until(client, lambda s: s["u1", "app"].exit_code == 3)
    bench.end()
