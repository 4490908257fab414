"""``qoslet run --with containerd`` beside another client of the same containerd."""

from __future__ import annotations

import pytest

from tests.live.agent.agents import SLOW
from tests.live.cri.pods import Cri, container, pod
from tests.live.cri.roots import containerd as containerd
from tests.live.cri.roots import cri as cri

pytestmark = [pytest.mark.live, pytest.mark.timeout(240 * SLOW)]


def containers(cri: Cri) -> list[str]:
    """What containerd has of this root's pods."""
    return cri.containerd.ctr("containers", "ls", "-q").stdout.split()


def test_a_container_removed_by_hand_neither_keeps_nor_starts_its_pod(cri: Cri) -> None:
    """``ctr containers rm``: containerd 1.6 keeps the stopped sandbox until it is restarted."""
    cri.put(pod("a", container("app", "echo began; exit 7"), restartPolicy="Never"), pod("b"))
    run = cri.service()
    cri.until(lambda: cri.running("b") and cri.pods()["a"]["phase"] == "Failed", 60 * SLOW)
    cri.put(pod("c"))
    cri.up("c")
    pid, before = cri.pid("c"), set(containers(cri))
    told = cri.states("c")["app"]["cgroup"]
    (one,) = [id for id in before if told and id in told]
    cri.containerd.ctr("tasks", "kill", "--signal", "KILL", one)
    cri.until(lambda: cri.states("c")["app"]["restarts"] == 1 and cri.running("c"), 60 * SLOW)
    told = cri.states("c")["app"]["cgroup"]
    (one,) = [id for id in containers(cri) if told and id in told]
    assert cri.pid("c") != pid
    cri.containerd.ctr("tasks", "rm", "--force", one, check=False)
    cri.containerd.ctr("containers", "rm", one)
    (cri.manifests / "c.yaml").unlink()
    cri.until(lambda: "c" not in cri.pods(), 60 * SLOW)
    said = cri.stop(run)
    assert "adopting it" not in said
    cri.containerd.kill()
    cri.containerd.begin()
    second = cri.service()
    cri.up("b")
    cri.until(lambda: len(containers(cri)) == 2, 60 * SLOW)
    assert set(cri.pods()) == {"a", "b"}
    assert "adopting it" not in cri.stop(second)
    cri.release()
    cri.nothing_left()
