"""Windows' resources as values: WindowsContainerResources of the CRI, ``windows.resources`` of the
OCI, either from the other.

Source: cri-api runtime.v1 api.proto; runtime-spec config-windows.md, specs-go/config.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from qoslet.core.api.schema import child, shown
from qoslet.core.api.unknown_fields import unknown
from qoslet.core.convert.cri_fields import spot, twice
from qoslet.core.convert.cri_message import snake
from qoslet.core.oci.result import Lost
from qoslet.core.problem import Problem
from qoslet.errors import BadInput

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
    OCI alone; ``oci``: whether it was a block.
    """

    cpu_shares: int = 0
    cpu_count: int = 0
    cpu_maximum: int = 0
    memory_limit_in_bytes: int = 0
    rootfs_size_in_bytes: int = 0
    affinity_cpus: tuple[tuple[int, int], ...] = ()
    storage_iops: int = 0
    storage_bps: int = 0
    oci: bool = False


_WIDTHS = {"cpu_shares": 65535, "cpu_maximum": 65535, "cpu_count": _INT32}
"""Beyond them containerd and the shim keep the low bits. Source: containerd
internal/cri/opts WithWindowsResources, hcsshim internal/oci ParseAnnotationsCPUCount."""


def _number(value: Any, where: str, most: int = 2**63 - 1) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 21:
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
            raise BadInput("is not a field of the message", where=at, hint=hint)
    return Fields(**found)


def fields_in(given: Mapping[str, Any], where: str, path: str) -> dict[str, Any]:
    """A message's fields in the protobuf's spelling, without those that are null. Raises
    BadInput for one that is given twice."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        field = snake(str(name))
        if value is not None and field in found:
            raise twice(field, spot(where, child(path, str(name))))
        if value is not None:
            found[field] = value
    return found


_AFFINITY = ("cpu_group", "cpu_mask")


def _affinity(one: Any, where: str) -> tuple[int, int]:
    """A group and its mask, of the message."""
    if not isinstance(one, Mapping):
        raise BadInput("expected `object`", where=where)
    named = fields_in(one, where, "")
    for name in named.keys() - set(_AFFINITY):
        hint = ", ".join(_AFFINITY)
        raise BadInput("is not a field of it", where=f"{where}.{shown(name)}", hint=hint)
    return _pair(named, where, *_AFFINITY)


def _pair(one: Any, where: str, group: str, mask: str) -> tuple[int, int]:
    if not isinstance(one, Mapping):
        raise BadInput("expected `object`", where=where)
    return (
        _number(one.get(group) or 0, f"{where}.{group}", 2**32 - 1),
        _number(one.get(mask) or 0, f"{where}.{mask}", 2**64 - 1),
    )


def unread(given: Mapping[str, Any], where: str) -> list[Problem]:
    """A row for each name that ``windows.resources`` does not have."""
    rows = [unknown(where, str(name), "windows.resources", tuple(_OCI)) for name in given
            if name not in _OCI]  # fmt: skip
    for part, names in _OCI.items():
        inner = given.get(part)
        beside = [name for name in inner if name not in names] if isinstance(inner, Mapping) else []
        rows += [unknown(where, child(part, str(name)), part, names) for name in beside]
    return rows


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
    return Fields(
        amount("cpu", "shares", 65535),
        amount("cpu", "count", _INT32),
        amount("cpu", "maximum", 65535),
        amount("memory", "limit"),
        amount("storage", "sandboxSize"),
        tuple(_pair(one, at, "group", "mask") for one in affinity),
        amount("storage", "iops", _INT32),
        amount("storage", "bps", _INT32),
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
    rates = (("iops", fields.storage_iops), ("bps", fields.storage_bps))
    return tuple(_rate(name) for name, amount in rates if amount and to == "cri")


def _rate(name: str) -> Lost:
    annotation = {"iops": "iopsmaximum", "bps": "bandwidthmaximum"}[name]
    return Lost(
        f"storage.{name}", "the message has no storage rate",
        f"the annotation io.microsoft.container.storage.qos.{annotation}", field=f"storage.{name}",
    )  # fmt: skip
