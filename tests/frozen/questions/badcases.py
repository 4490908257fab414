"""What is refused: bad documents, bad options, nobody there. Their exit codes are frozen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from tests.frozen.questions.documents import Json, pod
from tests.frozen.questions.nodes import kubelet, own

ROOT = "/qoslet-test-frozen"
"""A root where no agent runs."""

RESOURCES = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}
POD = pod("p", {"containers": [{"name": "c", "image": "x", "resources": RESOURCES}]})

_PODS: tuple[tuple[str, Any], ...] = (
    ("kind", "Podd"),
    ("kind", None),
    ("apiVersion", "v2"),
    ("metadata", None),
    ("metadata.name", "UPPER"),
    ("metadata.name", "a/b"),
    ("metadata.name", 5),
    ("metadata.namespace", "no space"),
    ("metadata.uid", "../x"),
    ("metadata.annotations", {"qoslet.dev/memory-high": "much"}),
    ("metadata.annotations", {"qoslet.dev/guard": "sometimes"}),
    ("metadata.annotations", {"qoslet.dev/nosuch": "1"}),
    ("spec", []),
    ("spec.containers", []),
    ("spec.containers", "c"),
    ("spec.containers.0.name", ""),
    ("spec.containers.0.name", "c/d"),
    ("spec.containers.0.resources", "much"),
    ("spec.containers.0.resources.requests.cpu", "1x"),
    ("spec.containers.0.resources.requests.cpu", "-1"),
    ("spec.containers.0.resources.requests.cpu", True),
    ("spec.containers.0.resources.requests.memory", "256Mi"),
    ("spec.containers.0.resources.limits.memory", "0.5"),
    ("spec.containers.0.resources.limits.memory", 1e30),
    ("spec.containers.0.resources.limits.hugepages-2Mi", "3Mi"),
    ("spec.overhead", {"cpu": "x"}),
    ("spec.priority", "high"),
    ("spec.resources", {"requests": {"nosuch": "1"}}),
    ("spec.restartPolicy", "Sometimes"),
)

_NODES: tuple[tuple[str, Any], ...] = (
    ("kind", "Knode"),
    ("metadata.name", "N 1"),
    ("os", "solaris"),
    ("capacity.cpu", "-1"),
    ("capacity.memory", "much"),
    ("swap", "x"),
    ("host.hierarchy", "v3"),
    ("host.kernel", 6),
    ("host.pageSize", "3Ki"),
    ("host.hugepageSizes", ["2M"]),
    ("host.swapController", "yes"),
    ("host.systemd", "new"),
    ("host.nosuch", 1),
    ("host.cpus", "7-0"),
    ("numa", [{"cpus": "x"}]),
    ("topology", {"sockets": ["0"]}),
    ("kubernetes", "1.5"),
    ("kubernetes", "1.99"),
    ("kubernetes", 1.3),
    ("runtime", "docker-1"),
    ("memoryQos", "always"),
    ("nosuch", 1),
)

_KUBELETS: tuple[tuple[str, Any], ...] = (
    ("apiVersion", "v1"),
    ("cgroupDriver", "none"),
    ("cgroupRoot", "relative"),
    ("cgroupsPerQOS", "maybe"),
    ("cpuCFSQuotaPeriod", "2s"),
    ("cpuManagerPolicy", "some"),
    ("cpuManagerPolicyOptions", {"nosuch": "true"}),
    ("enforceNodeAllocatable", ["podz"]),
    ("enforceNodeAllocatable", ["none", "pods"]),
    ("enforceNodeAllocatable", ["kube-reserved"]),
    ("evictionHard", {"nosuch.available": "1"}),
    ("evictionHard", {"memory.available": "-5"}),
    ("featureGates", {"NoSuchGate": True}),
    ("featureGates", {"MemoryQoS": "on"}),
    ("kubeReserved", {"gpu": "1"}),
    ("kubeReserved", {"cpu": "100"}),
    ("maxPods", "many"),
    ("memoryManagerPolicy", "Dynamic"),
    ("memorySwap", {"swapBehavior": "Wild"}),
    ("memoryThrottlingFactor", 2),
    ("podPidsLimit", 0.5),
    ("qosReserved", {"memory": "200%"}),
    ("qosReserved", {"cpu": "10%"}),
    ("reservedMemory", [{"numaNode": 9, "limits": {"memory": "1Gi"}}]),
    ("reservedSystemCPUs", "0-"),
    ("systemReserved", {"memory": "1T1"}),
    ("topologyManagerPolicy", "round"),
    ("topologyManagerScope", "node"),
)

_TEXTS = {
    "bad-empty.yaml": "",
    "bad-tab.yaml": "a:\n\t- b\n",
    "bad-open.json": '{"apiVersion": "v1"',
    "bad-scalar.yaml": "just text\n",
    "bad-list.json": "[1, 2]",
    "bad-null.json": "null",
    "bad-twice.yaml": "apiVersion: v1\napiVersion: v1\nkind: Pod\n",
    "bad-alias.yaml": "a: &a [*a]\n",
    "bad-deep.json": "[" * 2000 + "]" * 2000,
    "bad-block.json": '{"memory": {"limit": "much"}}',
    "bad-block-type.json": '{"cpu": [1]}',
    "bad-mixed.json": '{"cpu": {"shares": 2}, "cpu_shares": 2}',
    "bad-wide.json": '{"cpu": {"shares": 36893488147419103232}}',
    "bad-unified.json": '{"unified": {"memory.high": 5}}',
    "bad-only-unified.json": '{"unified": {"memory.high": "5"}}',
}


def _changed(document: Json, path: str, value: Any) -> Json:
    """The document with one field of another value."""
    made = deepcopy(document)
    *parts, last = path.split(".")
    inner: Any = made
    for part in parts:
        inner = inner[int(part)] if isinstance(inner, list) else inner[part]
    inner[last] = value
    return made


def documents() -> dict[str, str]:
    """Bad documents by file name."""
    found = dict(_TEXTS)
    rows = (("pod", POD, _PODS), ("node", own("n1"), _NODES), ("kubelet", kubelet(), _KUBELETS))
    for kind, document, changes in rows:
        for at, (path, value) in enumerate(changes):
            found[f"bad-{kind}-{at:02}.json"] = json.dumps(_changed(document, path, value))
    twice = [POD, POD]
    found["bad-same-pod.json"] = json.dumps({"apiVersion": "v1", "kind": "List", "items": twice})
    return found


OPTIONS: tuple[tuple[str, ...], ...] = (
    ("--kubernetes", "1.5"),
    ("--kubernetes", "new"),
    ("--runtime", "docker"),
    ("--memory-qos", "on"),
    ("--isolation", "vm"),
    ("--cgroup-driver", "fs"),
    ("--cgroups-per-qos", "maybe"),
    ("--cgroup-root", ".."),
    ("--qos-reserved", "memory"),
    ("--kube-reserved", "cpu=x"),
    ("--kube-reserved", "cpu=1,cpu=2"),
    ("--reserved-cpus", "a-b"),
    ("--enforce-node-allocatable", "nobody"),
    ("--eviction-hard", "memory.available=5"),
    ("--feature-gates", "MemoryQoS"),
    ("--feature-gates", "NoSuchGate=true"),
    ("--cpu-cfs-quota", "perhaps"),
    ("--cpu-cfs-quota-period", "5"),
    ("--pod-max-pids", "x"),
    ("--cpu-manager-policy", "dynamic"),
    ("--memory-manager-policy", "static"),
    ("--reserved-memory", "memory"),
    ("--topology-manager-policy", "any"),
    ("--topology-manager-scope", "any"),
    ("--memory-swap-behavior", "Any"),
    ("--max-pods", "-3"),
    ("--nosuch",),
    ("-o", "nosuch"),
    ("--color", "sometimes"),
)

LINES = (
    "", "nosuch", "--nosuch", "help", "--help", "-h", "--version", "plan", "plan -h", "plan nosuch.yaml",
    "plan -f", "plan - --node -", "plan burstable.yaml --node nosuch.yaml",
    "plan burstable.yaml --node burstable.yaml", "plan n1.yaml --node n1.yaml",
    "plan --schema", "plan --schema -o nosuch", "plan burstable.yaml --resources both --node n1.yaml",
    "explain", "explain web", "explain -h", "explain nobody -f burstable.yaml --node n1.yaml",
    "explain web nosuch.file -f burstable.yaml --node n1.yaml", "explain web -f nosuch.yaml",
    "explain web/ -f burstable.yaml --node n1.yaml", "explain // -f burstable.yaml --node n1.yaml",
    "convert", "convert -h", "convert oci-000.json", "convert oci-000.json --to v3",
    "convert nosuch.json --to v2", "convert oci-000.json --to v2 --runtime youki-0.5",
    "convert oci-000.json --to v2 --runtime nosuch-1", "convert oci-000.json --to v2 --from cri",
    "convert oci-000.json --to v2 --usage 5", "convert oci-000.json --to v2 --update --usage x",
    "convert oci-000.json --to v2 --update nosuch.json", "convert oci-000.json --to v2 --without x",
    "convert oci-000.json --to v2 --kubernetes 1.2", "convert - --to v2 --update -",
    "convert win-00.json --to windows --processors 0", "convert win-00.json --to windows -o shell",
    "convert win-00.json --to windows --isolation vm", "convert burstable.yaml --to v9 --node n1.yaml",
    "config -h", "config nosuch.yaml", "config --schema", "config burstable.yaml", "config -o files n1.yaml",
    "doctor -h", "doctor -o yaml", "doctor --nosuch", "run", "run -h", "run nosuch.yaml",
    "run burstable.yaml --simulate --with runc", "run burstable.yaml --simulate --cgroup-driver systemd",
    "run burstable.yaml --simulate --for 0", "run burstable.yaml --simulate --for x",
    "run burstable.yaml --simulate --interval -1", "run burstable.yaml --simulate --cgroup-root /",
    "run burstable.yaml --simulate --cgroup-root /a/../b", "run burstable.yaml --simulate --runtime runc-1.4",
    "run burstable.yaml --simulate --images x", "run burstable.yaml --with nosuch",
    "run burstable.yaml --simulate --container-runtime-endpoint unix:///x",
    "run burstable.yaml --simulate --guard maybe", "run burstable.yaml --simulate --shrink never",
    "run burstable.yaml --simulate --log-format xml", "apply", "apply -h", "apply nosuch.yaml",
    "apply burstable.yaml --cgroup-root /", "apply burstable.yaml --cgroup-root a", "apply -o yaml",
    "apply --schema", "apply burstable.yaml --shrink never", "release -h", "release -o yaml",
    "release --cgroup-driver none", "release --schema", f"release --cgroup-root {ROOT} --nosuch",
    "release --cgroup-root /", "ps -h", f"ps --cgroup-root {ROOT}", "ps -o yaml", "ps --schema",
    f"ps --cgroup-root {ROOT} nobody", "logs", "logs -h", f"logs --cgroup-root {ROOT} nobody",
    f"logs --cgroup-root {ROOT} a/b -c c", "logs x --tail -1", "logs x --since yesterday",
)  # fmt: skip


def lines() -> Iterator[list[str]]:
    """Commands of which most are refused."""
    for line in LINES:
        yield line.split()
    for more in OPTIONS:
        yield ["plan", "burstable.yaml", "--node", "n1.yaml", *more]
    for more in OPTIONS[:26]:
        yield ["config", "n1.yaml", "-o", "json", *more]
    for name in documents():
        if "-node-" in name or "-kubelet-" in name:
            node = (
                ["--node", "n1.yaml", "--node", name] if "-kubelet-" in name else ["--node", name]
            )
            yield ["plan", "burstable.yaml", *node, "-o", "files"]
        elif "-pod-" in name or name.endswith(".yaml"):
            yield ["plan", name, "--node", "n1.yaml", "-o", "files"]
        else:
            yield ["convert", name, "--to", "v2"]
            yield ["plan", name, "--node", "n1.yaml", "-o", "files"]
