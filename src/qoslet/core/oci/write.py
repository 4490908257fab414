"""One OCI block to the files of a hierarchy, as a runtime of some version writes them."""

from __future__ import annotations

from msgspec import Struct, structs

from qoslet.core.cgroup.features import WHOLE, Ground
from qoslet.core.oci import runc
from qoslet.core.oci.file_writes import Pen
from qoslet.core.oci.resources import NO_MEMORY, Block
from qoslet.core.oci.result import Hierarchy, Lost, Part, Row, Stop
from qoslet.core.rules.cpu import QUOTA_PERIOD_US, systemd_quota
from qoslet.core.versions.runtime import Runtime

_PERIOD = str(QUOTA_PERIOD_US)

UNCHECKED = Lost(
    "the check before an update",
    "the runtime compares the limit with memory.current, which is not given",
    "--usage BYTES[,SWAP] with memory.current and memory.swap.current",
    "elsewhere",
    "memory.checkBeforeUpdate",
)
"""Told with the rows that stand where the check passes."""


class Update(Struct, frozen=True):
    """An update of a running container: the block that it has, and what memory.current and
    memory.swap.current say (None: unknown, then checkBeforeUpdate refuses nothing)."""

    before: Block = Block()
    usage: int | None = None
    swapped: int = 0


def files(
    block: Block,
    hierarchy: Hierarchy,
    runtime: Runtime,
    ground: Ground = WHOLE,
    update: Update | None = None,
    systemd: bool = False,
) -> Part:
    """The rows of a block, up to the first refusal, and what is lost.

    With ``update`` the block is that of an update. ``systemd``: by the systemd driver, whose
    quota is in whole percents of a CPU where the runtime writes it so.
    """
    pen, refusal = Pen(ground, _stood(update)), None
    asked = block
    if update is not None and runtime.family == "runc":
        # imported for an update: a plan makes containers
        from qoslet.core.oci.runc_update import updated

        block = updated(update.before, block, runtime)
    try:
        _write(pen, block, hierarchy, runtime, update)
    except Stop as stop:
        refusal = stop.refusal
    if systemd and runtime.rounds_quota:
        _round_quota(pen.rows)
    # imported for a block: of a plan's own nothing is lost
    from qoslet.core.oci.unsupported import lost

    without = lost(asked, hierarchy, runtime, ground.bfq)
    if update is not None and _unchecked(asked, hierarchy, runtime, update):
        without = (*without, UNCHECKED)
    return Part(tuple(pen.rows.values()), refusal, without)


def accepted(
    block: Block, hierarchy: Hierarchy, runtime: Runtime, ground: Ground, systemd: bool
) -> tuple[Row, ...]:
    """The rows of a new container's block where nobody refuses a value, as they stand once systemd
    has written the unit again."""
    pen = Pen(ground, judges=False)
    _write(pen, block, hierarchy, runtime, None)
    if systemd and runtime.rounds_quota:
        _round_quota(pen.rows)
        _reset_period(pen.rows)
    return tuple(pen.rows.values())


def _unchecked(block: Block, hierarchy: Hierarchy, runtime: Runtime, update: Update) -> bool:
    """Whether an update's answer depends on usage that is not known: v1 has no such check.
    Source: opencontainers/cgroups fs2 memory.go CheckMemoryUsage; crun cgroup-resources.c."""
    asked = (block.memory or NO_MEMORY).check_before_update
    return bool(asked and runtime.check and hierarchy == "v2" and update.usage is None)


def _write(
    pen: Pen, block: Block, hierarchy: Hierarchy, runtime: Runtime, update: Update | None
) -> None:
    usage = update.usage if update is not None else None
    swapped = update.swapped if update is not None else 0
    if runtime.family == "crun":
        # imported where the runtime is crun
        from qoslet.core.oci import crun

        if hierarchy == "v2":
            crun.write_v2(pen, block, runtime, usage, swapped)
        else:
            crun.write_v1(pen, block, runtime)
    elif hierarchy == "v2":
        runc.write_v2(pen, block, runtime, usage, update is not None)
    else:
        runc.write_v1(pen, block, runtime, update is not None)


def _round_quota(rows: dict[str, Row]) -> None:
    """What stands after systemd and the runtime wrote a quota: the runtime rounds its own field,
    and writes what the unified map says as it is."""
    period = rows.get("cpu.cfs_period_us")
    for file in ("cpu.max", "cpu.cfs_quota_us"):
        row = rows.get(file)
        if row is None or row.rule == "oci.unified":
            continue
        quota, _, every = row.applied.partition(" ")
        every = every or (_PERIOD if period is None else period.applied)
        kept = quota if quota == "max" else str(systemd_quota(int(quota), int(every)))
        if kept != quota:
            text = f"{kept} {every}" if file == "cpu.max" else kept
            rows[file] = structs.replace(row, effective=text)


def _reset_period(rows: dict[str, Row]) -> None:
    """Without a quota systemd writes its default period, whatever it was told."""
    row, text = rows.get("cpu.max"), f"max {_PERIOD}"
    if row is None:
        quota = rows.get("cpu.cfs_quota_us")
        unlimited = quota is None or quota.value == "-1"
        row, text = (rows.get("cpu.cfs_period_us") if unlimited else None), _PERIOD
    elif not row.value.startswith("max ") or row.rule == "oci.unified":
        return
    if row is not None and row.value != text:
        rows[row.file] = structs.replace(row, effective=text)


def _stood(update: Update | None) -> dict[str, str]:
    """What a running container has in a file that a write may leave in part."""
    cpu = update.before.cpu if update is not None else None
    if cpu is None or not cpu.period:
        return {}
    quota = cpu.quota or 0
    return {"cpu.max": f"{quota if quota > 0 else 'max'} {cpu.period}"}
