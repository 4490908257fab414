"""Pods that a kubelet is starting again, by their statuses and what their runtime runs."""

from __future__ import annotations

import json

import pytest

from qoslet.core.node.running_kubelet.containers import RuntimeContainer, restarting
from qoslet.core.node.running_kubelet.listed_pods import listed_pods

POD = "8af3452f"


def listed(state: str, identity: str) -> bytes:
    status = {"containerID": f"containerd://{identity}", "state": {state: {}}}
    pod = {"metadata": {"uid": POD}, "status": {"containerStatuses": [status]}}
    return json.dumps({"kind": "PodList", "items": [pod]}).encode()


@pytest.mark.parametrize(
    ("state", "runs", "is_restarting"),
    [
        ("running", {"a": POD}, False),
        ("running", {"b": POD}, True),
        ("running", {}, True),
        # beside a kubelet 1.36.2 whose pods started again: the status is that of before
        ("terminated", {"b": POD}, True),
        ("waiting", {"b": POD}, True),
        ("terminated", {}, False),
        # a mirror pod of the API has another UID than its containers
        ("running", {"a": "hash"}, False),
        ("running", {"a": POD, "b": "other"}, False),
    ],
)
def test_a_status_that_does_not_name_what_runs_is_of_a_pod_that_starts(
    state: str, runs: dict[str, str], is_restarting: bool
) -> None:
    containers = [RuntimeContainer(one, uid, "app", running=True) for one, uid in runs.items()]
    found = restarting(listed_pods(listed(state, "a")), containers)
    assert found == (frozenset({POD}) if is_restarting else frozenset())


@pytest.mark.parametrize(("identity", "is_restarting"), [("b", True), ("a", False)])
def test_a_container_that_is_only_created_is_about_to_run(
    identity: str, is_restarting: bool
) -> None:
    """It has a cgroup a moment later, which a bundle may have and no status of it names."""
    made = RuntimeContainer(identity, POD, "app", running=False, created=True)
    found = restarting(listed_pods(listed("terminated", "a")), [made])
    assert found == (frozenset({POD}) if is_restarting else frozenset())


def test_what_is_no_list_tells_of_none() -> None:
    assert restarting(listed_pods(b"{"), []) == frozenset()
