"""The manifests of the zoo."""

from __future__ import annotations

import json
from typing import Any

from tests.live.memory.zoo.load import Load

CAPABLE = {"add": ["IPC_LOCK", "SYS_RESOURCE", "NET_ADMIN", "BPF", "NET_RAW", "SYS_NICE"]}
"""For locked memory, pipes and sockets beyond a user's share, maps of BPF, packets, real-time processes."""


def manifest(load: Load, program: str, progress: str, image: str = "") -> str:
    """A pod whose UID is its name; each container counts its steps in ``progress/POD.CONTAINER``. With an
    image its containers see the machine's processes and cgroups, as a process does."""
    notes = {"qoslet.dev/memory-high": load.high, "qoslet.dev/guard": load.guard}
    notes["qoslet.dev/memory-oom-group"] = "true" if load.as_one else ""
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
    if image:
        spec["hostPID"] = spec["hostNetwork"] = True
        mounts = spec.setdefault("volumes", [])
        mounts += [{"name": name, "hostPath": {"path": path}} for name, path in _shared(progress)]
        for one in (*spec["containers"], *spec.get("initContainers", ())):
            one["image"], one["securityContext"] = image, {"privileged": True}
            one.setdefault("volumeMounts", []).extend(
                {"name": name, "mountPath": path} for name, path in _shared(progress)
            )
    metadata = {
        "name": load.name,
        "uid": load.name,
        "annotations": {key: value for key, value in notes.items() if value},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return json.dumps(pod)


def _shared(progress: str) -> tuple[tuple[str, str], ...]:
    """What containers of an image have of the machine: where they count, and where files are."""
    return ("progress", progress), ("disk", "/var/tmp")


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
