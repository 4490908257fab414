"""What a real kubelet 1.36.2 answered for 60 nodes, and how to ask the same of a plan."""

from __future__ import annotations

import json
from typing import Any

from qoslet.core.api import manifest
from qoslet.core.api.documents import json_documents
from qoslet.core.api.pod import Pod
from qoslet.core.node.node import HostFacts, Kubelet, Node
from qoslet.core.quantity import Quantity, parse
from qoslet.core.versions import kubernetes
from tests.paths import DATA

SIZES = {"2MB": 2 << 20, "1GB": 1 << 30}


def rows() -> list[dict[str, Any]]:
    """One request and answer a row."""
    text = (DATA / "kubelet-1.36.2.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def _quantities(amounts: dict[str, str]) -> dict[str, Quantity]:
    return {name: parse(text) for name, text in amounts.items()}


def node_of(request: dict[str, Any], runtime: str = "runc-1.4.0") -> Node:
    """The node of a request, as qoslet holds it."""
    machine, config = request["node"], request["config"]
    capacity = {
        "cpu": str(machine["numCores"]),
        "memory": str(machine["memoryBytes"]),
        "pid": str(machine["maxPid"]),
        "ephemeral-storage": str(machine["ephemeralBytes"]),
    }
    for kilobytes, count in machine["hugePages"].items():
        size = int(kilobytes) << 10
        capacity[f"hugepages-{size >> 20}Mi"] = str(size * count)
    return Node(
        name=machine["nodeName"],
        capacity=_quantities(capacity),
        swap=machine["swapBytes"],
        host=HostFacts(
            hierarchy="v2" if config["cgroupV2"] else "v1",
            hugepage_sizes=tuple(SIZES[text] for text in config["hugePageSizes"]),
            swap_controller=config["swapController"],
        ),
        kubelet=Kubelet(
            cgroup_root=config["cgroupRoot"],
            cpu_cfs_quota=config["cpuCFSQuota"],
            cpu_cfs_quota_period_us=config["cpuCFSQuotaPeriodUs"],
            pod_pids_limit=config["podPidsLimit"],
            enforce_node_allocatable=("pods",)
            if config.get("enforceNodeAllocatablePods", True)
            else (),
            kube_reserved=_quantities(machine["kubeReserved"]),
            system_reserved=_quantities(machine["systemReserved"]),
            eviction_hard=machine["evictionHard"],
            feature_gates=config["featureGates"],
            swap_behavior=config["swapBehavior"],
            memory_throttling_factor=config.get("memoryThrottlingFactor"),
            memory_reservation_policy=config.get("memoryReservationPolicy", "None"),
            single_process_oom_kill=config["singleProcessOOMKill"],
            qos_reserved=config.get("qosReservedMemoryPercent"),
        ),
        profile=kubernetes.resolve("1.36", runtime),
        driver=config["cgroupDriver"],
    )


def pods_of(request: dict[str, Any]) -> list[Pod]:
    """The pods of a request, read as documents."""
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": request["pods"]}).encode()
    loaded = manifest.pods_from(json_documents(text, "pods.json"), manifest.Options())
    assert not loaded.faults, loaded.faults
    return loaded.pods
