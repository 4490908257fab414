"""The lines of ``cgroups.jsonl`` and ``units.jsonl``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct

from qoslet.core.api.schema import shown
from qoslet.errors import BadInput


class CgroupRow(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A cgroup in one hierarchy, ``v2`` or a v1 controller. ``files`` are texts as read, without
    the last newline; ``processes`` are those in it, not below; ``oom_score_adj`` their distinct
    values, None where they were not read."""

    path: str
    hierarchy: str
    inode: int | None = None
    processes: int | None = None
    files: Mapping[str, str] = {}
    oom_score_adj: tuple[int, ...] | None = None


class UnitRow(Struct, frozen=True):
    """A unit of systemd, with properties as ``systemctl show`` prints them."""

    unit: str
    properties: Mapping[str, str] = {}


R = TypeVar("R", CgroupRow, UnitRow)
CGROUPS_MOST = 200_000
"""Lines of a part that are read."""


def lines(rows: Iterable[CgroupRow | UnitRow]) -> bytes:
    """The text of a part."""
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def cgroup_rows(text: bytes, where: str) -> list[CgroupRow]:
    """The cgroups of a part called ``where`` in messages. Raises BadInput."""
    return list(_rows(text, where, CgroupRow))


def unit_rows(text: bytes, where: str) -> list[UnitRow]:
    """The units of a part. Raises BadInput."""
    return list(_rows(text, where, UnitRow))


def _rows(text: bytes, where: str, kind: type[R]) -> Iterator[R]:
    decode = msgspec.json.Decoder(kind).decode
    count = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        count += 1
        if count > CGROUPS_MOST:
            raise BadInput(f"has more than {CGROUPS_MOST} lines", where=where, hint=_HINT)
        try:
            yield decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
            message = f"line {number}: {shown(str(error))}"
            raise BadInput(message, where=where, hint=_HINT) from None


_HINT = "make the bundle again with qoslet bundle"
