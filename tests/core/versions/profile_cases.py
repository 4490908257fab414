"""For every row of a profile: the smallest pod and node that show it, and what they show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.pod import Pod
from qoslet.core.api.pod_level_resources import default_pod_level
from qoslet.core.node.resolve import Flags, Probed, node_from
from qoslet.core.plan.plan import plan
from qoslet.core.plan.pod_planner import Planner
from qoslet.core.resources.windows import windows_settings
from qoslet.core.versions.kubernetes import Profile
from qoslet.errors import BadInputs
from tests.core.vectors.fixtures import Json, block_rows, files, node_of, pod_of, policy_for

Seen = Callable[[Profile], object]

PAGE = 4096
MI = 1 << 20


class Case(Struct, frozen=True):
    """What a plan shows before and after a row. ``alone``: the choice by itself decides it."""

    seen: Seen
    before: object
    after: object
    alone: bool = True


def _pod(given: Json) -> Pod:
    """A pod of a vector; with ``defaulting`` its pod-level resources are those of a manifest."""
    made = pod_of(given)
    if made.resources is None or not given.get("defaulting"):
        return made
    resources, filled = default_pod_level(made.resources, made.containers)
    return replace(made, resources=resources, defaulted=filled, written=made.resources)


def _groups(profile: Profile, pods: tuple[Json, ...], node: Json) -> dict[str, dict[str, str]]:
    made = plan([_pod(one) for one in pods], node_of(profile, **node))
    return {group.name: files(group.settings) for group in made.cgroups}


def file(group: str, name: str, *pods: Json, **node: Any) -> Seen:
    """The value of a file of a group; None where it is not written."""
    return lambda profile: _groups(profile, pods, node)[group].get(name)


def group_of(uid: str, *pods: Json, **node: Any) -> Seen:
    """The name of the group of a pod."""

    def seen(profile: Profile) -> object:
        return next(name for name in _groups(profile, pods, node) if name.endswith(f"pod{uid}"))

    return seen


def score(pod: Json, container: str = "c", **node: Any) -> Seen:
    """oom_score_adj of a container."""

    def seen(profile: Profile) -> object:
        made = plan([pod_of(pod)], node_of(profile, **node))
        return next(
            group.oom_score_adj
            for group in made.cgroups
            if group.container is not None and group.container.name == container
        )

    return seen


def windows(limit: str, processors: int, **node: Any) -> Seen:
    """The message of a Windows container with a CPU limit."""

    def seen(profile: Profile) -> object:
        policy = policy_for(profile, os="windows", capacity={"cpu": processors}, **node)
        pod = pod_of({"containers": [{"name": "c", "limits": {"cpu": limit}}]})
        return files(windows_settings(policy, pod, pod.containers[0]))

    return seen


def block(given: Json, name: str) -> Seen:
    """A file that the runtime writes for an OCI block."""
    return lambda profile: files(block_rows(policy_for(profile), given)).get(name)


def refused(words: str, hierarchy: str, **kubelet: object) -> Seen:
    """Whether a fault or problem of a real configuration holds ``words``."""
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    machine = {
        "apiVersion": "qoslet/v1",
        "kind": "Node",
        "capacity": {"cpu": "4", "memory": "8Gi"},
        "host": {"hierarchy": hierarchy},
    }

    def seen(profile: Profile) -> object:
        documents = [("node", machine), ("kubelet", {**head, **kubelet})]
        try:
            _, problems = node_from(documents, Flags(kubernetes=profile.kubernetes), Probed)
        except BadInputs as bad:
            return words in str(bad)
        return any(words in problem.message for problem in problems)

    return seen


def sandbox(profile: Profile) -> object:
    """Whether a sandbox is sent resources."""
    return Planner(node_of(profile)).sandbox_messages(pod_of(BURSTABLE))[0] is not None


def container(requests: Json | None = None, limits: Json | None = None, **more: Any) -> Json:
    """A container of a vector."""
    return {"name": "c", "requests": requests or {}, "limits": limits or {}, **more}


def pod(*containers: Json, **more: Any) -> Json:
    """A pod of a vector with the UID ``u``."""
    return {"uid": "u", "containers": list(containers), **more}


BOTH = {"cpu": "1", "memory": "100Mi"}
GUARANTEED = pod(container(BOTH, BOTH))
BURSTABLE = pod(container({"memory": "100Mi"}, {"memory": "200Mi"}))
UNLIMITED = pod(container({"memory": "100Mi"}))
BESTEFFORT = pod(container())
CRITICAL = pod(container(), priority=2_000_000_000)
CRITICAL_BURSTABLE = pod(container({"memory": "1Gi"}), priority=2_000_000_000)
HUGE = pod(container(BOTH, {**BOTH, "hugepages-2Mi": "4Mi"}))
HUGE_INIT = pod(
    container(BOTH, BOTH), initContainers=[container({"hugepages-2Mi": "4Mi"}, name="i")]
)
MANY_CPUS = pod(container({"cpu": "300"}))
ZERO_CPU = pod(container({"cpu": "0"}, {"cpu": "2"}))
INIT_ONLY = pod(container(), initContainers=[container({"cpu": "1"}, name="i")])
INIT_LARGE = pod(container({"cpu": "100m"}), initContainers=[container({"cpu": "1"}, name="i")])
INIT_UNLIMITED = pod(
    container({"cpu": "1"}, {"cpu": "2"}), initContainers=[container({"cpu": "1"}, name="i")]
)
SIDECAR = pod(
    container({"cpu": "1", "memory": "1G"}),
    initContainers=[container({"cpu": "1", "memory": "1k"}, name="s", restartPolicy="Always")],
)
LEVELLED: Json = {"gates": {"PodLevelResources": True}, "capacity": {"memory": "8Gi"}}
REQUESTED_LEVEL = pod(container(BOTH, BOTH), resources={"requests": BOTH}, defaulting=True)
HUGE_LEVEL = pod(
    container(),
    container(BOTH, {**BOTH, "hugepages-2Mi": "4Mi"}, name="d"),
    resources={"limits": {"cpu": "2", "memory": "1Gi"}},
    defaulting=True,
)
EMPTY_LEVEL = pod(container(BOTH, BOTH), resources={})
LEVEL = "/kubepods"

V1: Json = {"host": {"hierarchy": "v1"}}
V1_HUGE: Json = {
    "host": {"hierarchy": "v1", "hugepage_sizes": (2 << 20,)},
    "gates": {"HugePages": True},
}
QOS: Json = {"gates": {"MemoryQoS": True}, "capacity": {"memory": "1Gi"}}
SWAP: Json = {
    "gates": {"NodeSwap": True},
    "capacity": {"memory": "4Gi"},
    "swap": 4 << 30,
    "host": {"swap_controller": True},
}
RESERVE: Json = {**V1, "capacity": {"memory": "1Gi"}, "qos_reserved": 50}

IN_POD = "/kubepods/podu"
IN_BURSTABLE = "/kubepods/burstable/podu"
IN_BESTEFFORT = "/kubepods/besteffort/podu"


def high(request: int, limit: int, factor: float) -> str:
    """memory.high of 1.27 and later for amounts in Mi, cut to a page."""
    return str(int((request + (limit - request) * factor) * MI) // PAGE * PAGE)


CASES: dict[tuple[int, str], Case] = {
    (8, "hugepages"): Case(file(IN_POD, "hugetlb.2MB.limit_in_bytes", HUGE, **V1_HUGE), None, "0"),
    (10, "quota_off"): Case(
        file(IN_POD, "cpu.cfs_quota_us", GUARANTEED, **V1, cpu_cfs_quota=False), "100000", "-1"
    ),
    (10, "windows"): Case(windows("1", 4), {}, {"cpu_shares": "5000", "cpu_maximum": "2500"}),
    (11, "qos_reserved_gate"): Case(
        file("/kubepods/burstable", "memory.limit_in_bytes", GUARANTEED, **RESERVE),
        str(974 * MI),
        None,
    ),
    (14, "critical_oom"): Case(score(CRITICAL), 1000, -998),
    (16, "qos_counts_init"): Case(group_of("u", INIT_ONLY), IN_BESTEFFORT, IN_BURSTABLE),
    (18, "hugepages"): Case(
        file(f"{IN_POD}/c", "hugetlb.2MB.limit_in_bytes", HUGE, **V1_HUGE), None, str(4 * MI)
    ),
    (18, "windows"): Case(
        windows("1", 4), {"cpu_shares": "5000", "cpu_maximum": "2500"}, {"cpu_maximum": "2500"}
    ),
    (19, "cgroup_v2"): Case(refused("supports only v1", "v2"), True, False, alone=False),
    (20, "guaranteed_oom"): Case(score(GUARANTEED), -998, -997),
    (20, "pod_shares_max"): Case(
        file(IN_BURSTABLE, "cpu.shares", MANY_CPUS, **V1), "307200", "262144"
    ),
    (22, "critical_oom"): Case(score(CRITICAL), -997, 1000),
    (22, "memory_qos"): Case(
        file(f"{IN_BURSTABLE}/c", "memory.high", BURSTABLE, **QOS), None, str(160 * MI)
    ),
    (22, "throttling_factor"): Case(
        refused(
            "needs a factor", "v2", featureGates={"MemoryQoS": True}, memoryThrottlingFactor=None
        ),
        False,
        True,
        alone=False,
    ),
    (22, "swap"): Case(file(f"{IN_BURSTABLE}/c", "memory.swap.max", BURSTABLE, **SWAP), None, "0"),
    (23, "sandbox_resources"): Case(sandbox, False, True),
    (24, "container_shares_max"): Case(
        file(f"{IN_BURSTABLE}/c", "cpu.shares", MANY_CPUS, **V1), "307200", "262144"
    ),
    (26, "zero_cpu_request"): Case(
        file(f"{IN_BURSTABLE}/c", "cpu.shares", ZERO_CPU, **V1), "2048", "2"
    ),
    (27, "memory_qos"): Case(
        file(f"{IN_BURSTABLE}/c", "memory.high", BURSTABLE, **QOS),
        str(160 * MI),
        high(100, 200, 0.9),
    ),
    (27, "throttling_factor"): Case(
        file(f"{IN_BURSTABLE}/c", "memory.high", UNLIMITED, **QOS),
        str(int(1024 * MI * 0.8)),
        high(100, 1024, 0.9),
        alone=False,
    ),
    (28, "hugepages_of"): Case(
        file(IN_BURSTABLE, "hugetlb.2MB.limit_in_bytes", HUGE_INIT, **V1_HUGE), "0", str(4 * MI)
    ),
    (28, "init_declares"): Case(
        file(IN_BURSTABLE, "cpu.cfs_quota_us", INIT_UNLIMITED, **V1), "200000", None
    ),
    (28, "oom_group"): Case(file(f"{IN_POD}/c", "memory.oom.group", GUARANTEED), None, "1"),
    (28, "sidecars"): Case(
        file(IN_BURSTABLE, "cpu.shares", SIDECAR, **V1, gates={"SidecarContainers": True}),
        "1024",
        "2048",
    ),
    (28, "swap"): Case(
        file(
            f"{IN_BURSTABLE}/c", "memory.swap.max", BURSTABLE, **SWAP, swap_behavior="LimitedSwap"
        ),
        "0",
        str(100 * MI),
    ),
    (29, "rsvd"): Case(file(IN_POD, "hugetlb.2MB.rsvd.limit_in_bytes", HUGE, **V1_HUGE), None, "0"),
    (30, "swap"): Case(
        file(
            f"{IN_BURSTABLE}/c", "memory.swap.max", BURSTABLE, **SWAP, swap_behavior="UnlimitedSwap"
        ),
        "max",
        "0",
    ),
    (31, "swap"): Case(
        file(
            f"{IN_BURSTABLE}/c",
            "memory.swap.max",
            CRITICAL_BURSTABLE,
            **SWAP,
            swap_behavior="LimitedSwap",
        ),
        str(1 << 30),
        "0",
    ),
    (32, "compressible"): Case(
        refused(
            "-compressible does not exist in",
            "v2",
            enforceNodeAllocatable=["pods", "kube-reserved-compressible"],
            kubeReservedCgroup="/kube",
        ),
        True,
        False,
        alone=False,
    ),
    (32, "kubepods_cpuset"): Case(file(LEVEL, "cpuset.cpus", capacity={"cpu": "4"}), None, "0-3"),
    (32, "sidecar_oom"): Case(
        score(SIDECAR, "s", capacity={"memory": "4G"}, gates={"SidecarContainers": True}), 999, 750
    ),
    (32, "single_process_option"): Case(
        file(f"{IN_POD}/c", "memory.oom.group", GUARANTEED, single_process_oom_kill=True),
        "1",
        None,
    ),
    (27, "windows"): Case(windows("32", 96), {"cpu_maximum": "6666"}, {"cpu_maximum": "3333"}),
    (34, "pod_level_hugepages"): Case(
        file(
            f"{IN_BURSTABLE}/c",
            "hugetlb.2MB.max",
            HUGE_LEVEL,
            **{**LEVELLED, "host": {"hugepage_sizes": (2 << 20,)}},
        ),
        "0",
        str(4 * MI),
    ),
    (35, "fail_cgroup_v1"): Case(refused("rejects by default", "v1"), False, True, alone=False),
    (36, "memory_qos"): Case(
        file(f"{IN_POD}/c", "memory.min", GUARANTEED, **QOS), str(100 * MI), "0"
    ),
    (37, "memory_qos"): Case(
        file(f"{IN_BESTEFFORT}/c", "memory.high", BESTEFFORT, **QOS, memory_throttling_factor=0.9),
        None,
        high(0, 1024, 0.9),
    ),
    (37, "throttling_factor"): Case(
        file(f"{IN_BURSTABLE}/c", "memory.high", BURSTABLE, **QOS),
        high(100, 200, 0.9),
        None,
        alone=False,
    ),
    (37, "pod_level_limits"): Case(
        group_of("u", REQUESTED_LEVEL, **LEVELLED), IN_BURSTABLE, IN_POD
    ),
    (37, "empty_pod_level"): Case(group_of("u", EMPTY_LEVEL), IN_BESTEFFORT, IN_POD),
}
"""By the row's minor and choice."""

DESIGN_CASES: dict[str, Case] = {
    "memory_qos": Case(
        file(f"{IN_BURSTABLE}/c", "memory.min", BURSTABLE, **QOS), "0", str(100 * MI)
    ),
    "throttling_factor": Case(
        file(f"{IN_BESTEFFORT}/c", "memory.high", BESTEFFORT, **QOS),
        None,
        high(0, 1024, 0.9),
        alone=False,
    ),
    "qos_reserved_gate": Case(
        file("/kubepods/burstable", "memory.limit_in_bytes", GUARANTEED, **RESERVE),
        None,
        str(974 * MI),
    ),
    "qos_reserved_joined": Case(
        file(
            "/kubepods/besteffort",
            "memory.limit_in_bytes",
            pod(container({"cpu": "1", "memory": "3"}, {"cpu": "1", "memory": "3"})),
            pod(container({"memory": "3"})),
            **{**RESERVE, "gates": {"QOSReserved": True}},
        ),
        str(1024 * MI - 2),
        str(1024 * MI - 3),
    ),
    "windows": Case(
        windows("1", 4),
        {"cpu_maximum": "2500"},
        {"cpu_count": "2", "cpu_shares": "2500", "cpu_maximum": "2500"},
    ),
    "weight_curve": Case(file(f"{IN_POD}/c", "cpu.weight", GUARANTEED), "100", "39", alone=False),
    "limit_alone": Case(
        score(
            pod(container({"memory": "1Gi"}, {"memory": "1Gi"}, defaulted=["memory"])),
            capacity={"memory": "4Gi"},
        ),
        750,
        999,
    ),
    "summed": Case(file(IN_BURSTABLE, "cpu.weight", INIT_LARGE), "39", "4"),
    "sidecars": Case(
        file(
            IN_BURSTABLE,
            "cpu.weight",
            pod(
                container({"cpu": "1"}),
                initContainers=[container({"cpu": "1"}, name="s", restartPolicy="Always")],
            ),
        ),
        "79",
        "39",
    ),
    "rsvd": Case(
        file(
            "/kubepods",
            "hugetlb.2MB.rsvd.max",
            host={"hugepage_sizes": (2 << 20,), "hugetlb_rsvd": True},
        ),
        str(2**62),
        None,
    ),
    "bfq_weight": Case(block({"blockIO": {"weight": 50}}, "io.bfq.weight"), "50", "405"),
    "swap_conversion": Case(
        block({"memory": {"limit": 1000, "swap": 1500}}, "memory.swap.max"), "500", "1500"
    ),
}
"""By the choice: 1.37 before, the design after."""
