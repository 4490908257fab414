"""The settings of one cgroup: those that the kubelet writes, and those that a runtime writes for the
block that it makes of a CRI message.

Source: opencontainers/cgroups fs, fs2; runtime-spec config-linux; containerd pkg/cri.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from qoslet.core.cgroup.accepts import effective
from qoslet.core.cgroup.features import KernelFeatures
from qoslet.core.cgroup.interface_files import MEMORY_QOS
from qoslet.core.oci.resources import Block, Cpu, Hugepages, Memory
from qoslet.core.oci.result import Row
from qoslet.core.oci.write import accepted
from qoslet.core.resources.cgroup_tree import Setting, Writer
from qoslet.core.resources.cri_resources import CriResources, UnifiedEntry, Why
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.not_written import NotWritten, Reason
from qoslet.core.rules.cpu import QUOTA_PERIOD_US, systemd_quota, weight_linear, weight_quadratic
from qoslet.core.versions.runtime import Runtime

_ROUNDED = "hm"
"""First letters of the files whose values the kernel rounds: hugetlb and memory."""

_PAGES = "hugetlb.request"

_HUGETLB_MAX = 1024
"""The most cached rows of hugepages."""


class Files:
    """Collects the settings of one group; a later entry replaces an earlier one's file."""

    def __init__(self, policy: NodePolicy, writer: Writer) -> None:
        self._policy = policy
        self._writer = writer
        # kubelets do not have variant qoslet
        self._own = writer == "kubelet" and policy.memory_qos == "qoslet"
        self._page = policy.node.host.page_size
        self._rows: dict[str, Setting] = {}
        self.unwritten: dict[str, NotWritten] = {}
        """Files that a rule does not write, by their names in v2."""

    def put(self, file: str, value: str, why: Why, changed: str | None = None) -> None:
        """Add a setting, where the host has the file; ``changed`` is the value that the driver makes
        of it."""
        missing = self._policy.missing
        if missing is not None and missing.lacks(file):
            return
        effective_value = value if changed is None else changed
        if file[0] in _ROUNDED:
            effective_value = effective(file, effective_value, self._page)
        writer: Writer = "qoslet" if self._own and file in MEMORY_QOS else self._writer
        changed = effective_value if effective_value != value else None
        self._rows[file] = Setting(file, value, why[0], why[1], writer, changed)

    def weight(self, shares: int, subject: str, milli: int, curve: str) -> None:
        """CPU shares on v1, the weight of a curve on v2."""
        if not self._policy.v2:
            self.put("cpu.shares", str(shares), ("cpu.shares", (subject, milli, shares)))
            return
        weight = weight_linear(shares) if curve == "linear" else weight_quadratic(shares)
        if weight:
            self.put("cpu.weight", str(weight), (f"cpu.weight.{curve}", (subject, milli, shares)))

    def bandwidth(self, quota: int, period: int, subject: str, milli: int) -> None:
        """Quota and period in microseconds, if either is set."""
        if not quota and not period:
            self.skip("cpu.max", Reason.QUOTA_OFF)
            return
        inputs = (subject, milli, period, quota)
        quota_kept, period_kept = quota, period
        if self._policy.node.driver == "systemd":
            quota_kept = systemd_quota(quota, period)
            # without a quota systemd writes the default period
            period_kept = period if quota > 0 else QUOTA_PERIOD_US
        if self._policy.v2:
            text = f"{quota if quota > 0 else 'max'} {period or QUOTA_PERIOD_US}"
            effective_value = (
                f"{quota_kept if quota_kept > 0 else 'max'} {period_kept or QUOTA_PERIOD_US}"
            )
            self.put("cpu.max", text, ("cpu.max", inputs), effective_value)
            return
        if period:
            self.put("cpu.cfs_period_us", str(period), ("cpu.period", inputs), str(period_kept))
        if quota:
            self.put("cpu.cfs_quota_us", str(quota), ("cpu.quota", inputs), str(quota_kept))
        else:
            self.skip("cpu.max", Reason.NO_CPU_LIMIT)

    def memory_limit(self, limit: int, why: Why) -> None:
        """The hard limit in bytes; 0 is "not written"."""
        if limit:
            name = "memory.max" if self._policy.v2 else "memory.limit_in_bytes"
            self.put(name, "max" if limit == -1 and self._policy.v2 else str(limit), why)
        else:
            self.skip("memory.max", Reason.NO_MEMORY_LIMIT)

    def pids(self, limit: int, why: Why) -> None:
        """The process limit: 0 is read as 1, negative as unlimited."""
        self.put("pids.max", "max" if limit < 0 else str(limit or 1), why)

    def hugetlb(self, rule: str, amounts: Mapping[str, int], rsvd: bool, other: int = 0) -> None:
        """Every page size of the host, and its reservation if the writer limits that.

        ``amounts`` is by the text of a size; ``other`` is the amount of sizes that it lacks.
        """
        sizes = self._policy.hugepages
        if not sizes:
            return
        values = tuple([amounts.get(text, other) for text, _ in sizes])
        key = (rule, values, rsvd, self._writer)
        cache = self._policy.hugetlb_memo
        rows = cache.get(key)
        if rows is None:
            if len(cache) >= _HUGETLB_MAX:
                cache.clear()
            rows = cache[key] = self._hugetlb_rows(rule, amounts, rsvd, other)
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

    def rows(self, rows: Iterable[tuple[str, str, Why] | NotWritten]) -> None:
        """Add rows of file, value and reason, and reasons for files that are not written."""
        for row in rows:
            if isinstance(row, NotWritten):
                self.unwritten[row.file] = row
            else:
                self.put(*row)

    def skip(self, file: str, reason: str, *inputs: object) -> None:
        """Record why a file is not written."""
        self.unwritten[file] = NotWritten(file, reason, inputs)

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
    runtime, host = policy.runtime, policy.node.host
    block = oci_block(runtime, host.swap_controller, message)
    if not policy.v2 and not host.swap_controller and block.memory is not None:
        block = replace(block, memory=replace(block.memory, swap=None))
    features = _features(host.page_size, host.hugetlb_rsvd)
    systemd = policy.node.driver == "systemd"
    rows = accepted(block, policy.node.hierarchy, runtime, features, systemd)
    writer: Writer = "qoslet" if runtime.oci == "process" else "runtime"
    whys = _whys(policy, message)
    places = {field: place for place, field in enumerate(whys)}
    if block.memory is not None and block.memory.swap:
        # written once more by the unified map
        places["unified.memory.swap.max"] = places["memory.swap"]
    placed = [
        (places[row.field], Setting(row.file, row.value, *_why(row, whys), writer, row.effective))
        for row in rows
    ]
    placed.sort(key=_place)
    return existing(policy, [setting for _, setting in placed])


def existing(policy: NodePolicy, settings: Iterable[Setting]) -> tuple[Setting, ...]:
    """The settings whose files the host has."""
    missing = policy.missing
    if missing is None:
        return tuple(settings)
    return tuple([setting for setting in settings if not missing.lacks(setting.file)])


def container_unwritten(policy: NodePolicy, message: CriResources) -> dict[str, NotWritten]:
    """The files that are not written in a container, by their names in v2."""
    unwritten = {row.file: row for row in message.unwritten}

    def skip(file: str, reason: str, *inputs: object) -> None:
        unwritten[file] = NotWritten(file, reason, inputs)

    if not message.cpu_quota:
        skip("cpu.max", Reason.NO_CPU_LIMIT if message.cpu_period else Reason.QUOTA_OFF)
    if not message.memory_limit_in_bytes:
        skip("memory.max", Reason.NO_MEMORY_LIMIT)
    if not policy.node.host.swap_controller:
        skip("memory.swap.max", Reason.NO_SWAP_ACCOUNTING)
    elif policy.choices.swap in ("none", "legacy"):
        skip("memory.swap.max", Reason.SWAP_UNSAID, policy.node.profile.kubernetes)
    else:
        skip("memory.swap.max", Reason.NO_LIMIT_FOR_SWAP)
    return unwritten


def _place(row: tuple[int, Setting]) -> tuple[int, object]:
    """The field's place; hugepages by size."""
    return row[0], row[1].inputs[0] if row[1].rule == _PAGES else ""


@lru_cache(maxsize=8)
def _features(page_size: int, rsvd: bool) -> KernelFeatures:
    return KernelFeatures(page_size=page_size, rsvd=rsvd)


def _why(row: Row, whys: Mapping[str, Why]) -> Why:
    if row.field == "hugepageLimits":
        size, amount = row.inputs
        return _PAGES, (f"hugepages of {size}", amount)
    return whys[row.field]


def _whys(policy: NodePolicy, message: CriResources) -> dict[str, Why]:
    """The rule and inputs of each field of the block, in the order of a plan."""
    v2, runtime, limit = policy.v2, policy.runtime, message.memory_limit_in_bytes
    bandwidth = (*message.quota_why, message.cpu_period, message.cpu_quota)
    weight = f"cpu.weight.{runtime.curve}" if v2 else "cpu.shares"
    return {
        "memory.limit": ("memory.limit.container", (limit, message.memory_why)),
        "memory.swap": swap_total(runtime, policy.node.host.swap_controller, message)[1],
        "cpu.shares": (weight, (*message.shares_why, message.cpu_shares)),
        "cpu.period": ("cpu.period", bandwidth),
        "cpu.quota": ("cpu.max" if v2 else "cpu.quota", bandwidth),
        "hugepageLimits": (_PAGES, ()),
        **{f"unified.{entry.file}": entry.why for entry in message.unified},
    }


def _set(**fields: Any) -> dict[str, Any]:
    """The set fields, as protobuf's JSON prints a message."""
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


def oci_block(runtime: Runtime, swap_controller: bool, message: CriResources) -> Block:
    """``linux.resources`` of the OCI config that a CRI runtime makes of a message;
    ``swap_controller``: whether the kernel limits swap."""
    total, _ = swap_total(runtime, swap_controller, message)
    limit = message.memory_limit_in_bytes
    shares, quota, period = message.cpu_shares, message.cpu_quota, message.cpu_period
    pages = message.hugepage_limits if runtime.hugetlb else ()
    entries = sorted(message.unified, key=_file)
    return Block(
        memory=Memory(limit=limit or None, swap=total or None) if limit or total else None,
        cpu=Cpu(shares=shares or None, quota=quota or None, period=period or None)
        if shares or quota or period
        else None,
        hugepage_limits=[Hugepages(text, amount) for text, amount in pages] or None,
        unified={entry.file: entry.value for entry in entries} or None,
    )
