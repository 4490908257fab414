"""What happened to memory, as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.render.documents import Document
from qoslet.render.documents.agent.guard import guard_document
from qoslet.render.documents.agent.pressure import pressure_document

if TYPE_CHECKING:
    from qoslet.core.memory.effective_protection import Binding, ProtectionLoss
    from qoslet.core.memory.rows import MemoryRow
    from qoslet.core.status.memory_view import MemoryView


def memory_document(view: MemoryView) -> Document:
    """Everything about memory, each group with what was counted under its name."""
    from qoslet.render.documents.timestamps import moment

    return {
        "groups": [_group(row) for row in view.groups],
        "events": [
            {
                "time": moment(one.at),
                "event": one.kind,
                "count": one.count,
                "cgroup": one.path,
                "level": one.level,
                "pod": one.pod or None,
                "container": one.container or None,
                "process": one.process or None,
                "pid": one.pid or None,
                "why": one.why or None,
            }
            for one in view.events
        ],
        "watched": [
            {
                "cgroup": one.path,
                "by": one.who,
                "state": one.what,
                "because": one.because or None,
                "notFreedSeconds": None if one.not_freed is None else round(one.not_freed, 1),
            }
            for one in view.watched
        ],
        "guard": guard_document(view.guard),
        "pressure": pressure_document(view.pressure),
        "wakes": list(view.how),
        "pageSize": view.page,
    }


_PRESSURE = ("stalledSeconds", "waitingSeconds", "underPressure")
_PROTECTION = ("protectedLowBytes", "protectedMinBytes")
"""What a kernel without pressure, and without protection, of cgroups does not tell: their types are
a contract that has no null."""


def _group(row: MemoryRow) -> Document:
    binding = _binds(row.binds)
    losses = [_loss(one) for one in row.losses]
    return {
        "cgroup": row.path,
        "level": row.level,
        "uid": row.uid or None,
        "pod": row.pod or None,
        "container": row.container or None,
        "gone": row.gone,
        "currentBytes": row.current,
        "requestBytes": row.request,
        "protectedLowBytes": row.low,
        "protectedMinBytes": row.min,
        "lowBytes": row.given_low,
        "minBytes": row.given_min,
        "highBytes": _limit(row.high),
        "maxBytes": _limit(row.max),
        "binds": binding,
        "bindingLimit": binding,
        "worthLess": losses,
        "ineffective": losses,
        "events": dict(row.events),
        "reclaim": {
            zone: {"scanned": one.scanned, "taken": one.taken, "refaulted": one.refaulted}
            for zone, one in row.reclaimed.items()
        },
        "recent": {zone: list(spans) for zone, spans in row.recent.items()},
        "stalledSeconds": round(row.stalled, 6),
        "waitingSeconds": round(row.waited, 6),
        "underPressure": row.pressed,
        "unknown": [
            *(() if row.tells_pressure else _PRESSURE),
            *(() if row.tells_protection else _PROTECTION),
        ],
        "fullPressure10": None if row.pressure is None else row.pressure.full_avg10,
        "somePressure10": None if row.pressure is None else row.pressure.some_avg10,
    }


def _limit(value: int | None) -> int | None:
    """Bytes; None for no limit and where the kernel has no such file."""
    return None if value is None or value >= UNLIMITED else value


def _binds(first: Binding | None) -> Document | None:
    if first is None:
        return None
    return {
        "cgroup": first.path,
        "file": first.file,
        "bytes": first.limit,
        "room": first.room,
    }


def _loss(one: ProtectionLoss) -> Document:
    cut = one.cut
    return {
        "file": one.file,
        "bytes": one.value,
        "usedBytes": one.used,
        "worthBytes": one.kept,
        "because": None
        if cut is None
        else {"cgroup": cut.path, "heldBytes": cut.held, "claimedBytes": cut.claimed},
    }
