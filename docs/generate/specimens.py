"""An example for each rule: a few pods planned on a few nodes, the first sentence of each kept."""

from __future__ import annotations

import json
from collections.abc import Iterator

from qoslet.core.api.documents import Document, json_documents
from qoslet.core.api.manifest import Options, pods_from
from qoslet.core.api.pod import Pod
from qoslet.core.convert.convert import conversion_request, convert_document
from qoslet.core.convert.pods import convert_pods
from qoslet.core.node.flags import Flags
from qoslet.core.node.lookup import Probed
from qoslet.core.node.resolve import node_from
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Cgroup, Plan, Setting
from qoslet.core.resources.cgroup_writer import Files
from qoslet.core.resources.node_policy import node_policy
from qoslet.core.rules.catalog import RULES
from qoslet.errors import BadInput

Json = dict[str, object]


def pod(name: str, *resources: Json, **spec: object) -> Json:
    """A pod of one container for each of ``resources``."""
    containers = [{"name": f"c{n}", "resources": each} for n, each in enumerate(resources)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": f"{name}-uid"},
        "spec": {"containers": containers, **spec},
    }


def asked(requests: Json, limits: Json | None = None) -> Json:
    """The resources of a container."""
    return {"requests": requests, "limits": limits or {}}


PODS = [
    pod(
        "web",
        asked({"cpu": "500m", "memory": "256Mi"}, {"cpu": "1", "memory": "512Mi"}),
        asked({"cpu": "100m", "memory": "64Mi"}, {"memory": "1Gi"}),
    ),
    pod("db", asked({}, {"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "64Mi"})),
    pod("batch", {}),
    pod("half", asked({"cpu": "250m", "memory": "128Mi"})),
    pod(
        "level",
        asked({"cpu": "50m"}),
        resources=asked({"cpu": "1", "memory": "256Mi"}, {"cpu": "2", "memory": "512Mi"}),
    ),
    pod("critical", asked({"cpu": "100m"}), priorityClassName="system-node-critical"),
]

NOTED = [
    {
        **pod(name, *resources),
        "metadata": {
            "name": name,
            "uid": f"{name}-uid",
            "annotations": {f"qoslet.dev/memory-{key}": text for key, text in notes.items()},
        },
    }
    for name, resources, notes in (
        ("own", [asked({"memory": "64Mi"})], {"high": "200Mi", "oom-group": "false"}),
        ("bare", [asked({"memory": "64Mi"})], {"protection": "off"}),
    )
]

WINDOWS = [pod("iis", asked({"cpu": "500m"}, {"cpu": "1500m", "memory": "1Gi"}))]

NODE: Json = {
    "apiVersion": "qoslet/v1",
    "kind": "Node",
    "capacity": {"cpu": "8", "memory": "32Gi", "pid": "32768", "hugepages-2Mi": "1Gi"},
    "swap": "2Gi",
    "numa": [{"cpus": "0-7", "memory": "32Gi"}],
    "host": {
        "hierarchy": "v2",
        "kernel": "6.12",
        "pageSize": "4Ki",
        "hugepageSizes": ["2Mi"],
        "swapController": True,
    },
}

RESERVED: Json = {
    "kubeReserved": {"cpu": "500m", "memory": "1Gi", "pid": "1000"},
    "systemReserved": {"cpu": "500m", "memory": "512Mi"},
    "kubeReservedCgroup": "/kube",
    "systemReservedCgroup": "/system",
    "enforceNodeAllocatable": ["pods", "kube-reserved", "system-reserved"],
    "podPidsLimit": 1024,
    "evictionHard": {"memory.available": "100Mi"},
    "failSwapOn": False,
}


def kubelet(**fields: object) -> Json:
    """A KubeletConfiguration."""
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    return {**head, **fields}


def on_v1(node: Json) -> Json:
    """The same node with the older hierarchy."""
    host = node["host"]
    assert isinstance(host, dict)
    return {**node, "host": {**host, "hierarchy": "v1"}}


TIERED = kubelet(
    featureGates={"MemoryQoS": True},
    memoryReservationPolicy="TieredReservation",
    memoryThrottlingFactor=0.9,
    **RESERVED,
)
RESERVING = kubelet(featureGates={"QOSReserved": True}, qosReserved={"memory": "50%"}, **RESERVED)
SWAPPING = kubelet(memorySwap={"swapBehavior": "LimitedSwap"}, failSwapOn=False)
STATIC = kubelet(
    cpuManagerPolicy="static",
    reservedSystemCPUs="0",
    memoryManagerPolicy="Static",
    reservedMemory=[{"numaNode": 0, "limits": {"memory": "100Mi"}}],
)
UNLIMITED = kubelet(
    memorySwap={"swapBehavior": "UnlimitedSwap"}, featureGates={"NodeSwap": True}, failSwapOn=False
)

CASES: list[tuple[list[Json], Json, Json | None, Flags]] = [
    (PODS, NODE, TIERED, Flags(kubernetes="1.36", runtime="containerd-2.2+runc-1.3.3")),
    (PODS, NODE, RESERVING, Flags(kubernetes="1.36", runtime="cri-o-1.34+crun-1.21")),
    (PODS, NODE, SWAPPING, Flags(kubernetes="1.34", runtime="runc-1.3.0")),
    (PODS, NODE, UNLIMITED, Flags(kubernetes="1.29", runtime="containerd-1.7")),
    (PODS, NODE, SWAPPING, Flags(kubernetes="1.26", memory_qos="1.22")),
    (PODS, NODE, UNLIMITED, Flags(kubernetes="1.24", runtime="containerd-1.6")),
    (PODS, NODE, None, Flags(kubernetes="1.28", memory_qos="1.27")),
    (PODS, NODE, TIERED, Flags(kubernetes="1.37", runtime="containerd-2.2")),
    (PODS, NODE, None, Flags(kubernetes="1.37", runtime="process")),
    (PODS, NODE, kubelet(featureGates={"MemoryQoS": False}), Flags(kubernetes="1.37")),
    (PODS, NODE, RESERVING, Flags(kubernetes="design", cgroup_driver="systemd")),
    (PODS, NODE, STATIC, Flags(kubernetes="1.36")),
    (PODS, on_v1(NODE), RESERVING, Flags(kubernetes="1.30", runtime="containerd-1.7")),
    (PODS, on_v1(NODE), None, Flags(kubernetes="1.14", runtime="containerd-1.2+runc-1.0")),
    (PODS + NOTED, NODE, TIERED, Flags(memory_qos="qoslet", runtime="process")),
    (WINDOWS, {**NODE, "os": "windows"}, None, Flags(kubernetes="1.36")),
    (WINDOWS, {**NODE, "os": "windows"}, None, Flags(kubernetes="design")),
    (WINDOWS, {**NODE, "os": "windows"}, None, Flags(kubernetes="1.12", isolation="hyperv")),
]


def pods_of(documents: list[Json]) -> list[Pod]:
    """The documents as pods."""
    found: list[Document | BadInput] = []
    for document in documents:
        found.extend(json_documents(json.dumps(document).encode(), "specimen"))
    return list(pods_from(found, Options()).pods)


def plans() -> Iterator[Plan]:
    """The plan of each case."""
    for documents, node, config, flags in CASES:
        given = [("node", node)] + ([("kubelet", config)] if config else [])
        yield plan(pods_of(documents), node_from(given, flags, Probed)[0])


_HUGE: Json = {"pageSize": "2MB", "limit": 4194304}
_RATE: Json = {"major": 8, "minor": 0, "rate": 1048576}

BLOCKS: tuple[tuple[str, str, Json], ...] = (
    (
        "v2",
        "runc-1.4",
        {
            "pids": {"limit": 100},
            "memory": {"limit": 268435456, "swap": 402653184, "reservation": 134217728},
            "cpu": {"shares": 512, "quota": 50000, "period": 100000, "idle": 0},
            "blockIO": {"weight": 500, "throttleReadBpsDevice": [_RATE]},
            "hugepageLimits": [_HUGE],
            "unified": {"memory.high": "201326592"},
        },
    ),
    ("v2", "runc-1.4", {"memory": {"limit": -1}}),
    ("v2", "runc-1.4", {"memory": {"limit": -1, "swap": 67108864}}),
    ("v2", "runc-1.4", {"memory": {"limit": 67108864, "swap": 33554432}}),
    ("v2", "runc-1.4", {"cpu": {}, "unified": {"cpu/max": "1"}}),
    ("v2", "runc-1.1", {"cpu": {"shares": 512}}),
    ("v2", "kep-2254", {"blockIO": {"weight": 100}, "memory": {"swap": 67108864}}),
    ("v2", "kep-2254", {"blockIO": {"weight": 500}}),
    ("v2", "kep-2254", {"blockIO": {"weight": 9}}),
    ("v2", "crun-1.23", {"memory": {"swappiness": 10}}),
    ("v2", "crun-1.23", {"cpu": {"period": 500}}),
    ("v1", "runc-1.4", {"memory": {"limit": -1}, "cpu": {"shares": 1}}),
    ("v1", "runc-1.4", {"memory": {"swappiness": 101}}),
    ("systemd", "crun-1.23", {"memory": {"limit": 67108864, "swap": 134217728}}),
    ("systemd", "crun-1.23", {"blockIO": {"weight": 500}}),
    ("systemd", "runc-1.4", {"cpu": {"idle": 1}}),
    ("v2", "cri-o-1.34", {"memory_limit_in_bytes": 1048576}),
    ("windows", "containerd-2.2", {"cpu_count": 2, "memory_limit_in_bytes": 134217728}),
    ("windows", "containerd-2.2", {"cpu_count": 0, "cpu_maximum": 2500}),
    ("windows", "containerd-2.2", {"cpu_count": 0, "cpu_shares": 500}),
    ("windows", "containerd-2.2", {"cpu_count": 2, "cpu_shares": 500}),
    ("windows", "containerd-2.2", {"cpu_count": 0, "cpu_shares": 20000}),
    ("windows", "containerd-2.2", {"affinity_cpus": [{"cpu_mask": 0}]}),
    ("windows", "containerd-2.2", {"windows": {"resources": {"storage": {"iops": 500}}}}),
)
"""Resource blocks and messages, and what each is converted for."""


def converted() -> Iterator[tuple[str, int, str]]:
    """Rule, rank and sentence of every converted value, and of what is refused."""
    document, flags = {**NODE, "os": "windows"}, Flags(kubernetes="1.12", isolation="hyperv")
    node = node_from([("node", document)], flags, Probed)[0]
    made = [
        convert_document(given, conversion_request(to, runtime)) for to, runtime, given in BLOCKS
    ]
    made.append(
        convert_pods(pods_of(WINDOWS), node, conversion_request("windows", "containerd-2.2"))
    )
    for each in made:
        for part in each.parts:
            for row in part.rows:
                yield row.rule, -1, f"`{row.file}` = `{row.value}`: {row.because}"
            if part.refusal is not None:
                yield part.refusal.rule, -1, f"`{part.refusal.field}`: {part.refusal.because}"


def loose_rows() -> Iterator[Setting]:
    """Values that no plan holds: of an update of a pod's group."""
    for release in ("1.36", "design"):
        policy = node_policy(node_from([("node", NODE)], Flags(kubernetes=release), Probed)[0])
        written = Files(policy, "kubelet")
        written.weight(204, "=the desired configuration", 0, "linear")
        written.hugetlb("hugetlb.zero", {}, policy.choices.rsvd)
        written.put("memory.low", "134217728", ("memory.desired", ("memory.low",)))
        yield from written.settings()


def telling(group: Cgroup, value: str) -> int:
    """How well a value shows its rule: pods rather than the node, an amount rather than none."""
    return 2 * (group.level in ("pod", "container")) + (value not in ("0", "1", "max"))


def candidates() -> Iterator[tuple[str, int, str]]:
    """Rule, rank and sentence of every planned value."""
    for group in (group for one in plans() for group in one.cgroups):
        for row in group.settings:
            rank = telling(group, row.value)
            yield row.rule, rank, f"`{row.file}` = `{row.value}`: {row.because}"
        if group.oom_rule is not None:
            because = RULES[group.oom_rule].because(*group.oom_inputs)
            yield group.oom_rule, 0, f"`oom_score_adj` = `{group.oom_score_adj}`: {because}"
    for row in loose_rows():
        yield row.rule, -1, f"`{row.file}` = `{row.value}`: {row.because}"
    yield from converted()


def sentences() -> dict[str, str]:
    """Rule id to a derivation with numbers put in: the first of the highest rank."""
    best: dict[str, tuple[int, str]] = {}
    for rule, rank, sentence in candidates():
        if rule not in best or rank > best[rule][0]:
            best[rule] = rank, sentence
    return {rule: sentence for rule, (_, sentence) in best.items()}
