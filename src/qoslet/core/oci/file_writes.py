"""Collects the rows of one block in the order in which a runtime writes, until it is refused."""

from __future__ import annotations

from msgspec import structs

from qoslet.core.api.schema import shown
from qoslet.core.cgroup.accepts import (
    INVALID,
    KEYED,
    MISSING,
    NO_DEVICE,
    Complaint,
    complaint,
    written,
)
from qoslet.core.cgroup.features import KernelFeatures
from qoslet.core.oci.resources import Block, BlockIo, Cpu, Hugepages
from qoslet.core.oci.result import Refusal, Row, Stop

_SHOWN = 120
_BESIDE = frozenset(("cpu.max", "cpu.max.burst", "cpu.weight"))
"""Files whose range depends on another file."""


class FileWrites:
    """The writes of one block. A second write of a file keeps its place and replaces its value, or
    adds a line to a keyed file. ``initial`` holds files that an earlier container wrote. Without
    ``checks`` values that the kernel or the runtime refuses are kept."""

    __slots__ = ("checks", "features", "initial", "rows")

    def __init__(
        self, features: KernelFeatures, initial: dict[str, str] | None = None, checks: bool = True
    ) -> None:
        self.features = features
        self.checks = checks
        self.rows: dict[str, Row] = {}
        self.initial = initial or {}

    def current(self, file: str) -> str | None:
        """What a file holds: as written here, else before; None where that is not known."""
        row = self.rows.get(file)
        return self.initial.get(file) if row is None else row.applied

    def put(self, file: str, value: str, field: str, rule: str, *inputs: object) -> None:
        """One write; Stop if the kernel refuses it."""
        before = self.rows.get(file)
        current = written(file, value, self.current(file), self.features)
        if isinstance(current, tuple):
            self.refuse(refused(field, file, value, *current))
            current = value
        elif self.checks and file in _BESIDE:
            refusal = self._beside(file, current)
            if refusal is not None:
                raise Stop(refused(field, file, value, *refusal))
        value = value.removesuffix("\n") or value
        if before is not None and file in KEYED:
            value = f"{before.value}\n{value}"
        self.rows[file] = Row(
            file, value, field, rule, inputs, None if current == value else current
        )

    def _beside(self, file: str, current: str) -> Complaint | None:
        """Why the kernel refuses a value because of another file's content."""
        if file != "cpu.weight":
            other = self.current("cpu.max.burst" if file == "cpu.max" else "cpu.max")
            if other is not None:
                quota, burst = (current, other) if file == "cpu.max" else (other, current)
                amount = quota.partition(" ")[0]
                if amount != "max" and int(burst) > int(amount):
                    return INVALID, f"a burst of at most the quota {amount}"
        elif self.current("cpu.idle") == "1":
            return INVALID, "no weight while cpu.idle is 1"
        return None

    def add(self, file: str, line: str, field: str, rule: str, *inputs: object) -> None:
        """A further line of a file that takes one entry at a time; Stop if the kernel refuses it."""
        device, devices = line.partition(" ")[0], self.features.devices
        if devices is not None and ":" in device and device not in devices:
            raise Stop(refused(field, file, line, NO_DEVICE, "a disk that the machine has"))
        before = self.rows.get(file)
        value = line if before is None else f"{before.value}\n{line}"
        current = value
        if file in KEYED:
            result = written(file, line, self.current(file), self.features)
            if isinstance(result, str):
                current = result
            else:
                raise Stop(refused(field, file, line, *result))
        self.rows[file] = Row(
            file, value, field, rule, inputs, None if current == value else current
        )

    def same(self, file: str, field: str, value: int | str) -> None:
        """A value that is written unchanged."""
        self.put(file, str(value), field, "oci.same", field, value)

    def refuse(self, refusal: Refusal) -> None:
        """Stop with the refusal, unless ``checks`` is false."""
        if self.checks:
            raise Stop(refusal)

    def absent(self, file: str, value: str, field: str) -> Stop:
        """The refusal of a file that the kernel does not have."""
        return Stop(
            refused(field, file, value, MISSING, "no value: this kernel does not have the file")
        )

    def rates_v2(self, io: BlockIo) -> None:
        """io.max, entry by entry; Stop for a rate of 0, which the kernel does not take."""
        count = 0
        for name, field, key, _ in RATES:
            for entry in getattr(io, name) or ():
                count += 1
                line = f"{entry.major}:{entry.minor} {key}={entry.rate}"
                if not entry.rate:
                    error, takes = "numerical result out of range", "rates above 0"
                    raise Stop(refused(f"blockIO.{field}", "io.max", line, error, takes))
                self.add("io.max", line, f"blockIO.{field}", "oci.io.rates", count)

    def cpuset(self, cpu: Cpu) -> None:
        """cpuset.cpus and cpuset.mems."""
        if cpu.cpus:
            self.same("cpuset.cpus", "cpu.cpus", cpu.cpus)
        if cpu.mems:
            self.same("cpuset.mems", "cpu.mems", cpu.mems)

    def hugepages(
        self, limits: list[Hugepages] | tuple[()], suffix: str, reservations: bool
    ) -> None:
        """hugetlb files, each with its reservation where runtime and kernel have that."""
        reserve = reservations and self.features.rsvd
        for pages in limits:
            name, value = f"hugetlb.{pages.page_size}", str(pages.limit)
            inputs = (pages.page_size, pages.limit)
            self.put(f"{name}.{suffix}", value, "hugepageLimits", "oci.hugetlb", *inputs)
            if reserve:
                self.put(
                    f"{name}.rsvd.{suffix}", value, "hugepageLimits", "oci.hugetlb.rsvd", *inputs
                )

    def period_v1(self, cpu: Cpu, retries: bool) -> None:
        """cpu.cfs_period_us. The runtime writes a refused period again after the quota, so the quota is
        written."""
        if not cpu.period:
            return
        if retries and cpu.quota and complaint("cpu.cfs_period_us", str(cpu.period), self.features):
            self.same("cpu.cfs_quota_us", "cpu.quota", cpu.quota)
        self.same("cpu.cfs_period_us", "cpu.period", cpu.period)

    def idle_v1(self, idle: int) -> None:
        """cpu.idle after the shares, which read 3 from then on."""
        self.same("cpu.idle", "cpu.idle", idle)
        shares = self.rows.get("cpu.shares")
        if idle == 1 and shares is not None:
            self.rows["cpu.shares"] = structs.replace(shares, effective="3")

    def realtime_v1(self, cpu: Cpu) -> None:
        """Real-time bandwidth, which few kernels have."""
        for amount, field, file in (
            (cpu.realtime_period, "cpu.realtimePeriod", "cpu.rt_period_us"),
            (cpu.realtime_runtime, "cpu.realtimeRuntime", "cpu.rt_runtime_us"),
        ):
            if amount:
                self.same(file, field, amount)

    def weight_v1(self, io: BlockIo, knows_bfq: bool) -> str:
        """blkio.weight, or BFQ's where the CFQ scheduler is gone; the name of the file."""
        features = self.features
        name = "blkio.weight" if features.leaf or not knows_bfq else "blkio.bfq.weight"
        exists = features.leaf or (features.bfq and knows_bfq)
        if (io.weight or io.weight_device) and not exists:
            raise self.absent(name, str(io.weight or 0), "blockIO.weight")
        if io.weight:
            self.same(name, "blockIO.weight", io.weight)
        return name

    def leaf_v1(self, io: BlockIo) -> None:
        """blkio.leaf_weight, which went with the CFQ scheduler in Linux 5.0."""
        if not self.features.leaf:
            raise self.absent("blkio.leaf_weight", str(io.leaf_weight), "blockIO.leafWeight")
        self.same("blkio.leaf_weight", "blockIO.leafWeight", io.leaf_weight or 0)

    def rates_v1(self, io: BlockIo) -> None:
        """The four throttle files; a rate of 0 removes an entry."""
        count = 0
        for name, field, _, part in RATES:
            for entry in getattr(io, name) or ():
                count += 1
                line = f"{entry.major}:{entry.minor} {entry.rate}"
                file = f"blkio.throttle.{part}_device"
                self.add(file, line, f"blockIO.{field}", "oci.io.rates", count)

    def network_v1(self, block: Block) -> None:
        """net_cls and net_prio."""
        network = block.network
        if network is None:
            return
        if network.class_id:
            self.same("net_cls.classid", "network.classID", network.class_id)
        for priority in network.priorities or ():
            line = f"{priority.name} {priority.priority}"
            self.add(
                "net_prio.ifpriomap",
                line,
                "network.priorities",
                "oci.same",
                priority.name,
                priority.priority,
            )

    def oom_control_v1(self) -> None:
        """memory.oom_control with the OOM killer disabled."""
        field = "memory.disableOOMKiller"
        self.put("memory.oom_control", "1", field, "oci.same", field, "true")


def refused(field: str, file: str, value: str, error: str, takes: str) -> Refusal:
    """The kernel's refusal of a write."""
    inputs = (file, shown(value) if len(value) > _SHOWN else value, error, takes)
    return Refusal(field, error, "refused.kernel", inputs, file)


RATES = (
    ("throttle_read_bps_device", "throttleReadBpsDevice", "rbps", "read_bps"),
    ("throttle_write_bps_device", "throttleWriteBpsDevice", "wbps", "write_bps"),
    ("throttle_read_iops_device", "throttleReadIOPSDevice", "riops", "read_iops"),
    ("throttle_write_iops_device", "throttleWriteIOPSDevice", "wiops", "write_iops"),
)
"""The field in ``BlockIo`` and in the specification, the key of io.max, part of the v1 file's name."""


def check_burst(burst: int, quota: int, file: str) -> None:
    """Stop where the kernel refuses the burst beside the quota of the same block."""
    if 0 < quota < burst:
        error, takes = "invalid argument", f"at most the quota {quota}"
        raise Stop(refused("cpu.burst", file, str(burst), error, takes))


_NO_LIMIT_V1 = 0x7FFFFFFFFFFFF000
"""What v1 reads back where a cgroup has no limit, with pages of 4 KiB. Source: Linux
mm/page_counter.h PAGE_COUNTER_MAX; read on 6.1 and 6.18."""


def check_memsw(limit: int | None, swap: int) -> None:
    """Stop where memory and swap together are below the memory limit, which is none where it is not
    given: the kernel compares both. Source: Linux mm/memcontrol-v1.c mem_cgroup_resize_max."""
    if swap < 0 or swap >= _NO_LIMIT_V1:
        return
    if limit is None or limit < 0 or swap < limit:
        known = "the memory limit, and there is none"
        known = known if limit is None else f"the memory limit {limit}"
        file = "memory.memsw.limit_in_bytes"
        raise Stop(
            refused("memory.swap", file, str(swap), "invalid argument", f"no less than {known}")
        )
