"""Nodes and pods as ``kubectl get nodes,pods -A -o json`` prints them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SIZES: tuple[dict[str, Any], ...] = (
    {},
    {"requests": {"cpu": "500m", "memory": "256Mi"}},
    {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    {"requests": {"cpu": "250m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
)
MORE = """\
apiVersion: v1
kind: Pod
metadata: {name: more}
spec:
  containers:
  - {name: app, image: x, resources: {requests: {cpu: "2", memory: 1Gi}}}
"""


def node(name: str, kubernetes: str = "v1.36.2", **capacity: str) -> dict[str, Any]:
    """A node with 8 CPUs and 32 GiB."""
    whole = {"cpu": "8", "memory": "32Gi", "pods": "110", **capacity}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": "gpu" if name.endswith("0") else "std"}},
        "status": {
            "capacity": whole,
            "allocatable": {**whole, "memory": "31Gi"},
            "nodeInfo": {
                "kubeletVersion": kubernetes,
                "containerRuntimeVersion": "containerd://2.1.4",
                "operatingSystem": "linux",
                "kernelVersion": "6.12.30",
                "osImage": "Debian GNU/Linux 13 (trixie)",
                "architecture": "amd64",
            },
        },
    }


def pod(number: int, node_name: str) -> dict[str, Any]:
    """A pod of one of a few sizes."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"app-{number}",
            "namespace": "shop",
            "uid": f"0a1b2c3d-0000-4000-8000-{number:012}",
        },
        "spec": {
            "nodeName": node_name,
            "containers": [{"name": "app", "image": "x", "resources": SIZES[number % len(SIZES)]}],
        },
        "status": {"phase": "Running"},
    }


def cluster(nodes: int, pods: int, versions: int = 1) -> list[dict[str, Any]]:
    """The items: nodes first, then pods on them in turn."""
    releases = [f"v1.{24 + at % 13}.{at // 13}" for at in range(versions)]
    releases = releases if versions > 1 else ["v1.36.2"]
    found = [node(f"node-{at}", releases[at % versions]) for at in range(nodes)]
    return found + [pod(at, f"node-{at % nodes}") for at in range(pods)]


def text_of(items: list[dict[str, Any]], indent: int | None = None) -> str:
    """The List of items."""
    return json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}, indent=indent)


def write_cluster(folder: Path) -> None:
    """``cluster.json`` with two nodes, one of them broken, and ``pod.yaml`` to fit."""
    broken = node("node-2", cpu="many")
    items = [*cluster(2, 9), broken, pod(90, "node-9"), pod(91, "")]
    (folder / "cluster.json").write_text(text_of(items))
    (folder / "pod.yaml").write_text(MORE)
