"""Resource blocks: CRI messages, OCI ``linux.resources``, and the files that a runtime writes.

``files`` is how runc and crun turn a block into v1 or v2 files; ``cri`` and ``oci`` print the
blocks of a whole plan in the spelling of the protobuf fields and of the OCI specification.
Source: opencontainers/cgroups fs, fs2; crun cgroup-resources; runtime-spec config-linux.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from qoslet.core.cgroup.accepts import effective
from qoslet.core.resources.cgroup_tree import Setting, Writer
from qoslet.core.resources.cri_resources import CriResources, UnifiedEntry, Why
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.rules.cpu import QUOTA_PERIOD_US, systemd_quota, weight_linear, weight_quadratic
from qoslet.core.versions.runtime import Runtime


def swap_max(limit: int, swap: int, conversion: str = "difference") -> str | None:
    """OCI memory+swap to memory.swap.max; None: not written. ValueError where runc refuses.

    ``same`` is KEP-2254's y = x. Source: opencontainers/cgroups
    ConvertMemorySwapToCgroupV2Value.
    """
    if conversion == "same":
        return None if swap == 0 else "max" if swap == -1 else str(swap)
    if limit == -1 and swap == 0:
        return "max"
    if swap == 0:
        return None
    if swap == -1:
        return "max"
    if limit == -1:
        return str(swap)
    if limit <= 0:
        raise ValueError("unable to set swap limit without memory limit")
    if swap < limit:
        raise ValueError("memory+swap is below the memory limit")
    return str(swap - limit)


_ROUNDED = "hm"
"""First letters of the files whose values the kernel rounds: hugetlb and memory."""

_MEMORY_QOS = ("memory.min", "memory.low", "memory.high")

_HUGETLB_MAX = 1024
"""Rows of hugepages that are kept for the groups that share them."""


class Files:
    """Collects the settings of one group; a later entry replaces an earlier one's file."""

    def __init__(self, policy: NodePolicy, writer: Writer) -> None:
        self._policy = policy
        self._writer = writer
        # a kubelet knows nothing of qoslet's own form
        self._own = writer == "kubelet" and policy.memory_qos == "qoslet"
        self._page = policy.node.host.page_size
        self._rows: dict[str, Setting] = {}

    def put(self, file: str, value: str, why: Why, kept: str | None = None) -> None:
        """Add a row; ``kept`` is what the driver makes of the value."""
        stands = value if kept is None else kept
        if file[0] in _ROUNDED:
            stands = effective(file, stands, self._page)
        writer: Writer = "qoslet" if self._own and file in _MEMORY_QOS else self._writer
        kept = stands if stands != value else None
        self._rows[file] = Setting(file, value, why[0], why[1], writer, kept)

    def weight(self, shares: int, subject: str, milli: int, curve: str) -> None:
        """CPU shares on v1, the weight of a curve on v2."""
        if not self._policy.v2:
            self.put("cpu.shares", str(shares), ("cpu.shares", (subject, milli, shares)))
            return
        weight = weight_linear(shares) if curve == "linear" else weight_quadratic(shares)
        if weight:
            self.put("cpu.weight", str(weight), (f"cpu.weight.{curve}", (subject, milli, shares)))

    def bandwidth(self, quota: int, period: int, subject: str, milli: int) -> None:
        """Quota and period, where any of both is set; microseconds."""
        if not quota and not period:
            return
        inputs = (subject, milli, period, quota)
        kept, every = quota, period
        rounds = self._writer != "runtime" or self._policy.runtime.rounds_quota
        if self._policy.node.driver == "systemd" and rounds:
            kept = systemd_quota(quota, period)
            # without a quota systemd writes the default period, whatever it was told
            every = period if quota > 0 else QUOTA_PERIOD_US
        if self._policy.v2:
            text = f"{quota if quota > 0 else 'max'} {period or QUOTA_PERIOD_US}"
            real = f"{kept if kept > 0 else 'max'} {every or QUOTA_PERIOD_US}"
            self.put("cpu.max", text, ("cpu.max", inputs), real)
            return
        if period:
            self.put("cpu.cfs_period_us", str(period), ("cpu.period", inputs), str(every))
        if quota:
            self.put("cpu.cfs_quota_us", str(quota), ("cpu.quota", inputs), str(kept))

    def memory_limit(self, limit: int, why: Why) -> None:
        """The hard limit in bytes; 0 is "not written"."""
        if limit:
            name = "memory.max" if self._policy.v2 else "memory.limit_in_bytes"
            self.put(name, "max" if limit == -1 and self._policy.v2 else str(limit), why)

    def pids(self, limit: int, why: Why) -> None:
        """The process limit: 0 is read as 1, negative as unlimited."""
        self.put("pids.max", "max" if limit < 0 else str(limit or 1), why)

    def hugetlb(self, rule: str, amounts: Mapping[str, int], rsvd: bool, other: int = 0) -> None:
        """Every page size of the host, and its reservation where the writer limits that.

        ``amounts`` is by the text of a size; ``other`` is for the sizes that it lacks.
        """
        sizes = self._policy.hugepages
        if not sizes:
            return
        values = tuple([amounts.get(text, other) for text, _ in sizes])
        key = (rule, values, rsvd, self._writer)
        memo = self._policy.hugetlb_memo
        rows = memo.get(key)
        if rows is None:
            if len(memo) >= _HUGETLB_MAX:
                memo.clear()
            rows = memo[key] = self._hugetlb_rows(rule, amounts, rsvd, other)
        self._rows.update(rows)

    def _hugetlb_rows(
        self, rule: str, amounts: Mapping[str, int], rsvd: bool, other: int
    ) -> dict[str, Setting]:
        suffix = "max" if self._policy.v2 else "limit_in_bytes"
        files = Files(self._policy, self._writer)
        for text, _ in sorted(self._policy.hugepages):
            amount = amounts.get(text, other)
            why: Why = (rule, (f"hugepages of {text}", amount) if rule == "hugetlb.request" else ())
            files.put(f"hugetlb.{text}.{suffix}", str(amount), why)
            if rsvd and self._policy.node.host.hugetlb_rsvd:
                files.put(f"hugetlb.{text}.rsvd.{suffix}", str(amount), why)
        return files._rows

    def unified(self, entries: tuple[UnifiedEntry, ...]) -> None:
        """Entries of the unified map, written last."""
        for entry in entries:
            self.put(entry.file, entry.value, entry.why)

    def rows(self, rows: Iterable[tuple[str, str, Why]]) -> None:
        """Add rows of file, value and reason."""
        for file, value, why in rows:
            self.put(file, value, why)

    def settings(self) -> tuple[Setting, ...]:
        """The rows, in the order in which they are written."""
        return tuple(self._rows.values())


def swap_total(runtime: Runtime, swap_controller: bool, message: CriResources) -> tuple[int, Why]:
    """OCI memory+swap in bytes that the CRI runtime makes of a message, and why."""
    if message.memory_swap_limit_in_bytes:
        return message.memory_swap_limit_in_bytes, message.swap_why
    if runtime.swap_from_limit and swap_controller:
        limit = message.memory_limit_in_bytes
        return limit, ("swap.equal", (limit,))
    return 0, ("", ())


def container_settings(policy: NodePolicy, message: CriResources) -> tuple[Setting, ...]:
    """The files that the runtime writes for a container."""
    files = Files(policy, "qoslet" if policy.runtime.oci == "process" else "runtime")
    runtime = policy.runtime
    limit = message.memory_limit_in_bytes
    files.memory_limit(limit, ("memory.limit.container", (limit, message.memory_why)))
    total, why = swap_total(runtime, policy.node.host.swap_controller, message)
    if total and policy.v2:
        _swap_v2(files, limit, total, policy.choices.swap_conversion, why)
    elif total and policy.node.host.swap_controller:
        files.put("memory.memsw.limit_in_bytes", str(total), why)
    files.weight(message.cpu_shares, *message.shares_why, runtime.curve)
    files.bandwidth(message.cpu_quota, message.cpu_period, *message.quota_why)
    if runtime.hugetlb and message.hugepage_limits:
        files.hugetlb("hugetlb.request", dict(message.hugepage_limits), runtime.rsvd)
    files.unified(message.unified)
    return files.settings()


def _swap_v2(files: Files, limit: int, total: int, conversion: str, why: Why) -> None:
    try:
        text = swap_max(limit, total, conversion)
    except ValueError:
        return
    if text is not None:
        files.put("memory.swap.max", text, why)


def _set(**fields: Any) -> dict[str, Any]:
    """Only what is set, as protobuf JSON prints a message."""
    return {name: value for name, value in fields.items() if value}


def linux_cri(message: CriResources) -> dict[str, Any]:
    """LinuxContainerResources in the protobuf's field names; unset fields are left out."""
    huge = [_set(page_size=text, limit=amount) for text, amount in message.hugepage_limits]
    return _set(
        cpu_period=message.cpu_period,
        cpu_quota=message.cpu_quota,
        cpu_shares=message.cpu_shares,
        memory_limit_in_bytes=message.memory_limit_in_bytes,
        oom_score_adj=message.oom_score_adj,
        hugepage_limits=huge,
        unified={entry.file: entry.value for entry in sorted(message.unified, key=_file)},
        memory_swap_limit_in_bytes=message.memory_swap_limit_in_bytes,
    )


def _file(entry: UnifiedEntry) -> str:
    return entry.file


def linux_oci(policy: NodePolicy, message: CriResources) -> dict[str, Any]:
    """``linux.resources`` of the OCI config that the node's CRI runtime makes of a message."""
    return oci_block(policy.runtime, policy.node.host.swap_controller, message)


def oci_block(runtime: Runtime, swap_controller: bool, message: CriResources) -> dict[str, Any]:
    """The same for any runtime; ``swap_controller``: whether the kernel limits swap."""
    total, _ = swap_total(runtime, swap_controller, message)
    memory = _set(limit=message.memory_limit_in_bytes, swap=total)
    processor = _set(shares=message.cpu_shares, quota=message.cpu_quota, period=message.cpu_period)
    huge: list[dict[str, Any]] = []
    if runtime.hugetlb:
        huge = [{"pageSize": text, "limit": amount} for text, amount in message.hugepage_limits]
    unified = {entry.file: entry.value for entry in sorted(message.unified, key=_file)}
    return _set(memory=memory, cpu=processor, hugepageLimits=huge, unified=unified)
