"""Which of a runtime's own processes an agent ends: none that watches over a container it knows."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from qoslet.host.containers.records import MainProcess
from qoslet.host.cri import shims
from qoslet.host.cri.shims import LostPod, leftovers, strays

POD = "/qoslet/pod1"


def test_who_watches_over_a_known_container_is_no_stray(tmp_path: Path) -> None:
    bundle, program = tmp_path / "0123", tmp_path / "containerd-shim-test"
    bundle.mkdir()
    config = {"linux": {"cgroupsPath": f"{POD}/0123"}}
    (bundle / "config.json").write_text(json.dumps(config))
    shutil.copy("/bin/sh", program)
    words = [str(program), "-c", "sleep 1000 & echo $!; wait"]
    shim = subprocess.Popen(
        words, cwd=bundle, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert shim.stdout is not None
        main = int(shim.stdout.readline())
        while os.readlink(f"/proc/{main}/exe") == str(program):
            time.sleep(0.01)
        assert [one.pid for one in strays(LostPod(POD, frozenset()))] == [shim.pid]
        assert strays(LostPod(POD, frozenset({"0123"}))) == []
        assert strays(LostPod(POD, frozenset(), frozenset({main}))) == []
    finally:
        os.killpg(shim.pid, signal.SIGKILL)
        shim.communicate()


def test_the_shim_of_a_sandbox_is_ended_where_nothing_runs_in_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, one, other = tmp_path / "containerd-shim-test", tmp_path / "01", tmp_path / "02"
    shutil.copy("/bin/sleep", program)
    started = []
    for bundle in (one, other):
        bundle.mkdir()
        started.append(subprocess.Popen([str(program), "1000"], cwd=bundle))
    try:
        with monkeypatch.context() as patch:
            patch.setattr(shims, "leftovers", lambda *_: [MainProcess(1, 1, 0)])
            assert shims.end_idle("01", POD) == []
        assert shims.end_idle("01", POD) == [started[0].pid]
        assert started[0].wait(30) == -signal.SIGKILL
        assert started[1].poll() is None
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_process_of_a_container_that_was_given_up_is_left_over() -> None:
    known, other = "0" * 63 + "1", "0" * 63 + "2"
    here = os.getpid()

    def found(leaf: str) -> list[int]:
        def group(pid: int, parent: str) -> str:
            return f"{parent}/{leaf}" if pid == here else ""

        return [one.pid for one in leftovers(POD, {known}, group)]

    assert found(other) == [here]
    assert found(f"cri-containerd-{other}.scope") == [here]
    for leaf in (known, f"cri-containerd-{known}.scope", "monitor", "foreign"):
        assert found(leaf) == [], leaf
