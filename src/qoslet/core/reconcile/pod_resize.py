"""In-place resize of a pod's cgroup: what is read back, compared, checked and written when.

Shares are cpu.shares, quotas and periods microseconds, memory bytes; None is "not set", -1 is
"unlimited". Source: kubelet pkg/kubelet/cm/helpers_linux.go, cgroup_manager_linux.go;
pkg/kubelet/kuberuntime/kuberuntime_manager.go doPodResizeAction (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct, structs

from qoslet.core.api.pod import Quantities
from qoslet.core.cgroup.interface_files import hugepage_size
from qoslet.core.resources.cgroup_tree import Setting
from qoslet.core.resources.cgroup_writer import Files
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.rules import cpu
from qoslet.core.rules.hugetlb import size_text

Part = Literal["pod.limit", "pod.request", "containers"]
Resource = Literal["memory", "cpu"]


class Config(Struct, frozen=True):
    """A group's configuration as the kubelet holds it (ResourceConfig)."""

    memory: int | None = None
    cpu_shares: int | None = None
    cpu_quota: int | None = None
    cpu_period: int | None = None
    pids: int | None = None
    hugepages: Mapping[int, int] | None = None
    """Bytes of a page to bytes; None counts as empty when it is written."""
    unified: Mapping[str, str] | None = None


def _limit(text: str) -> int:
    return -1 if text == "max" else int(text)


def read_config(files: Iterable[tuple[str, str]]) -> Config:
    """The configuration that the files of a group hold, v1 or v2.

    ``max`` is -1. Shares come back from cpu.weight with a loss. Source: GetCgroupConfig.
    """
    fields: dict[str, int] = {}
    hugepages: dict[int, int] = {}
    unified: dict[str, str] = {}
    for file, text in files:
        if file in ("memory.max", "memory.limit_in_bytes"):
            fields["memory"] = _limit(text)
        elif file == "cpu.shares":
            fields["cpu_shares"] = int(text)
        elif file == "cpu.weight":
            fields["cpu_shares"] = cpu.shares_of_weight(int(text))
        elif file == "cpu.max":
            quota, period = text.split()
            fields |= {"cpu_quota": _limit(quota), "cpu_period": int(period)}
        elif file == "cpu.cfs_quota_us":
            fields["cpu_quota"] = int(text)
        elif file == "cpu.cfs_period_us":
            fields["cpu_period"] = int(text)
        elif file == "pids.max":
            fields["pids"] = _limit(text)
        elif file.startswith("hugetlb.") and ".rsvd." not in file:
            hugepages[hugepage_size(file)] = int(text)
        elif file in ("memory.min", "memory.low", "memory.high"):
            unified[file] = text
    return Config(**fields, hugepages=hugepages or None, unified=unified or None)


def merged(source: Config | None, update: Config | None) -> Config:
    """``update`` over ``source``: set fields win, maps are joined. Source: MergeResourceConfig."""
    fields = {} if source is None else structs.asdict(source)
    for name, value in structs.asdict(update).items() if update is not None else ():
        if isinstance(fields.get(name), Mapping) and isinstance(value, Mapping):
            fields[name] = {**fields[name], **value}
        elif value is not None:
            fields[name] = value
    return Config(**fields)


def without_overhead(config: Config, overhead: Quantities) -> Config:
    """The configuration that the sandbox is told of: the pod's overhead taken off.

    -1 is decremented like a number. Source: subtractOverheadFromResourceConfig.
    """
    milli = overhead["cpu"].milli if "cpu" in overhead else 0
    shares, quota, memory = config.cpu_shares, config.cpu_quota, config.memory
    if milli and shares is not None:
        shares = cpu.shares(cpu.milli_of_shares(shares) - milli)
    if milli and quota is not None and config.cpu_period is not None:
        quota -= cpu.quota(milli, config.cpu_period)
    if memory is not None and "memory" in overhead:
        memory -= overhead["memory"].value
    return structs.replace(config, cpu_shares=shares, cpu_quota=quota, memory=memory)


def cpu_request(config: Config | None) -> int | None:
    """The millicores that the shares stand for. Source: GetCPURequestFromConfig (1.37)."""
    return cpu.milli_of_shares(config.cpu_shares) if config and config.cpu_shares else None


def cpu_limit(config: Config | None) -> int | None:
    """The millicores that quota and period stand for; None where there is no limit."""
    if config is None or not config.cpu_period or (config.cpu_quota or 0) <= 0:
        return None
    return cpu.milli_of_quota(config.cpu_quota or 0, config.cpu_period)


def memory_limit(config: Config | None) -> int | None:
    """The memory limit in bytes; None where there is none."""
    return config.memory if config and (config.memory or 0) > 0 else None


def limit_fault(current: int | None, desired: int | None, usage: int | None) -> str:
    """Why a memory limit cannot be lowered or added now; empty where it can.

    None and 0 are "no limit". Source: validateMemoryResizeAction.
    """
    if not desired or (current and desired >= current):
        return ""
    if usage is None:
        return "memory usage is not known"
    return f"memory usage {usage} is not below the new limit {desired}" if usage >= desired else ""


class Step(Struct, frozen=True):
    """One write of a resize. ``value`` is shares, a quota or bytes; None for the containers."""

    resource: Resource
    part: Part
    value: int | None = None


def order(
    resource: Resource, limit: tuple[int, int], request: tuple[int, int] | None = None
) -> list[Step]:
    """The steps for one resource: what grows before the containers, what shrinks after them.

    ``limit`` and ``request`` are (current, new); plain numbers are compared, so from -1 every
    limit is a growth. Memory has no request in the pod's cgroup.
    """
    was, becomes = limit
    had, gets = request or (0, 0)
    rise, fall = Step(resource, "pod.limit", becomes), Step(resource, "pod.limit", becomes)
    more, less = Step(resource, "pod.request", gets), Step(resource, "pod.request", gets)
    return [
        *([rise] if becomes > was else []),
        *([more] if gets > had else []),
        Step(resource, "containers"),
        *([less] if gets < had else []),
        *([fall] if becomes < was else []),
    ]


def steps(current: Config, desired: Config) -> list[Step]:
    """All steps of a resize, memory before CPU; what ``desired`` leaves out stays as it is."""

    def change(name: str) -> tuple[int, int]:
        was, becomes = getattr(current, name), getattr(desired, name)
        return was or 0, (was if becomes is None else becomes) or 0

    return [
        *order("memory", change("memory")),
        *order("cpu", change("cpu_quota"), change("cpu_shares")),
    ]


def update_settings(policy: NodePolicy, config: Config) -> tuple[Setting, ...]:
    """The files that an update of a pod's group writes: what is set, and hugepages always.

    A missing hugepage map counts as empty, so a resize zeroes the pod's hugepage limits.
    Source: cgroup manager Update, toResources (PR 141991 is open).
    """
    files = Files(policy, "kubelet")
    subject = "the desired configuration"
    if config.pids is not None:
        files.pids(config.pids, ("pids.pod", (config.pids,)))
    if config.memory is not None:
        files.memory_limit(config.memory, ("memory.limit.pod", (config.memory, subject)))
    if config.cpu_shares is not None:
        files.weight(config.cpu_shares, f"={subject}", 0, "linear")
    if config.cpu_quota is not None or config.cpu_period is not None:
        quota, period = config.cpu_quota or 0, config.cpu_period or 0
        files.bandwidth(quota, period, subject, cpu.milli_of_quota(quota, period))
    if config.hugepages:
        amounts = {size_text(size): amount for size, amount in config.hugepages.items()}
        files.hugetlb("hugetlb.request", amounts, policy.choices.rsvd)
    else:
        files.hugetlb("hugetlb.zero", {}, policy.choices.rsvd)
    for file, text in (config.unified or {}).items() if policy.v2 else ():
        files.put(file, text, ("memory.desired", (file,)))
    return files.settings()
