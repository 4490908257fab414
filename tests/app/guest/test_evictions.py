"""The parts that are joined for evictions: what a guard asks for reaches an API server over HTTP, and
its answer decides what is ended."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from qoslet.agent.guest.container_killer import MOST_AN_HOUR, GuestContainerKiller
from qoslet.agent.guest.hour_budget import HourBudget
from qoslet.agent.guest.pod_evictions import GuestEvictions
from qoslet.core.api.pod import Pod
from qoslet.host.cluster.client_library import ClusterAccess, is_installed, open_session
from qoslet.host.cluster.pod_evictor import EvictionLimits, PodEvictor
from tests.core.node.cluster.eviction_model import EvictionModel
from tests.host.cluster.fake_api import fake_api

pytestmark = pytest.mark.skipif(
    not is_installed(), reason="the Kubernetes client is not installed: make test installs it"
)

POD = Pod("d", "web-1", "uid-web-1", "t", (), controller=("ReplicaSet", "web-5d9"))


class Killer:
    def __init__(self) -> None:
        self.killed: list[str] = []

    def kill(self, path: str) -> bool:
        self.killed.append(path)
        return True

    def describe_processes(self, path: str, pids: Sequence[int], *, killed: bool = False) -> str:
        return ""

    def lives(self, pid: int) -> bool:
        return True

    def lift(self, path: str, *, overdue: bool) -> Sequence[str]:
        return ()


@contextmanager
def joined(kubeconfig: str, killer: Killer, seconds: float = 2.0) -> Iterator[GuestEvictions]:
    budget = HourBudget(MOST_AN_HOUR, time.monotonic)
    access = ClusterAccess(kubeconfig)
    limits = EvictionLimits(seconds, seconds / 2, 0.05)
    with closing(PodEvictor(lambda: open_session(access), access.namespace, limits)) as client:
        ends = GuestContainerKiller(killer, budget)
        yield GuestEvictions(ends, budget, client, "n1", time.monotonic)


def asked(evictions: GuestEvictions) -> str:
    assert evictions.way(POD, "pod") == ("evict", "")
    evictions.evict(POD, "app", "stalled at memory.high")
    assert evictions.way(POD, "pod")[0] == "none"
    assert select.select(evictions.descriptors(), [], [], 30)[0]
    [said] = evictions.poll()
    return said


def test_a_pod_is_evicted(tmp_path: Path) -> None:
    model, killer = EvictionModel(), Killer()
    for name in ("web-1", "web-2"):
        model.put(name)
    with fake_api() as api:
        api.evictions = model
        # the first one loads the client, which may take seconds
        with joined(str(api.kubeconfig(tmp_path)), killer, 20.0) as evictions:
            assert asked(evictions) == "guard: evicted pod d/web-1"
            assert evictions.way(POD, "pod")[1] == "the pod was evicted; waiting for its end"
    assert (model.evicted, killer.killed) == (["uid-web-1"], [])


def test_a_pod_that_another_deletes_is_waited_for(tmp_path: Path) -> None:
    model, killer = EvictionModel(), Killer()
    model.put("web-1")
    model.pods["web-1"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    with fake_api() as api:
        api.evictions = model
        with joined(str(api.kubeconfig(tmp_path)), killer, 20.0) as evictions:
            said = "guard: pod d/web-1 is not evicted: the pod is being deleted"
            assert asked(evictions) == said
            assert evictions.way(POD, "pod")[0] == "none"


def test_where_the_cluster_is_away_a_container_is_ended(tmp_path: Path) -> None:
    with fake_api() as api:
        kubeconfig = str(api.kubeconfig(tmp_path))
    killer = Killer()
    with joined(kubeconfig, killer) as evictions:
        assert "its container is ended" in asked(evictions)
        assert evictions.way(POD, "pod")[0] == "end"
        evictions.end_container(POD, "app", "/kubepods/pod/app")
    assert killer.killed == ["/kubepods/pod/app"]
