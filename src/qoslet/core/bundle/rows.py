"""The lines of ``cgroups.jsonl`` and ``units.jsonl``, and which containers run by ``pods.json``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct

from qoslet.core.api.schema import DECODE_ERRORS, encode_json, shown
from qoslet.core.node.running_kubelet.listed_pods import listed_pods
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


def running_containers(text: bytes) -> set[tuple[str, str]]:
    """Pods, as ``namespace/name``, and their containers that run by their status; none where the
    text cannot be read so."""
    return {
        ("/".join(pod.full_name), one.name)
        for pod in listed_pods(text)
        for one in pod.status.container_statuses or ()
        if one.state.running is not None
    }


R = TypeVar("R", CgroupRow, UnitRow)
CGROUPS_MOST = 200_000
"""Lines of a part that are read."""


def lines(rows: Iterable[CgroupRow | UnitRow]) -> bytes:
    """The text of a part."""
    return b"".join(encode_json(row) + b"\n" for row in rows)


def cgroup_rows(text: bytes, where: str) -> list[CgroupRow]:
    """The cgroups of a part called ``where`` in messages. Raises BadInput, also for one that is in it
    twice with different values."""
    found: dict[tuple[str, str], CgroupRow] = {}
    for row in _rows(text, where, CgroupRow):
        if found.setdefault((row.path, row.hierarchy), row) != row:
            raise _contradicts(f"{row.path} ({row.hierarchy})", where)
    return list(found.values())


def unit_rows(text: bytes, where: str) -> list[UnitRow]:
    """The units of a part. Raises BadInput, also for one that is in it twice with different
    properties."""
    found: dict[str, UnitRow] = {}
    for row in _rows(text, where, UnitRow):
        if found.setdefault(row.unit, row) != row:
            raise _contradicts(row.unit, where)
    return list(found.values())


def _contradicts(name: str, where: str) -> BadInput:
    message = f"has two different lines for {shown(name)}"
    return BadInput(message, where=where, hint=_HINT)


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
        except DECODE_ERRORS as error:
            message = f"line {number}: {shown(str(error))}"
            raise BadInput(message, where=where, hint=_HINT) from None


_HINT = "make the bundle again with qoslet bundle"
