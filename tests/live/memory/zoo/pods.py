"""The manifests of the zoo."""

from __future__ import annotations

import json
from typing import Any

from tests.live.memory.zoo.load import Load

CAPABLE = {"add": ["IPC_LOCK", "SYS_RESOURCE", "NET_ADMIN", "BPF"]}
"""For locked memory, pipes and sockets beyond a user's share, and maps of BPF."""


def manifest(load: Load, program: str, progress: str) -> str:
    """A pod whose UID is its name; each container counts its steps in ``progress/POD.CONTAINER``."""
    notes = {"qoslet.dev/memory-high": load.high, "qoslet.dev/guard": load.guard}
    spec: dict[str, Any] = {
        "restartPolicy": "Always" if load.restarts else "Never",
        "terminationGracePeriodSeconds": 1,
        "priority": load.priority,
        "containers": [
            _container(load, f"c{number}", program, progress) for number in range(load.containers)
        ],
    }
    if load.first:
        first = spec["containers"].pop(0)
        spec["initContainers"] = [first]
        if load.first == "sidecar":
            first["restartPolicy"] = "Always"
    if load.pod_limit:
        limit = f"{load.pod_limit}Mi"
        spec["resources"] = {
            "requests": {"memory": f"{load.request}Mi"},
            "limits": {"memory": limit},
        }
    if load.volume:
        spec["volumes"] = [{"name": "scratch", "emptyDir": {"medium": "Memory"}}]
    metadata = {
        "name": load.name,
        "uid": load.name,
        "annotations": {key: value for key, value in notes.items() if value},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return json.dumps(pod)


def _container(load: Load, name: str, program: str, progress: str) -> dict[str, Any]:
    last = name == f"c{load.containers - 1}"
    words = load.sibling if load.sibling and last else load.words
    command = [program, f"{progress}/{load.name}.{name}", *map(str, words)]
    made: dict[str, Any] = {"name": name, "command": command}
    requests = {"memory": f"{load.request}Mi"} if load.request and not load.pod_limit else {}
    limits = {"memory": f"{load.limit}Mi"} if load.limit else {}
    if load.quality == "Guaranteed":
        requests["cpu"] = limits["cpu"] = "100m"
    if load.cpu:
        limits["cpu"] = load.cpu
    made["resources"] = {"requests": requests, "limits": limits}
    if load.volume:
        made["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
    if load.capable:
        made["securityContext"] = {"capabilities": CAPABLE}
    return made
