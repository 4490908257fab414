"""runc: a block to v1 and v2 files, in its order.

Zero is "not set" wherever runc holds a number and no pointer. Source: runc specconv, validate;
 opencontainers/cgroups fs, fs2.
"""

from __future__ import annotations

from collections.abc import Mapping

from qoslet.core.oci.file_writes import FileWrites, check_burst, check_memsw, refused
from qoslet.core.oci.resources import NO_CPU, NO_IO, NO_MEMORY, Block, BlockIo, Cpu, Memory
from qoslet.core.oci.result import Refusal, Stop
from qoslet.core.versions.runtime import Runtime

_WITHOUT = "unable to set swap limit without memory limit"
_BELOW = "memory+swap limit should be >= memory limit"
LINE_BY_LINE = (1, 2)
"""The first version of runc that writes each line of a unified value separately."""
_DOTLESS = 'unified resource "{key}" must be in the form CONTROLLER.PARAMETER'
_ABSENT = 'unified resource "{key}" can\'t be set: controller "{controller}" not available'
_NO_UNIFIED = "invalid configuration: cannot use unified on cgroup v1"


def swap_value(swap: int, limit: int, alone: bool) -> int:
    """memory.swap.max for OCI's memory+swap: 0 for unset, -1 for no limit. ValueError in runc's
    words. Source: ConvertMemorySwapToCgroupV2Value; ``alone``: as since 1.2.1."""
    if limit == -1 and swap == 0:
        return -1
    if swap in (-1, 0):
        return swap
    if limit == -1 and alone:
        return swap
    if limit in (0, -1):
        raise ValueError(_WITHOUT)
    if limit < 0:
        raise ValueError(f"invalid memory value: {limit}")
    if swap < limit:
        raise ValueError(_BELOW)
    return swap - limit


def _text(value: int) -> str:
    return "max" if value == -1 else str(value)


def write_v2(
    writes: FileWrites,
    block: Block,
    runtime: Runtime,
    usage: int | None = None,
    update: bool = False,
) -> None:
    """The v2 files; Stop at the first refusal. ``usage`` is memory.current of an update."""
    memory = block.memory or NO_MEMORY
    if memory.swap and writes.checks and not runtime.tables and not update:
        # a new container's swap is checked before its cgroup is created
        _checked_swap(memory.swap or 0, memory.limit or 0, runtime)
    pids = block.pids
    if pids is not None and pids.limit is not None and (pids.limit or runtime.pids_zero):
        value = "max" if pids.limit == -1 else str(pids.limit or 1)
        writes.put("pids.max", value, "pids.limit", "oci.pids", pids.limit)
    _memory_v2(writes, memory, runtime, usage)
    if block.block_io is not None:
        _io_v2(writes, block.block_io, runtime)
    if block.cpu is not None:
        _cpu_v2(writes, block.cpu, runtime)
        writes.cpuset(block.cpu)
    writes.hugepages(block.hugepage_limits or (), "max", runtime.rsvd)
    if block.unified:
        _unified(writes, block.unified, runtime)


def _checked_swap(swap: int, limit: int, runtime: Runtime) -> int:
    try:
        return swap_value(swap, limit, runtime.swap_alone)
    except ValueError as error:
        inputs = (swap, limit or None)
        raise Stop(Refusal("memory.swap", str(error), "refused.swap", inputs)) from None


def _usage(memory: Memory, runtime: Runtime, usage: int) -> None:
    """CheckMemoryUsage: memory+swap, then memory, against memory.current."""
    if not (runtime.check and memory.check_before_update):
        return
    for field, amount, word in (
        ("memory.swap", memory.swap or 0, "memory+swap"),
        ("memory.limit", memory.limit or 0, "memory"),
    ):
        if 0 < amount <= usage:
            words = f"rejecting {word} limit {amount} <= usage {usage}"
            raise Stop(Refusal(field, words, "refused.usage", (amount, usage)))


def _memory_v2(writes: FileWrites, memory: Memory, runtime: Runtime, usage: int | None) -> None:
    limit, swap, low = memory.limit or 0, memory.swap or 0, memory.reservation or 0
    if usage is not None and (limit or swap or low):
        _usage(memory, runtime, usage)
    if runtime.tables:
        if swap:
            writes.put("memory.swap.max", _text(swap), "memory.swap", "oci.swap.same", swap)
    else:
        value = _checked_swap(swap, limit, runtime)
        if value or swap > 0:
            _swap_v2(writes, value, swap, limit, runtime)
    if limit == -1:
        writes.put("memory.max", "max", "memory.limit", "oci.unlimited", "memory.limit", limit)
    elif limit:
        writes.same("memory.max", "memory.limit", limit)
    if low == -1:
        writes.put("memory.low", "max", "memory.reservation", "oci.unlimited", "reservation", low)
    elif low:
        writes.same("memory.low", "memory.reservation", low)


def _swap_v2(writes: FileWrites, value: int, swap: int, limit: int, runtime: Runtime) -> None:
    text = _text(value)
    if not writes.features.swap:
        if runtime.swap_missing and text in ("max", "0"):
            return
        raise writes.absent("memory.swap.max", text, "memory.swap")
    if value == -1:
        writes.put("memory.swap.max", text, "memory.swap", "oci.swap.unlimited", swap, limit)
    elif limit == -1:
        writes.put("memory.swap.max", text, "memory.swap", "oci.swap.alone", swap)
    else:
        writes.put("memory.swap.max", text, "memory.swap", "oci.swap.difference", swap, limit)


def _io_v2(writes: FileWrites, io: BlockIo, runtime: Runtime) -> None:
    # imported for weights of block devices: no pod has them
    if runtime.tables:
        from qoslet.core.oci.kep_2254 import write_weights

        write_weights(writes, io)
        writes.rates_v2(io)
        return
    from qoslet.core.rules.oci import bfq_to_io_weight

    weight = io.weight or 0
    weights = io.weight_device or ()
    if weight and not writes.features.bfq:
        written = bfq_to_io_weight(weight) if weight > 9 else _wrapped(weight)
        if not writes.features.iocost:
            raise writes.absent("io.weight", str(written), "blockIO.weight")
        writes.put(
            "io.weight", str(written), "blockIO.weight", "oci.io.weight.scaled", weight, written
        )
    elif weight:
        writes.put("io.bfq.weight", str(weight), "blockIO.weight", "oci.io.weight", 1)
    for at, device in enumerate(weights if writes.features.bfq else (), 2 if weight else 1):
        line = f"{device.major}:{device.minor} {device.weight or 0}"
        writes.add("io.bfq.weight", line, "blockIO.weightDevice", "oci.io.weight", at)
    writes.rates_v2(io)


def _wrapped(weight: int) -> int:
    """``bfq_to_io_weight`` for weights below 10, whose unsigned 64-bit arithmetic wraps."""
    return (1 + (weight - 10) % 2**64 * 9999 % 2**64 // 990) % 2**64


def _cpu_v2(writes: FileWrites, cpu: Cpu, runtime: Runtime) -> None:
    quota, period, shares = cpu.quota or 0, cpu.period or 0, cpu.shares or 0
    idle = cpu.idle if runtime.idle else None
    if idle is not None:
        writes.same("cpu.idle", "cpu.idle", idle)
    if runtime.tables and writes.checks:
        from qoslet.core.oci.kep_2254 import check_shares

        check_shares(writes, shares)
    weight = runtime.weight(shares)
    if weight:
        if idle == 1:
            error, takes = "invalid argument", "no weight while cpu.idle is 1"
            raise Stop(refused("cpu.shares", "cpu.weight", str(weight), error, takes))
        rule = f"oci.cpu.weight.{runtime.curve}"
        writes.put("cpu.weight", str(weight), "cpu.shares", rule, shares, weight)
    burst = cpu.burst if runtime.burst else None
    if burst is not None:
        check_burst(burst, quota, "cpu.max.burst")
        writes.same("cpu.max.burst", "cpu.burst", burst)
    if quota or period:
        text = f"{quota if quota > 0 else 'max'} {period or 100_000}"
        writes.put("cpu.max", text, "cpu.quota", "oci.cpu.max", quota, period)


def _unified(writes: FileWrites, entries: Mapping[str, str], runtime: Runtime) -> None:
    """The unified map. runc takes it in any order; here in the document's."""
    # imported where a container has one
    from qoslet.core.oci import unified

    by_line = runtime.oci_version >= LINE_BY_LINE
    for key, value in entries.items():
        if "/" in key:
            words = f'unified resource "{key}" must be a file name (no slashes)'
            raise unified.slashed(key, words)
        unified.opened(writes, key, value, _DOTLESS, _ABSENT)
        lines = by_line and "\n" in value
        unified.write(writes, key, unified.lines(value) if lines else (value,))


def write_v1(writes: FileWrites, block: Block, runtime: Runtime, update: bool = False) -> None:
    """The v1 files; Stop at the first refusal."""
    if block.unified or (update and block.unified is not None):
        raise Stop(Refusal("unified", _NO_UNIFIED, "refused.unified", ("", "nothing on cgroup v1")))
    cpu = block.cpu or NO_CPU
    writes.cpuset(cpu)
    _memory_v1(writes, block.memory or NO_MEMORY)
    _cpu_v1(writes, cpu, runtime)
    limit = block.pids.limit if block.pids is not None else None
    if limit or (limit == 0 and runtime.pids_zero):
        value = "max" if limit < 0 else str(limit or 1)
        writes.put("pids.max", value, "pids.limit", "oci.pids", limit)
    _io_v1(writes, block.block_io or NO_IO)
    writes.hugepages(block.hugepage_limits or (), "limit_in_bytes", runtime.rsvd)
    writes.network_v1(block)


def _memory_v1(writes: FileWrites, memory: Memory) -> None:
    limit, swap = memory.limit or 0, memory.swap or 0
    swap_follows = limit == -1 and swap == 0 and writes.features.swap
    if limit:
        writes.same("memory.limit_in_bytes", "memory.limit", limit)
    if swap_follows:
        writes.put(
            "memory.memsw.limit_in_bytes", "-1", "memory.limit", "oci.swap.with-limit", limit
        )
    elif swap:
        if not writes.features.swap:
            raise writes.absent("memory.memsw.limit_in_bytes", str(swap), "memory.swap")
        current = writes.current("memory.limit_in_bytes")
        check_memsw(limit or (int(current) if current else None), swap)
        writes.same("memory.memsw.limit_in_bytes", "memory.swap", swap)
    if memory.reservation:
        writes.same("memory.soft_limit_in_bytes", "memory.reservation", memory.reservation)
    if memory.disable_oom_killer:
        writes.oom_control_v1()
    value = memory.swappiness
    if value is None or value == 2**64 - 1:
        return
    if value > 100:
        words = f"invalid memory swappiness value: {value} (valid range is 0-100)"
        raise Stop(Refusal("memory.swappiness", words, "refused.swappiness", (value,)))
    writes.same("memory.swappiness", "memory.swappiness", value)


def _cpu_v1(writes: FileWrites, cpu: Cpu, runtime: Runtime) -> None:
    shares = cpu.shares or 0
    if shares:
        writes.same("cpu.shares", "cpu.shares", shares)
        kept = min(max(shares, 2), 262144)
        if kept != shares:
            word = "maximum" if shares > kept else "minimum"
            words = f"the {word} allowed cpu-shares is {kept}"
            writes.refuse(Refusal("cpu.shares", words, "refused.shares", (shares, kept)))
    writes.period_v1(cpu, True)
    burst = cpu.burst if runtime.burst else None
    if burst is not None:
        check_burst(burst, cpu.quota or 0, "cpu.cfs_burst_us")
    if cpu.quota:
        writes.same("cpu.cfs_quota_us", "cpu.quota", cpu.quota)
    if burst is not None:
        writes.same("cpu.cfs_burst_us", "cpu.burst", burst)
    if runtime.idle and cpu.idle is not None:
        writes.idle_v1(cpu.idle)
    writes.realtime_v1(cpu)


def _io_v1(writes: FileWrites, io: BlockIo) -> None:
    name = writes.weight_v1(io, True)
    if io.leaf_weight:
        writes.leaf_v1(io)
    for at, device in enumerate(io.weight_device or (), 1):
        if device.weight:
            line = f"{device.major}:{device.minor} {device.weight}"
            writes.add(f"{name}_device", line, "blockIO.weightDevice", "oci.io.weight", at)
    writes.rates_v1(io)
