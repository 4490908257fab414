"""Every value that the code of a real kubelet 1.36.2 computed, against the plan's."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.node.node import allocatable
from qoslet.core.plan.plan import plan
from qoslet.core.plan.pod_planner import Planner
from qoslet.core.quantity import parse
from qoslet.core.resources.cgroup_tree import Cgroup
from qoslet.core.resources.cgroup_writer import linux_cri
from tests.core.vectors import kubelet_answers as answers

ROWS = answers.rows()


def _written(group: Cgroup) -> dict[str, str]:
    return {row.file: row.value for row in group.settings}


def _latest(*writes: list[list[str]]) -> dict[str, str]:
    return {file: value for rows in writes for file, value in rows}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["request"]["id"]))
def test_every_file_equals(row: dict[str, Any]) -> None:
    request, answer = row["request"], row["answer"]
    made = plan(answers.pods_of(request), answers.node_of(request))
    by_path = {group.path: group for group in made.cgroups if group.path}
    compared = 0
    for tier in answer["qosTiers"]:
        wanted = _latest(tier["writes"])
        if tier["name"][-1] == "kubepods":
            wanted = _latest(answer["node"]["kubepods"]["writes"], tier["writes"])
            wanted["cpuset.cpus"] = _written(by_path[tier["path"]])["cpuset.cpus"]
        assert _written(by_path[tier["path"]]) == wanted, tier["path"]
        compared += len(wanted)
    for pod in answer["pods"]:
        assert _written(by_path[pod["pod"]["path"]]) == _latest(pod["pod"]["writes"])
        compared += len(pod["pod"]["writes"])
        compared += _containers(made.cgroups, pod)
    assert compared > 20


def _containers(cgroups: tuple[Cgroup, ...], pod: dict[str, Any]) -> int:
    compared = 0
    for container in pod["containers"]:
        (group,) = (
            g
            for g in cgroups
            if g.level == "container" and g.pod is not None and g.pod.uid == pod["uid"]
            and g.container is not None and g.container.name == container["name"]
        )  # fmt: skip
        assert _written(group) == _latest(container["writes"]), container["name"]
        assert group.oom_score_adj == container["oomScoreAdj"]
        assert group.role == container["kind"]
        compared += len(container["writes"]) + 1
    return compared


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["request"]["id"]))
def test_every_message_equals(row: dict[str, Any]) -> None:
    request, answer = row["request"], row["answer"]
    planner = Planner(answers.node_of(request))
    pods = {pod.uid: pod for pod in answers.pods_of(request)}
    for wanted in answer["pods"]:
        pod = pods[wanted["uid"]]
        assert planner.templates.of(pod).qos == wanted["qos"]
        for container in pod.containers:
            (message,) = (c["cri"] for c in wanted["containers"] if c["name"] == container.name)
            assert linux_cri(planner.message(pod, container)) == message, container.name
        resources, overhead = planner.sandbox_messages(pod)
        assert resources is not None
        assert linux_cri(resources) == wanted["sandbox"]
        assert (linux_cri(overhead) if overhead else {}) == wanted["overhead"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["request"]["id"]))
def test_node_allocatable_equals(row: dict[str, Any]) -> None:
    request, answer = row["request"], row["answer"]
    made = allocatable(answers.node_of(request))
    for name, text in answer["nodeAllocatable"].items():
        if name != "pods":
            assert made[name] == parse(text), name
