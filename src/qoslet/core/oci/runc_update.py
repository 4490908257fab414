"""How ``runc update`` merges a container's block with that of the update. Source: runc update.go of
1.1.5 and 1.3.6."""

from __future__ import annotations

from msgspec import structs

from qoslet.core.oci.file_writes import RATES
from qoslet.core.oci.resources import NO_CPU, NO_IO, NO_MEMORY, Block, BlockIo, Cpu, Memory, Pids
from qoslet.core.versions.runtime import Runtime


def updated(before: Block, given: Block, runtime: Runtime) -> Block:
    """The block that ``runc update`` writes.

    Up to 1.1 fields that the update lacks are not written; since 1.2 they keep their values. A
    quota alone keeps the period, and the reverse. Fields that no update has keep their values.
    """
    memory = _memory_of(before.memory or NO_MEMORY, given.memory or NO_MEMORY, runtime)
    io = _io_of(before.block_io or NO_IO, given.block_io or NO_IO, runtime)
    limit = given.pids.limit if given.pids is not None else None
    if limit is None and runtime.pids_zero:
        limit = before.pids.limit if before.pids is not None else None
    return structs.replace(
        before,
        memory=memory,
        cpu=_cpu_of(before.cpu or NO_CPU, given.cpu or NO_CPU, runtime),
        pids=Pids(limit),
        block_io=io,
        unified=given.unified,
    )


def _memory_of(before: Memory, given: Memory, runtime: Runtime) -> Memory:
    if not runtime.merges:
        return structs.replace(
            before, limit=given.limit, swap=given.swap, reservation=given.reservation
        )
    swap = given.swap
    if swap is None and given.limit == -1:
        swap = 0
    named = {"limit": given.limit, "swap": swap, "reservation": given.reservation}
    named["check_before_update"] = bool(given.check_before_update)
    return structs.replace(before, **{k: v for k, v in named.items() if v is not None})


def _cpu_of(before: Cpu, given: Cpu, runtime: Runtime) -> Cpu:
    quota, period = given.quota or 0, given.period or 0
    if period and not quota:
        quota = before.quota or 0
    elif quota and not period:
        period = before.period or 0
    cpu = structs.replace(
        given, quota=quota, period=period, burst=given.burst if runtime.burst else None
    )
    if not runtime.merges:
        return structs.replace(cpu, idle=None)
    shares = given.shares
    if shares is None:
        shares = 0 if given.idle is not None else before.shares
    return structs.replace(
        cpu,
        shares=shares,
        realtime_period=before.realtime_period if given.realtime_period is None
        else given.realtime_period,
        realtime_runtime=before.realtime_runtime if given.realtime_runtime is None
        else given.realtime_runtime,
    )  # fmt: skip


def _io_of(before: BlockIo, given: BlockIo, runtime: Runtime) -> BlockIo:
    weight = given.weight
    if weight is None and runtime.merges:
        weight = before.weight
    io = structs.replace(before, weight=weight)
    if not runtime.io_updates:
        return io
    if given.leaf_weight is not None:
        io = structs.replace(io, leaf_weight=given.leaf_weight)
    changed = {
        name: _joined(getattr(before, name) or [], getattr(given, name) or [])
        for name in ("weight_device", *(row[0] for row in RATES))
    }
    return structs.replace(io, **changed)


def _joined(before: list, given: list) -> list:  # type: ignore[type-arg]
    """Entries by device: those of ``given`` replace those of ``before``."""
    entries = {(entry.major, entry.minor): entry for entry in before}
    entries.update({(entry.major, entry.minor): entry for entry in given})
    return list(entries.values())
