"""WindowsContainerResources of the CRI and ``windows.resources`` of the OCI, decoded and converted
to each other.

Source: cri-api runtime.v1 api.proto; runtime-spec config-windows.md, specs-go/config.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from qoslet.core.api.input.unknown_fields import unknown
from qoslet.core.api.schema import child, shown
from qoslet.core.convert.cri_fields import spot, twice
from qoslet.core.convert.cri_message import snake
from qoslet.core.oci.result import Unsupported
from qoslet.core.problem import Problem
from qoslet.errors import BadInput

_INT32 = 2**31 - 1
"""The largest count and rate of the Host Compute Service."""

_OCI = {
    "cpu": ("count", "shares", "maximum", "affinity"),
    "memory": ("limit",),
    "storage": ("iops", "bps", "sandboxSize"),
}
"""The fields of ``windows.resources``. Source: runtime-spec specs-go/config.go, PR 1258."""

FIELDS = ("cpu_shares", "cpu_count", "cpu_maximum", "memory_limit_in_bytes", "rootfs_size_in_bytes")


class WindowsFields(Struct, frozen=True):
    """WindowsContainerResources or ``windows.resources``; zero is "not set".

    ``affinity_cpus`` are groups with their masks. Only the OCI has ``storage_iops`` and
    ``storage_bps``. ``oci``: it was decoded from an OCI block. ``host_process``: the message around
    it asks for a container that runs on the host itself.
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
    host_process: bool = False


_WIDTHS = {"cpu_shares": 65535, "cpu_maximum": 65535, "cpu_count": _INT32}
"""Upper bounds, beyond which containerd and the shim keep the low bits. Source: containerd
internal/cri/opts WithWindowsResources, hcsshim internal/oci ParseAnnotationsCPUCount."""


def _number(value: Any, where: str, most: int = 2**63 - 1) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 21:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"expected `int`, got {shown(str(value))}", where=where)
    if not 0 <= value <= most:
        raise BadInput(f"must be 0 to {most}", where=where)
    return value


def fields_of(given: Mapping[str, Any], where: str) -> WindowsFields:
    """The values of a message in the protobuf's spelling, or of a ``windows.resources`` under the
    key ``oci``. Raises BadInput."""
    if "oci" in given:
        return _of_oci(given["oci"], where)
    fields: dict[str, Any] = {}
    for name, value in given.items():
        at = f"{where}: {name}"
        if name == "affinity_cpus":
            if not isinstance(value, list):
                raise BadInput("expected `array`", where=at)
            fields[name] = tuple(_affinity(entry, at) for entry in value)
        elif name in FIELDS:
            fields[name] = _number(value, at, _WIDTHS.get(name, 2**63 - 1))
        else:
            hint = f"WindowsContainerResources has {', '.join(FIELDS)}, affinity_cpus"
            raise BadInput("is not a field of the message", where=at, hint=hint)
    return WindowsFields(**fields)


def fields_in(given: Mapping[str, Any], where: str, path: str) -> dict[str, Any]:
    """A message's fields in the protobuf's spelling, without nulls. Raises BadInput for a field
    that is given twice."""
    fields: dict[str, Any] = {}
    for name, value in given.items():
        field = snake(str(name))
        if value is not None and field in fields:
            raise twice(field, spot(where, child(path, str(name))))
        if value is not None:
            fields[field] = value
    return fields


_AFFINITY = ("cpu_group", "cpu_mask")


def _affinity(entry: Any, where: str) -> tuple[int, int]:
    """A processor group and its mask."""
    if not isinstance(entry, Mapping):
        raise BadInput("expected `object`", where=where)
    fields = fields_in(entry, where, "")
    for name in fields.keys() - set(_AFFINITY):
        hint = ", ".join(_AFFINITY)
        raise BadInput("is not a field of it", where=f"{where}.{shown(name)}", hint=hint)
    return _pair(fields, where, *_AFFINITY)


def _pair(entry: Any, where: str, group: str, mask: str) -> tuple[int, int]:
    if not isinstance(entry, Mapping):
        raise BadInput("expected `object`", where=where)
    return (
        _number(entry.get(group) or 0, f"{where}.{group}", 2**32 - 1),
        _number(entry.get(mask) or 0, f"{where}.{mask}", 2**64 - 1),
    )


def unread(given: Mapping[str, Any], where: str) -> list[Problem]:
    """A problem for each name that ``windows.resources`` does not have."""
    problems = [unknown(where, str(name), "windows.resources", tuple(_OCI)) for name in given
            if name not in _OCI]  # fmt: skip
    for part, names in _OCI.items():
        inner = given.get(part)
        others = [name for name in inner if name not in names] if isinstance(inner, Mapping) else []
        problems += [unknown(where, child(part, str(name)), part, names) for name in others]
    return problems


def _of_oci(given: Any, where: str) -> WindowsFields:
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
    return WindowsFields(
        amount("cpu", "shares", 65535),
        amount("cpu", "count", _INT32),
        amount("cpu", "maximum", 65535),
        amount("memory", "limit"),
        amount("storage", "sandboxSize"),
        tuple(_pair(entry, at, "group", "mask") for entry in affinity),
        amount("storage", "iops", _INT32),
        amount("storage", "bps", _INT32),
        True,
    )


def as_cri(fields: WindowsFields) -> dict[str, object]:
    """The set fields as the CRI's message."""
    message: dict[str, object] = {
        name: getattr(fields, name) for name in FIELDS if getattr(fields, name)
    }
    if fields.affinity_cpus:
        message["affinity_cpus"] = [
            {"cpu_mask": mask, "cpu_group": group} for group, mask in fields.affinity_cpus
        ]
    return message


def as_oci(fields: WindowsFields) -> dict[str, object]:
    """The set fields as ``windows.resources``."""
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
    block: dict[str, object] = {}
    for name, part in parts.items():
        amounts = {key: amount for key, amount in part.items() if amount}
        if amounts:
            block[name] = amounts
    return block


def lost_of(fields: WindowsFields, to: str) -> tuple[Unsupported, ...]:
    """The fields that the target (``oci``, ``cri``) does not have."""
    rates = (("iops", fields.storage_iops), ("bps", fields.storage_bps))
    return tuple(_rate(name) for name, amount in rates if amount and to == "cri")


def _rate(name: str) -> Unsupported:
    annotation = {"iops": "iopsmaximum", "bps": "bandwidthmaximum"}[name]
    return Unsupported(
        f"storage.{name}", "the message has no storage rate",
        f"the annotation io.microsoft.container.storage.qos.{annotation}", field=f"storage.{name}",
    )  # fmt: skip
