"""Documents to pods: what is read, what is defaulted, and every fault with its place."""

from __future__ import annotations

import json
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

import pytest

from qoslet.core.api.documents import json_documents
from qoslet.core.api.ids import UID_NAMESPACE
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


def test_fractions_of_a_byte_are_noted() -> None:
    result = loaded(pod("web", container(**asks({"memory": "100m"}))))
    (problem,) = result.problems
    assert problem.severity == "warning"
    assert problem.where == "f.json: Pod default/web: spec.containers[0].resources.requests.memory"
    assert "rounded up" in problem.message


# --- kinds ------------------------------------------------------------------------------------


def listed(*items: Any, kind: str = "List") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


def test_lists_in_lists_are_read_as_their_items() -> None:
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "r"}}
    inner = listed(pod("a"), {**rollout, "spec": {"template": TEMPLATE}})
    bare = pod("c")
    del bare["kind"], bare["apiVersion"]
    found = loaded(listed(inner, pod("b"), listed(bare, kind="PodList"), listed(kind="List")))
    assert [str(fault) for fault in found.faults] == []
    assert [one.name for one in found.pods] == ["a", "r", "b", "c"]


def test_what_is_wrong_in_a_list_of_a_list_has_its_place() -> None:
    fault, *_ = faults_of(listed(pod("a"), listed({"apiVersion": "v1", "kind": "Pod"})))
    assert fault.where.startswith("f.json: items[1].items[0]: ")
    (fault,) = faults_of(listed({"apiVersion": "v1", "kind": "List", "items": 3}))
    assert fault.where == "f.json: items[0]"
    (fault,) = faults_of(listed({"apiVersion": "v1", "kind": "List"}))
    assert (fault.where, fault.message) == ("f.json: items[0]: items", "is missing")


def test_the_items_of_a_list_may_be_of_a_kind_that_ends_as_lists_do() -> None:
    allowed = {"apiVersion": "x.example.com/v1", "kind": "AllowList", "metadata": {"name": "l"}}
    services = listed({"metadata": {"name": "s"}}, kind="ServiceList")
    found = loaded(listed(pod("a"), allowed, services))
    assert [str(fault) for fault in found.faults] == []
    assert len(found.pods) == 1
    assert {row.severity for row in found.problems} == {"info"}
    (fault,) = faults_of(listed({"apiVersion": "v1", "kind": "PadList", "items": []}))
    assert "PadList" in fault.message


def test_lists_within_each_other_without_end_are_refused() -> None:
    deep = pod("a")
    for _ in range(15):
        deep = listed(deep)
    assert len(pods_of(listed(deep))) == 1
    for _ in range(100):
        deep = listed(deep)
    (fault,) = faults_of(deep)
    assert fault.message == "is nested too deeply"


def test_a_pod_that_has_ended_is_left_out_with_the_reason() -> None:
    told = {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
    }
    found = loaded(pod("a", status=told), pod("b", status={"phase": "Succeeded"}), pod("c"))
    assert [one.name for one in found.pods] == ["c"]
    assert [(one.name, one.reason, one.message) for one in found.ended] == [
        ("a", "Evicted", told["message"]),
        ("b", "", ""),
    ]
    assert [row.message for row in found.problems] == [
        "left out: it has failed (Evicted) and uses no resources",
        "left out: it has succeeded and uses no resources",
    ]
