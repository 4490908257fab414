"""HostConfig, what dockershim passes to Docker for a message of the CRI, by release.

Source: kubernetes pkg/kubelet/dockershim helpers_windows.go (CpuPercent until 1.17, NanoCpus since
1.18, PR 86101) and helpers_linux.go; moby daemon_windows.go (CpuPercent is 1 to 100).
"""

from __future__ import annotations

from qoslet.core.convert.cri_message import Message
from qoslet.core.convert.windows_fields import WindowsFields
from qoslet.core.node.dockershim import LAST_DOCKERSHIM
from qoslet.core.oci.result import BlockResult, Refusal, Unsupported
from qoslet.core.rules.windows import one_group
from qoslet.core.versions.runtime import Runtime
from qoslet.errors import BadInput

LAST_PERCENT = 17
"""The last minor that passes the maximum on as CpuPercent."""

_PER_CPU = 10**9
_MOST = 10_000


def dockershim_release(runtime: Runtime, kubernetes: str | None) -> int:
    """The minor of dockershim: of ``dockershim-1.N``, else of the release, else the last one; the
    design is of the time of CpuPercent."""
    for text in (runtime.name.partition("dockershim-")[2], (kubernetes or "").removeprefix("v")):
        if text == "design":
            return LAST_PERCENT
        parts = text.split(".")
        if len(parts) > 1 and parts[0] == "1" and parts[1].isdecimal():
            return int(parts[1])
    return LAST_DOCKERSHIM


def windows_host_config(fields: WindowsFields, minor: int, processors: int | None) -> BlockResult:
    """The HostConfig of a Windows container. Raises BadInput where the processors are missing."""
    maximum = fields.cpu_maximum
    config = {
        "CpuShares": fields.cpu_shares,
        "CpuCount": fields.cpu_count,
        "Memory": fields.memory_limit_in_bytes,
    }
    if minor <= LAST_PERCENT:
        if maximum > 100:
            words = "range of CPUPercent is from 1 to 100"
            rule = "refused.windows.percent"
            return BlockResult(refusal=Refusal("cpu_maximum", words, rule, (maximum,)))
        config["CpuPercent"] = maximum
    elif maximum and processors is None:
        hint = "dockershim makes NanoCpus of cpu_maximum and the processors"
        raise BadInput("is missing", where="--processors", hint=hint)
    else:
        config["NanoCpus"] = maximum * one_group(processors or 1) * (_PER_CPU // _MOST)
    left_out = (
        ("rootfs_size_in_bytes", fields.rootfs_size_in_bytes),
        ("affinity_cpus", fields.affinity_cpus),
        ("storage.iops", fields.storage_iops),
        ("storage.bps", fields.storage_bps),
    )
    lost = tuple(_lost(name) for name, value in left_out if value)
    return BlockResult(message={name: n for name, n in config.items() if n}, lost=lost)


def linux_host_config(message: Message) -> BlockResult:
    """The HostConfig of a Linux container: memory and swap alike, so that it gets no swap."""
    sent = message.resources
    config: dict[str, object] = {
        "Memory": sent.memory_limit_in_bytes,
        "MemorySwap": sent.memory_limit_in_bytes,
        "CpuShares": sent.cpu_shares,
        "CpuQuota": sent.cpu_quota,
        "CpuPeriod": sent.cpu_period,
        "CpusetCpus": message.cpus,
        "CpusetMems": message.mems,
        "OomScoreAdj": sent.oom_score_adj,
    }
    left_out = (
        ("unified", sent.unified),
        ("hugepage_limits", sent.hugepage_limits),
        ("memory_swap_limit_in_bytes", sent.memory_swap_limit_in_bytes),
    )
    lost = tuple(_lost(name) for name, value in left_out if value)
    return BlockResult(message={name: value for name, value in config.items() if value}, lost=lost)


def _lost(field: str) -> Unsupported:
    why = "dockershim fills no field of HostConfig with it"
    return Unsupported(field, why, "containerd or CRI-O", field=field)
