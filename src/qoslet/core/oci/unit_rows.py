"""A block's rows as systemd is told them: unit properties, and the files that have none.

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
    """Rows of files as the rows of a unit; ``version`` is systemd's. ValueError for a value of
    the unified map that is none of its property."""
    rows = list(rows)
    given = {row.file: row for row in rows}
    found: list[Row] = []
    for row in rows:
        found += _row(row, given, block, hierarchy, runtime, version)
    if runtime.family == "crun" and hierarchy == "v2" and runtime.oci_version >= CRUN_TELLS_ALL:
        found += _crun_io_rows(block)
    return tuple(found)


def _crun_tells(row: Row, runtime: Runtime, cpu: Cpu) -> bool:
    """Whether crun tells systemd: of a quota only with its period, of neither by ``unified``."""
    if not crun_tells(row.file, runtime.oci_version):
        return False
    own = row.rule != "oci.unified"
    if row.file == "cpu.idle":
        return not own
    return row.file != "cpu.max" or bool(own and cpu.quota and cpu.period)


def _row(
    row: Row,
    given: dict[str, Row],
    block: Block,
    hierarchy: Hierarchy,
    runtime: Runtime,
    version: int,
) -> list[Row]:
    cpu, memory = block.cpu or NO_CPU, block.memory or NO_MEMORY
    own = row.rule != "oci.unified"
    if runtime.family == "crun" and not _crun_tells(row, runtime, cpu):
        return [row]
    if row.file == "cpu.idle" and hierarchy == "v2" and row.value == "1" and version >= IDLE_SINCE:
        return [Row("CPUWeight", "idle", row.field, "unit.idle", (1,))]
    if row.file == "memory.swap.max" and own and memory.swap is not None:
        if runtime.family == "crun" and memory.swap > 0:
            told = Row(
                "MemorySwapMax", str(memory.swap), row.field, "unit.crun.swap", (memory.swap,)
            )
            return [told, row]
        if row.value == "0" and runtime.family == "runc":
            return [row]
    if not carried(row.file, hierarchy, version) and row.file not in _V1_TOO.get(hierarchy, ()):
        return [row]
    return _properties(row, given, hierarchy, version)


_V1_TOO = {"v1": ("cpu.cfs_period_us",)}


def _properties(row: Row, given: dict[str, Row], hierarchy: Hierarchy, version: int) -> list[Row]:
    if hierarchy == "v2":
        made = properties({row.file: row.value}, version)
    else:
        period = given.get("cpu.cfs_period_us")
        every = int(period.value) if period is not None else QUOTA_PERIOD_US
        made = properties_v1({row.file: row.value}, version, every)
    if not made:
        return [row]
    texts = [word.partition("=") for word in words(made)]
    return [Row(name, value, row.field, row.rule, row.inputs) for name, _, value in texts]


def _crun_io_rows(block: Block) -> list[Row]:
    io, found = block.block_io or NO_IO, []
    if io.weight:
        written = io_weight_of_bfq(io.weight)
        inputs = (io.weight, written)
        found.append(Row("IOWeight", str(written), "blockIO.weight", "unit.crun.io", inputs))
    for one in io.weight_device or ():
        written = io_weight_of_bfq(one.weight or 0)
        text = f"/dev/block/{one.major}:{one.minor} {written}"
        inputs = (one.weight or 0, written)
        found.append(Row("IODeviceWeight", text, "blockIO.weightDevice", "unit.crun.io", inputs))
    return found
