"""Which controllers' pods are evicted, which lease guards a workload, and how times are written."""

from __future__ import annotations

from collections.abc import Mapping

from qoslet.core.node.cluster.eviction_messages import micro_time
from qoslet.core.node.cluster.eviction_rules import LEASES, PodWorkload, not_evictable


def test_leases_are_few() -> None:
    names = {PodWorkload("d", "Deployment", f"w{number}").lease for number in range(5000)}
    assert len(names) == LEASES
    assert min(names) == "qoslet-evict-000"


def test_kinds_of_controllers() -> None:
    yes, no = ("ReplicaSet", "StatefulSet", "Job", "Rollout"), ("DaemonSet", "Node", None)
    kinds: Mapping[str | None, bool] = {**dict.fromkeys(yes, True), **dict.fromkeys(no, False)}
    assert {kind: not not_evictable(kind) for kind in kinds} == kinds


def test_times_are_those_of_the_protocol() -> None:
    assert micro_time(0.25) == "1970-01-01T00:00:00.250000Z"
