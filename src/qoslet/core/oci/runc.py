"""runc: a block to v1 and v2 files, in its order.

Zero is "not set" wherever runc holds a number and no pointer. Source: runc specconv, validate;
 opencontainers/cgroups fs, fs2.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from qoslet.core.cgroup.accepts import complaint
from qoslet.core.oci.file_writes import RATES, Pen, refused, same
from qoslet.core.oci.resources import (
    NO_CPU,
    NO_IO,
    NO_MEMORY,
    Block,
    BlockIo,
    Cpu,
    Hugepages,
    Memory,
)
from qoslet.core.oci.result import Refusal, Stop
from qoslet.core.versions.runtime import Runtime

_WITHOUT = "unable to set swap limit without memory limit"
_BELOW = "memory+swap limit should be >= memory limit"
LINE_BY_LINE = (1, 2)
"""Since this version runc writes each line of a unified value by a write of its own."""
_DOTLESS = 'unified resource "{key}" must be in the form CONTROLLER.PARAMETER'
_ABSENT = 'unified resource "{key}" can\'t be set: controller "{controller}" not available'
_NO_UNIFIED = "invalid configuration: cannot use unified on cgroup v1"


def swap_value(swap: int, limit: int, alone: bool) -> int:
    """memory.swap.max for OCI's memory+swap: 0 for unset, -1 for no limit. ValueError in runc's
    words. Source: ConvertMemorySwapToCgroupV2Value; ``alone`` is its form since 1.2.1."""
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
    pen: Pen, block: Block, runtime: Runtime, usage: int | None = None, update: bool = False
) -> None:
    """The v2 files; Stop at the first refusal. ``usage`` is memory.current of an update."""
    memory = block.memory or NO_MEMORY
    if memory.swap and pen.judges and not runtime.tables and not update:
        # a new container's swap is judged before its group is made
        _checked_swap(memory.swap or 0, memory.limit or 0, runtime)
    pids = block.pids
    if pids is not None and pids.limit is not None and (pids.limit or runtime.pids_zero):
        value = "max" if pids.limit == -1 else str(pids.limit or 1)
        pen.put("pids.max", value, "pids.limit", "oci.pids", pids.limit)
    _memory_v2(pen, memory, runtime, usage)
    if block.block_io is not None:
        _io_v2(pen, block.block_io, runtime)
    if block.cpu is not None:
        _cpu_v2(pen, block.cpu, runtime)
    if block.cpu is not None:
        _cpuset(pen, block.cpu)
    hugepages(pen, block.hugepage_limits or (), "max", runtime.rsvd)
    if block.unified:
        _unified(pen, block.unified, runtime)


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


def _memory_v2(pen: Pen, memory: Memory, runtime: Runtime, usage: int | None) -> None:
    limit, swap, low = memory.limit or 0, memory.swap or 0, memory.reservation or 0
    if usage is not None and (limit or swap or low):
        _usage(memory, runtime, usage)
    if runtime.tables:
        if swap:
            pen.put("memory.swap.max", _text(swap), "memory.swap", "oci.swap.same", swap)
    else:
        value = _checked_swap(swap, limit, runtime)
        if value or swap > 0:
            _swap_v2(pen, value, swap, limit, runtime)
    if limit == -1:
        pen.put("memory.max", "max", "memory.limit", "oci.unlimited", "memory.limit", limit)
    elif limit:
        same(pen, "memory.max", "memory.limit", limit)
    if low == -1:
        pen.put("memory.low", "max", "memory.reservation", "oci.unlimited", "reservation", low)
    elif low:
        same(pen, "memory.low", "memory.reservation", low)


def _swap_v2(pen: Pen, value: int, swap: int, limit: int, runtime: Runtime) -> None:
    text = _text(value)
    if not pen.ground.swap:
        if runtime.swap_missing and text in ("max", "0"):
            return
        raise pen.absent("memory.swap.max", text, "memory.swap")
    if value == -1:
        pen.put("memory.swap.max", text, "memory.swap", "oci.swap.unlimited", swap, limit)
    elif limit == -1:
        pen.put("memory.swap.max", text, "memory.swap", "oci.swap.alone", swap)
    else:
        pen.put("memory.swap.max", text, "memory.swap", "oci.swap.difference", swap, limit)


def _io_v2(pen: Pen, io: BlockIo, runtime: Runtime) -> None:
    # imported for weights of block devices: no pod has them
    from qoslet.core.rules.oci import bfq_to_io_weight

    weight = io.weight or 0
    devices = io.weight_device or ()
    if weight and runtime.tables:
        written = bfq_to_io_weight(weight)
        rule = "oci.io.weight.scaled"
        field = "blockIO.weight"
        pen.add("io.bfq.weight", str(written), field, rule, weight, written, judged=False)
    elif weight and not pen.ground.bfq:
        written = bfq_to_io_weight(weight) if weight > 9 else _wrapped(weight)
        if not pen.ground.iocost:
            raise pen.absent("io.weight", str(written), "blockIO.weight")
        pen.put(
            "io.weight", str(written), "blockIO.weight", "oci.io.weight.scaled", weight, written
        )
    elif weight:
        pen.put("io.bfq.weight", str(weight), "blockIO.weight", "oci.io.weight", 1)
    for at, one in enumerate(devices if pen.ground.bfq else (), 2 if weight else 1):
        amount = bfq_to_io_weight(one.weight or 0) if runtime.tables else one.weight or 0
        line = f"{one.major}:{one.minor} {amount}"
        field, judged = "blockIO.weightDevice", not runtime.tables
        pen.add("io.bfq.weight", line, field, "oci.io.weight", at, judged=judged)
    rates_v2(pen, io)


def _wrapped(weight: int) -> int:
    """The conversion below its range, in unsigned numbers of 64 bits."""
    return (1 + (weight - 10) % 2**64 * 9999 % 2**64 // 990) % 2**64


def rates_v2(pen: Pen, io: BlockIo) -> None:
    """io.max, entry by entry; Stop for a rate of 0, which the kernel does not take."""
    count = 0
    for name, field, key, _ in RATES:
        for one in getattr(io, name) or ():
            count += 1
            line = f"{one.major}:{one.minor} {key}={one.rate}"
            if not one.rate:
                error, takes = "numerical result out of range", "rates above 0"
                raise Stop(refused(f"blockIO.{field}", "io.max", line, error, takes))
            pen.add("io.max", line, f"blockIO.{field}", "oci.io.rates", count)


def _cpu_v2(pen: Pen, cpu: Cpu, runtime: Runtime) -> None:
    quota, period, shares = cpu.quota or 0, cpu.period or 0, cpu.shares or 0
    idle = cpu.idle if runtime.idle else None
    if idle is not None:
        same(pen, "cpu.idle", "cpu.idle", idle)
    weight = runtime.weight(shares)
    if weight:
        if idle == 1:
            error, takes = "invalid argument", "no weight while cpu.idle is 1"
            raise Stop(refused("cpu.shares", "cpu.weight", str(weight), error, takes))
        rule = "oci.cpu.weight.linear" if runtime.curve == "linear" else "oci.cpu.weight.quadratic"
        pen.put("cpu.weight", str(weight), "cpu.shares", rule, shares, weight)
    burst = cpu.burst if runtime.burst else None
    if burst is not None:
        check_burst(burst, quota, "cpu.max.burst")
        same(pen, "cpu.max.burst", "cpu.burst", burst)
    if quota or period:
        text = f"{quota if quota > 0 else 'max'} {period or 100_000}"
        pen.put("cpu.max", text, "cpu.quota", "oci.cpu.max", quota, period)


def check_burst(burst: int, quota: int, file: str) -> None:
    """Stop where the kernel refuses the burst beside the quota of the same block."""
    if 0 < quota < burst:
        error, takes = "invalid argument", f"at most the quota {quota}"
        raise Stop(refused("cpu.burst", file, str(burst), error, takes))


def _cpuset(pen: Pen, cpu: Cpu) -> None:
    if cpu.cpus:
        same(pen, "cpuset.cpus", "cpu.cpus", cpu.cpus)
    if cpu.mems:
        same(pen, "cpuset.mems", "cpu.mems", cpu.mems)


def hugepages(
    pen: Pen, limits: list[Hugepages] | tuple[()], suffix: str, reservations: bool
) -> None:
    """hugetlb files, each with its reservation where runtime and kernel have that."""
    reserve = reservations and pen.ground.rsvd
    for one in limits:
        name, value = f"hugetlb.{one.page_size}", str(one.limit)
        inputs = (one.page_size, one.limit)
        pen.put(f"{name}.{suffix}", value, "hugepageLimits", "oci.hugetlb", *inputs)
        if reserve:
            pen.put(f"{name}.rsvd.{suffix}", value, "hugepageLimits", "oci.hugetlb.rsvd", *inputs)


def _unified(pen: Pen, entries: Mapping[str, str], runtime: Runtime) -> None:
    """The unified map. runc takes it in any order; here in the document's."""
    # imported where a container has one
    from qoslet.core.oci import unified

    by_line = runtime.oci_version >= LINE_BY_LINE
    for key, value in entries.items():
        if "/" in key:
            words = f'unified resource "{key}" must be a file name (no slashes)'
            raise unified.slashed(key, words)
        unified.opened(pen, key, value, _DOTLESS, _ABSENT)
        lines = by_line and "\n" in value
        unified.write(pen, key, unified.lines(value) if lines else (value,))


def write_v1(pen: Pen, block: Block, runtime: Runtime, update: bool = False) -> None:
    """The v1 files; Stop at the first refusal."""
    if block.unified or (update and block.unified is not None):
        raise Stop(Refusal("unified", _NO_UNIFIED, "refused.unified", ("", "nothing on cgroup v1")))
    cpu = block.cpu or NO_CPU
    _cpuset(pen, cpu)
    _memory_v1(pen, block.memory or NO_MEMORY)
    _cpu_v1(pen, cpu, runtime)
    limit = block.pids.limit if block.pids is not None else None
    if limit or (limit == 0 and runtime.pids_zero):
        value = "max" if limit < 0 else str(limit or 1)
        pen.put("pids.max", value, "pids.limit", "oci.pids", limit)
    _io_v1(pen, block.block_io or NO_IO)
    hugepages(pen, block.hugepage_limits or (), "limit_in_bytes", runtime.rsvd)
    network_v1(pen, block)


def _memory_v1(pen: Pen, memory: Memory) -> None:
    limit, swap = memory.limit or 0, memory.swap or 0
    follows = limit == -1 and swap == 0 and pen.ground.swap
    if limit:
        same(pen, "memory.limit_in_bytes", "memory.limit", limit)
    if follows:
        pen.put("memory.memsw.limit_in_bytes", "-1", "memory.limit", "oci.swap.with-limit", limit)
    elif swap:
        if not pen.ground.swap:
            raise pen.absent("memory.memsw.limit_in_bytes", str(swap), "memory.swap")
        check_memsw(limit, swap)
        same(pen, "memory.memsw.limit_in_bytes", "memory.swap", swap)
    if memory.reservation:
        same(pen, "memory.soft_limit_in_bytes", "memory.reservation", memory.reservation)
    if memory.disable_oom_killer:
        pen.put("memory.oom_control", "1", "memory.disableOOMKiller", "oci.same",
                "memory.disableOOMKiller", "true")  # fmt: skip
    value = memory.swappiness
    if value is None or value == 2**64 - 1:
        return
    if value > 100:
        words = f"invalid memory swappiness value: {value} (valid range is 0-100)"
        raise Stop(Refusal("memory.swappiness", words, "refused.swappiness", (value,)))
    same(pen, "memory.swappiness", "memory.swappiness", value)


def check_memsw(limit: int, swap: int) -> None:
    """Stop where memory and swap together are below the memory limit beside them."""
    if 0 <= swap < limit or (limit == -1 and swap != -1):
        error, takes = "invalid argument", f"no less than the memory limit {limit}"
        file = "memory.memsw.limit_in_bytes"
        raise Stop(refused("memory.swap", file, str(swap), error, takes))


def _cpu_v1(pen: Pen, cpu: Cpu, runtime: Runtime) -> None:
    shares = cpu.shares or 0
    if shares:
        same(pen, "cpu.shares", "cpu.shares", shares)
        kept = min(max(shares, 2), 262144)
        if kept != shares:
            word = "maximum" if shares > kept else "minimum"
            words = f"the {word} allowed cpu-shares is {kept}"
            pen.refuse(Refusal("cpu.shares", words, "refused.shares", (shares, kept)))
    period_v1(pen, cpu, True)
    burst = cpu.burst if runtime.burst else None
    if burst is not None:
        check_burst(burst, cpu.quota or 0, "cpu.cfs_burst_us")
    if cpu.quota:
        same(pen, "cpu.cfs_quota_us", "cpu.quota", cpu.quota)
    if burst is not None:
        same(pen, "cpu.cfs_burst_us", "cpu.burst", burst)
    if runtime.idle and cpu.idle is not None:
        idle_v1(pen, cpu.idle)
    realtime_v1(pen, cpu)


def period_v1(pen: Pen, cpu: Cpu, retries: bool) -> None:
    """cpu.cfs_period_us. A refused period is tried once more after the quota, so that stands."""
    if not cpu.period:
        return
    if retries and cpu.quota and complaint("cpu.cfs_period_us", str(cpu.period), pen.ground):
        same(pen, "cpu.cfs_quota_us", "cpu.quota", cpu.quota)
    same(pen, "cpu.cfs_period_us", "cpu.period", cpu.period)


def idle_v1(pen: Pen, idle: int) -> None:
    """cpu.idle after the shares, which read 3 from then on."""
    same(pen, "cpu.idle", "cpu.idle", idle)
    shares = pen.rows.get("cpu.shares")
    if idle == 1 and shares is not None:
        pen.rows["cpu.shares"] = structs.replace(shares, effective="3")


def realtime_v1(pen: Pen, cpu: Cpu) -> None:
    """Real-time bandwidth, which few kernels have."""
    for amount, field, file in (
        (cpu.realtime_period, "cpu.realtimePeriod", "cpu.rt_period_us"),
        (cpu.realtime_runtime, "cpu.realtimeRuntime", "cpu.rt_runtime_us"),
    ):
        if amount:
            same(pen, file, field, amount)


def _io_v1(pen: Pen, io: BlockIo) -> None:
    name = weight_v1(pen, io, True)
    if io.leaf_weight:
        leaf_v1(pen, io)
    for at, one in enumerate(io.weight_device or (), 1):
        if one.weight:
            line = f"{one.major}:{one.minor} {one.weight}"
            pen.add(f"{name}_device", line, "blockIO.weightDevice", "oci.io.weight", at)
    rates_v1(pen, io)


def weight_v1(pen: Pen, io: BlockIo, knows_bfq: bool) -> str:
    """blkio.weight, or BFQ's where the CFQ scheduler is gone; the name of the file."""
    ground = pen.ground
    name = "blkio.weight" if ground.leaf or not knows_bfq else "blkio.bfq.weight"
    there = ground.leaf or (ground.bfq and knows_bfq)
    if (io.weight or io.weight_device) and not there:
        raise pen.absent(name, str(io.weight or 0), "blockIO.weight")
    if io.weight:
        same(pen, name, "blockIO.weight", io.weight)
    return name


def leaf_v1(pen: Pen, io: BlockIo) -> None:
    """blkio.leaf_weight, which went with the CFQ scheduler in Linux 5.0."""
    if not pen.ground.leaf:
        raise pen.absent("blkio.leaf_weight", str(io.leaf_weight), "blockIO.leafWeight")
    same(pen, "blkio.leaf_weight", "blockIO.leafWeight", io.leaf_weight or 0)


def rates_v1(pen: Pen, io: BlockIo) -> None:
    """The four throttle files; a rate of 0 takes an entry away."""
    count = 0
    for name, field, _, part in RATES:
        for one in getattr(io, name) or ():
            count += 1
            line = f"{one.major}:{one.minor} {one.rate}"
            file = f"blkio.throttle.{part}_device"
            pen.add(file, line, f"blockIO.{field}", "oci.io.rates", count)


def network_v1(pen: Pen, block: Block) -> None:
    """net_cls and net_prio."""
    network = block.network
    if network is None:
        return
    if network.class_id:
        same(pen, "net_cls.classid", "network.classID", network.class_id)
    for one in network.priorities or ():
        line = f"{one.name} {one.priority}"
        pen.add(
            "net_prio.ifpriomap", line, "network.priorities", "oci.same", one.name, one.priority
        )
