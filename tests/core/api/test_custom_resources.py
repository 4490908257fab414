"""Custom resources: which are skipped, which are read as a pod template, and which are a typo."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.api.owners import Workload
from qoslet.core.problem import Problem
from qoslet.core.quantity import canonical
from tests.core.api.test_manifest import container, faults_of, loaded, pod, pods_of
from tests.core.api.test_manifest_faults import one

CONTAINERS = [container(resources={"requests": {"cpu": "100m"}})]
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": CONTAINERS}}


def custom(api: str, kind: str, spec: Any = None, name: str = "web") -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


def skipped(*documents: Any) -> list[Problem]:
    """The rows about documents beside a pod."""
    result = loaded(pod("beside"), *documents)
    assert [str(fault) for fault in result.faults] == []
    assert [each.name for each in result.pods] == ["beside"]
    return result.problems


@pytest.mark.parametrize(
    ("api", "kind"),
    [
        ("monitoring.coreos.com/v1", "ServiceMonitor"),
        ("monitoring.coreos.com/v1", "Prometheus"),
        ("cert-manager.io/v1", "Certificate"),
        ("cert-manager.io/v1", "CertificateRequest"),
        ("networking.istio.io/v1beta1", "VirtualService"),
        ("networking.istio.io/v1", "Gateway"),
        ("argoproj.io/v1alpha1", "Application"),
        ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
        ("gateway.networking.k8s.io/v1alpha2", "TLSRoute"),
        ("app.k8s.io/v1beta1", "Application"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet"),
        ("example.com/v1", "Pod"),
        ("example.com/v1", "Podd"),
        ("example.com/v1", "Deployment"),
        ("example.com/v1", "AccessList"),
    ],
)
def test_a_custom_resource_is_skipped_with_a_row(api: str, kind: str) -> None:
    (row,) = skipped(custom(api, kind, {"replicas": 2}))
    assert (row.severity, row.hint) == ("info", "")
    group = api.rpartition("/")[0]
    assert row.message == f"{kind} ({group}) skipped: a custom resource without a pod template"
    assert row.where == f"f.json: {kind} web"


@pytest.mark.parametrize("api", ["k8s.io/v1", "example.com/v1"])
@pytest.mark.parametrize(
    ("kind", "hint"),
    [("Pod", "a Pod has apiVersion v1"), ("PodTemplate", "a PodTemplate has apiVersion v1")],
)
def test_a_pod_in_a_group_that_has_none_is_a_fault(api: str, kind: str, hint: str) -> None:
    body = {"spec": TEMPLATE["spec"]} if kind == "Pod" else {"template": TEMPLATE}
    document = {"apiVersion": api, "kind": kind, "metadata": {"name": "web"}, **body}
    (fault,) = faults_of(pod("beside"), document)
    assert str(fault) == f"f.json: {kind} default/web: {api} {kind} is not a known kind ({hint})"


def test_a_kind_has_one_row_however_many_there_are() -> None:
    monitors = [custom("a.example/v1", "Monitor", name=name) for name in "abc"]
    rows = skipped(*monitors, custom("a.example/v2", "Monitor"), custom("b.example/v1", "Monitor"))
    assert [row.message.partition(" skipped")[0] for row in rows] == [
        "Monitor (a.example, 4 of them)",
        "Monitor (b.example)",
    ]
    assert rows[0].where == "f.json: Monitor a"


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        [],
        "text",
        {"template": None},
        {"template": "{{name}}"},
        {"template": {"spec": None}},
        {"template": {"spec": {"containers": None}}},
        {"template": {"spec": {"containers": []}}},
        {"template": {"spec": {"containers": {"a": 1}}}},
        {"template": {"spec": {"containers": ["a"]}}},
        {"template": {"spec": {"containers": [{}]}}},
        {"template": {"spec": {"project": "default", "source": {}}}},
        {"containers": [], "container": {"name": "c"}, "steps": [[{"name": "s", "template": "t"}]]},
        {"number": 10**400},
    ],
)
def test_what_has_no_containers_there_is_no_template(spec: Any) -> None:
    (row,) = skipped(custom("example.com/v1", "Thing", spec))
    assert row.message.endswith("a custom resource without a pod template")


@pytest.mark.parametrize(
    ("api", "kind", "name"),
    [
        ("serving.knative.dev/v1", "Service", "queue-proxy"),
        ("agones.dev/v1", "GameServer", "agones-gameserver-sidecar"),
    ],
)
def test_a_container_that_a_controller_adds_has_one_row(api: str, kind: str, name: str) -> None:
    several = [custom(api, kind, {"template": TEMPLATE}, name) for name in "ab"]
    (row,) = loaded(*several).problems
    assert (row.severity, row.where) == ("info", f"f.json: {kind} default/a")
    assert f"adds a {name} container to each pod, which is not planned" in row.message


@pytest.mark.parametrize(
    ("api", "kind"),
    [
        ("argoproj.io/v1alpha1", "Rollout"),
        ("apps.kruise.io/v1alpha1", "CloneSet"),
        ("apps.kruise.io/v1beta1", "StatefulSet"),
        ("apps.kruise.io/v1alpha1", "DaemonSet"),
        ("apps.openshift.io/v1", "DeploymentConfig"),
        ("agones.dev/v1", "GameServer"),
        ("serving.knative.dev/v1", "Service"),
        ("serving.knative.dev/v1", "Configuration"),
        ("example.com/v1", "Job"),
        ("example.com/v1", "CronJob"),
        ("example.com/v1", "PodTemplate"),
        ("example.com/v1", "List"),
    ],
)
@pytest.mark.parametrize("keep_raw", [False, True])
def test_a_pod_template_is_read(api: str, kind: str, keep_raw: bool) -> None:
    document = custom(api, kind, {"strategy": {"canary": {}}, "template": TEMPLATE})
    result = loaded(document, keep_raw=keep_raw)
    assert result.faults == []
    assert all("adds a" in row.message for row in result.problems)
    (made,) = result.pods
    assert (made.key, made.where) == ("default/web", f"f.json: {kind} default/web")
    assert canonical(made.containers[0].resources.requests["cpu"]) == "100m"
    assert result.templates == {made.uid: Workload(kind, "default", "web")}
    if keep_raw:
        kept = result.raw[made.uid]
        assert (kept["metadata"]["labels"], kept["kind"]) == ({"app": "web"}, kind)
        assert kept["spec"]["containers"] == CONTAINERS


@pytest.mark.parametrize(
    ("replicas", "count"), [(3, 3), (0, 0), (None, 1), ("100%", 1), (-1, 1), (1.5, 1), ({}, 1)]
)
def test_replicas_count_where_they_are_a_number(replicas: Any, count: int) -> None:
    document = custom("a.example/v1", "Thing", {"replicas": replicas, "template": TEMPLATE})
    names = [each.name for each in pods_of(document, expand=True)]
    assert names == [f"web-{index}" for index in range(count)]
    assert len(pods_of(document)) == 1


def test_a_parallelism_of_its_own_is_no_fault() -> None:
    spec = {"parallelism": "100%", "jobTemplate": [], "template": TEMPLATE}
    assert len(pods_of(custom("apps.kruise.io/v1alpha1", "BroadcastJob", spec))) == 1


def test_a_fault_in_its_template_is_one() -> None:
    bad = {"spec": {"containers": [container(resources={"limits": {"cpu": "1x"}})]}}
    (fault,) = faults_of(custom("argoproj.io/v1alpha1", "Rollout", {"template": bad}))
    field = "spec.template.spec.containers[0].resources.limits.cpu"
    assert fault.where == f"f.json: Rollout default/web: {field}"


def test_knative_names_containers_that_have_no_name() -> None:
    """knative/serving pkg/apis/serving/v1/revision_defaults.go SetDefaults."""

    def names(*containers: Any) -> list[str]:
        spec = {"template": {"spec": {"timeoutSeconds": 5, "containers": list(containers)}}}
        (made,) = pods_of(custom("serving.knative.dev/v1", "Service", spec))
        return [each.name for each in made.containers]

    image = {"image": "registry.example/a:1"}
    assert names(image) == ["user-container"]
    assert names({**image, "name": ""}) == ["user-container"]
    assert names(image, {**image, "name": "side"}, image) == [
        "user-container-0",
        "side",
        "user-container-1",
    ]
    taken = {**image, "name": "user-container-0"}
    assert names(image, taken) == ["user-container-1", "user-container-0"]
    other = custom("a.example/v1", "Service", {"template": {"spec": {"containers": [image]}}})
    (fault,) = faults_of(other)
    assert fault.where.endswith("spec.template.spec.containers[0].name")


def test_knative_names_init_containers_and_probes_the_port_served() -> None:
    image = {"image": "registry.example/a:1"}
    ready = {**image, "readinessProbe": {"periodSeconds": 1}}

    def template(*containers: Any, init: int) -> dict[str, Any]:
        pod = {"containers": list(containers), "initContainers": [image] * init}
        return custom("serving.knative.dev/v1", "Service", {"template": {"spec": pod}})

    (one,) = pods_of(template(ready, init=1))
    assert {each.name for each in one.containers} == {"init-container", "user-container"}
    (two,) = pods_of(template(image, init=2))
    assert {each.name for each in two.containers} == {
        "init-container-0",
        "init-container-1",
        "user-container",
    }
    (fault,) = faults_of(template(ready, image, init=0))
    assert fault.where.endswith("containers[0].readinessProbe")
    assert fault.message == "has no handler"


def test_objects_outside_namespaces_are_named_without_one() -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "reader"}}
    of_cluster, of_namespace = {**role, "kind": "ClusterRole"}, {**role, "kind": "Role"}
    issuer = custom("cert-manager.io/v1", "ClusterIssuer")
    assert [row.where for row in skipped(of_cluster, of_namespace, issuer)] == [
        "f.json: ClusterRole reader",
        "f.json: Role default/reader",
        "f.json: ClusterIssuer web",
    ]


@pytest.mark.parametrize("handler", ["httpGet", "tcpSocket", "grpc"])
@pytest.mark.parametrize("given", [{}, {"port": 0}, {"port": None}])
def test_knative_knows_the_port_of_a_probe(handler: str, given: dict[str, Any]) -> None:
    probed = {"image": "registry.example/a:1", "readinessProbe": {handler: given}}
    spec = {"template": {"spec": {"containers": [probed]}}}
    document = custom("serving.knative.dev/v1", "Service", spec)
    assert len(pods_of(document)) == 1
    (fault,) = faults_of(custom("argoproj.io/v1alpha1", "Rollout", spec))[:1]
    assert fault.where.startswith("f.json: Rollout default/web: spec.template.spec.containers[0]")


def test_volumes_that_only_a_controller_knows_are_no_fault() -> None:
    mounted = container(volumeMounts=[{"name": "data", "mountPath": "/data"}])
    spec = {"volumeClaimTemplates": [], "template": {"spec": {"containers": [mounted]}}}
    assert len(pods_of(custom("apps.kruise.io/v1beta1", "StatefulSet", spec))) == 1


def test_what_a_cluster_made_of_a_rollout_counts_instead_of_it() -> None:
    rollout = custom("argoproj.io/v1alpha1", "Rollout", {"template": TEMPLATE})
    owners = [{"kind": "Rollout", "name": "web", "controller": True}]
    made = pod("web-1", metadata={"ownerReferences": owners})
    result = loaded(rollout, made)
    assert [each.name for each in result.pods] == ["web-1"]
    assert [row.message for row in result.problems] == ["left out: its pods are in the input"]


def test_lists_of_custom_resources() -> None:
    rollout = custom("argoproj.io/v1alpha1", "Rollout", {"template": TEMPLATE})
    monitor = custom("monitoring.coreos.com/v1", "ServiceMonitor")
    several = {"apiVersion": "argoproj.io/v1alpha1", "kind": "RolloutList", "items": [rollout]}
    assert [each.name for each in pods_of(several)] == ["web"]
    assert len(skipped({"apiVersion": "v1", "kind": "List", "items": [monitor, monitor]})) == 1


@pytest.mark.parametrize(
    ("api", "kind", "hint"),
    [
        ("v1", "Pud", "did you mean Pod?"),
        ("apps/v1", "Deploymnt", "did you mean Deployment?"),
        ("batch/v1", "CronJobs", "did you mean CronJob?"),
        ("networking.k8s.io/v1", "Ingres", "did you mean Ingress?"),
        ("app/v1", "Deployment", "a Deployment has apiVersion apps/v1"),
        ("apps.k8s.io/v1", "Deployment", "a Deployment has apiVersion apps/v1"),
        ("monitoring/v1", "ServiceMonitor", "Kubernetes has no such API group"),
        ("monitoring.coreos.com", "ServiceMonitor", "monitoring.coreos.com/v1"),
    ],
)
def test_a_typo_is_one_in_the_groups_of_kubernetes_only(api: str, kind: str, hint: str) -> None:
    (fault,) = faults_of(custom(api, kind, {"template": TEMPLATE}))
    assert hint in fault.hint
    assert "is not a known kind" in fault.message


def test_custom_resources_alone_are_no_pods() -> None:
    monitor = custom("monitoring.coreos.com/v1", "ServiceMonitor")
    (fault,) = faults_of(monitor)
    assert "no pod in the input: f.json: ServiceMonitor web skipped" in str(fault)


def test_a_generated_name_begins_as_it_is_given() -> None:
    document = one()
    document["metadata"] = {"generateName": "migrate-"}
    assert [each.name for each in pods_of(document)] == ["migrate"]
