"""Configurations that a kubelet may have had before its last start, as values tell of them.

Source: kubelet kubelet.go SyncPod (a pod's cgroup that exists is not updated), kuberuntime
(a container's values are in its creation), cm/pod_container_manager_linux.go EnsureExists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct, convert
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import MEMORY_QOS, PROTECTION
from qoslet.core.node.node import Node
from qoslet.core.quantity import ZERO, add, from_int
from qoslet.core.resources.cgroup_tree import Setting

_MOST = 2
"""How many values of one field are tried, those that most cgroups tell."""
_MI = 1 << 20
_TIERED = "TieredReservation"
_PERIODS = range(1000, 1_000_001)
"""cpuCFSQuotaPeriod in microseconds."""
_DEFAULTS: dict[str, object] = {
    "pod_pids_limit": -1,
    "cpu_cfs_quota": True,
    "cpu_cfs_quota_period_us": 100_000,
    "cpu_manager_policy": "none",
    "memory_manager_policy": "None",
    "swap_behavior": "NoSwap",
    "single_process_oom_kill": False,
    "memory_throttling_factor": 0.9,
    "memory_reservation_policy": "None",
}
"""What kubelets have where nobody sets the field. Source: kubelet apis/config/v1beta1/defaults.go."""

Differing = tuple[Setting, str]
"""A planned value of a pod or container, and what was found."""


class OtherConfiguration(Struct, frozen=True):
    """A node whose kubelet has another configuration, in ``told``, and the ``files`` of pods and
    containers that it changes. ``keeps_limits``: it says the same with other numbers, as nobody would
    by hand. ``is_default``: it is what kubelets have where nobody sets the field. ``is_for_all``: something else
    leaves the same in some cgroups, so that it explains only what all of them have, or all of older pods."""

    told: str
    files: tuple[str, ...]
    node: Node
    keeps_limits: bool = False
    is_default: bool = False
    is_for_all: bool = False


def other_configurations(
    node: Node, file: str, differing: Iterable[Differing]
) -> Iterator[OtherConfiguration]:
    """Those that may have left what was found in a ``file``, or beside it."""
    kubelet = node.kubelet
    if file == "pids.max":
        for text in _common(found for _, found in differing):
            limit = int(text) if text.isdecimal() else -1
            yield _other(node, f"podPidsLimit {limit}", (file,), pod_pids_limit=limit)
    elif file in ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"):
        files = ("cpu.max",) if file == "cpu.max" else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        enforces = not kubelet.cpu_cfs_quota
        quota = f"cpuCFSQuota {str(enforces).lower()}"
        yield _other(node, quota, files, cpu_cfs_quota=enforces)
        for text in _common(_periods(differing)):
            if (period := int(text)) in _PERIODS and period != kubelet.cpu_cfs_quota_period_us:
                told = f"cpuCFSQuotaPeriod {period / 1000:g}ms"
                other = _other(node, told, files, cpu_cfs_quota_period_us=period)
                yield replace(other, keeps_limits=True)
                both = {"cpu_cfs_quota": enforces, "cpu_cfs_quota_period_us": period}
                yield _other(node, f"{quota} and {told}", files, **both)
        policy = "none" if kubelet.cpu_manager_policy == "static" else "static"
        yield _other(node, f"cpuManagerPolicy {policy}", files, cpu_manager_policy=policy)
    elif file == "cpuset.mems":
        # unlike its CPUs, a container is given its memory when it is created
        policy = "None" if kubelet.memory_manager_policy == "Static" else "Static"
        told = f"memoryManagerPolicy {policy}"
        yield _other(node, told, (file,), memory_manager_policy=policy)
    elif file == "memory.swap.max":
        for behavior in {"NoSwap", "LimitedSwap"} - {kubelet.swap_behavior or "NoSwap"}:
            yield _other(node, f"swapBehavior {behavior}", (file,), swap_behavior=behavior)
    elif file == "memory.oom.group":
        single = not kubelet.single_process_oom_kill
        told = f"singleProcessOOMKill {str(single).lower()}"
        other = _other(node, told, (file,), single_process_oom_kill=single)
        # systemd writes 0 with every property of a unit
        yield replace(other, is_for_all=node.driver == "systemd")
    elif file in MEMORY_QOS:
        yield from _memory_qos(node, file, differing)


def _other(node: Node, told: str, files: tuple[str, ...], **fields: object) -> OtherConfiguration:
    other = replace(node, kubelet=replace(node.kubelet, **fields))
    is_default = all(_DEFAULTS.get(name) == value for name, value in fields.items())
    return OtherConfiguration(told, files, other, is_default=is_default)


def _memory_qos(
    node: Node, file: str, differing: Iterable[Differing]
) -> Iterator[OtherConfiguration]:
    off = replace(node, profile=replace(node.profile, memory_qos="off"))
    told = "a configuration without Memory QoS"
    if file != "memory.high" and node.kubelet.memory_reservation_policy == _TIERED:
        # a pod's cgroup has no memory.high that tells which
        told = f"{told} or with memoryReservationPolicy None"
    yield OtherConfiguration(told, MEMORY_QOS, off, is_default=True)
    if file != "memory.high":
        for policy in {"None", _TIERED} - {node.kubelet.memory_reservation_policy}:
            told = f"memoryReservationPolicy {policy}"
            yield _other(node, told, PROTECTION, memory_reservation_policy=policy)
        return
    highs = [
        (*convert(setting.inputs[:4], tuple[int, int, int, float]), int(found))
        for setting, found in differing
        if setting.rule == "memory.high.1.27" and found.isdecimal()
    ]
    yield from _throttled(node, file, highs)


def _throttled(
    node: Node, file: str, highs: list[tuple[int, int, int, float, int]]
) -> Iterator[OtherConfiguration]:
    """What tells of ``highs``: request, limit, what counts as the limit, factor, and memory.high as found."""
    texts = _common(
        f"{(high - request) / (base - request):.2f}"
        for request, _, base, _, high in highs
        if base > request
    )
    factors = [factor for factor in map(float, texts) if factor > 0]
    for factor in factors:
        told = f"memoryThrottlingFactor {factor:g}"
        yield _other(node, told, (file,), memory_throttling_factor=factor)
    have = node.kubelet.kube_reserved.get("memory", ZERO)
    for chosen in (None, *factors):
        # of a container without a limit what is allocatable counts
        reserved = _common(
            str(round((base - request - (high - request) / (chosen or now)) / _MI))
            for request, limit, base, now, high in highs
            if not limit
        )
        for text in reserved:
            more = {**node.kubelet.kube_reserved, "memory": add(have, from_int(int(text) * _MI))}
            fields: dict[str, object] = {"kube_reserved": more}
            told = "another reservation of memory"
            if chosen is not None:
                fields["memory_throttling_factor"] = chosen
                told = f"memoryThrottlingFactor {chosen:g} and {told}"
            yield _other(node, told, (file,), **fields)


def _periods(differing: Iterable[Differing]) -> Iterator[str]:
    """The periods that were found, in microseconds."""
    for setting, found in differing:
        if setting.file == "cpu.max":
            yield found.partition(" ")[2]
        elif setting.file == "cpu.cfs_period_us":
            yield found


def _common(texts: Iterable[str]) -> list[str]:
    return [text for text, _ in Counter(filter(None, texts)).most_common(_MOST)]
