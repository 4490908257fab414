"""crun: a block to v1 and v2 files, in its order.

crun tells "absent" from zero for memory, and refuses on v2 what v2 does not have. An update is
written as it stands. Source: crun cgroup-resources.c of 1.8.1 and 1.21.
"""

from __future__ import annotations

from msgspec import structs

from qoslet.core.cgroup.accepts import MISSING
from qoslet.core.oci import unified
from qoslet.core.oci.file_writes import FileWrites, check_burst, check_memsw, refused
from qoslet.core.oci.resources import NO_MEMORY, Block, BlockIo, Cpu, Memory
from qoslet.core.oci.result import Refusal, Stop
from qoslet.core.versions.runtime import Runtime

_32 = 2**32
LINE_BY_LINE = (1, 21)
"""The first known version of crun that writes each line of a unified value separately; 1.8.1 writes
the whole value."""
_DOTLESS = "the specified key has not the form CONTROLLER.VALUE `{key}`"
_ABSENT = "controller `{controller}` is not available"
_WITHOUT = "cannot set swap limit without the memory limit"
_BELOW = "cannot set memory+swap limit less than the memory limit"
_USED = "cannot set the memory limit lower than its current usage"


def _stop(field: str, words: str) -> Stop:
    return Stop(Refusal(field, words, "refused.v2", (field,)))


def _number(value: int, runtime: Runtime) -> str:
    """A v2 amount: -1, or since 1.13 anything negative, is no limit."""
    unlimited = value < 0 if runtime.any_negative else value == -1
    return "max" if unlimited else str(value)


def write_v2(
    writes: FileWrites, block: Block, runtime: Runtime, usage: int | None = None, swapped: int = 0
) -> None:
    """The v2 files; Stop at the first refusal. ``usage`` and ``swapped`` are memory.current and
    memory.swap.current of an update."""
    if block.network is not None:
        raise _stop("network", "network limits not supported on cgroupv2")
    if block.memory is not None:
        _memory_v2(writes, block.memory, runtime, usage, swapped)
    limit = block.pids.limit if block.pids is not None else None
    if limit:
        writes.put("pids.max", _number(limit, runtime), "pids.limit", "oci.pids", limit)
    if block.cpu is not None:
        _cpu_v2(writes, block.cpu, runtime)
        writes.cpuset(block.cpu)
    if block.block_io is not None:
        _io_v2(writes, block.block_io)
    writes.hugepages(block.hugepage_limits or (), "max", False)
    if block.unified:
        _unified(writes, block.unified, runtime)


def _memory_v2(
    writes: FileWrites, memory: Memory, runtime: Runtime, usage: int | None, swapped: int
) -> None:
    if usage is not None:
        _usage(memory, runtime, usage + swapped)
    limit = memory.limit
    if limit is not None:
        text = _number(limit, runtime)
        rule = "oci.unlimited" if text == "max" else "oci.same"
        writes.put("memory.max", text, "memory.limit", rule, "memory.limit", limit)
    _swap_v2(writes, memory, runtime)
    if memory.kernel is not None:
        raise _stop("memory.kernel", "cannot set kernel memory with cgroupv2")
    if memory.use_hierarchy is not None:
        raise _stop("memory.useHierarchy", "cannot set useHierarchy memory with cgroupv2")
    if memory.reservation is not None:
        # printed as an unsigned number
        amount = memory.reservation % 2**64
        writes.same("memory.low", "memory.reservation", amount)
    if memory.disable_oom_killer:
        raise _stop("memory.disableOOMKiller", "cannot disable OOM killer with cgroupv2")
    if memory.kernel_tcp is not None:
        raise _stop("memory.kernelTCP", "cannot set kernel TCP with cgroupv2")
    if memory.swappiness is not None:
        raise _stop("memory.swappiness", "cannot set memory swappiness with cgroupv2")


def _usage(memory: Memory, runtime: Runtime, usage: int) -> None:
    if not (runtime.check and memory.check_before_update):
        return
    limit = max(memory.limit or 0, 0) + max(memory.swap or 0, 0)
    if limit <= usage:
        raise Stop(Refusal("memory.limit", _USED, "refused.usage", (limit, usage)))


def _swap_v2(writes: FileWrites, memory: Memory, runtime: Runtime) -> None:
    swap, limit = memory.swap, memory.limit
    if swap is None:
        return
    value = swap
    if swap > 0 if runtime.swap_zero else swap != -1:
        if limit is None:
            raise Stop(Refusal("memory.swap", _WITHOUT, "refused.swap", (swap, None)))
        if swap < limit:
            raise Stop(Refusal("memory.swap", _BELOW, "refused.swap", (swap, limit)))
        value = swap - limit
    if not writes.features.swap:
        return
    text = _number(value, runtime)
    if text == "max":
        writes.put("memory.swap.max", text, "memory.swap", "oci.swap.unlimited", swap, limit or 0)
    elif value == swap:
        writes.same("memory.swap.max", "memory.swap", swap)
    else:
        writes.put("memory.swap.max", text, "memory.swap", "oci.swap.difference", swap, limit)


def _cpu_v2(writes: FileWrites, cpu: Cpu, runtime: Runtime) -> None:
    shares = (cpu.shares or 0) % _32
    if cpu.shares:
        weight = runtime.weight(shares) % _32
        rule = f"oci.cpu.weight.{runtime.curve}"
        writes.put("cpu.weight", str(weight), "cpu.shares", rule, shares, weight)
    if cpu.realtime_period:
        raise _stop("cpu.realtimePeriod", "realtime period not supported on cgroupv2")
    if cpu.realtime_runtime:
        raise _stop("cpu.realtimeRuntime", "realtime runtime not supported on cgroupv2")
    if runtime.idle and cpu.idle is not None:
        writes.same("cpu.idle", "cpu.idle", cpu.idle)
        weight_row = writes.rows.get("cpu.weight")
        if cpu.idle == 1 and weight_row is not None:
            writes.rows["cpu.weight"] = structs.replace(
                weight_row, effective=writes.features.idle_weight
            )
    quota, period = cpu.quota or -1, cpu.period or -1
    if quota > 0 or period > 0:
        text = f"{quota if quota >= 0 else 'max'} {period if period > 0 else 100_000}"
        writes.put("cpu.max", text, "cpu.quota", "oci.cpu.max", cpu.quota or 0, cpu.period or 0)
    _burst(writes, cpu, runtime, "cpu.max.burst")


def _burst(writes: FileWrites, cpu: Cpu, runtime: Runtime, file: str) -> None:
    if runtime.burst and cpu.burst is not None:
        check_burst(cpu.burst, cpu.quota or 0, file)
        writes.same(file, "cpu.burst", cpu.burst)


def _io_v2(writes: FileWrites, io: BlockIo) -> None:
    weight = io.weight
    if weight and writes.features.bfq:
        writes.put("io.bfq.weight", str(weight), "blockIO.weight", "oci.io.weight", 1)
    elif weight:
        # unsigned arithmetic of 32 bits
        written = (1 + (weight - 10) % _32 * 9999 % _32 // 990) % _32
        if not writes.features.iocost:
            raise writes.absent("io.weight", str(written), "blockIO.weight")
        writes.put(
            "io.weight", str(written), "blockIO.weight", "oci.io.weight.scaled", weight, written
        )
    if io.leaf_weight:
        raise _stop("blockIO.leafWeight", "cannot set leaf_weight with cgroupv2")
    for at, device in enumerate(io.weight_device or (), 2 if weight else 1):
        line = f"{device.major}:{device.minor} {device.weight or 0}"
        if not writes.features.bfq:
            takes = "no value: this kernel does not have the file"
            raise Stop(refused("blockIO.weightDevice", "io.bfq.weight", line, MISSING, takes))
        writes.add("io.bfq.weight", line, "blockIO.weightDevice", "oci.io.weight", at)
    writes.rates_v2(io)


def _unified(writes: FileWrites, entries: dict[str, str], runtime: Runtime) -> None:
    by_line = runtime.oci_version >= LINE_BY_LINE
    for key, value in entries.items():
        if "/" in key:
            raise unified.slashed(key, f"key `{key}` must be a file name without any slash")
        if not value:
            continue
        if not key:
            raise unified.undotted(key, _DOTLESS.format(key=key))
        unified.opened(writes, key, value, _DOTLESS, _ABSENT)
        unified.write(writes, key, value.split("\n") if by_line else (value,))


def write_v1(writes: FileWrites, block: Block, runtime: Runtime) -> None:
    """The v1 files; Stop at the first refusal."""
    if block.block_io is not None:
        _io_v1(writes, block.block_io, runtime)
    writes.network_v1(block)
    writes.hugepages(block.hugepage_limits or (), "limit_in_bytes", False)
    _memory_v1(writes, block.memory or NO_MEMORY)
    limit = block.pids.limit if block.pids is not None else None
    if limit:
        negative = limit < 0 and runtime.any_negative
        writes.put("pids.max", "max" if negative else str(limit), "pids.limit", "oci.pids", limit)
    if block.cpu is not None:
        _cpu_v1(writes, block.cpu, runtime)
        writes.cpuset(block.cpu)
    if block.unified and not block.cpu_without_lists:
        words = "invalid configuration: cannot use unified on cgroup v1"
        raise Stop(Refusal("unified", words, "refused.unified", ("", "nothing on cgroup v1")))


def _io_v1(writes: FileWrites, io: BlockIo, runtime: Runtime) -> None:
    name = writes.weight_v1(io, runtime.bfq_v1)
    if io.leaf_weight:
        writes.leaf_v1(io)
    for at, device in enumerate(io.weight_device or (), 1):
        line = f"{device.major}:{device.minor} {device.weight or 0}"
        writes.add(f"{name}_device", line, "blockIO.weightDevice", "oci.io.weight", at)
    writes.rates_v1(io)


def _memory_v1(writes: FileWrites, memory: Memory) -> None:
    limit, swap = memory.limit, memory.swap
    if limit is not None:
        writes.same("memory.limit_in_bytes", "memory.limit", limit)
    if swap is not None and writes.features.swap:
        current = writes.current("memory.limit_in_bytes")
        check_memsw(int(current) if limit is None and current else limit, swap)
        writes.same("memory.memsw.limit_in_bytes", "memory.swap", swap)
    if memory.kernel is not None:
        writes.same("memory.kmem.limit_in_bytes", "memory.kernel", memory.kernel)
    if memory.use_hierarchy is not None:
        value = "1" if memory.use_hierarchy else "0"
        writes.same("memory.use_hierarchy", "memory.useHierarchy", value)
    if memory.reservation is not None:
        amount = memory.reservation % 2**64
        writes.same("memory.soft_limit_in_bytes", "memory.reservation", amount)
    if memory.disable_oom_killer:
        writes.oom_control_v1()
    if memory.kernel_tcp is not None:
        writes.same("memory.kmem.tcp.limit_in_bytes", "memory.kernelTCP", memory.kernel_tcp)
    if memory.swappiness is not None:
        writes.same("memory.swappiness", "memory.swappiness", memory.swappiness)


def _cpu_v1(writes: FileWrites, cpu: Cpu, runtime: Runtime) -> None:
    if cpu.shares:
        writes.same("cpu.shares", "cpu.shares", cpu.shares % _32)
    writes.period_v1(cpu, runtime.period_retry)
    if cpu.quota:
        # before 1.8.4 printed as an unsigned number
        quota = cpu.quota if runtime.quota_signed else cpu.quota % 2**64
        writes.same("cpu.cfs_quota_us", "cpu.quota", quota)
    writes.realtime_v1(cpu)
    if runtime.idle and cpu.idle is not None:
        writes.idle_v1(cpu.idle)
    _burst(writes, cpu, runtime, "cpu.cfs_burst_us")
