"""A cgroup's configuration as the kubelet holds it (ResourceConfig): how vectors spell settings.

Shares are cpu.shares, quotas and periods microseconds, memory bytes; None is "not set", -1 is
"unlimited". Source: kubelet pkg/kubelet/cm/helpers_linux.go, cgroup_manager_linux.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from qoslet.core.cgroup.interface_files import hugepage_size
from qoslet.core.resources.cgroup_tree import Setting
from qoslet.core.resources.cgroup_writer import Files
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.rules.hugetlb import size_text
from tests.core.vectors import read_back


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
            fields["cpu_shares"] = read_back.shares_of_weight(int(text))
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
        files.bandwidth(quota, period, subject, read_back.milli_of_quota(quota, period))
    if config.hugepages:
        amounts = {size_text(size): amount for size, amount in config.hugepages.items()}
        files.hugetlb("hugetlb.request", amounts, policy.choices.rsvd)
    else:
        files.hugetlb("hugetlb.zero", {}, policy.choices.rsvd)
    for file, text in (config.unified or {}).items() if policy.v2 else ():
        files.put(file, text, ("memory.desired", (file,)))
    return files.settings()
