"""Validation across fields, containers and releases."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from qoslet.core.api.documents import json_documents
from qoslet.core.api.manifest import Options, pods_from
from tests.core.api.test_validation import (
    BASE,
    EXEC,
    FILE_KEY,
    INIT,
    META,
    TAKEN,
    A,
    env,
    faults_of,
    mount,
    volume,
    with_value,
)
from tests.paths import REPO


@pytest.mark.parametrize(("path", "value"), TAKEN, ids=lambda value: str(value)[:50])
def test_what_a_release_of_the_api_server_takes_is_no_fault(path: str, value: Any) -> None:
    assert faults_of(with_value(path, value)) == []


def test_kubectl_shows_a_deadline_that_only_an_update_sets() -> None:
    document = with_value("spec.activeDeadlineSeconds", 0)
    assert faults_of({**document, "status": {"phase": "Running"}}) == []


def test_ephemeral_containers_have_few_fields_and_no_template() -> None:
    debug: dict[str, Any] = {
        "name": "d",
        "image": "x",
        "ports": [{"containerPort": 1}],
        "restartPolicy": "Always",
    }
    debug |= {"targetContainerName": "z", "volumeMounts": mount(subPath="a"), "livenessProbe": EXEC}
    found = faults_of(with_value("spec.ephemeralContainers", [debug]))
    names = ("livenessProbe", "ports", "restartPolicy", "targetContainerName")
    places = {f"spec.ephemeralContainers[0].{name}" for name in names}
    mounted = "spec.ephemeralContainers[0].volumeMounts[0].subPath"
    assert {where for where, _, _ in found} == {*places, mounted}


def test_host_ports_are_taken_once_by_containers_that_run_together() -> None:
    document = copy.deepcopy(BASE)
    for path in (A, "spec.containers.1", INIT):
        document = with_value(f"{path}.ports", [{"containerPort": 80}], document)
    assert faults_of(document) == []
    (fault,) = faults_of(with_value("spec.hostNetwork", True, document))
    assert fault[0] == "spec.containers[1].ports[0].hostPort"
    document = with_value(f"{A}.ports", [{"containerPort": 80, "hostPort": 81}])
    (fault,) = faults_of(with_value("spec.hostNetwork", True, document))
    assert "hostNetwork" in fault[1]


def test_fields_of_the_other_system_are_refused() -> None:
    document = with_value("spec.os", {"name": "windows"})
    document = with_value(f"{A}.securityContext", {"runAsUser": 1}, document)
    document = with_value("spec.hostPID", True, document)
    places = [where for where, _, _ in faults_of(document)]
    assert places == ["spec.containers[0].securityContext.runAsUser", "spec.hostPID"]
    document = with_value("spec.os", {"name": "linux"})
    document = with_value("spec.securityContext", {"windowsOptions": {}}, document)
    assert [where for where, _, _ in faults_of(document)] == ["spec.securityContext.windowsOptions"]


def test_host_process_is_for_all_containers_on_the_hosts_network() -> None:
    context = {"windowsOptions": {"hostProcess": True}}
    document = with_value("spec.securityContext", context)
    assert [where for where, _, _ in faults_of(document)] == ["spec.hostNetwork"]
    document = with_value("spec.hostNetwork", True, document)
    assert faults_of(document) == []
    one = with_value("spec.hostNetwork", True, with_value(f"{A}.securityContext", context))
    assert len(faults_of(one)) == 1


def test_a_user_namespace_excludes_those_of_the_host() -> None:
    document = with_value("spec.hostPID", True, with_value("spec.hostUsers", False))
    assert [where for where, _, _ in faults_of(document)] == ["spec.hostPID"]
    document = with_value("spec.hostPID", True, with_value("spec.shareProcessNamespace", True))
    assert [where for where, _, _ in faults_of(document)] == ["spec.shareProcessNamespace"]


# --- kinds that carry a template ---------------------------------------------------------------


def workload(kind: str, policy: str | None, **spec: Any) -> dict[str, Any]:
    inner: dict[str, Any] = {"containers": [{"name": "a", "image": "nginx"}]}
    if policy:
        inner["restartPolicy"] = policy
    template = {"metadata": {"labels": {"app": "web"}}, "spec": inner}
    body: dict[str, Any] = {"template": template, **spec}
    if kind == "CronJob":
        body = {"jobTemplate": {"spec": body}}
    api = {"ReplicationController": "v1"}.get(kind, "batch/v1" if "Job" in kind else "apps/v1")
    return {"apiVersion": api, "kind": kind, "metadata": META, "spec": body}


ALWAYS = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController"]


@pytest.mark.parametrize("kind", ALWAYS)
def test_what_runs_for_ever_restarts_always(kind: str) -> None:
    assert faults_of(workload(kind, None)) == faults_of(workload(kind, "Always")) == []
    for policy in ("Never", "OnFailure"):
        (fault,) = faults_of(workload(kind, policy))
        assert fault[0] == "spec.template.spec.restartPolicy"
    deadline = with_value("spec.template.spec.activeDeadlineSeconds", 9, workload(kind, "Always"))
    assert faults_of(deadline)[0][0] == "spec.template.spec.activeDeadlineSeconds"


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
def test_a_job_ends(kind: str) -> None:
    assert faults_of(workload(kind, "Never")) == faults_of(workload(kind, "OnFailure")) == []
    for policy in (None, "Always"):
        (fault,) = faults_of(workload(kind, policy))
        assert fault[0].endswith("template.spec.restartPolicy")
        assert "OnFailure or Never" in fault[2]


def test_an_unknown_policy_is_told_once() -> None:
    assert [where for where, _, _ in faults_of(workload("Job", "Sometimes"))] == [
        "spec.template.spec.restartPolicy"
    ]


@pytest.mark.parametrize(
    ("selector", "place"),
    [
        ({"matchLabels": {"app": "api"}}, "spec.selector"),
        ({"matchLabels": {"tier": "web"}}, "spec.selector"),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["b"]}]}, "selector"),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, "spec.selector"),
        ({"matchExpressions": [{"key": "app", "operator": "Is"}]}, ".operator"),
        ({"matchExpressions": [{"key": "app", "operator": "In"}]}, ".values"),
        ({"matchLabels": {"app": 1}}, ".matchLabels.app"),
        ("app=web", "spec.selector"),
    ],
    ids=str,
)
def test_a_selector_selects_the_template(selector: Any, place: str) -> None:
    found = faults_of(workload("Deployment", None, selector=selector))
    assert len(found) == 1, found
    assert found[0][0].endswith(place)


def test_selectors_that_match() -> None:
    expressions = [
        {"key": "app", "operator": "In", "values": ["web", "x"]},
        {"key": "app", "operator": "Exists"},
        {"key": "tier", "operator": "NotIn", "values": ["x"]},
        {"key": "tier", "operator": "DoesNotExist"},
    ]
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": expressions}
    assert faults_of(workload("Deployment", None, selector=selector)) == []
    assert faults_of(workload("ReplicationController", None, selector={"app": "web"})) == []
    (fault,) = faults_of(workload("ReplicationController", None, selector={"app": "x"}))
    assert fault[0] == "spec.selector"


def test_a_stateful_set_adds_the_volumes_of_its_claims() -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {}}]
    document = workload("StatefulSet", None, volumeClaimTemplates=claims)
    mounts = "spec.template.spec.containers.0.volumeMounts"
    assert faults_of(with_value(mounts, mount(name="data"), document)) == []
    (fault,) = faults_of(with_value(mounts, mount(name="date"), document))
    assert "data" in fault[2]


def test_templates_take_what_pods_do_not() -> None:
    image = "spec.template.spec.containers.0.image"
    assert faults_of(with_value(image, " ", workload("Deployment", None))) == []
    debug = "spec.template.spec.ephemeralContainers"
    document = with_value(debug, [{"name": "d", "image": "x"}], workload("Deployment", None))
    assert [where for where, _, _ in faults_of(document)] == [debug]


@pytest.mark.parametrize(
    "name", ["pods.json", "kubelet-pods.json", "nodes-pods.json", "resized-pod.json"]
)
def test_documents_of_real_clusters_pass(name: str) -> None:
    data = (REPO / "tests" / "data" / "samples" / name).read_bytes()
    loaded = pods_from(json_documents(data, name), Options())
    assert [str(fault) for fault in loaded.faults] == []
    assert loaded.pods


def test_pods_that_differ_in_the_name_of_their_token_volume_alone() -> None:
    def token(name: str, mounted: str) -> dict[str, Any]:
        document = with_value("metadata.name", name.rpartition("-")[2])
        document = with_value("spec.volumes", [{"name": name, "projected": {}}], document)
        return with_value(f"{A}.volumeMounts", mount(name=mounted), document)

    first, second = "kube-api-access-aaaaa", "kube-api-access-bbbbb"
    assert faults_of(token(first, first), token(second, second)) == []
    for wrong in (first, "*", "kube-api-access-"):
        (fault,) = faults_of(token(first, first), token(second, wrong))
        assert second in fault[2]


@pytest.mark.parametrize(
    ("system", "signal", "hint"),
    [
        ("linux", "SIGUSR1", None),
        ("linux", "SIGRTMIN+15", None),
        ("linux", "SIGRTMAX-14", None),
        ("linux", "SIGRTMIN+16", "SIGRTMIN+3"),
        ("linux", "usr1", "did you mean SIGUSR1?"),
        ("linux", "", "remove it"),
        ("linux", "9", "SIGQUIT"),
        ("windows", "SIGKILL", None),
        ("windows", "SIGHUP", "SIGKILL, SIGTERM"),
        (None, "SIGTERM", None),
    ],
)
@pytest.mark.parametrize("path", [A, INIT])
def test_stop_signals_are_those_of_the_pods_system(
    path: str, system: str | None, signal: str, hint: str | None
) -> None:
    document = with_value(f"{path}.lifecycle", {"stopSignal": signal})
    if path == INIT:
        document = with_value(f"{INIT}.restartPolicy", "Always", document)
    if system is not None:
        document = with_value("spec.os", {"name": system}, document)
    found = faults_of(document)
    if hint is None:
        assert found == []
    else:
        ((where, _, said),) = found
        assert where.endswith("ontainers[0].lifecycle.stopSignal")
        assert hint in said


def test_a_variable_from_a_file_needs_an_empty_dir() -> None:
    document = with_value(f"{A}.env", env(fileKeyRef=FILE_KEY))
    assert faults_of(document) == []
    other = with_value("spec.volumes", volume(configMap={"name": "c"}), document)
    ((where, message, _),) = faults_of(other)
    assert where == "spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName"
    assert message == "the pod has no emptyDir 'v'"
