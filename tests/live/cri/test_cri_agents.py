"""``qoslet run --with containerd``: agents that end where it hurts, and what the next ones find."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.live.agent.agents import SLOW
from tests.live.cri.containerd import IMAGE
from tests.live.cri.pods import Cri, container, pod
from tests.live.cri.roots import containerd as containerd
from tests.live.cri.roots import cri as cri

pytestmark = [pytest.mark.live, pytest.mark.timeout(240 * SLOW)]


def shim_of(pid: int) -> int:
    """The process that watches over a container's first one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_second_shim_of_a_pod_is_no_stray(cri: Cri) -> None:
    """Containerd 1 starts one for a container where the sandbox's does not answer within 0.1 s."""
    if not cri.containerd.version.startswith("1."):
        pytest.skip("containerd 2 has one shim for each sandbox")
    name = "localhost/qoslet/later:1"
    cri.put(pod("a", container("app"), container("late") | {"image": name}, restartPolicy="Never"))
    first = cri.service()
    cri.until(lambda: cri.answers() and bool(cri.states("a").get("app", {}).get("pid")), 40 * SLOW)
    sockets = {
        os.readlink(one)
        for one in Path(f"/proc/{shim_of(cri.pid('a'))}/fd").iterdir()
        if os.readlink(one).startswith("socket:")
    }
    for line in Path("/proc/net/unix").read_text().splitlines():
        words = line.split()
        if f"socket:[{words[6]}]" in sockets and words[-1].startswith("/run/containerd/s/"):
            Path(words[-1]).unlink(missing_ok=True)
    cri.containerd.ctr("images", "tag", IMAGE, name)
    try:
        cri.up("a")
        kept = [cri.pid("a", of) for of in ("app", "late")]
        assert shim_of(kept[0]) != shim_of(kept[1])
        first.kill()
        first.communicate()
        second = cri.service()
        cri.up("a")
        assert [cri.pid("a", of) for of in ("app", "late")] == kept
        assert "does not know" not in cri.stop(second)
        cri.release()
        cri.nothing_left()
    finally:
        cri.containerd.ctr("images", "rm", name)


def test_a_shim_that_is_killed_leaves_nothing_beside_the_next_container(cri: Cri) -> None:
    cri.put(pod("again"), pod("once", restartPolicy="Never"))
    run = cri.service()
    cri.up("again", "once")
    before = [cri.pid("again"), cri.pid("once")]
    for pid in before:
        os.kill(shim_of(pid), signal.SIGKILL)
    cri.soon(
        lambda: (
            cri.states("again")["app"]["restarts"] == 1
            and cri.running("again")
            and cri.pods()["once"]["phase"] == "Failed"
        ),
        60.0,
    )
    assert cri.alive({*before}) == []
    cri.stop(run)
    cri.release()
    cri.nothing_left()


def test_a_cgroup_that_a_killed_runtime_left_goes_with_its_pod(cri: Cri) -> None:
    """As of a containerd that is killed while it removes a container."""
    cri.put(pod("a"))
    run = cri.service()
    cri.up("a")
    cri.stop(run)
    (top,) = (path for path in cri.groups() if path.rpartition("/")[2] == "poda-uid")
    for tree in cri.tree.layout.trees:
        os.mkdir(f"{tree.point}{top}/{63 * '0'}a")
    assert "another process" not in cri.release("--dry-run")
    cri.release()
    cri.nothing_left()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_agent_that_ends_while_a_container_starts_loses_no_pod(cri: Cri, number: int) -> None:
    """Of eight, of which each takes a moment to start, one is seen to."""
    some = [container(f"app-{index}") for index in range(8)]
    cri.put(pod("a", *some, restartPolicy="Never"))
    first = cri.service()
    record = cri.folder / "cri" / "a-uid" / "pod.json"
    cri.until(lambda: record.exists() and '"phase":"starting"' in record.read_text(), 40 * SLOW)
    first.send_signal(number)
    first.communicate()
    second = cri.service()
    cri.up("a")
    assert [one["restarts"] for one in cri.states("a").values()] == [0] * 8
    cri.stop(second)
    cri.release()
    cri.nothing_left()


def test_a_state_folder_that_is_removed_live_is_whole_for_the_next_agent(cri: Cri) -> None:
    cri.put(pod("a"), pod("b", container("app", "exit 7"), restartPolicy="Never"))
    first = cri.service()
    cri.until(lambda: cri.running("a") and cri.pods()["b"]["phase"] == "Failed", 60 * SLOW)
    kept = cri.pid("a")
    shutil.rmtree(cri.folder)
    records = [cri.folder / "cri" / f"{name}-uid" / "pod.json" for name in ("a", "b")]
    cri.until(lambda: all(one.exists() for one in records), 40 * SLOW)
    cri.until(lambda: (cri.folder / "cri.endpoint").exists() and cri.answers(), 40 * SLOW)
    first.kill()
    first.communicate()
    second = cri.service()
    cri.up("a")
    assert cri.pid("a") == kept
    assert cri.states("b")["app"]["exitCode"] == 7
    cri.stop(second)
    cri.release()
    cri.nothing_left()
