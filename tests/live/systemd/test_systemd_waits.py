"""A run whose systemd does not answer, or whose keeper is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qoslet.host.state.keepers import keepers_of
from tests.cli.fixtures import answer
from tests.live.systemd.slices import Live, need_guest, until
from tests.live.systemd.test_systemd import POD, begin_run, ended_after, live, running
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


def test_systemd_run_with_a_killed_keeper_runs_nothing_twice(live: Live, tmp_path: Path) -> None:
    folder, ran = tmp_path / "pods", tmp_path / "ran"
    folder.mkdir(mode=0o755)
    init = f"  initContainers:\n    - {{name: init, command: [sh, -c, 'echo 1 >> {ran}']}}\n"
    (folder / "pod.yaml").write_text(POD.replace("  containers:", f"{init}  containers:"))
    begun = begin_run(live, folder)
    state, words = (
        f"/run/qoslet/{live.root.strip('/')}",
        ("ps", "-o", "json", "--cgroup-root", live.name),
    )
    with ended_after(begun):
        pids = running(live, begun, of=2)
        (killed,) = keepers_of(state)
        os.kill(killed, signal.SIGKILL)
        until(lambda: keepers_of(state) not in ([], [killed]), 60)
        # the next one has an ended container's scope with the agent's process in it
        until(lambda: (told := answer(*words)).returncode == 0 and '"Running"' in told.stdout, 60)
        for _ in range(5):
            pods = json.loads(answer(*words).stdout)["items"]
            assert [one["restarts"] for pod in pods for one in pod["containers"]] == [0, 0]
            time.sleep(0.3)
        assert ran.read_text() == "1\n"
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
