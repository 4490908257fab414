"""The nodes that are asked about: each says everything, so that no answer looks at a machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

RELEASES = (
    "1.6", "1.10", "1.14", "1.18", "1.20", "1.22", "1.24", "1.27", "1.28", "1.30", "1.32",
    "1.35", "1.36", "1.37", "design",
)  # fmt: skip
FORMS = ("1.22", "1.27", "1.36", "1.37", "design", "qoslet", "off")
RUNTIMES = (
    "runc-1.0.3", "runc-1.1.5", "runc-1.1.15", "runc-1.2.0", "runc-1.3.1", "runc-1.3.2",
    "runc-1.4.0", "crun-1.4", "crun-1.8.1", "crun-1.21", "crun-1.23", "youki-0.5",
    "process", "containerd-1.5.0", "containerd-1.7.0", "containerd-1.7.24+crun-1.21",
    "containerd-2.2.0+runc-1.4.0", "cri-o-1.30.0", "cri-o-1.34.0+crun-1.23",
)  # fmt: skip
CONTROLLERS = ["cpu", "cpuset", "memory", "hugetlb", "pids", "io"]


def own(name: str, release: str = "1.36", runtime: str = "runc-1.4.0", **host: Any) -> Json:
    """qoslet's Node, with nothing left open."""
    facts: Json = {
        "hierarchy": "v2",
        "kernel": "6.12",
        "pageSize": "4Ki",
        "hugepageSizes": ["2Mi", "1Gi"],
        "hugetlbRsvd": True,
        "swapController": True,
        "systemd": 257,
        "controllers": CONTROLLERS,
        "psi": True,
        "mounts": {},
        "cpus": "0-7",
        **host,
    }
    return {
        "apiVersion": "qoslet/v1",
        "kind": "Node",
        "metadata": {"name": name},
        "os": "linux",
        "capacity": {
            "cpu": "8",
            "memory": "32Gi",
            "pid": "32768",
            "hugepages-2Mi": "1Gi",
            "hugepages-1Gi": "0",
        },
        "swap": 0,
        "numa": [],
        "host": facts,
        "kubernetes": release,
        "runtime": runtime,
    }


def kubelet(**fields: Any) -> Json:
    """A KubeletConfiguration."""
    return {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **fields}


def text(*documents: Json) -> str:
    """Documents as YAML, each on a line of its own."""
    return "".join(f"---\n{json.dumps(one)}\n" for one in documents)


QOS = {"featureGates": {"MemoryQoS": True}}
TIERED: Json = {**QOS, "memoryReservationPolicy": "TieredReservation"}


def _releases() -> Iterator[tuple[str, str]]:
    """Every release on both hierarchies through either driver."""
    for at, release in enumerate(RELEASES):
        for hierarchy in ("v1", "v2"):
            driver = ("cgroupfs", "systemd")[(at + (hierarchy == "v1")) % 2]
            name = f"r{release.replace('.', '-')}-{hierarchy}-{driver}"
            config = kubelet(cgroupDriver=driver, **QOS)
            yield name, text(own("n1", release, hierarchy=hierarchy), config)


def _forms() -> Iterator[tuple[str, str]]:
    for form in FORMS:
        for driver in ("cgroupfs", "systemd"):
            node = {**own("n1"), "memoryQos": form}
            yield (
                f"form-{form.replace('.', '-')}-{driver}",
                text(node, kubelet(cgroupDriver=driver)),
            )
    for release in ("1.22", "1.27", "1.36", "1.37", "design"):
        name = f"tiered-{release.replace('.', '-')}"
        yield name, text(own("n1", release), kubelet(**TIERED))
    for factor in (None, 0.6, 1.0):
        for release in ("1.22", "1.36", "1.37"):
            config = kubelet(memoryThrottlingFactor=factor, **TIERED)
            yield f"factor-{factor}-{release}".replace(".", "-"), text(own("n1", release), config)
    config = kubelet(memoryThrottlingFactor=0.9, **QOS)
    yield "page-64k", text(own("n1", pageSize="64Ki"), config)


def _runtimes() -> Iterator[tuple[str, str]]:
    for at, runtime in enumerate(RUNTIMES):
        driver = ("cgroupfs", "systemd")[at % 2]
        hierarchy = "v1" if at % 5 == 4 else "v2"
        node = own("n1", "1.36", runtime, hierarchy=hierarchy)
        name = f"by-{runtime}".replace(".", "-").replace("+", "-with-")
        yield name, text(node, kubelet(cgroupDriver=driver, failCgroupV1=False, **QOS))


def _kubelets() -> Iterator[tuple[str, str]]:
    """One setting of the kubelet at a time."""
    reserved = {
        "kubeReserved": {"cpu": "250m", "memory": "512Mi", "pid": "500"},
        "systemReserved": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
        "kubeReservedCgroup": "/kube.slice",
        "systemReservedCgroup": "/system.slice",
    }
    every = ["pods", "kube-reserved", "system-reserved"]
    shares = ["pods", "kube-reserved-compressible", "system-reserved-compressible"]
    rows: dict[str, Json] = {
        "reserved": {**reserved, "enforceNodeAllocatable": every},
        "reserved-systemd": {
            **reserved, **QOS, "cgroupDriver": "systemd", "enforceNodeAllocatable": every,
        },
        "compressible": {**reserved, "enforceNodeAllocatable": shares},
        "enforce-none": {**reserved, "enforceNodeAllocatable": ["none"]},
        "qos-reserved": {"qosReserved": {"memory": "50%"}, "featureGates": {"QOSReserved": True}},
        "qos-reserved-gate-off": {"qosReserved": {"memory": "100%"}},
        "root": {"cgroupRoot": "/some/where"},
        "root-systemd": {"cgroupRoot": "/some.slice", "cgroupDriver": "systemd"},
        "flat": {"cgroupsPerQOS": False, "enforceNodeAllocatable": []},
        "no-quota": {"cpuCFSQuota": False},
        "period": {"cpuCFSQuotaPeriod": "10ms", "featureGates": {"CustomCPUCFSQuotaPeriod": True}},
        "pids": {"podPidsLimit": 1024},
        "single-oom": {"singleProcessOOMKill": True},
        "group-oom": {"singleProcessOOMKill": False},
        "evictions": {"evictionHard": {"memory.available": "5%", "nodefs.available": "10%"}},
        "max-pods": {"maxPods": 2},
        "no-pod-level": {"featureGates": {"PodLevelResources": False}},
        "no-sidecars": {"featureGates": {"SidecarContainers": False}},
        "swap-limited": {
            "memorySwap": {"swapBehavior": "LimitedSwap"}, "failSwapOn": False,
        },
        "unknown-field": {"memorySwapp": {}, "featureGates": {"NoSuchGate": True}},
    }  # fmt: skip
    for name, fields in rows.items():
        node = own("n1")
        node["swap"] = "8Gi" if name == "swap-limited" else 0
        yield f"kubelet-{name}", text(node, kubelet(**fields))


def _hosts() -> Iterator[tuple[str, str]]:
    """One fact of the machine at a time."""
    limited = kubelet(memorySwap={"swapBehavior": "LimitedSwap"}, failSwapOn=False)
    for release in ("1.22", "1.28", "1.30", "1.32"):
        for hierarchy in ("v1", "v2"):
            node = {**own("n1", release, hierarchy=hierarchy), "swap": "8Gi"}
            gates = {**limited, "featureGates": {"NodeSwap": True}}
            yield f"swap-{release}-{hierarchy}".replace(".", "-"), text(node, gates)
    rows: dict[str, Json] = {
        "no-swap-controller": {"swapController": False},
        "no-swap-controller-v1": {"swapController": False, "hierarchy": "v1"},
        "no-hugepages": {"hugepageSizes": []},
        "no-rsvd": {"hugetlbRsvd": False},
        "no-psi": {"psi": False},
        "old-kernel": {"kernel": "4.18"},
        "old-systemd": {"systemd": 239},
        "few-controllers": {"controllers": ["cpu", "memory", "pids"]},
        "hybrid-mounts": {"hierarchy": "v1", "mounts": {"memory": "/cg/memory", "cpu": "/cg/cpu"}},
    }
    for name, host in rows.items():
        for driver in ("cgroupfs", "systemd"):
            config = kubelet(cgroupDriver=driver, failCgroupV1=False, **QOS)
            yield f"host-{name}-{driver}", text(own("n1", **host), config)


def _managers() -> Iterator[tuple[str, str]]:
    """CPUs and memory that are handed out."""
    node = own("n2", cpus="0-15")
    node["capacity"] = {"cpu": "16", "memory": "64Gi", "pid": "65536"}
    node["host"]["hugepageSizes"] = []
    node["topology"] = {
        "sockets": ["0-3,8-11", "4-7,12-15"],
        "cores": ["0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"],
    }
    node["numa"] = [
        {"cpus": "0-3,8-11", "memory": "32Gi"},
        {"cpus": "4-7,12-15", "memory": "32Gi"},
    ]
    fixed: Json = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,8"}
    memory: Json = {
        "memoryManagerPolicy": "Static",
        "systemReserved": {"memory": "924Mi"},
        "evictionHard": {"memory.available": "100Mi"},
        "reservedMemory": [
            {"numaNode": 0, "limits": {"memory": "512Mi"}},
            {"numaNode": 1, "limits": {"memory": "512Mi"}},
        ],
    }
    options = ("full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket")
    rows: dict[str, Json] = {
        "static": fixed,
        "memory": {**fixed, **memory},
        **{f"static-{one}": {**fixed, "cpuManagerPolicyOptions": {one: "true"}} for one in options},
        **{
            f"topology-{policy}-{scope}": {
                **fixed,
                **memory,
                "topologyManagerPolicy": policy,
                "topologyManagerScope": scope,
            }
            for policy in ("best-effort", "restricted", "single-numa-node")
            for scope in ("container", "pod")
        },
    }
    for name, fields in rows.items():
        yield f"managers-{name}", text(node, kubelet(**fields))


def _windows() -> Iterator[tuple[str, str]]:
    for release in ("1.10", "1.18", "1.27", "1.36", "design"):
        node = {**own("w1", release, "containerd-1.7.0"), "os": "windows"}
        node.pop("host")
        node.pop("numa")
        node["capacity"] = {"cpu": "8", "memory": "32Gi"}
        yield f"windows-{release.replace('.', '-')}", text(node)


def _bare() -> Iterator[tuple[str, str]]:
    """A machine that says nothing of its kubelet."""
    node = own("n1")
    yield "bare", text(node)
    node.pop("metadata")
    yield "bare-nameless", text(node)


def nodes() -> dict[str, str]:
    """Name to documents; the names are their files'."""
    parts = (_releases, _forms, _runtimes, _kubelets, _hosts, _managers, _windows, _bare)
    return {name: made for part in parts for name, made in part()}
