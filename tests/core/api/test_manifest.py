"""Documents to pods: what is read, what is defaulted, and every fault with its place."""

from __future__ import annotations

import json
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

import pytest

from qoslet.core.api.documents import json_documents
from qoslet.core.api.ids import UID_NAMESPACE, generated_uid
from qoslet.core.api.manifest import Loaded, Options, pods_from
from qoslet.core.api.pod import Pod
from qoslet.core.quantity import canonical
from qoslet.errors import BadInput

UID = "4bef6009-7dd6-418b-8b18-b61035e95b4d"


def loaded(*documents: Any, **options: Any) -> Loaded:
    text = "\n".join(json.dumps(document) for document in documents)
    return pods_from(json_documents(text.encode(), "f.json"), Options(**options))


def pods_of(*documents: Any, **options: Any) -> list[Pod]:
    result = loaded(*documents, **options)
    assert [str(fault) for fault in result.faults] == []
    return result.pods


def faults_of(*documents: Any, **options: Any) -> list[BadInput]:
    return loaded(*documents, **options).faults


def container(name: str = "c", **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


def asks(requests: Any = None, limits: Any = None) -> dict[str, Any]:
    given = {"requests": requests, "limits": limits}
    return {"resources": {name: value for name, value in given.items() if value is not None}}


def pod(name: str = "web", *containers: Any, **fields: Any) -> dict[str, Any]:
    meta = {"name": name, **fields.pop("metadata", {})}
    spec = {"containers": list(containers) or [container()], **fields.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, **fields}


def workload(kind: str, template: Any, name: str = "web", **spec: Any) -> dict[str, Any]:
    api = {"Job": "batch/v1", "CronJob": "batch/v1"}.get(kind, "apps/v1")
    if kind == "Job" and template is TEMPLATE:
        template = ONCE
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


TEMPLATE = {"spec": {"containers": [container(**asks({"cpu": "100m"}))]}}
ONCE = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}


def texts(amounts: Any) -> dict[str, str]:
    return {name: canonical(amount) for name, amount in amounts.items()}


# --- identity ---------------------------------------------------------------------------------


def test_a_pod_without_namespace_and_uid_gets_both() -> None:
    (found,) = pods_of(pod())
    assert (found.namespace, found.name, found.uid_from) == ("default", "web", "generated")
    assert found.uid == str(uuid5(UUID(UID_NAMESPACE), "default/web"))
    assert str(uuid5(NAMESPACE_DNS, "qoslet")) == UID_NAMESPACE
    assert found.where == "f.json: Pod default/web"


def test_a_uid_of_the_manifest_is_kept() -> None:
    (found,) = pods_of(pod(metadata={"uid": UID, "namespace": "prod"}))
    assert (found.key, found.uid, found.uid_from) == ("prod/web", UID, "manifest")


def test_a_mirror_pod_has_the_static_uid_and_is_critical() -> None:
    notes = {
        "kubernetes.io/config.mirror": "4c9d3a2b1f",
        "kubernetes.io/config.hash": "4c9d3a2b1f",
        "kubernetes.io/config.source": "file",
    }
    (found,) = pods_of(pod(metadata={"uid": UID, "annotations": notes}))
    assert (found.uid, found.uid_from, found.critical) == ("4c9d3a2b1f", "config.hash", True)


@pytest.mark.parametrize(
    ("annotations", "spec", "critical", "node_critical"),
    [
        ({}, {}, False, False),
        ({"kubernetes.io/config.source": "api"}, {}, False, False),
        ({"kubernetes.io/config.source": "http"}, {}, True, False),
        ({}, {"priority": 2_000_000_000}, True, False),
        ({}, {"priority": 1_999_999_999}, False, False),
        ({}, {"priorityClassName": "system-cluster-critical"}, True, False),
        ({}, {"priorityClassName": "system-node-critical"}, True, True),
        ({}, {"priorityClassName": "system-node-critical", "priority": 2_000_001_000}, True, True),
        ({}, {"priorityClassName": "system-node-critical", "priority": 0}, False, False),
    ],
)
def test_critical_pods(
    annotations: dict[str, str], spec: dict[str, Any], critical: bool, node_critical: bool
) -> None:
    (found,) = pods_of(pod(metadata={"annotations": annotations}, spec=spec))
    assert (found.critical, found.node_critical) == (critical, node_critical)


def test_what_else_decides_is_carried() -> None:
    (found,) = pods_of(
        pod(
            metadata={
                "annotations": {
                    "experimental.windows.kubernetes.io/isolation-type": "hyperv",
                    "other": "x",
                }
            },
            spec={
                "os": {"name": "windows"},
                "nodeName": "n1",
                "priority": 7,
                "overhead": {"cpu": "250m", "memory": "120Mi"},
            },
            status={"phase": "Running", "qosClass": "Burstable"},
        )
    )
    assert (found.os, found.isolation, found.node_name, found.priority) == (
        "windows",
        "hyperv",
        "n1",
        7,
    )
    assert (found.phase, found.status_qos) == ("Running", "Burstable")
    assert texts(found.overhead) == {"cpu": "250m", "memory": "120Mi"}


def test_an_annotation_without_a_value_is_no_fault() -> None:
    (found,) = pods_of(pod(metadata={"annotations": {"a": None}, "labels": None}))
    assert found.name == "web"


def test_containers_stand_in_the_order_of_starting_with_roles_and_ids() -> None:
    (found,) = pods_of(
        pod(
            "web",
            container("main"),
            spec={
                "initContainers": [container("setup"), container("proxy", restartPolicy="Always")],
                "ephemeralContainers": [container("debug")],
            },
            status={
                "containerStatuses": [{"name": "main", "containerID": "containerd://abc1"}],
                "initContainerStatuses": [{"name": "proxy", "containerID": "cri-o://def2"}],
            },
        )
    )
    assert [(each.name, each.role, each.field, each.id) for each in found.containers] == [
        ("setup", "init", "spec.initContainers[0]", None),
        ("proxy", "sidecar", "spec.initContainers[1]", "def2"),
        ("main", "regular", "spec.containers[0]", "abc1"),
        ("debug", "ephemeral", "spec.ephemeralContainers[0]", None),
    ]


# --- resources --------------------------------------------------------------------------------


def test_requests_are_defaulted_from_limits_by_resource() -> None:
    given = asks({"cpu": "1"}, {"cpu": 2, "memory": "1Gi", "hugepages-2Mi": "4Mi"})
    (found,) = pods_of(pod("web", container(**given)))
    (only,) = found.containers
    assert texts(only.resources.requests) == {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi"}
    assert only.defaulted == ("memory", "hugepages-2Mi")


@pytest.mark.parametrize(
    ("amount", "milli"),
    [("500m", 500), (0.5, 500), (2, 2000), (" 1 ", 1000), ("1e3", 1000_000), ("100u", 1), (0, 0)],
)
def test_quantities_in_every_notation(amount: Any, milli: int) -> None:
    (found,) = pods_of(pod("web", container(**asks({"cpu": amount}))))
    assert found.containers[0].resources.requests["cpu"].milli == milli


def test_finer_than_thousandths_is_rounded_up_before_it_is_summed() -> None:
    (found,) = pods_of(pod("web", container(**asks({"cpu": "100u"}))))
    assert canonical(found.containers[0].resources.requests["cpu"]) == "1m"


def test_absent_and_empty_resources_differ_at_the_pod_only() -> None:
    first, second, third = pods_of(
        pod("a"), pod("b", spec={"resources": {}}), pod("c", spec={"resources": None})
    )
    assert first.resources is None
    assert second.resources is not None
    assert third.resources is None


def test_pod_level_requests_default_to_the_sum_else_to_the_limit() -> None:
    (found,) = pods_of(
        pod(
            "web",
            container("a", **asks({"cpu": "100m"})),
            container("b", **asks({"cpu": "200m"})),
            spec={"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
        )
    )
    assert found.resources is not None
    assert texts(found.resources.requests) == {"cpu": "300m", "memory": "1Gi"}
    assert found.defaulted == ("cpu", "memory")


def test_pod_level_requests_alone_default_nothing() -> None:
    (found,) = pods_of(pod("web", container(**asks({"memory": "1Mi"})), spec=asks({"cpu": "1"})))
    assert found.resources is not None
    assert texts(found.resources.requests) == {"cpu": "1"}
    assert found.defaulted == ()


RESIZED = {
    "containerStatuses": [
        {
            "name": "c",
            "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "400m"}},
            "allocatedResources": {"cpu": "300m"},
        }
    ]
}


def test_spec_decides_unless_what_is_allocated_is_asked_for() -> None:
    document = pod("web", container(**asks({"cpu": "1"}, {"cpu": "1"})), status=RESIZED)
    (wanted,) = pods_of(document)
    (actual,) = pods_of(document, allocated=True)
    assert texts(wanted.containers[0].resources.limits) == {"cpu": "1"}
    assert texts(actual.containers[0].resources.requests) == {"cpu": "200m"}
    assert texts(actual.containers[0].resources.limits) == {"cpu": "400m"}


def test_allocated_resources_replace_requests_where_nothing_is_actuated() -> None:
    status = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "300m"}}]}
    document = pod("web", container(**asks(None, {"cpu": "1", "memory": "1Mi"})), status=status)
    (actual,) = pods_of(document, allocated=True)
    (only,) = actual.containers
    assert texts(only.resources.requests) == {"cpu": "300m", "memory": "1Mi"}
    assert only.defaulted == ("memory",)


def test_fractions_of_a_byte_are_noted() -> None:
    result = loaded(pod("web", container(**asks({"memory": "100m"}))))
    (problem,) = result.problems
    assert problem.severity == "warning"
    assert problem.where == "f.json: Pod default/web: spec.containers[0].resources.requests.memory"
    assert "rounded up" in problem.message


# --- kinds ------------------------------------------------------------------------------------


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
        ("Job", {"parallelism": 2, "replicas": 9}, ["web-0", "web-1"]),
    ],
)
def test_expand_makes_the_pods_of_a_template(
    kind: str, spec: dict[str, Any], names: list[str]
) -> None:
    found = pods_of(workload(kind, TEMPLATE, **spec), expand=True)
    assert [each.name for each in found] == names
    assert [each.uid for each in found] == [generated_uid("default", name) for name in names]


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

C = "f.json: Pod default/web: spec.containers[0]"
R = f"{C}.resources"
LONG = "a" * 64


def one(**resources: Any) -> dict[str, Any]:
    return pod("web", container(resources=resources))


BAD: list[tuple[str, Any, str, str]] = [
    ("no kind", {"apiVersion": "v1"}, "f.json: kind", "is missing"),
    ("no apiVersion", {"kind": "Pod"}, "f.json: apiVersion", "is missing"),
    ("kind is a number", {"apiVersion": "v1", "kind": 1}, "f.json: kind", "must be a string"),
    ("unknown kind", pod() | {"kind": "Pud"}, "f.json: Pud default/web", "did you mean Pod?"),
    (
        "foreign group",
        workload("Deployment", TEMPLATE) | {"apiVersion": "app/v1"},
        "f.json: Deployment default/web",
        "apps/v1",
    ),
    ("wrong version", pod() | {"apiVersion": "v2"}, "f.json: Pod default/web", "has apiVersion v1"),
    ("only others", {"apiVersion": "v1", "kind": "Secret"}, "-f", "f.json skipped"),
    ("Kind", {"apiVersion": "v1", "Kind": "Pod"}, "f.json: kind", "Kind: did you mean kind?"),
    (
        "container",
        pod() | {"spec": {"container": []}},
        "spec.containers",
        "container: did you mean containers?",
    ),
    (
        "only init containers",
        pod() | {"spec": {"initContainers": [container()]}},
        "spec.containers",
        "a pod needs at least one container",
    ),
    (
        "container's name",
        pod("web", {"nam": "c"}),
        "spec.containers[0].name",
        "nam: did you mean name?",
    ),
    ("specs", {**pod(), "spec": None, "specs": {}}, "spec", "specs: did you mean spec?"),
    (
        "templates",
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
        | {"spec": {"templates": {}}},
        "spec.template",
        "templates: did you mean template?",
    ),
    ("only a node", {"apiVersion": "v1", "kind": "Node"}, "-f", "--node"),
    ("an array", [pod()], "f.json", "must be an object, is an array"),
    ("items missing", {"apiVersion": "v1", "kind": "List"}, "f.json: items", "is missing"),
    (
        "items no array",
        {"apiVersion": "v1", "kind": "List", "items": {}},
        "f.json: items",
        "must be an array",
    ),
    (
        "item no object",
        {"apiVersion": "v1", "kind": "List", "items": [7]},
        "f.json: items[0]",
        "must be an object, is a number",
    ),
    (
        "item without kind",
        {"apiVersion": "v1", "kind": "List", "items": [{"metadata": {"name": "x"}}]},
        "f.json: items[0]: kind",
        "is missing",
    ),
    ("no name", pod(""), "f.json: metadata.name", "is missing"),
    ("name is a number", pod(metadata={"name": 7}), "f.json: metadata.name", "put it in quotes"),
    ("name with a slash", pod("a/b"), "f.json: Pod default/a/b: metadata.name", "not a DNS name"),
    ("name of dots", pod(".."), "f.json: Pod default/..: metadata.name", "not a DNS name"),
    ("name with NUL", pod("a\0b"), "f.json: Pod default/a\\x00b: metadata.name", "not a DNS name"),
    ("name in capitals", pod("Web"), "f.json: Pod default/Web: metadata.name", "lowercase"),
    ("bad namespace", pod(metadata={"namespace": "a.b"}), "metadata.namespace", "not a DNS label"),
    ("escape in a name", pod("a\x1b[31m"), "\\x1b[31m: metadata.name", "\\x1b"),
    ("uid with a slash", pod(metadata={"uid": "a/b"}), "metadata.uid", "cannot name a cgroup"),
    ("uid of dots", pod(metadata={"uid": "a..b"}), "metadata.uid", "cannot name a cgroup"),
    ("uid with NUL", pod(metadata={"uid": "a\0b"}), "metadata.uid", "cannot name a cgroup"),
    ("uid with _", pod(metadata={"uid": "a_b"}), "metadata.uid", "panics on _"),
    ("uid with @", pod(metadata={"uid": "a@b"}), "metadata.uid", "cannot name a cgroup"),
    ("uid with %", pod(metadata={"uid": "%i"}), "metadata.uid", "cannot name a cgroup"),
    ("long uid", pod(metadata={"uid": "a" * 253}), "metadata.uid", "at most 252"),
    (
        "no spec",
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}},
        "spec",
        "missing",
    ),
    ("no containers", pod(spec={"containers": []}), "spec.containers", "missing or empty"),
    ("containers no array", pod(spec={"containers": {}}), "spec.containers", "must be an array"),
    (
        "container no object",
        pod("web", "c"),
        "spec.containers[0]",
        "must be an object, is a string",
    ),
    ("container unnamed", pod("web", {}), f"{C}.name", "is missing"),
    ("container name", pod("web", container("a_b")), f"{C}.name", "not a DNS label"),
    ("container name long", pod("web", container(LONG)), f"{C}.name", "at most 63"),
    ("container path", pod("web", container("../x")), f"{C}.name", "not a DNS label"),
    (
        "container twice",
        pod(spec={"initContainers": [container()]}),
        f"{C}.name",
        "'c' is also the name of spec.initContainers[0]",
    ),
    ("annotation number", pod(metadata={"annotations": {"a": 1}}), "annotations.a", "quotes"),
    ("bad node name", pod(spec={"nodeName": "a/b"}), "spec.nodeName", "not a DNS name"),
    ("bad os", pod(spec={"os": {"name": "plan9"}}), "spec.os.name", "linux, windows"),
    ("priority text", pod(spec={"priority": "1"}), "spec.priority", "whole number, is a string"),
    ("phase", pod(status={"phase": "Done"}), "status.phase", "known are Pending"),
    ("qos class", pod(status={"qosClass": "Best"}), "status.qosClass", "known are Guaranteed"),
    (
        "container id",
        pod(status={"containerStatuses": [{"name": "c", "containerID": "x://../a"}]}),
        "status.containerStatuses[0].containerID",
        "not a container ID",
    ),
    (
        "isolation",
        pod(metadata={"annotations": {"experimental.windows.kubernetes.io/isolation-type": "vm"}}),
        "metadata.annotations[experimental.windows.kubernetes.io/isolation-type]",
        "process, hyperv",
    ),
    ("resources a list", pod("web", container(resources=[])), R, "must be an object, is an array"),
    ("misspelt field", one(request={"cpu": 1}), f"{R}.request", "did you mean requests?"),
    ("limits a list", one(limits=["cpu"]), f"{R}.limits", "must be an object, is an array"),
    ("no digits", one(limits={"memory": "Ki"}), f"{R}.limits.memory", "'Ki' has no digits"),
    ("only a dot", one(limits={"memory": "."}), f"{R}.limits.memory", "'.' has no digits"),
    ("only a suffix", one(limits={"cpu": "m"}), f"{R}.limits.cpu", "'m' has no digits"),
    ("only a sign", one(limits={"cpu": "-"}), f"{R}.limits.cpu", "'-' has no digits"),
    ("empty", one(limits={"cpu": ""}), f"{R}.limits.cpu", "is empty"),
    ("null", one(limits={"cpu": None}), f"{R}.limits.cpu", "has no value"),
    ("boolean", one(limits={"cpu": True}), f"{R}.limits.cpu", "a quantity, is a boolean"),
    ("object", one(limits={"cpu": {}}), f"{R}.limits.cpu", "a quantity, is an object"),
    ("suffix", one(limits={"memory": "1mi"}), f"{R}.limits.memory", "did you mean Mi or M?"),
    ("bytes", one(limits={"memory": "1GB"}), f"{R}.limits.memory", "did you mean Gi or G?"),
    ("words", one(limits={"cpu": "two"}), f"{R}.limits.cpu", "write cores"),
    ("negative", one(limits={"cpu": -1}), f"{R}.limits.cpu", "-1 is negative"),
    ("bytes overflow", one(limits={"memory": "10E"}), f"{R}.limits.memory", "overflows"),
    ("binary overflow", one(limits={"memory": "8Ei"}), f"{R}.limits.memory", "overflows"),
    ("cpu overflow", one(limits={"cpu": "10P"}), f"{R}.limits.cpu", "overflows"),
    ("exponent", one(limits={"cpu": "1e999999999"}), f"{R}.limits.cpu", "beyond"),
    (
        "above the limit",
        one(requests={"cpu": 2}, limits={"cpu": "1500m"}),
        f"{R}.requests.cpu",
        "2 is above the limit 1500m",
    ),
    (
        "hugepages differ",
        one(requests={"hugepages-2Mi": "2Mi", "cpu": 1}, limits={"hugepages-2Mi": "4Mi"}),
        f"{R}.requests.hugepages-2Mi",
        "must equal the limit",
    ),
    (
        "hugepages without a limit",
        one(requests={"hugepages-2Mi": "2Mi", "cpu": 1}),
        f"{R}.requests.hugepages-2Mi",
        "has no limit",
    ),
    ("hugepages alone", one(limits={"hugepages-2Mi": "2Mi"}), R, "need a cpu or memory request"),
    (
        "hugepage size",
        one(limits={"hugepages-2X": "2Mi", "cpu": 1}),
        f"{R}.limits.hugepages-2X",
        "no valid page size",
    ),
    (
        "half a hugepage",
        one(limits={"hugepages-2Mi": "3Mi", "cpu": 1}),
        f"{R}.limits.hugepages-2Mi",
        "not a multiple",
    ),
    ("unknown resource", one(limits={"memry": 1}), f"{R}.limits.memry", "did you mean memory?"),
    ("pods", one(limits={"pods": 1}), f"{R}.limits.pods", "not a container resource"),
    (
        "resource name",
        one(limits={"a b/c": 1}),
        f"{R}.limits[a b/c]",
        "not a valid resource name",
    ),
    (
        "fraction of a device",
        one(limits={"x.io/gpu": "1500m"}),
        f"{R}.limits[x.io/gpu]",
        "must be a whole number",
    ),
    (
        "device without a limit",
        one(requests={"x.io/gpu": 1}),
        f"{R}.requests[x.io/gpu]",
        "has no limit",
    ),
    (
        "devices differ",
        one(requests={"x.io/gpu": 1}, limits={"x.io/gpu": 2}),
        f"{R}.requests[x.io/gpu]",
        "must equal",
    ),
    (
        "ephemeral container asks",
        pod(spec={"ephemeralContainers": [container("d", **asks({"cpu": 1}))]}),
        "spec.ephemeralContainers[0].resources",
        "not allowed",
    ),
    ("overhead", pod(spec={"overhead": {"cpu": "x"}}), "spec.overhead.cpu", "unknown suffix"),
    ("overhead type", pod(spec={"overhead": 3}), "spec.overhead", "must be an object"),
    (
        "pod-level storage",
        pod(spec=asks({"ephemeral-storage": 1})),
        "spec.resources.requests.ephemeral-storage",
        "cpu, memory and hugepages-* are",
    ),
    (
        "pod-level claims",
        pod(spec={"resources": {"claims": [{"name": "x"}]}}),
        "spec.resources.claims",
        "cannot have claims",
    ),
    (
        "pod-level request low",
        pod("web", container(**asks({"cpu": 2})), spec=asks({"cpu": 1})),
        "spec.resources.requests.cpu",
        "1 is below the 2 that containers request",
    ),
    (
        "pod-level limit low",
        pod("web", container(**asks({"cpu": 2})), spec=asks(None, {"cpu": 1})),
        "spec.resources.limits.cpu",
        "1 is below the 2 that containers request",
    ),
    (
        "container above the pod",
        pod("web", container(**asks({"cpu": 1}, {"cpu": 3})), spec=asks(None, {"cpu": 2})),
        f"{R}.limits.cpu",
        "3 is above the pod's own limit 2",
    ),
    (
        "no template",
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {}},
        "f.json: Deployment default/web: spec.template",
        "is missing",
    ),
    (
        "fault in a template",
        workload("Deployment", {"spec": {"containers": [container(**asks({"cpu": "x"}))]}}),
        "Deployment default/web: spec.template.spec.containers[0].resources.requests.cpu",
        "unknown suffix",
    ),
    (
        "template of a cron job",
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "web"},
            "spec": {
                "jobTemplate": {
                    "spec": {"template": {"spec": {"containers": [{}], "restartPolicy": "Never"}}}
                }
            },
        },
        "spec.jobTemplate.spec.template.spec.containers[0].name",
        "is missing",
    ),
    ("replicas text", workload("Job", TEMPLATE, parallelism="2"), "spec.parallelism", "number"),
    (
        "owner references",
        pod(metadata={"ownerReferences": [{"kind": 1}]}),
        "metadata.ownerReferences[0].kind",
        "must be a string",
    ),
    ("priority", pod(spec={"priority": 2**31}), "spec.priority", "does not fit 32 bits"),
    ("priority fraction", pod(spec={"priority": 0.5}), "spec.priority", "a whole number"),
    ("replicas negative", workload("Deployment", TEMPLATE, replicas=-1), "replicas", "negative"),
]


@pytest.mark.parametrize(
    ("document", "where", "words"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_bad_input_is_one_line_with_its_place(document: Any, where: str, words: str) -> None:
    (fault,) = faults_of(document)
    assert fault.where.endswith(where)
    assert words in str(fault)
    assert str(fault).isprintable()
    assert fault.exit_code == 2


def test_all_faults_of_a_document_are_there_at_once() -> None:
    document = pod(
        "Web",
        container("a", resources={"limits": {"cpu": "x", "memory": -1}}),
        container("a", image=7, resources=[]),
        "c",
        metadata={"uid": "_", "annotations": {"n": 1}},
        spec={"priority": "high"},
    )
    places = {fault.where.rpartition(": ")[2] for fault in faults_of(document)}
    assert places == {
        "metadata.name",
        "metadata.uid",
        "metadata.annotations.n",
        "spec.priority",
        "spec.containers[0].resources.limits.cpu",
        "spec.containers[0].resources.limits.memory",
        "spec.containers[1].image",
        "spec.containers[1].name",
        "spec.containers[1].resources",
        "spec.containers[2]",
    }


def test_a_bad_item_spoils_no_other() -> None:
    items = [pod("a"), pod("b", "c"), pod("c"), {"kind": "X", "apiVersion": "v1"}]
    result = loaded({"apiVersion": "v1", "kind": "List", "items": items})
    assert [each.name for each in result.pods] == ["a", "c"]
    assert len(result.faults) == 2


def test_a_name_that_is_there_twice_names_both_places() -> None:
    (fault,) = faults_of(pod("a"), pod("b"), pod("a"))
    assert fault.where == "f.json: Pod default/a (f.json: document 3): metadata.name"
    assert fault.message == "default/a occurs twice in the input: also at f.json: document 1"


def test_the_same_name_in_another_namespace_is_another_pod() -> None:
    assert len(pods_of(pod("a"), pod("a", metadata={"namespace": "b"}))) == 2


def test_a_uid_that_is_there_twice_names_both_pods() -> None:
    meta = {"uid": UID}
    (fault,) = faults_of(pod("a", metadata=meta), pod("b", metadata=meta))
    assert fault.where == "f.json: Pod default/b: metadata.uid"
    assert fault.message == f"{UID} is also the UID of default/a, at f.json: document 1"


def test_expansion_is_bounded() -> None:
    document = workload("Deployment", TEMPLATE, replicas=10**12)
    (fault,) = faults_of(document, expand=True)
    assert fault.where == "f.json: Deployment default/web: spec.replicas"
    assert faults_of(document) == []


def test_a_faulty_status_counts_only_where_it_is_used() -> None:
    status = {"containerStatuses": [{"name": "c", "resources": {"limits": {"cpu": "x"}}}]}
    assert faults_of(pod(status=status)) == []
    (fault,) = faults_of(pod(status=status), allocated=True)
    assert fault.where.endswith("status.containerStatuses[0].resources.limits.cpu")


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "1e999", "9" * 400, "1e300"])
@pytest.mark.parametrize("keep_raw", [False, True])
def test_numbers_beyond_reason(number: str, keep_raw: bool) -> None:
    documents = (
        pod("a", spec={"priority": 7777}),
        pod("b", container(**asks({"cpu": 7777}))),
        workload("Deployment", TEMPLATE, name="c", replicas=7777),
    )
    for document in documents:
        text = json.dumps(document).replace("7777", number).encode()
        result = pods_from(json_documents(text, "f.json"), Options(expand=True, keep_raw=keep_raw))
        (fault,) = result.faults
        assert str(fault).isprintable()
        assert len(str(fault)) < 500


@pytest.mark.parametrize("make", [pod, lambda name, **x: workload("Job", TEMPLATE, name, **x)])
def test_a_number_that_nobody_reads_is_a_fault_only_where_all_is_kept(make: Any) -> None:
    text = json.dumps(make("a", x=7777)).replace("7777", "9" * 5000).encode()
    assert pods_from(json_documents(text, "f.json"), Options()).faults == []
    (fault,) = pods_from(json_documents(text, "f.json"), Options(keep_raw=True)).faults
    assert fault.where == "f.json"


# --- JSON text --------------------------------------------------------------------------------


def read(text: bytes) -> Loaded:
    return pods_from(json_documents(text, "f.json"), Options())


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        (b'{"kind": "Pod",\n "x": }', "f.json: line 2 column 7", "invalid character"),
        (b'{"kind": "Pod"', "f.json", "ends in the middle"),
        (b'{"x": 01}', "f.json: line 1", "broken JSON"),
        (b'{"x": "\x01"}', "f.json: line 1 column 8", "invalid character"),
        (b"[" * 100_000, "f.json", "nested too deeply"),
        (b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "f.json", "nested too deeply"),
        (b'{"kind": "Pod"} x', "f.json: line 1 column 17", "two JSON documents on one line"),
        (b'{"kind": "\\ud800"}', "f.json", "broken JSON"),
    ],
)
def test_broken_json_says_where(text: bytes, where: str, words: str) -> None:
    fault = read(text).faults[-1]
    assert fault.where.startswith(where)
    assert words in str(fault)


def test_documents_on_lines_of_their_own_are_read_all() -> None:
    text = b"\n".join(json.dumps(pod(name), indent=1).encode() for name in "abc") + b"\n"
    assert [each.name for each in read(text).pods] == ["a", "b", "c"]


def test_what_stands_before_broken_json_is_kept() -> None:
    result = read(json.dumps(pod("a")).encode() + b"\n{]")
    assert [each.name for each in result.pods] == ["a"]
    assert result.faults[0].where == "f.json: line 2 column 2"


def test_of_a_key_given_twice_the_last_wins_as_in_go() -> None:
    text = json.dumps(pod("a")).encode().replace(b'"name": "a"', b'"name": "x", "name": "a"')
    assert [each.name for each in read(text).pods] == ["a"]
