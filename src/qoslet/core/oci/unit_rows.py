"""A block's rows under the systemd driver: unit properties, and files without a property.

Source: opencontainers/cgroups systemd v1.go, v2.go, common.go; crun cgroup-systemd.c.
"""

from __future__ import annotations

from collections.abc import Iterable

from qoslet.core.cgroup.unit_properties import IDLE_SINCE, carried, properties, properties_v1, words
from qoslet.core.oci.resources import NO_CPU, NO_IO, NO_MEMORY, Block, Cpu
from qoslet.core.oci.result import Hierarchy, Row
from qoslet.core.rules.cpu import QUOTA_PERIOD_US
from qoslet.core.versions.runtime import CRUN_TELLS_ALL, Runtime, crun_tells


def io_weight_of_bfq(weight: int) -> int:
    """IOWeight (1..10000) for BFQ's scale (1..1000, 100 by default)."""
    if weight <= 100:
        return 100 - (100 - weight) * 99 // 99
    return 100 + (weight - 100) * 9900 // 900


def unit_rows(
    rows: Iterable[Row], block: Block, hierarchy: Hierarchy, runtime: Runtime, version: int
) -> tuple[Row, ...]:
    """Rows of files as rows of a unit; ``version`` is systemd's. ValueError for a value of the
    unified map that its property cannot have."""
    rows = list(rows)
    by_file = {row.file: row for row in rows}
    result: list[Row] = []
    for row in rows:
        result += _row(row, by_file, block, hierarchy, runtime, version)
    if runtime.family == "crun" and hierarchy == "v2" and runtime.oci_version >= CRUN_TELLS_ALL:
        result += _crun_io_rows(block)
    return tuple(result)


def _crun_tells(row: Row, runtime: Runtime, cpu: Cpu) -> bool:
    """Whether crun sets the property: of a quota only with its period, and not from ``unified``."""
    if not crun_tells(row.file, runtime.oci_version):
        return False
    has_field = row.rule != "oci.unified"
    if row.file == "cpu.idle":
        return not has_field
    return row.file != "cpu.max" or bool(has_field and cpu.quota and cpu.period)


def _row(
    row: Row,
    by_file: dict[str, Row],
    block: Block,
    hierarchy: Hierarchy,
    runtime: Runtime,
    version: int,
) -> list[Row]:
    cpu, memory = block.cpu or NO_CPU, block.memory or NO_MEMORY
    has_field = row.rule != "oci.unified"
    if runtime.family == "crun" and not _crun_tells(row, runtime, cpu):
        return [row]
    if row.file == "cpu.idle" and hierarchy == "v2" and row.value == "1" and version >= IDLE_SINCE:
        return [Row("CPUWeight", "idle", row.field, "unit.idle", (1,))]
    if row.file == "memory.swap.max" and has_field and memory.swap is not None:
        if runtime.family == "crun" and memory.swap > 0:
            unit_row = Row(
                "MemorySwapMax", str(memory.swap), row.field, "unit.crun.swap", (memory.swap,)
            )
            return [unit_row, row]
        if row.value == "0" and runtime.family == "runc":
            return [row]
    if not carried(row.file, hierarchy, version) and row.file not in _V1_TOO.get(hierarchy, ()):
        return [row]
    return _properties(row, by_file, hierarchy, version)


_V1_TOO = {"v1": ("cpu.cfs_period_us",)}


def _properties(row: Row, by_file: dict[str, Row], hierarchy: Hierarchy, version: int) -> list[Row]:
    if hierarchy == "v2":
        unit_properties = properties({row.file: row.value}, version)
    else:
        period = by_file.get("cpu.cfs_period_us")
        period_us = int(period.value) if period is not None else QUOTA_PERIOD_US
        unit_properties = properties_v1({row.file: row.value}, version, period_us)
    if not unit_properties:
        return [row]
    texts = [word.partition("=") for word in words(unit_properties)]
    return [Row(name, value, row.field, row.rule, row.inputs) for name, _, value in texts]


def _crun_io_rows(block: Block) -> list[Row]:
    io, rows = block.block_io or NO_IO, []
    if io.weight:
        written = io_weight_of_bfq(io.weight)
        inputs = (io.weight, written)
        rows.append(Row("IOWeight", str(written), "blockIO.weight", "unit.crun.io", inputs))
    for device in io.weight_device or ():
        written = io_weight_of_bfq(device.weight or 0)
        text = f"/dev/block/{device.major}:{device.minor} {written}"
        inputs = (device.weight or 0, written)
        rows.append(Row("IODeviceWeight", text, "blockIO.weightDevice", "unit.crun.io", inputs))
    return rows
