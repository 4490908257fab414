"""The flags that describe a node: one row each, so that parser, help and reader agree.

They carry the kubelet's own names. A flag's text is decoded into the value that the same field
of a KubeletConfiguration has, and is then read by the same reader.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, structs

from qoslet.core.node.faults import Faults, shown

Shape = Literal["text", "bool", "int", "pairs", "below", "list", "swap", "gates", "nodes", "number"]


class Flags(Struct, frozen=True):
    """The overrides as given on the command line, as text; None where not given."""

    node_name: str | None = None
    kubernetes: str | None = None
    runtime: str | None = None
    memory_qos: str | None = None
    isolation: str | None = None
    hierarchy: str | None = None
    probe: str | None = None
    cgroup_driver: str | None = None
    cgroups_per_qos: str | None = None
    cgroup_root: str | None = None
    qos_reserved: str | None = None
    kube_reserved: str | None = None
    system_reserved: str | None = None
    kube_reserved_cgroup: str | None = None
    system_reserved_cgroup: str | None = None
    reserved_cpus: str | None = None
    enforce_node_allocatable: str | None = None
    eviction_hard: str | None = None
    feature_gates: str | None = None
    cpu_cfs_quota: str | None = None
    cpu_cfs_quota_period: str | None = None
    pod_max_pids: str | None = None
    cpu_manager_policy: str | None = None
    cpu_manager_policy_options: str | None = None
    memory_manager_policy: str | None = None
    reserved_memory: str | None = None
    topology_manager_policy: str | None = None
    topology_manager_scope: str | None = None
    memory_swap_behavior: str | None = None
    memory_throttling_factor: str | None = None
    fail_swap_on: str | None = None
    max_pods: str | None = None


NO_FLAGS = Flags()


class FlagRow(Struct, frozen=True):
    """One flag: its spellings (the first is used in messages), how help shows its value, the
    field of ``Flags`` that takes the text, and the KubeletConfiguration field it overrides
    (None for what is not the kubelet's). ``shape`` tells how the text is decoded, ``values`` what
    a shell offers to complete."""

    names: tuple[str, ...]
    metavar: str
    help: str
    field: str
    config: str | None = None
    shape: Shape = "text"
    values: tuple[str, ...] = ()


FLAG_ROWS: tuple[FlagRow, ...] = (
    FlagRow(("--node-name",), "NAME", "The node among those of --node and of pods", "node_name"),
    FlagRow(
        ("--kubernetes",),
        "VERSION",
        "Kubernetes release: 1.6 to 1.37, or design",
        "kubernetes",
    ),
    FlagRow(("--runtime",), "NAME-VERSION", "Container runtime, such as runc-1.4.0", "runtime"),
    FlagRow(
        ("--memory-qos",),
        "VARIANT",
        "Variant of Memory QoS: 1.22, 1.27, 1.36, 1.37, design, qoslet or off",
        "memory_qos",
        values=("1.22", "1.27", "1.36", "1.37", "design", "qoslet", "off"),
    ),
    FlagRow(
        ("--isolation",),
        "KIND",
        "Windows isolation: process or hyperv",
        "isolation",
        values=("process", "hyperv"),
    ),
    FlagRow(
        ("--hierarchy",),
        "VERSION",
        "Cgroup hierarchy of the node: v1 or v2",
        "hierarchy",
        values=("v1", "v2"),
    ),
    FlagRow(
        ("--probe",),
        "WHEN",
        "Read what no document says from this machine: auto, always or never (default: auto)",
        "probe",
        values=("auto", "always", "never"),
    ),
    FlagRow(
        ("--cgroup-driver",),
        "DRIVER",
        "Cgroup driver: cgroupfs or systemd",
        "cgroup_driver",
        "cgroupDriver",
        values=("cgroupfs", "systemd"),
    ),
    FlagRow(
        ("--cgroups-per-qos",),
        "BOOL",
        "Create QoS and pod cgroups: true or false",
        "cgroups_per_qos",
        "cgroupsPerQOS",
        "bool",
    ),
    FlagRow(("--cgroup-root",), "NAME", "Parent cgroup of kubepods", "cgroup_root", "cgroupRoot"),
    FlagRow(
        ("--qos-reserved", "--experimental-qos-reserved", "--qos-reserve-requests"),
        "memory=PERCENT",
        "Share of a QoS class's memory requests that lower classes cannot use",
        "qos_reserved",
        "qosReserved",
        "pairs",
    ),
    FlagRow(
        ("--kube-reserved",),
        "RESOURCE=AMOUNT,...",
        "Resources reserved for Kubernetes components",
        "kube_reserved",
        "kubeReserved",
        "pairs",
    ),
    FlagRow(
        ("--system-reserved",),
        "RESOURCE=AMOUNT,...",
        "Resources reserved for system processes",
        "system_reserved",
        "systemReserved",
        "pairs",
    ),
    FlagRow(
        ("--kube-reserved-cgroup",),
        "NAME",
        "Cgroup on which kube-reserved is enforced",
        "kube_reserved_cgroup",
        "kubeReservedCgroup",
    ),
    FlagRow(
        ("--system-reserved-cgroup",),
        "NAME",
        "Cgroup on which system-reserved is enforced",
        "system_reserved_cgroup",
        "systemReservedCgroup",
    ),
    FlagRow(
        ("--reserved-cpus",),
        "CPUS",
        "CPUs reserved for the system and Kubernetes, such as 0-1",
        "reserved_cpus",
        "reservedSystemCPUs",
    ),
    FlagRow(
        ("--enforce-node-allocatable",),
        "OPTION,...",
        "What to enforce: pods, system-reserved, kube-reserved, their -compressible variants, none",
        "enforce_node_allocatable",
        "enforceNodeAllocatable",
        "list",
    ),
    FlagRow(
        ("--eviction-hard",),
        "SIGNAL<AMOUNT,...",
        "Hard eviction thresholds, such as memory.available<100Mi",
        "eviction_hard",
        "evictionHard",
        "below",
    ),
    FlagRow(
        ("--feature-gates",),
        "NAME=BOOL,...",
        "Feature gates of the kubelet",
        "feature_gates",
        "featureGates",
        "gates",
    ),
    FlagRow(
        ("--cpu-cfs-quota",),
        "BOOL",
        "Enforce CPU limits: true or false",
        "cpu_cfs_quota",
        "cpuCFSQuota",
        "bool",
    ),
    FlagRow(
        ("--cpu-cfs-quota-period",),
        "DURATION",
        "Period of the CPU quota, 1ms to 1s",
        "cpu_cfs_quota_period",
        "cpuCFSQuotaPeriod",
    ),
    FlagRow(
        ("--pod-max-pids",),
        "NUMBER",
        "Maximum number of processes in a pod; -1 for no limit",
        "pod_max_pids",
        "podPidsLimit",
        "int",
    ),
    FlagRow(
        ("--cpu-manager-policy",),
        "POLICY",
        "CPU manager policy: none or static",
        "cpu_manager_policy",
        "cpuManagerPolicy",
        values=("none", "static"),
    ),
    FlagRow(
        ("--cpu-manager-policy-options",),
        "OPTION=BOOL,...",
        "How exclusive CPUs are chosen, such as full-pcpus-only=true",
        "cpu_manager_policy_options",
        "cpuManagerPolicyOptions",
        "pairs",
    ),
    FlagRow(
        ("--memory-manager-policy",),
        "POLICY",
        "Memory manager policy: None or Static",
        "memory_manager_policy",
        "memoryManagerPolicy",
        values=("None", "Static"),
    ),
    FlagRow(
        ("--reserved-memory",),
        "NODE:memory=SIZE;...",
        "Memory of each NUMA node that is not given to pods",
        "reserved_memory",
        "reservedMemory",
        "nodes",
    ),
    FlagRow(
        ("--topology-manager-policy",),
        "POLICY",
        "Topology manager policy: none, best-effort, restricted or single-numa-node",
        "topology_manager_policy",
        "topologyManagerPolicy",
        values=("none", "best-effort", "restricted", "single-numa-node"),
    ),
    FlagRow(
        ("--topology-manager-scope",),
        "SCOPE",
        "Topology manager scope: container or pod",
        "topology_manager_scope",
        "topologyManagerScope",
        values=("container", "pod"),
    ),
    FlagRow(
        ("--memory-swap-behavior",),
        "BEHAVIOR",
        "Use of swap: NoSwap or LimitedSwap",
        "memory_swap_behavior",
        "memorySwap",
        "swap",
        values=("NoSwap", "LimitedSwap"),
    ),
    FlagRow(
        ("--memory-throttling-factor",),
        "NUMBER",
        "How far from request to limit memory.high lies, above 0, at most 1",
        "memory_throttling_factor",
        "memoryThrottlingFactor",
        "number",
    ),
    FlagRow(
        ("--fail-swap-on",),
        "BOOL",
        "Refuse to start if swap is on: true or false",
        "fail_swap_on",
        "failSwapOn",
        "bool",
    ),
    FlagRow(
        ("--max-pods",),
        "NUMBER",
        "Maximum number of pods on the node",
        "max_pods",
        "maxPods",
        "int",
    ),
)

_TRUE = {"1", "t", "T", "true", "TRUE", "True"}
_FALSE = {"0", "f", "F", "false", "FALSE", "False"}


def _boolean(faults: Faults, where: str, text: str) -> bool | None:
    """The texts that Go's strconv.ParseBool takes."""
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    faults.add(where, f"is {shown(text)}, must be true or false")
    return None


def _number(faults: Faults, where: str, text: str) -> float | None:
    """A decimal number."""
    plain = text.replace(".", "", 1)
    if plain.isascii() and plain.isdigit() and len(plain) <= 19:
        return float(text)
    faults.add(where, f"is {shown(text)}, must be a number", "such as 0.9")
    return None


def _pairs(faults: Faults, where: str, text: str, sign: str) -> dict[str, str]:
    """``a=1,b=2`` as a map; the same key twice is a fault."""
    found: dict[str, str] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        key, separator, value = part.partition(sign)
        key = key.strip()
        if not separator or not key:
            faults.add(
                where, f"{shown(part)} is not {'KEY' + sign + 'VALUE'}", "separate with commas"
            )
        elif key in found:
            faults.add(where, f"{shown(key)} occurs twice")
        else:
            found[key] = value.strip()
    return found


def _nodes(faults: Faults, where: str, text: str) -> list[dict[str, Any]]:
    """``0:memory=1Gi,hugepages-2Mi=64Mi;1:memory=1Gi`` as a list of {numaNode, limits}."""
    found = []
    for part in text.split(";"):
        number, colon, limits = part.strip().partition(":")
        if not colon or not (number.isascii() and number.isdigit() and len(number) < 4):
            faults.add(where, f"{shown(part)} is not NODE:RESOURCE=SIZE", "such as 0:memory=1Gi")
            continue
        found.append({"numaNode": int(number), "limits": _pairs(faults, where, limits, "=")})
    return found


def decode(faults: Faults, row: FlagRow, text: str) -> Any:
    """A flag's text as the decoded value of its KubeletConfiguration field; None if faulty."""
    where = row.names[0]
    if row.shape == "bool":
        return _boolean(faults, where, text)
    if row.shape == "int":
        digits = text.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) <= 19:
            return int(text)
        faults.add(where, f"is {shown(text)}, must be a whole number")
        return None
    if row.shape == "number":
        return _number(faults, where, text)
    if row.shape == "list":
        return [part.strip() for part in text.split(",") if part.strip()]
    if row.shape == "swap":
        return {"swapBehavior": text}
    if row.shape in ("pairs", "below"):
        return _pairs(faults, where, text, "<" if row.shape == "below" else "=")
    if row.shape == "nodes":
        return _nodes(faults, where, text)
    if row.shape == "gates":
        given = _pairs(faults, where, text, "=")
        read = {name: _boolean(faults, f"{where}.{name}", word) for name, word in given.items()}
        return {name: word for name, word in read.items() if word is not None}
    return text


def overrides(faults: Faults, flags: Flags) -> dict[str, tuple[Any, str]]:
    """KubeletConfiguration field to (decoded value, flag) for every flag that was given."""
    given = structs.asdict(flags)
    result = {}
    for row in FLAG_ROWS:
        text = given[row.field]
        if row.config is not None and text is not None:
            value = decode(faults, row, text)
            if value is not None:
                result[row.config] = (value, row.names[0])
    return result


def flags_of(values: object) -> Flags:
    """The flags among the attributes of ``values``, one for each row of ``FLAG_ROWS``."""
    return Flags(**{row.field: getattr(values, row.field) for row in FLAG_ROWS})
