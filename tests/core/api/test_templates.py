"""Templates, lists and pods of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.api.ids import generated_uid
from tests.core.api.test_manifest import ONCE, TEMPLATE, container, loaded, pod, pods_of, workload


@pytest.mark.parametrize(
    "document",
    [
        workload("Deployment", TEMPLATE, replicas=3),
        workload("StatefulSet", TEMPLATE),
        workload("DaemonSet", TEMPLATE),
        workload("ReplicaSet", TEMPLATE, replicas=0),
        workload("Job", TEMPLATE, parallelism=4),
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "web"},
            "spec": {"jobTemplate": {"spec": {"template": ONCE}}},
        },
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "web"},
            "template": TEMPLATE,
        },
        workload("ReplicationController", TEMPLATE) | {"apiVersion": "v1"},
        workload("Deployment", TEMPLATE) | {"apiVersion": "extensions/v1beta1"},
    ],
    ids=lambda document: document["kind"],
)
def test_a_template_counts_once_named_as_its_owner(document: dict[str, Any]) -> None:
    (found,) = pods_of(document)
    assert found.key == "default/web"
    assert found.uid_from == "generated"
    assert found.where == f"f.json: {document['kind']} default/web"
    assert found.containers[0].field == "spec.containers[0]"


@pytest.mark.parametrize(
    ("kind", "spec", "names"),
    [
        ("Deployment", {"replicas": 2}, ["web-0", "web-1"]),
        ("Deployment", {"replicas": 1.0}, ["web-0"]),
        ("Deployment", {}, ["web-0"]),
        ("Deployment", {"replicas": 0}, []),
        ("StatefulSet", {"replicas": 3}, ["web-0", "web-1", "web-2"]),
        ("DaemonSet", {"replicas": 9}, ["web-0"]),
        ("StatefulSet", {"replicas": 2, "ordinals": {"start": 5}}, ["web-5", "web-6"]),
        ("StatefulSet", {"replicas": 1, "ordinals": {}}, ["web-0"]),
        ("Deployment", {"replicas": 1, "ordinals": {"start": 5}}, ["web-0"]),
        ("Job", {"parallelism": 2, "replicas": 9}, ["web-0", "web-1"]),
        ("Job", {"completions": 3}, ["web-0"]),
        ("Job", {"completions": 2, "parallelism": 9}, ["web-0", "web-1"]),
        ("Job", {"completions": 0, "parallelism": 9}, []),
        ("Deployment", {"replicas": 2, "completions": 1, "parallelism": 1}, ["web-0", "web-1"]),
    ],
)
def test_expand_makes_the_pods_of_a_template(
    kind: str, spec: dict[str, Any], names: list[str]
) -> None:
    found = pods_of(workload(kind, TEMPLATE, **spec), expand=True)
    assert [each.name for each in found] == names
    assert [each.uid for each in found] == [generated_uid("default", name) for name in names]


def cron_job(**job: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "web"},
        "spec": {"jobTemplate": {"spec": {"template": ONCE, **job}}},
    }


@pytest.mark.parametrize(
    ("job", "names"),
    [
        ({}, ["web-0"]),
        ({"parallelism": 2}, ["web-0", "web-1"]),
        ({"parallelism": 5, "completions": 1}, ["web-0"]),
    ],
)
def test_a_cron_job_has_the_pods_of_one_run(job: dict[str, Any], names: list[str]) -> None:
    found = pods_of(cron_job(**job), expand=True)
    assert [each.name for each in found] == names
    assert {each.controller for each in found} == {("CronJob", "web")}


@pytest.mark.parametrize(
    ("document", "where"),
    [
        (workload("StatefulSet", TEMPLATE, ordinals={"start": -1}), "spec.ordinals.start"),
        (workload("StatefulSet", TEMPLATE, ordinals={"start": 2**31}), "spec.ordinals.start"),
        (workload("Job", ONCE, completions=-1), "spec.completions"),
        (workload("Job", ONCE, completions=10**30), "spec.completions"),
        (workload("Job", ONCE, completionMode="Indexed"), "spec.completions"),
        (workload("Job", ONCE, completionMode="Sometimes"), "spec.completionMode"),
        (cron_job(completionMode="Indexed"), "spec.jobTemplate.spec.completions"),
        (cron_job(parallelism=-1), "spec.jobTemplate.spec.parallelism"),
    ],
)
def test_numbers_of_pods_that_the_api_server_refuses(document: dict[str, Any], where: str) -> None:
    (fault,) = loaded(document).faults
    assert fault.where.endswith(f" default/web: {where}")


def test_the_pod_of_a_stateful_set_has_its_first_ordinal_beside_a_namesake() -> None:
    database = workload("StatefulSet", TEMPLATE, ordinals={"start": 5})
    found = pods_of(database, workload("Deployment", TEMPLATE))
    assert sorted(each.name for each in found) == ["web", "web-5"]
    (fault,) = loaded(database, workload("StatefulSet", TEMPLATE)).faults
    assert "occurs twice" in fault.message


@pytest.mark.parametrize("make", [lambda **job: workload("Job", ONCE, **job), cron_job])
def test_pods_of_an_indexed_job_know_their_index(make: Any) -> None:
    result = loaded(
        make(completionMode="Indexed", completions=2, parallelism=2), keep_raw=True, expand=True
    )
    indices = [_index(result.raw[each.uid]) for each in result.pods]
    assert indices == [("0", "0", "0"), ("1", "1", "1")]
    (alone,) = loaded(make(completionMode="Indexed", completions=2), keep_raw=True).raw.values()
    assert _index(alone) == ("0", "0", "0")
    (plain,) = loaded(make(completions=2), keep_raw=True).raw.values()
    assert "env" not in plain["spec"]["containers"][0]


def _index(document: dict[str, Any]) -> tuple[str, str, str]:
    key, metadata = "batch.kubernetes.io/job-completion-index", document["metadata"]
    (variable,) = document["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    return metadata["labels"][key], metadata["annotations"][key], variable["value"]


def test_a_variable_that_a_template_has_stays() -> None:
    mine = {"name": "JOB_COMPLETION_INDEX", "value": "mine"}
    template = {**ONCE, "spec": {**ONCE["spec"], "containers": [container(env=[mine])]}}
    document = workload("Job", template, completionMode="Indexed", completions=2)
    (raw,) = loaded(document, keep_raw=True).raw.values()
    assert raw["spec"]["containers"][0]["env"] == [mine]


def test_pods_of_a_stateful_set_are_labelled_with_their_ordinal() -> None:
    document = workload("StatefulSet", TEMPLATE, replicas=2, ordinals={"start": 5})
    result = loaded(document, keep_raw=True, expand=True)
    labels = [result.raw[each.uid]["metadata"]["labels"] for each in result.pods]
    assert [one["statefulset.kubernetes.io/pod-name"] for one in labels] == ["web-5", "web-6"]
    assert [one["apps.kubernetes.io/pod-index"] for one in labels] == ["5", "6"]


def test_lists_of_every_kind() -> None:
    plain = {"apiVersion": "v1", "kind": "List", "items": [pod("a"), workload("Job", TEMPLATE)]}
    bare = {"metadata": {"name": "b"}, "spec": {"containers": [container()]}}
    kubelet = {"apiVersion": "v1", "kind": "PodList", "items": [bare]}
    deployments = {
        "apiVersion": "apps/v1",
        "kind": "DeploymentList",
        "items": [{"metadata": {"name": "d"}, "spec": {"template": TEMPLATE}}],
    }
    found = pods_of(plain, kubelet, deployments)
    assert [each.name for each in found] == ["a", "web", "b", "d"]


@pytest.mark.parametrize("items", [[], None])
@pytest.mark.parametrize("kind", ["List", "PodList"])
def test_an_empty_list_is_an_empty_input(kind: str, items: Any) -> None:
    result = loaded({"apiVersion": "v1", "kind": kind, "items": items})
    assert (result.pods, result.faults, result.sources) == ([], [], 1)


@pytest.mark.parametrize(
    "document",
    [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": []}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "status": 4},
        {"apiVersion": "v1", "kind": "ServiceList", "items": []},
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "s"}},
        {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "s"}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
        {"apiVersion": "qoslet/v1", "kind": "Node", "metadata": {"name": "n1"}},
        {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"},
    ],
    ids=lambda document: document["kind"],
)
def test_other_kubernetes_kinds_are_skipped_with_a_row(document: dict[str, Any]) -> None:
    result = loaded(document, pod())
    assert [each.name for each in result.pods] == ["web"]
    (problem,) = result.problems
    assert problem.severity == "info"
    assert problem.message == f"{document['kind']} skipped: it has no pods"
    assert ("--node" in problem.hint) == (document["kind"] in ("Node", "KubeletConfiguration"))
    assert ("defaults" in problem.hint) == (document["kind"] == "LimitRange")


def test_finished_pods_and_those_of_other_nodes_are_left_out() -> None:
    result = loaded(
        pod("done", status={"phase": "Succeeded"}),
        pod("failed", status={"phase": "Failed"}),
        pod("here", spec={"nodeName": "n1"}),
        pod("there", spec={"nodeName": "n2"}),
        pod("nowhere"),
        node_name="n1",
    )
    assert [each.name for each in result.pods] == ["here", "nowhere"]
    assert [problem.severity for problem in result.problems] == ["info"] * 3


def test_a_failed_pod_is_kept_until_its_containers_have_ended() -> None:
    def status(state: str) -> dict[str, Any]:
        one = {"name": "c", "containerID": f"containerd://{'a' * 64}", "state": {state: {}}}
        return {"phase": "Failed", "reason": "DeadlineExceeded", "containerStatuses": [one]}

    result = loaded(pod("a", status=status("running")), pod("b", status=status("terminated")))
    assert [each.name for each in result.pods] == ["a"]
    assert [each.name for each in result.ended] == ["b"]


def owned(document: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    owner = {"kind": kind, "name": name, "controller": True}
    meta = {**document["metadata"], "ownerReferences": [{"kind": "X"}, owner]}
    return {**document, "metadata": meta}


def test_what_a_cluster_made_of_a_template_counts_instead_of_it() -> None:
    deployment = workload("Deployment", TEMPLATE)
    current = owned(workload("ReplicaSet", TEMPLATE, name="web-1"), "Deployment", "web")
    old = owned(workload("ReplicaSet", TEMPLATE, name="web-0", replicas=0), "Deployment", "web")
    live = owned(pod("web-1-x"), "ReplicaSet", "web-1")
    result = loaded(deployment, current, old, live, pod("other"))
    assert [each.name for each in result.pods] == ["web-1-x", "other"]
    assert [row.message for row in result.problems] == [
        "left out: its pods are in the input",
        "left out: Deployment web owns it and is in the input",
        "left out: Deployment web owns it and is in the input",
    ]
    assert [each.name for each in pods_of(current, deployment, old)] == ["web"]
    done = owned(pod("web-1-x", status={"phase": "Failed"}), "ReplicaSet", "web-1")
    assert [each.name for each in pods_of(done, deployment, current)] == ["web"]


def test_expanding_does_not_collide_with_the_pods_of_a_cluster() -> None:
    template = workload("StatefulSet", TEMPLATE, replicas=2)
    found = pods_of(owned(pod("web-0"), "StatefulSet", "web"), template, expand=True)
    assert [each.name for each in found] == ["web-0"]


def test_pods_of_templates_stand_where_their_documents_do() -> None:
    found = pods_of(pod("a"), workload("Job", TEMPLATE, name="b"), pod("c"))
    assert [each.name for each in found] == ["a", "b", "c"]


def test_raw_documents_are_kept_when_asked_for() -> None:
    spec = {"containers": [container(args=["x"])], "restartPolicy": "Never"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    result = loaded(pod(), workload("Job", template, name="job"), keep_raw=True)
    first, second = result.pods
    assert result.raw[first.uid]["spec"]["containers"] == [container()]
    assert result.raw[second.uid]["metadata"] == {
        "labels": {"a": "b"},
        "name": "job",
        "namespace": "default",
        "uid": second.uid,
    }
    assert result.raw[second.uid]["spec"]["containers"][0]["args"] == ["x"]
    assert loaded(pod()).raw == {}


# --- faults -----------------------------------------------------------------------------------
