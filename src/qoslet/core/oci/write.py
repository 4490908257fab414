"""One OCI block to the files of a hierarchy, as a version of a runtime writes them."""

from __future__ import annotations

from msgspec import Struct, structs

from qoslet.core.cgroup.features import ALL_FEATURES, KernelFeatures
from qoslet.core.oci import runc
from qoslet.core.oci.file_writes import FileWrites
from qoslet.core.oci.resources import NO_MEMORY, Block
from qoslet.core.oci.result import BlockResult, Hierarchy, Row, Stop, Unsupported
from qoslet.core.rules.cpu import QUOTA_PERIOD_US, systemd_quota
from qoslet.core.versions.runtime import Runtime

_PERIOD = str(QUOTA_PERIOD_US)

UNCHECKED = Unsupported(
    "the check before an update",
    "the runtime compares the limit with memory.current, which is not given",
    "--usage BYTES[,SWAP] with memory.current and memory.swap.current",
    "elsewhere",
    "memory.checkBeforeUpdate",
)
"""Reported with an update whose rows assume that the check passes."""


class Update(Struct, frozen=True):
    """An update of a running container: its current block, memory.current (None: unknown, so that
    checkBeforeUpdate refuses nothing) and memory.swap.current."""

    before: Block = Block()
    usage: int | None = None
    swapped: int = 0


def files(
    block: Block,
    hierarchy: Hierarchy,
    runtime: Runtime,
    features: KernelFeatures = ALL_FEATURES,
    update: Update | None = None,
    systemd: bool = False,
) -> BlockResult:
    """The rows of a block up to the first refusal, and what is not supported.

    With ``update`` the block is that of an update. ``systemd``: the systemd driver, with which
    some runtimes round the quota to whole percents of a CPU.
    """
    writes, refusal = FileWrites(features, _initial(update)), None
    requested = block
    if block.unified and not runtime.unified:
        block = structs.replace(block, unified=())
    if update is not None and runtime.family == "runc":
        # imported for an update: a plan makes containers
        from qoslet.core.oci.runc_update import updated

        block = updated(update.before, block, runtime)
    try:
        _write(writes, block, hierarchy, runtime, update)
    except Stop as stop:
        refusal = stop.refusal
    if systemd and runtime.rounds_quota:
        _round_quota(writes.rows)
    # imported for a block: a plan writes only what is supported
    from qoslet.core.oci.unsupported import lost

    not_supported = lost(requested, hierarchy, runtime, features.bfq)
    if update is not None and _unchecked(requested, hierarchy, runtime, update):
        not_supported = (*not_supported, UNCHECKED)
    return BlockResult(tuple(writes.rows.values()), refusal, not_supported)


def accepted(
    block: Block, hierarchy: Hierarchy, runtime: Runtime, features: KernelFeatures, systemd: bool
) -> tuple[Row, ...]:
    """The rows of a new container's block without checks, as they are after systemd has written
    the unit again."""
    writes = FileWrites(features, checks=False)
    _write(writes, block, hierarchy, runtime, None)
    if systemd and runtime.rounds_quota:
        _round_quota(writes.rows)
        _reset_period(writes.rows)
    return tuple(writes.rows.values())


def _unchecked(block: Block, hierarchy: Hierarchy, runtime: Runtime, update: Update) -> bool:
    """Whether the result of an update depends on unknown usage; v1 has no such check.
    Source: opencontainers/cgroups fs2 memory.go CheckMemoryUsage; crun cgroup-resources.c."""
    wants_check = (block.memory or NO_MEMORY).check_before_update
    return bool(wants_check and runtime.check and hierarchy == "v2" and update.usage is None)


def _write(
    writes: FileWrites, block: Block, hierarchy: Hierarchy, runtime: Runtime, update: Update | None
) -> None:
    usage = update.usage if update is not None else None
    swapped = update.swapped if update is not None else 0
    if runtime.family == "crun":
        # imported where the runtime is crun
        from qoslet.core.oci import crun

        if hierarchy == "v2":
            crun.write_v2(writes, block, runtime, usage, swapped)
        else:
            crun.write_v1(writes, block, runtime)
    elif hierarchy == "v2":
        runc.write_v2(writes, block, runtime, usage, update is not None)
    else:
        runc.write_v1(writes, block, runtime, update is not None)


def _round_quota(rows: dict[str, Row]) -> None:
    """The quota after systemd and the runtime wrote it: the runtime rounds that of a field, not
    that of the unified map."""
    period = rows.get("cpu.cfs_period_us")
    for file in ("cpu.max", "cpu.cfs_quota_us"):
        row = rows.get(file)
        if row is None or row.rule == "oci.unified":
            continue
        quota, _, period_us = row.applied.partition(" ")
        period_us = period_us or (_PERIOD if period is None else period.applied)
        rounded = quota if quota == "max" else str(systemd_quota(int(quota), int(period_us)))
        if rounded != quota:
            text = f"{rounded} {period_us}" if file == "cpu.max" else rounded
            rows[file] = structs.replace(row, effective=text)


def _reset_period(rows: dict[str, Row]) -> None:
    """Without a quota systemd writes its default period."""
    row, text = rows.get("cpu.max"), f"max {_PERIOD}"
    if row is None:
        quota = rows.get("cpu.cfs_quota_us")
        unlimited = quota is None or quota.value == "-1"
        row, text = (rows.get("cpu.cfs_period_us") if unlimited else None), _PERIOD
    elif not row.value.startswith("max ") or row.rule == "oci.unified":
        return
    if row is not None and row.value != text:
        rows[row.file] = structs.replace(row, effective=text)


def _initial(update: Update | None) -> dict[str, str]:
    """The content of files that an update may change in part, or that others are compared with."""
    if update is None:
        return {}
    found: dict[str, str] = {}
    cpu, memory = update.before.cpu, update.before.memory
    if cpu is not None and cpu.period:
        quota = cpu.quota or 0
        found["cpu.max"] = f"{quota if quota > 0 else 'max'} {cpu.period}"
    if memory is not None and memory.limit:
        found["memory.limit_in_bytes"] = str(memory.limit)
    return found
