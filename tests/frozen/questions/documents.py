"""The documents that are asked about, as texts: pods, nodes, resource blocks.

They are copied into the frozen data, so that a page that changes or a file that moves changes no
answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.frozen.questions.nodes import kubelet, text

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data"
Json = dict[str, Any]

SETS = (
    "examples/besteffort.yaml",
    "examples/burstable.yaml",
    "examples/guaranteed.yaml",
    "docs/annotated.yaml",
    "docs/pinned.yaml",
    "tests/data/samples/pods.json",
    "tests/data/samples/pods.yaml",
    "tests/data/samples/kubelet-pods.json",
    "tests/data/samples/resized-pod.json",
    "tests/data/samples/nodes-pods.json",
)
NODES = (
    "docs/n1.yaml",
    "docs/numa.yaml",
    "tests/data/samples/kubelet-config.yaml",
    "tests/data/samples/configz.json",
    "tests/data/samples/nodes.json",
)


def name_of(path: str) -> str:
    """The name of a copied file."""
    return Path(path).name


def copied(root: Path, paths: tuple[str, ...]) -> dict[str, str]:
    """Files of a source tree by their names here."""
    return {name_of(path): (root / path).read_text(encoding="utf-8") for path in paths}


def pod(name: str, spec: Json, **metadata: Any) -> Json:
    """A pod document."""
    identity = {"name": name, "namespace": "default", "uid": f"uid-{name}", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": identity, "spec": spec}


def _texts(amounts: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: str(amount) for name, amount in (amounts or {}).items()}


def _resources(given: Mapping[str, Any]) -> Json:
    parts = {kind: _texts(given.get(kind)) for kind in ("requests", "limits")}
    return {kind: amounts for kind, amounts in parts.items() if amounts}


def _container(given: Mapping[str, Any]) -> Json:
    made: Json = {"name": given["name"], "image": "x", "resources": _resources(given)}
    if "restartPolicy" in given:
        made["restartPolicy"] = given["restartPolicy"]
    return made


def vector_pod(given: Mapping[str, Any], name: str) -> Json:
    """A pod of the rules' vectors as a document."""
    spec: Json = {"containers": [_container(one) for one in given.get("containers", ())]}
    if given.get("initContainers"):
        spec["initContainers"] = [_container(one) for one in given["initContainers"]]
    if given.get("resources") is not None:
        spec["resources"] = _resources(given["resources"])
    if given.get("overhead"):
        spec["overhead"] = _texts(given["overhead"])
    for key in ("priority", "priorityClassName"):
        if key in given:
            spec[key] = given[key]
    return pod(name, spec)


def vector_pods() -> dict[str, str]:
    """The pods of the rules' vectors, each once, by file name."""
    found: dict[str, str] = {}
    for row in json.loads((DATA / "rules.json").read_text())["vectors"]:
        given = row["input"]
        if not isinstance(given, dict):
            continue
        several = [*([given["pod"]] if given.get("pod") else []), *(given.get("pods") or [])]
        for one in several:
            if isinstance(one, dict) and one.get("containers"):
                body = json.dumps(vector_pod(one, "p"))
                found.setdefault(body, f"vector-{len(found):03}.json")
    return {name: body for body, name in found.items()}


def kubelet_rows() -> list[Json]:
    """The requests that a real kubelet has answered."""
    lines = (DATA / "kubelet-1.36.2.jsonl").read_text().splitlines()
    return [json.loads(line)["request"] for line in lines]


def kubelet_node(request: Json, runtime: str = "runc-1.4.0") -> str:
    """The node of such a request, as documents."""
    machine, config = request["node"], request["config"]
    sizes = {"2MB": "2Mi", "1GB": "1Gi"}
    capacity = {
        "cpu": str(machine["numCores"]),
        "memory": str(machine["memoryBytes"]),
        "pid": str(machine["maxPid"]),
        "ephemeral-storage": str(machine["ephemeralBytes"]),
    }
    for kilobytes, count in machine["hugePages"].items():
        size = int(kilobytes) << 10
        capacity[f"hugepages-{size >> 20}Mi"] = str(size * count)
    own = {
        "apiVersion": "qoslet/v1",
        "kind": "Node",
        "metadata": {"name": machine["nodeName"]},
        "os": "linux",
        "capacity": capacity,
        "swap": machine["swapBytes"],
        "numa": [],
        "host": {
            "hierarchy": "v2" if config["cgroupV2"] else "v1",
            "kernel": "6.12",
            "pageSize": "4Ki",
            "hugepageSizes": [sizes[one] for one in config["hugePageSizes"]],
            "hugetlbRsvd": True,
            "swapController": config["swapController"],
            "systemd": 257,
            "controllers": ["cpu", "cpuset", "memory", "hugetlb", "pids", "io"],
            "psi": True,
            "mounts": {},
            "cpus": f"0-{machine['numCores'] - 1}",
        },
        "kubernetes": "1.36",
        "runtime": runtime,
    }
    pods_enforced = config.get("enforceNodeAllocatablePods", True)
    fields: Json = {
        "cgroupDriver": config["cgroupDriver"],
        "cgroupRoot": config["cgroupRoot"],
        "cpuCFSQuota": config["cpuCFSQuota"],
        "cpuCFSQuotaPeriod": f"{config['cpuCFSQuotaPeriodUs']}us",
        "podPidsLimit": config["podPidsLimit"],
        "enforceNodeAllocatable": ["pods"] if pods_enforced else [],
        "kubeReserved": machine["kubeReserved"],
        "systemReserved": machine["systemReserved"],
        "evictionHard": machine["evictionHard"],
        "featureGates": config["featureGates"],
        "memorySwap": {"swapBehavior": config["swapBehavior"]},
        "failSwapOn": False,
        "memoryReservationPolicy": config.get("memoryReservationPolicy", "None"),
        "singleProcessOOMKill": config["singleProcessOOMKill"],
    }
    if config.get("memoryThrottlingFactor") is not None:
        fields["memoryThrottlingFactor"] = config["memoryThrottlingFactor"]
    if config.get("qosReservedMemoryPercent") is not None:
        fields["qosReserved"] = {"memory": f"{config['qosReservedMemoryPercent']}%"}
    return text(own, kubelet(**fields))


def kubelet_documents() -> Iterator[tuple[str, str]]:
    """Node and pods of each request."""
    for request in kubelet_rows():
        number = f"{request['id']:02}"
        yield f"kubelet-node-{number}.yaml", kubelet_node(request)
        items = {"apiVersion": "v1", "kind": "List", "items": request["pods"]}
        yield f"kubelet-pods-{number}.json", json.dumps(items)
