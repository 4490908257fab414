"""Windows containers: WindowsContainerResources, ``windows.resources``, and the object they end in.

A container's job object (process isolation) or machine (Hyper-V) has one CPU control. The design
and Docker take the first of count, shares and maximum; containerd's shim refuses more than one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from qoslet.core.convert.answer import Lost, Part, Refusal, Row
from qoslet.core.convert.cri import snake
from qoslet.core.shapes import shown
from qoslet.errors import BadInput

_MIB = 1 << 20
_MOST = 10_000
_INT32 = 2**31 - 1
"""The widest count and rate that the Host Compute Service has a field for."""

_OCI = {
    "cpu": ("count", "shares", "maximum", "affinity"),
    "memory": ("limit",),
    "storage": ("iops", "bps", "sandboxSize"),
}
"""What ``windows.resources`` has. Source: runtime-spec specs-go/config.go, PR 1258."""

FIELDS = ("cpu_shares", "cpu_count", "cpu_maximum", "memory_limit_in_bytes", "rootfs_size_in_bytes")


class Fields(Struct, frozen=True):
    """WindowsContainerResources or ``windows.resources``; zero is "not set".

    ``affinity_cpus`` are groups with their masks; ``storage_iops`` and ``storage_bps`` are of the
    OCI alone; ``unknown`` names what is no field there; ``oci``: whether it was a block.
    """

    cpu_shares: int = 0
    cpu_count: int = 0
    cpu_maximum: int = 0
    memory_limit_in_bytes: int = 0
    rootfs_size_in_bytes: int = 0
    affinity_cpus: tuple[tuple[int, int], ...] = ()
    storage_iops: int = 0
    storage_bps: int = 0
    unknown: tuple[str, ...] = ()
    oci: bool = False


class Windows(Struct, frozen=True):
    """What to convert for: the isolation, the machine's processors (None: unknown), and whether
    the design's precedence, which is Docker's, decides between CPU controls.

    ``machine``: the processors of a container's own machine where no count says, None if it has
    all. ``percent``: the maximum is handed on as Docker's whole percents, as dockershim did.
    """

    isolation: str = "process"
    processors: int | None = None
    precedence: bool = False
    machine: int | None = None
    percent: bool = False

    @property
    def isolated(self) -> bool:
        """Whether the container has a machine of its own."""
        return self.isolation == "hyperv"

    def within(self, count: int) -> int | None:
        """The processors that a maximum is a part of; ``count`` is the object's own, 0 if unset."""
        return (count or self.machine or self.processors) if self.isolated else self.processors


OWN_MACHINE = 2
"""Processors of a Hyper-V container's machine where nothing says. Source: hcsshim internal/uvm
defaultProcessorCount."""

PROCESS = Windows()
"""Process isolation on a machine of unknown size."""


_WIDTHS = {"cpu_shares": 65535, "cpu_maximum": 65535, "cpu_count": _INT32}
"""Beyond them containerd and the shim keep the low bits. Source: containerd
internal/cri/opts WithWindowsResources, hcsshim internal/oci ParseAnnotationsCPUCount."""


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
            found[name] = _number(value, at, _WIDTHS.get(name, 2**63 - 1))
        else:
            hint = f"WindowsContainerResources has {', '.join(FIELDS)}, affinity_cpus"
            raise BadInput("is no field of the message", where=at, hint=hint)
    return Fields(**found)


def _affinity(one: Any, where: str, group: str = "cpu_group", mask: str = "cpu_mask") -> Any:
    """A group and its mask."""
    if not isinstance(one, Mapping):
        raise BadInput("expected `object`", where=where)
    named = {snake(str(name)): value for name, value in one.items()}
    for name in named.keys() - {group, mask}:
        raise BadInput("is no field of it", where=f"{where}.{shown(name)}", hint=f"{group}, {mask}")
    return (
        _number(named.get(group, 0), f"{where}.{group}", 2**32 - 1),
        _number(named.get(mask, 0), f"{where}.{mask}", 2**64 - 1),
    )


def _of_oci(given: Any, where: str) -> Fields:
    parts: dict[str, Mapping[str, Any]] = {}
    for name in _OCI:
        value = given.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise BadInput("expected `object`", where=f"{where}.{name}")
        parts[name] = value or {}

    def amount(part: str, name: str, most: int = 2**63 - 1) -> int:
        value = parts[part].get(name)
        return 0 if value is None else _number(value, f"{where}.{part}.{name}", most)

    affinity, at = parts["cpu"].get("affinity") or [], f"{where}.cpu.affinity"
    if not isinstance(affinity, list):
        raise BadInput("expected `array`", where=at)
    unknown = [name for name in given if name not in _OCI]
    unknown += [f"{part}.{name}" for part in _OCI for name in parts[part] if name not in _OCI[part]]
    return Fields(
        amount("cpu", "shares", 65535),
        amount("cpu", "count", _INT32),
        amount("cpu", "maximum", 65535),
        amount("memory", "limit"),
        amount("storage", "sandboxSize"),
        tuple(_affinity(one, at, "group", "mask") for one in affinity),
        amount("storage", "iops", _INT32),
        amount("storage", "bps", _INT32),
        tuple(shown(str(name)) for name in unknown),
        True,
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
    cpu: dict[str, object] = {
        "count": fields.cpu_count,
        "shares": fields.cpu_shares,
        "maximum": fields.cpu_maximum,
        "affinity": [{"mask": mask, "group": group} for group, mask in fields.affinity_cpus],
    }
    storage: dict[str, object] = {
        "iops": fields.storage_iops,
        "bps": fields.storage_bps,
        "sandboxSize": fields.rootfs_size_in_bytes,
    }
    memory: dict[str, object] = {"limit": fields.memory_limit_in_bytes}
    parts = {"cpu": cpu, "memory": memory, "storage": storage}
    found: dict[str, object] = {}
    for name, part in parts.items():
        there = {key: amount for key, amount in part.items() if amount}
        if there:
            found[name] = there
    return found


def lost_of(fields: Fields, to: str) -> tuple[Lost, ...]:
    """What a block or message loses as the other of them (``oci``, ``cri``)."""
    rows = [_unknown(name) for name in fields.unknown]
    if to == "cri":
        rates = (("iops", fields.storage_iops), ("bps", fields.storage_bps))
        rows += [_rate(name) for name, amount in rates if amount]
    return tuple(rows)


def _unknown(name: str) -> Lost:
    known = "; ".join(f"{part}: {', '.join(names)}" for part, names in _OCI.items())
    return Lost(name, "is no field of windows.resources, and passed over", known, field=name)


def _rate(name: str) -> Lost:
    annotation = {"iops": "iopsmaximum", "bps": "bandwidthmaximum"}[name]
    return Lost(
        f"storage.{name}", "the message has no rate of storage",
        f"the annotation io.microsoft.container.storage.qos.{annotation}", field=f"storage.{name}",
    )  # fmt: skip


_LABEL = "containerd.io/snapshot/windows/rootfs.sizebytes"


def _elsewhere(fields: Fields, on: Windows) -> list[Lost]:
    """What the object has no field for."""
    rows = [_unknown(name) for name in fields.unknown]
    if fields.rootfs_size_in_bytes and fields.oci:
        why, instead = "the shim does not read it", f"the snapshot's label {_LABEL}"
        rows.append(Lost("storage.sandboxSize", why, instead, field="storage.sandboxSize"))
    elif fields.rootfs_size_in_bytes:
        why = "the object has no size of a disk"
        instead = f"containerd labels the container's snapshot {_LABEL}"
        rows.append(Lost("rootfs_size_in_bytes", why, instead, "elsewhere", "rootfs_size_in_bytes"))
    if fields.affinity_cpus and on.isolated:
        why = "the shim has it for process isolation alone"
        rows.append(Lost("affinity_cpus", why, "process isolation", field="affinity_cpus"))
    elif fields.affinity_cpus:
        why = "the object's Processor has a count, a maximum and a weight"
        instead = "the shim gives the job object these groups and masks, if it knows cpu.affinity"
        rows.append(Lost("affinity_cpus", why, instead, "elsewhere", "affinity_cpus"))
    limit = fields.memory_limit_in_bytes
    if 0 < limit < _MIB:
        why = f"{limit} bytes are 0 whole MiB, which the shim takes for no limit"
        rows.append(
            Lost("memory_limit_in_bytes", why, "1 MiB or more", field="memory_limit_in_bytes")
        )
    return rows


def _refusal(count: int, weight: int, maximum: int, fields: Fields, on: Windows) -> Refusal | None:
    """Why the controls that are left are not taken."""
    if not on.precedence and sum(map(bool, (count, weight, maximum))) > 1:
        words = (
            f"invalid spec - Windows Container CPU Count: '{count}', Limit: '{maximum}', and "
            f"Weight: '{weight}' are mutually exclusive"
        )
        return Refusal("cpu", words, "refused.windows", (count, maximum, weight))
    if on.percent and maximum > 100:
        words = "range of CPUPercent is from 1 to 100"
        return Refusal("cpu_maximum", words, "refused.windows.percent", (maximum,))
    for name, amount in (("cpu_shares", weight), ("cpu_maximum", maximum)):
        if amount > _MOST:
            words = "is beyond its range"
            return Refusal(name, words, "refused.windows.range", (name, amount))
    for number, (_, mask) in enumerate(fields.affinity_cpus):
        if not mask and not on.isolated:
            words = f"cpu affinity mask must be non-zero: entry {number} has zero mask"
            return Refusal("affinity_cpus", words, "refused.windows.affinity", (number,))
    return None


def object_part(fields: Fields, on: Windows) -> Part:
    """What the container's object gets."""
    count, weight, maximum = fields.cpu_count, fields.cpu_shares, fields.cpu_maximum
    lost = _elsewhere(fields, on)
    if on.precedence and not on.isolated:
        count, weight, maximum, after = _first(count, weight, maximum, on)
        lost = [*after, *lost]
    refusal = _refusal(count, weight, maximum, fields, on)
    if refusal is not None:
        return Part(refusal=refusal, lost=tuple(_unknown(name) for name in fields.unknown))
    rows = []
    kept = count if on.processors is None else min(count, on.processors)
    if count:
        inputs = (count, on.processors)
        rows.append(Row("Processor.Count", str(kept), "cpu_count", "windows.object.count", inputs))
    if maximum:
        value = maximum * 100 if on.percent else maximum
        cap = (value, on.within(kept), on.isolated)
        name = "Processor.Maximum"
        rows.append(Row(name, str(value), "cpu_maximum", "windows.object.maximum", cap))
    if weight:
        name = "Processor.Weight"
        rows.append(Row(name, str(weight), "cpu_shares", "windows.object.weight", (weight,)))
    return Part((*rows, *_memory(fields), *_storage(fields)), lost=tuple(lost))


def _memory(fields: Fields) -> Iterator[Row]:
    limit, name = fields.memory_limit_in_bytes, "memory_limit_in_bytes"
    if limit >= _MIB:
        yield Row("Memory.SizeInMB", str(limit // _MIB), name, "windows.object.memory", (limit,))


def _storage(fields: Fields) -> Iterator[Row]:
    rates = (
        ("IopsMaximum", fields.storage_iops, "storage.iops", "operations"),
        ("BandwidthMaximum", fields.storage_bps, "storage.bps", "bytes"),
    )
    for name, rate, field, what in rates:
        if rate:
            file, inputs = f"Storage.QoS.{name}", (rate, what)
            yield Row(file, str(rate), field, "windows.object.storage", inputs)


def _first(count: int, weight: int, maximum: int, on: Windows) -> tuple[int, int, int, list[Lost]]:
    """The precedence under process isolation: count, then shares, then maximum."""
    named = (("cpu_count", count), ("cpu_shares", weight), ("cpu_maximum", maximum))
    there = [name for name, amount in named if amount]
    instead = "Hyper-V isolation, which has all three"
    if on.percent:
        instead = "Kubernetes from 1.18 on, which sends the maximum alone"
    lost = [
        Lost(name, f"{there[0]} comes first, and a job object has one CPU control", instead,
             field=name)
        for name in there[1:]
    ]  # fmt: skip
    kept = [amount if name in there[:1] else 0 for name, amount in named]
    return kept[0], kept[1], kept[2], lost
