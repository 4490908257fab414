"""What a hierarchy cannot express, why, and what to use instead.

Source: KEP-2254, "Some cgroups v1 features are not available with cgroups v2";
Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst.
"""

from __future__ import annotations

from qoslet.core.oci.resources import NO_CPU, NO_IO, NO_MEMORY, Block
from qoslet.core.oci.result import Hierarchy, Unsupported
from qoslet.core.versions.runtime import Runtime

_ONE = "one hierarchy, where inner cgroups have no processes"

ACCOUNTING_V2 = (
    Unsupported(
        "per-cpu accounting (cpuacct.usage_percpu)",
        "v2 accounts CPU time per cgroup, not per CPU",
        "cpu.stat for the sum; perf stat -a --for-each-cgroup, or eBPF on sched_switch, by CPU",
        "elsewhere",
    ),
    Unsupported(
        "network statistics of a cgroup",
        "v2 has no network controller",
        "/proc/PID/net/dev of the pod's network namespace; eBPF cgroup_skb programs to count",
        "elsewhere",
    ),
)
"""What v2 does not account for, whatever a block says."""

SANDBOX = Unsupported(
    "resources of a sandbox",
    "the runtime passes them to shims that start VMs, and writes no file",
    "the kubelet writes the pod's cgroup; the pause container gets 2 shares",
    "elsewhere",
    "resources",
)
"""What becomes of the sums in LinuxPodSandboxConfig."""

_CLASS = Unsupported(
    "net_cls", "v2 has no net_cls controller",
    "eBPF cgroup_skb or tc programs; nftables socket cgroupv2", field="network.classID",
)  # fmt: skip
_PRIORITIES = Unsupported(
    "net_prio", "v2 has no net_prio controller",
    "eBPF cgroup_skb programs that set skb->priority", field="network.priorities",
)  # fmt: skip
_DEVICES = Unsupported(
    "devices", "v2 has no devices files",
    "the runtime attaches an eBPF program (BPF_CGROUP_DEVICE) with the same rules to the cgroup",
    "elsewhere", "devices",
)  # fmt: skip
_KERNEL = Unsupported(
    "kernel memory", "it counts towards memory.max and has no separate limit",
    "memory.max; memory.stat shows kernel", field="memory.kernel",
)  # fmt: skip
_TCP = Unsupported(
    "TCP buffers", "they count towards memory.max and have no separate limit",
    "memory.max; memory.stat shows sock", field="memory.kernelTCP",
)  # fmt: skip
_SWAPPINESS = Unsupported(
    "swappiness", "v2 has no such file",
    "vm.swappiness for the machine; memory.swap.max and memory.zswap.max for the cgroup; "
    "memory.reclaim takes swappiness= since Linux 6.9", field="memory.swappiness",
)  # fmt: skip
_OOM = Unsupported(
    "disabled OOM killer", "v2 always kills at memory.max",
    "memory.high, which throttles earlier, with memory.events and PSI to react to",
    field="memory.disableOOMKiller",
)  # fmt: skip
_HIERARCHY = Unsupported(
    "use_hierarchy", "a v2 cgroup always counts its descendants", "nothing is needed",
    field="memory.useHierarchy",
)  # fmt: skip
_LEAF = Unsupported(
    "leaf weight", _ONE, "io.weight of a child cgroup for the processes themselves",
    field="blockIO.leafWeight",
)  # fmt: skip
_REALTIME = Unsupported(
    "real-time bandwidth", "the v2 cpu controller does not support real-time cgroups",
    "kernel.sched_rt_runtime_us for the machine; SCHED_DEADLINE for a process",
    field="cpu.realtimeRuntime",
)  # fmt: skip
_WEIGHTS = Unsupported(
    "weights of devices", "without BFQ, runc writes no device weights",
    "load bfq, or set io.weight in the unified map", field="blockIO.weightDevice",
)  # fmt: skip
_KERNEL_V1 = Unsupported(
    "kernel memory", "runc ignores it; Linux 5.11 deprecates the file",
    "memory.limit_in_bytes, which counts it", field="memory.kernel",
)  # fmt: skip
_TCP_V1 = Unsupported(
    "TCP buffers", "runc ignores it", "write memory.kmem.tcp.limit_in_bytes manually",
    field="memory.kernelTCP",
)  # fmt: skip
_UNIFIED_V1 = Unsupported(
    "unified", "its keys are cgroup v2 files", "use fields of the block, or a host with cgroup v2",
    "refused", "unified",
)  # fmt: skip
_UNSEEN_V1 = Unsupported(
    "unified", "its keys are cgroup v2 files; crun ignores them if cpu has no lists",
    "use fields of the block, or a host with cgroup v2", "ignored", "unified",
)  # fmt: skip
_RDMA = Unsupported("rdma", "qoslet does not convert it", "the runtime writes rdma.max",
             "elsewhere", "rdma")  # fmt: skip


def _old(field: str, runtime: Runtime) -> Unsupported:
    what = f"{field} under {runtime.name}"
    return Unsupported(
        what, "this version does not know the field", "use a newer version", field=field
    )


_DOCKER = Unsupported(
    "unified", "HostConfig, which dockershim passes to Docker, has no such field",
    "containerd 1.6 or CRI-O 1.22", field="unified",
)  # fmt: skip


def lost(
    block: Block, hierarchy: Hierarchy, runtime: Runtime, bfq: bool = True
) -> tuple[Unsupported, ...]:
    """The settings of a block that the runtime writes to no file of the hierarchy."""
    rows: list[Unsupported] = []
    memory, cpu = block.memory or NO_MEMORY, block.cpu or NO_CPU
    if block.devices and hierarchy == "v2":
        rows.append(_DEVICES)
    if block.rdma:
        rows.append(_RDMA)
    if not runtime.unified and block.unified:
        rows.append(_DOCKER if runtime.cri == "docker" else _old("unified", runtime))
    if not runtime.idle and cpu.idle is not None:
        rows.append(_old("cpu.idle", runtime))
    if not runtime.burst and cpu.burst is not None:
        rows.append(_old("cpu.burst", runtime))
    if not runtime.check and memory.check_before_update:
        rows.append(_old("memory.checkBeforeUpdate", runtime))
    if hierarchy == "v1":
        if runtime.family == "runc" and memory.kernel is not None:
            rows.append(_KERNEL_V1)
        if runtime.family == "runc" and memory.kernel_tcp is not None:
            rows.append(_TCP_V1)
        if block.unified:
            unseen = runtime.family == "crun" and block.cpu_without_lists
            rows.append(_UNSEEN_V1 if unseen else _UNIFIED_V1)
        return tuple(rows)
    return (*rows, *_lost_v2(block, runtime, bfq), *_unwritten(block))


def _unwritten(block: Block) -> list[Unsupported]:
    """Keys of the unified map with an empty value."""
    why, instead = "an empty value writes nothing", "set a value, or remove the key"
    return [
        Unsupported(f"unified {key}", why, instead, field=f"unified.{key}")
        for key, value in (block.unified or {}).items()
        if not value
    ]


def _lost_v2(block: Block, runtime: Runtime, bfq: bool) -> list[Unsupported]:
    memory, cpu, io = block.memory or NO_MEMORY, block.cpu or NO_CPU, block.block_io or NO_IO
    network = block.network
    asked = (
        (_CLASS, network is not None and network.class_id is not None),
        (_PRIORITIES, network is not None and bool(network.priorities)),
        (_KERNEL, memory.kernel is not None),
        (_TCP, memory.kernel_tcp is not None),
        (_SWAPPINESS, memory.swappiness is not None),
        (_OOM, bool(memory.disable_oom_killer)),
        (_HIERARCHY, memory.use_hierarchy is not None),
        (_LEAF, bool(io.leaf_weight)),
        (_REALTIME, bool(cpu.realtime_runtime or cpu.realtime_period)),
        (_WEIGHTS, bool(io.weight_device) and not (bfq or runtime.tables)),
    )
    rows = [row for row, wanted in asked if wanted]
    return [_refused(row) for row in rows] if runtime.family == "crun" else rows


def _refused(row: Unsupported) -> Unsupported:
    return Unsupported(row.what, row.why, row.instead, "refused", row.field)
