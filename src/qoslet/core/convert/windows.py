"""Windows containers: WindowsContainerResources, ``windows.resources``, and the object they end in.

A container's job object (process isolation) or machine (Hyper-V) has one CPU control. The design
takes the first of count, shares and maximum; containerd's shim refuses more than one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from qoslet.core.convert.answer import Lost, Part, Refusal, Row
from qoslet.core.shapes import shown
from qoslet.errors import BadInput

_MIB = 1 << 20
_MOST = 10_000

FIELDS = ("cpu_shares", "cpu_count", "cpu_maximum", "memory_limit_in_bytes", "rootfs_size_in_bytes")


class Fields(Struct, frozen=True):
    """WindowsContainerResources; zero is "not set"."""

    cpu_shares: int = 0
    cpu_count: int = 0
    cpu_maximum: int = 0
    memory_limit_in_bytes: int = 0
    rootfs_size_in_bytes: int = 0
    affinity_cpus: tuple[tuple[int, int], ...] = ()


class Windows(Struct, frozen=True):
    """What to convert for: the isolation, the machine's processors (None: unknown), and whether
    the design's precedence decides between CPU controls."""

    isolation: str = "process"
    processors: int | None = None
    precedence: bool = False

    @property
    def isolated(self) -> bool:
        """Whether the container has a machine of its own."""
        return self.isolation == "hyperv"


PROCESS = Windows()
"""Process isolation on a machine of unknown size."""


def _number(value: Any, where: str, most: int = 2**63 - 1) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"expected `int`, got {shown(str(value))}", where=where)
    if not 0 <= value <= most:
        raise BadInput(f"must be 0 to {most}", where=where)
    return value


def fields_of(given: Mapping[str, Any], where: str) -> Fields:
    """A decoded message, names in the protobuf's spelling; or ``oci``: a decoded
    ``windows.resources``. Raises BadInput."""
    if "oci" in given:
        return _of_oci(given["oci"], where)
    found: dict[str, Any] = {}
    for name, value in given.items():
        at = f"{where}: {name}"
        if name == "affinity_cpus":
            if not isinstance(value, list):
                raise BadInput("expected `array`", where=at)
            found[name] = tuple(_affinity(one, at) for one in value)
        elif name in FIELDS:
            found[name] = _number(value, at)
        else:
            hint = f"WindowsContainerResources has {', '.join(FIELDS)}, affinity_cpus"
            raise BadInput("is no field of the message", where=at, hint=hint)
    return Fields(**found)


def _affinity(one: Any, where: str) -> tuple[int, int]:
    if not isinstance(one, Mapping):
        raise BadInput("expected `object`", where=where)
    group = _number(one.get("cpu_group", one.get("cpuGroup", 0)), f"{where}.cpu_group", 2**32 - 1)
    return group, _number(
        one.get("cpu_mask", one.get("cpuMask", 0)), f"{where}.cpu_mask", 2**64 - 1
    )


def _of_oci(given: Any, where: str) -> Fields:
    def part(name: str) -> Mapping[str, Any]:
        value = given.get(name) or {}
        if not isinstance(value, Mapping):
            raise BadInput("expected `object`", where=f"{where}.{name}")
        return value

    cpu, memory, storage = part("cpu"), part("memory"), part("storage")
    return Fields(
        _number(cpu.get("shares") or 0, f"{where}.cpu.shares", 65535),
        _number(cpu.get("count") or 0, f"{where}.cpu.count"),
        _number(cpu.get("maximum") or 0, f"{where}.cpu.maximum", 65535),
        _number(memory.get("limit") or 0, f"{where}.memory.limit"),
        _number(storage.get("sandboxSize") or 0, f"{where}.storage.sandboxSize"),
    )


def as_cri(fields: Fields) -> dict[str, object]:
    """The message, without what is unset."""
    found: dict[str, object] = {
        name: getattr(fields, name) for name in FIELDS if getattr(fields, name)
    }
    if fields.affinity_cpus:
        found["affinity_cpus"] = [
            {"cpu_mask": mask, "cpu_group": group} for group, mask in fields.affinity_cpus
        ]
    return found


def as_oci(fields: Fields) -> dict[str, object]:
    """``windows.resources``, without what is unset."""
    named = (("count", fields.cpu_count), ("shares", fields.cpu_shares))
    cpu = {name: amount for name, amount in (*named, ("maximum", fields.cpu_maximum)) if amount}
    found: dict[str, object] = {"cpu": cpu} if cpu else {}
    if fields.memory_limit_in_bytes:
        found["memory"] = {"limit": fields.memory_limit_in_bytes}
    if fields.rootfs_size_in_bytes:
        found["storage"] = {"sandboxSize": fields.rootfs_size_in_bytes}
    return found


def object_part(fields: Fields, on: Windows) -> Part:
    """What the container's object gets."""
    count, weight, maximum = fields.cpu_count, fields.cpu_shares, fields.cpu_maximum
    lost: tuple[Lost, ...] = ()
    if not on.precedence and sum(map(bool, (count, weight, maximum))) > 1:
        words = (
            f"invalid spec - Windows Container CPU Count: '{count}', Limit: '{maximum}', and "
            f"Weight: '{weight}' are mutually exclusive"
        )
        refusal = Refusal("cpu", words, "refused.windows", (count, maximum, weight))
        return Part(refusal=refusal)
    if on.precedence and not on.isolated:
        count, weight, maximum, lost = _first(count, weight, maximum)
    rows = []
    if count:
        kept = count if on.processors is None else min(count, on.processors)
        inputs = (count, on.processors)
        rows.append(Row("Processor.Count", str(kept), "cpu_count", "windows.object.count", inputs))
    if maximum:
        kept = min(maximum, _MOST)
        of = (count or on.processors) if on.isolated else on.processors
        rows.append(
            Row("Processor.Maximum", str(kept), "cpu_maximum", "windows.object.maximum",
                (kept, of, on.isolated))
        )  # fmt: skip
    if weight:
        rows.append(
            Row("Processor.Weight", str(min(weight, _MOST)), "cpu_shares", "windows.object.weight",
                (min(weight, _MOST),))
        )  # fmt: skip
    limit = fields.memory_limit_in_bytes
    if limit:
        row = Row("Memory.SizeInMB", str(limit // _MIB), "memory_limit_in_bytes",
                  "windows.object.memory", (limit,))  # fmt: skip
        rows.append(row)
    return Part(tuple(rows), lost=lost)


def _first(count: int, weight: int, maximum: int) -> tuple[int, int, int, tuple[Lost, ...]]:
    """The design's precedence under process isolation: count, then shares, then maximum."""
    named = (("cpu_count", count), ("cpu_shares", weight), ("cpu_maximum", maximum))
    there = [name for name, amount in named if amount]
    lost = tuple(
        Lost(name, f"{there[0]} comes first, and a job object has one CPU control",
             "Hyper-V isolation, which has all three", field=name)
        for name in there[1:]
    )  # fmt: skip
    kept = [amount if name in there[:1] else 0 for name, amount in named]
    return kept[0], kept[1], kept[2], lost
