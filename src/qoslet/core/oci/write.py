"""One OCI block to the files of a hierarchy, as a runtime of some version writes them."""

from __future__ import annotations

from msgspec import Struct, structs

from qoslet.core.cgroup.features import WHOLE, Ground
from qoslet.core.oci import crun, runc
from qoslet.core.oci.file_writes import Pen
from qoslet.core.oci.resources import Block
from qoslet.core.oci.result import Hierarchy, Part, Row, Stop
from qoslet.core.oci.runc_update import updated
from qoslet.core.oci.unsupported import lost
from qoslet.core.rules.cpu import QUOTA_PERIOD_US, systemd_quota
from qoslet.core.versions.runtime import Runtime


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
        block = updated(update.before, block, runtime)
    try:
        _write(pen, block, hierarchy, runtime, update)
    except Stop as stop:
        refusal = stop.refusal
    rows = tuple(pen.rows.values())
    if systemd and runtime.rounds_quota:
        rows = tuple([_whole_percents(row) for row in rows])
    return Part(rows, refusal, lost(asked, hierarchy, runtime, ground.bfq))


def _write(
    pen: Pen, block: Block, hierarchy: Hierarchy, runtime: Runtime, update: Update | None
) -> None:
    usage = update.usage if update is not None else None
    swapped = update.swapped if update is not None else 0
    if runtime.family == "crun":
        if hierarchy == "v2":
            crun.write_v2(pen, block, runtime, usage, swapped)
        else:
            crun.write_v1(pen, block, runtime)
    elif hierarchy == "v2":
        runc.write_v2(pen, block, runtime, usage, update is not None)
    else:
        runc.write_v1(pen, block, runtime, update is not None)


def _whole_percents(row: Row) -> Row:
    """The quota that stands after systemd and the runtime wrote it; the runtime rounds its own
    field, and writes what the unified map says as it is."""
    if row.file != "cpu.max" or row.rule == "oci.unified" or row.value.startswith("max"):
        return row
    quota, _, period = row.applied.partition(" ")
    kept = systemd_quota(int(quota), int(period))
    return row if str(kept) == quota else structs.replace(row, effective=f"{kept} {period}")


def _stood(update: Update | None) -> dict[str, str]:
    """What a running container has in a file that a write may leave in part."""
    cpu = update.before.cpu if update is not None else None
    if cpu is None or not cpu.period:
        return {}
    quota = cpu.quota or 0
    return {"cpu.max": f"{quota if quota > 0 else 'max'} {cpu.period}"}


__all__ = ["QUOTA_PERIOD_US", "Update", "files"]
