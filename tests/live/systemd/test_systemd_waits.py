"""A run that starts while systemd does not answer."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.systemd.slices import Live, need_guest
from tests.live.systemd.test_systemd import POD, begin_run, live
from tests.paths import REPO

__all__ = ["live"]

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


def test_systemd_run_says_that_it_waits_for_a_frozen_systemd_v2(live: Live, tmp_path: Path) -> None:
    if live.hierarchy != "v2":
        pytest.skip("cgroup v1 here")
    need_guest()
    folder = tmp_path / "pods"
    folder.mkdir(mode=0o755)
    (folder / "pod.yaml").write_text(POD)
    freezer = Path("/sys/fs/cgroup/init.scope/cgroup.freeze")
    freezer.write_text("1")
    try:
        begun = begin_run(live, folder)
        assert begun.stderr is not None
        assert begun.stderr.readline().startswith("qoslet: waiting for systemd to answer (")
        for words in (["ps", "--cgroup-root", live.name], ["doctor"]):
            told = subprocess.run(
                [sys.executable, "-m", "qoslet", *words], capture_output=True, text=True, cwd=REPO
            )
            assert "starting or ending" in told.stdout + told.stderr
        begun.send_signal(signal.SIGINT)
        _, err = begun.communicate(timeout=60)
    finally:
        freezer.write_text("0")
    assert begun.returncode == 3, err
    assert live.driver.below(live.root) == []
    assert not Path(f"/run/qoslet/{live.root.strip('/')}").exists()
