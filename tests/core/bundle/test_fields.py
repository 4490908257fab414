"""The list of what may be in a bundle: nothing else is taken, and plans stay the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.api.manifest import Options
from qoslet.core.bundle.allowed import ANNOTATIONS, POD_FIELDS
from qoslet.core.bundle.fields import node_fields, pod_fields
from qoslet.host.files.manifests import load_text
from tests.paths import DATA

SECRET = "hunter2-zq"


def poisoned(depth: int = 3) -> Any:
    """A value that is secret wherever it is."""
    if not depth:
        return SECRET
    return {"a": poisoned(depth - 1), "b": [poisoned(depth - 1)], SECRET: SECRET}


CONTAINER: dict[str, Any] = {
    "name": "app", "image": "registry/app:1", "command": [SECRET], "args": [SECRET],
    "env": [{"name": SECRET, "value": SECRET}], "envFrom": [{"secretRef": {"name": SECRET}}],
    "workingDir": SECRET, "ports": [{"name": SECRET}], "volumeMounts": [{"name": SECRET}],
    "lifecycle": {"preStop": {"exec": {"command": [SECRET]}}},
    "livenessProbe": {"httpGet": {"httpHeaders": [{"name": SECRET, "value": SECRET}]}},
    "securityContext": {"seccompProfile": {"localhostProfile": SECRET}, "windowsOptions": {"gmsaCredentialSpec": SECRET}},
    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}, "claims": [{"name": SECRET}]},
    "terminationMessagePath": SECRET,
}  # fmt: skip
POD: dict[str, Any] = {
    "apiVersion": "v1", "kind": "Pod", "data": {SECRET: SECRET}, "stringData": SECRET,
    "metadata": {
        "name": "web", "namespace": "shop", "uid": "0a1b2c3d-0000-4000-8000-000000000001",
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": SECRET, SECRET: "x", "note": SECRET,
            "kubernetes.io/config.hash": f"{SECRET} {SECRET}", "qoslet.dev/guard": "act",
            "qoslet.dev/memory-high.app": "64Mi", f"qoslet.dev/memory-high.{SECRET} x": "64Mi",
        },
        "labels": {SECRET: SECRET}, "managedFields": [{"manager": SECRET}], "finalizers": [SECRET],
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web-7", "controller": True, "x": SECRET}],
    },
    "spec": {
        "containers": [CONTAINER], "initContainers": [{**CONTAINER, "name": "init"}],
        "volumes": [{"name": SECRET, "secret": {"secretName": SECRET}}], "serviceAccountName": SECRET,
        "imagePullSecrets": [{"name": SECRET}], "hostAliases": [{"hostnames": [SECRET]}],
        "nodeSelector": {SECRET: SECRET, "kubernetes.io/os": "linux"}, "tolerations": [{"key": SECRET}],
        "affinity": poisoned(), "dnsConfig": poisoned(), "hostname": SECRET, "nodeName": "n1",
    },
    "status": {
        "phase": "Running", "message": SECRET, "podIP": SECRET, "hostIP": SECRET,
        "conditions": [{"type": "Ready", "status": "True", "message": SECRET}],
        "containerStatuses": [
            {
                "name": "app", "containerID": "containerd://" + "a" * 64, "image": SECRET, "imageID": SECRET,
                "state": {"terminated": {"exitCode": 1, "message": SECRET, "reason": "Error"}},
                "resources": {"limits": {"cpu": "1"}}, "volumeMounts": [{"mountPath": SECRET}],
            }
        ],
    },
}  # fmt: skip


def test_a_pod_keeps_what_decides_about_cgroups_and_nothing_else() -> None:
    found = pod_fields(POD)
    assert SECRET not in json.dumps(found)
    assert found["metadata"]["annotations"] == {
        "qoslet.dev/guard": "act",
        "qoslet.dev/memory-high.app": "64Mi",
    }
    assert found["spec"]["containers"] == [
        {
            "name": "app",
            "image": "registry/app:1",
            "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
        }
    ]
    assert found["status"]["containerStatuses"][0] == {
        "name": "app",
        "containerID": "containerd://" + "a" * 64,
        "resources": {"limits": {"cpu": "1"}},
        "state": {"terminated": {"exitCode": 1, "reason": "Error"}},
    }


def test_a_node_keeps_what_decides_about_cgroups_and_nothing_else() -> None:
    node = {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "labels": {SECRET: SECRET}, "annotations": {SECRET: SECRET}},
        "spec": {"providerID": SECRET, "podCIDR": SECRET, "taints": [{"key": SECRET}]},
        "status": {
            "capacity": {"cpu": "4", "memory": "8Gi"}, "addresses": [{"address": SECRET}],
            "images": [{"names": [SECRET]}], "daemonEndpoints": {"kubeletEndpoint": {"Port": SECRET}},
            "conditions": [{"type": "Ready", "status": "True", "message": SECRET}],
            "nodeInfo": {"kubeletVersion": "v1.36.2", "machineID": SECRET, "systemUUID": SECRET, "bootID": SECRET},
        },
    }  # fmt: skip
    found = node_fields(node)
    assert SECRET not in json.dumps(found)
    assert found["status"]["nodeInfo"] == {"kubeletVersion": "v1.36.2"}
    assert found["status"]["capacity"] == {"cpu": "4", "memory": "8Gi"}


VALUES = st.recursive(
    st.sampled_from([SECRET, 7, True, None, "64Mi"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([SECRET, "name", "limits", "containers", "requests"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
NAMED = {field for row in POD_FIELDS for field in row.fields.split()} | {
    step.removesuffix("[]") for row in POD_FIELDS for step in row.below.split(".")
}


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status", "data"]), VALUES))
def test_odd_types_are_left_out(document: dict[str, Any]) -> None:
    found = pod_fields(document)
    keys: set[str] = set()

    def walk(value: Any) -> None:
        for key, inner in value.items() if isinstance(value, dict) else ():
            keys.add(key)
            walk(inner)
        for inner in value if isinstance(value, list) else ():
            walk(inner)

    walk(found)
    assert keys <= NAMED | {SECRET, "name", "limits", "containers", "requests"}


def test_an_annotation_of_the_list_is_a_word() -> None:
    for name in ANNOTATIONS:
        for text in ("two words", "a" * 65, "", "a\nb", 'x"y', "ü", SECRET):
            assert "metadata" not in pod_fields({"metadata": {"annotations": {name: text}}})


def listed(items: list[Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


@pytest.mark.parametrize("allocated", [False, True])
@pytest.mark.parametrize("sample", ["kubelet-pods.json", "pods.json", "resized-pod.json"])
def test_real_pods_are_read_as_before(sample: str, allocated: bool) -> None:
    whole = json.loads((DATA / "samples" / sample).read_text())
    items = [{"apiVersion": "v1", "kind": "Pod", **one} for one in whole.get("items", [whole])]
    options = Options(allocated=allocated)
    before = load_text(listed(items), options)
    after = load_text(listed([pod_fields(one) for one in items]), options)
    assert len(before) > 0
    assert list(after) == list(before)


def test_annotations_of_the_list_are_read_as_before() -> None:
    given = {"qoslet.dev/memory-high": "64Mi", "qoslet.dev/memory-high.app": "max"} | {
        "qoslet.dev/memory-throttling-factor": "0.5", "qoslet.dev/memory-oom-group": "on",
        "qoslet.dev/guard": "observe", "kubernetes.io/config.source": "file",
        "kubernetes.io/config.hash": "0a1b", "kubernetes.io/config.mirror": "0a1b",
    }  # fmt: skip
    pod = {**POD, "metadata": {"name": "web", "annotations": given}}
    plain = {**pod_fields(POD), "metadata": {"name": "web", "annotations": given}}
    assert pod_fields(pod) == plain
    assert set(given) < {*ANNOTATIONS, "qoslet.dev/memory-high.app"}
