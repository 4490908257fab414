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
from qoslet.core.resources.cri_resources import Sent, Unified, Why
from qoslet.core.resources.node_policy import Basis
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

    def __init__(self, basis: Basis, writer: Writer) -> None:
        self._basis = basis
        self._writer = writer
        # a kubelet knows nothing of qoslet's own form
        self._own = writer == "kubelet" and basis.memory_qos == "qoslet"
        self._page = basis.node.host.page_size
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
        if not self._basis.v2:
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
        rounds = self._writer != "runtime" or self._basis.runtime.rounds_quota
        if self._basis.node.driver == "systemd" and rounds:
            kept = systemd_quota(quota, period)
            # without a quota systemd writes the default period, whatever it was told
            every = period if quota > 0 else QUOTA_PERIOD_US
        if self._basis.v2:
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
            name = "memory.max" if self._basis.v2 else "memory.limit_in_bytes"
            self.put(name, "max" if limit == -1 and self._basis.v2 else str(limit), why)

    def pids(self, limit: int, why: Why) -> None:
        """The process limit: 0 is read as 1, negative as unlimited."""
        self.put("pids.max", "max" if limit < 0 else str(limit or 1), why)

    def hugetlb(self, rule: str, amounts: Mapping[str, int], rsvd: bool, other: int = 0) -> None:
        """Every page size of the host, and its reservation where the writer limits that.

        ``amounts`` is by the text of a size; ``other`` is for the sizes that it lacks.
        """
        sizes = self._basis.hugepages
        if not sizes:
            return
        values = tuple([amounts.get(text, other) for text, _ in sizes])
        key = (rule, values, rsvd, self._writer)
        memo = self._basis.hugetlb_memo
        rows = memo.get(key)
        if rows is None:
            if len(memo) >= _HUGETLB_MAX:
                memo.clear()
            rows = memo[key] = self._hugetlb_rows(rule, amounts, rsvd, other)
        self._rows.update(rows)

    def _hugetlb_rows(
        self, rule: str, amounts: Mapping[str, int], rsvd: bool, other: int
    ) -> dict[str, Setting]:
        suffix = "max" if self._basis.v2 else "limit_in_bytes"
        files = Files(self._basis, self._writer)
        for text, _ in sorted(self._basis.hugepages):
            amount = amounts.get(text, other)
            why: Why = (rule, (f"hugepages of {text}", amount) if rule == "hugetlb.request" else ())
            files.put(f"hugetlb.{text}.{suffix}", str(amount), why)
            if rsvd and self._basis.node.host.hugetlb_rsvd:
                files.put(f"hugetlb.{text}.rsvd.{suffix}", str(amount), why)
        return files._rows

    def unified(self, entries: tuple[Unified, ...]) -> None:
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


def swap_total(runtime: Runtime, swap_controller: bool, sent: Sent) -> tuple[int, Why]:
    """OCI memory+swap in bytes that the CRI runtime makes of a message, and why."""
    if sent.memory_swap_limit_in_bytes:
        return sent.memory_swap_limit_in_bytes, sent.swap_why
    if runtime.swap_from_limit and swap_controller:
        limit = sent.memory_limit_in_bytes
        return limit, ("swap.equal", (limit,))
    return 0, ("", ())


def container_settings(basis: Basis, sent: Sent) -> tuple[Setting, ...]:
    """The files that the runtime writes for a container."""
    files = Files(basis, "qoslet" if basis.runtime.oci == "process" else "runtime")
    runtime = basis.runtime
    limit = sent.memory_limit_in_bytes
    files.memory_limit(limit, ("memory.limit.container", (limit, sent.memory_why)))
    total, why = swap_total(runtime, basis.node.host.swap_controller, sent)
    if total and basis.v2:
        _swap_v2(files, limit, total, basis.choices.swap_conversion, why)
    elif total and basis.node.host.swap_controller:
        files.put("memory.memsw.limit_in_bytes", str(total), why)
    files.weight(sent.cpu_shares, *sent.shares_why, runtime.curve)
    files.bandwidth(sent.cpu_quota, sent.cpu_period, *sent.quota_why)
    if runtime.hugetlb and sent.hugepage_limits:
        files.hugetlb("hugetlb.request", dict(sent.hugepage_limits), runtime.rsvd)
    files.unified(sent.unified)
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


def linux_cri(sent: Sent) -> dict[str, Any]:
    """LinuxContainerResources in the protobuf's field names; unset fields are left out."""
    huge = [_set(page_size=text, limit=amount) for text, amount in sent.hugepage_limits]
    return _set(
        cpu_period=sent.cpu_period,
        cpu_quota=sent.cpu_quota,
        cpu_shares=sent.cpu_shares,
        memory_limit_in_bytes=sent.memory_limit_in_bytes,
        oom_score_adj=sent.oom_score_adj,
        hugepage_limits=huge,
        unified={entry.file: entry.value for entry in sorted(sent.unified, key=_file)},
        memory_swap_limit_in_bytes=sent.memory_swap_limit_in_bytes,
    )


def _file(entry: Unified) -> str:
    return entry.file


def linux_oci(basis: Basis, sent: Sent) -> dict[str, Any]:
    """``linux.resources`` of the OCI config that the node's CRI runtime makes of a message."""
    return oci_block(basis.runtime, basis.node.host.swap_controller, sent)


def oci_block(runtime: Runtime, swap_controller: bool, sent: Sent) -> dict[str, Any]:
    """The same for any runtime; ``swap_controller``: whether the kernel limits swap."""
    total, _ = swap_total(runtime, swap_controller, sent)
    memory = _set(limit=sent.memory_limit_in_bytes, swap=total)
    processor = _set(shares=sent.cpu_shares, quota=sent.cpu_quota, period=sent.cpu_period)
    huge: list[dict[str, Any]] = []
    if runtime.hugetlb:
        huge = [{"pageSize": text, "limit": amount} for text, amount in sent.hugepage_limits]
    unified = {entry.file: entry.value for entry in sorted(sent.unified, key=_file)}
    return _set(memory=memory, cpu=processor, hugepageLimits=huge, unified=unified)
