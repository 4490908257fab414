"""Pods as ``kubectl get pods -o json`` prints them, but for ``managedFields``: 5 KB each.

Any 1,080 in a row have all 191 shapes: for a plan, pods of one shape differ in names only.

The numbers come from the index alone, so every run and every machine reads the same bytes.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

Json = dict[str, object]

_CPU = ("50m", "100m", "250m", "500m", "1", "1500m", "2", "0.1")
_MEMORY = ("32Mi", "64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "1536Mi", "200M", "1e8")
_TIME = "2026-03-02T08:15:42Z"
_NAMESPACES = ("default", "shop", "payments", "kube-system", "monitoring", "batch")


def _pick(values: tuple[str, ...], number: int) -> str:
    return values[number % len(values)]


def _resources(number: int) -> Json:
    cpu, memory = _pick(_CPU, number), _pick(_MEMORY, number // 3)
    shape = number % 5
    if shape == 0:
        return {}
    if shape == 1:
        return {
            "limits": {"cpu": cpu, "memory": memory},
            "requests": {"cpu": cpu, "memory": memory},
        }
    if shape == 2:
        return {"requests": {"cpu": cpu, "memory": memory}}
    return {
        "limits": {"cpu": "4", "memory": "2Gi", "ephemeral-storage": "2Gi"},
        "requests": {"cpu": cpu, "memory": memory},
    }


def _container(name: str, number: int) -> Json:
    return {
        "args": ["--config=/etc/app/config.yaml", f"--shard={number % 64}"],
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "image": f"registry.example/team/{name}:1.{number % 40}.{number % 7}",
        "imagePullPolicy": "IfNotPresent",
        "name": name,
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "resources": _resources(number),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }


def _status_of(name: str, number: int) -> Json:
    digest = uuid.uuid5(uuid.NAMESPACE_OID, f"{name}-{number}").hex * 2
    return {
        "containerID": f"containerd://{digest}",
        "image": f"registry.example/team/{name}:1.{number % 40}.{number % 7}",
        "imageID": f"registry.example/team/{name}@sha256:{digest}",
        "lastState": {},
        "name": name,
        "ready": True,
        "restartCount": number % 3,
        "started": True,
        "state": {"running": {"startedAt": _TIME}},
    }


def _conditions() -> list[Json]:
    kinds = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    return [
        {"lastProbeTime": None, "lastTransitionTime": _TIME, "status": "True", "type": kind}
        for kind in kinds
    ]


def pod(number: int) -> Json:
    """The pod of that number; every eighth has a second container."""
    name = f"app-{number % 97}-{number:08x}"
    names = ("app", "proxy") if number % 8 == 0 else ("app",)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "creationTimestamp": _TIME,
            "generateName": f"app-{number % 97}-",
            "labels": {"app": f"app-{number % 97}", "pod-template-hash": f"{number:08x}"},
            "name": name,
            "namespace": _pick(_NAMESPACES, number),
            "resourceVersion": str(100_000 + number),
            "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, name)),
        },
        "spec": {
            "containers": [_container(each, number) for each in names],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "nodeName": "n1",
            "priority": 0,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {
                    "effect": "NoExecute",
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "tolerationSeconds": 300,
                }
            ],
        },
        "status": {
            "conditions": _conditions(),
            "containerStatuses": [_status_of(each, number) for each in names],
            "hostIP": "192.0.2.2",
            "phase": "Running",
            "podIP": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
            "qosClass": ("BestEffort", "Guaranteed", *["Burstable"] * 3)[number % 5],
            "startTime": _TIME,
        },
    }


def listing(count: int) -> Iterator[str]:
    """The text of a list of ``count`` pods, piece by piece, indented as kubectl does."""
    yield '{\n    "apiVersion": "v1",\n    "items": [\n'
    for number in range(count):
        text = json.dumps(pod(number), indent=4).replace("\n", "\n        ")
        yield f"        {text}{',' if number + 1 < count else ''}\n"
    yield '    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n'


REAL_SHAPES = 1_000
"""In how many shapes ``real_pod`` comes."""


def real_pod(number: int) -> Json:
    """The pod of that number as the API server prints it: 5 KB without indentation, half of them
    managedFields; any 1,000 in a row have 1,000 shapes."""
    made = pod(number)
    metadata, spec = made["metadata"], made["spec"]
    assert isinstance(metadata, dict)
    assert isinstance(spec, dict)
    metadata["managedFields"] = [_managed(manager) for manager in _MANAGERS]
    shape = number % REAL_SHAPES
    for at, container in enumerate(spec["containers"]):
        milli = 10 + shape + at
        container["resources"] = {
            "limits": {"memory": "512Mi"},
            "requests": {"cpu": f"{milli}m", "memory": _pick(_MEMORY[:5], shape // 7)},
        }
    return made


_MANAGERS = ("kube-controller-manager", "kubelet")
_FIELDS = (
    "args", "command", "env", "image", "imagePullPolicy", "livenessProbe", "name", "ports",
    "readinessProbe", "resources", "securityContext", "terminationMessagePath",
    "terminationMessagePolicy", "volumeMounts",
)  # fmt: skip
_CONDITIONS = ("Initialized", "Ready", "ContainersReady", "PodScheduled")


def _managed(manager: str) -> Json:
    """What one manager owns of a pod."""
    fields: Json = {f"f:{name}": {} for name in _FIELDS}
    owned: Json = {
        "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}}},
        "f:spec": {'f:containers': {'k:{"name":"app"}': {".": {}, **fields}}, "f:dnsPolicy": {}},
        "f:status": {
            "f:conditions": {
                f'k:{{"type":"{kind}"}}': {
                    ".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:status": {},
                    "f:type": {},
                }
                for kind in _CONDITIONS
            },
            "f:containerStatuses": {}, "f:hostIP": {}, "f:phase": {}, "f:podIP": {},
        },
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": owned,
        "manager": manager,
        "operation": "Update",
        "time": _TIME,
    }


def real_listing(count: int) -> Iterator[str]:
    """The text of a list of ``count`` real pods, piece by piece, as the API server sends it."""
    yield '{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":['
    for number in range(count):
        text = json.dumps(real_pod(number), separators=(",", ":"))
        yield f"{text}{',' if number + 1 < count else ''}"
    yield "]}"
