"""``resources`` of a container or a pod: read, defaulted and checked as the API server does.

The quantity parser accepts what apimachinery accepts. This module refuses amounts without digits,
amounts beyond int64, and fractions of resources that are counted in whole units.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go
(validateContainerResourceRequirements, ValidateResourceQuantityValue),
pkg/apis/core/v1/defaults.go (SetDefaults_Pod, SetDefaults_ResourceList).
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw, Struct

from qoslet.core.api.pod import NO_QUANTITIES, Quantities, Resources
from qoslet.core.api.schema import DECODE_ERRORS, child, decode_raw_map, nearest, shown, type_name
from qoslet.core.quantity import (
    INT64_MAX,
    NANO,
    Quantity,
    QuantityError,
    canonical,
    from_nano,
    parse,
)

HUGEPAGES = "hugepages-"
_MILLI = 10**6
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_POD_LEVEL = ("cpu", "memory")
_FIELDS = ("requests", "limits", "claims")

Level = Literal["container", "pod"]


class FieldFault(Struct, frozen=True, gc=False):
    """A problem of a value below ``resources``; ``path`` is relative to it. ``missing``: the field
    is not there at all."""

    path: str
    message: str
    hint: str = ""
    severity: Literal["error", "warning"] = "warning"
    missing: bool = False


def one_of(path: str, value: str | None, known: tuple[str | None, ...]) -> FieldFault:
    """A value that is none of those known."""
    names = ", ".join(str(name) for name in known)
    return FieldFault(path, f"{shown(value or '')!r} is unknown", f"known are {names}")


class ContainerResources(Struct, frozen=True, gc=False):
    """A decoded ``resources``; with faults, its valid parts.

    ``resources`` is None if the field is absent. ``defaulted`` names the requests that were copied
    from the limits. ``notes`` are problems that are not errors.
    """

    resources: Resources | None
    defaulted: tuple[str, ...] = ()
    faults: tuple[FieldFault, ...] = ()
    notes: tuple[FieldFault, ...] = ()


NOT_SPECIFIED = ContainerResources(None)


class ResourceDecoder:
    """Decodes ``resources`` objects; equal text is decoded once."""

    def __init__(self) -> None:
        self._container: dict[bytes, ContainerResources] = {}

    def container(self, raw: Raw) -> ContainerResources:
        """The resources of a container: requests are defaulted from the limits."""
        text = bytes(raw)
        resources = self._container.get(text)
        if resources is None:
            if len(self._container) >= 65536:
                self._container.clear()
            resources = self._container[text] = _read(text, "container")
        return resources

    def pod(self, raw: Raw) -> ContainerResources:
        """Pod-level resources, not defaulted: that needs the containers."""
        return _read(bytes(raw), "pod")

    def overhead(self, raw: Raw) -> ContainerResources:
        """``spec.overhead``, as limits."""
        text = bytes(raw)
        if text in (b"", b"null"):
            return NOT_SPECIFIED
        faults: list[FieldFault] = []
        notes: list[FieldFault] = []
        amounts = _amounts(text, "", "container", faults, notes)
        return ContainerResources(Resources(limits=amounts), (), tuple(faults), tuple(notes))

    def amounts(self, raw: Raw) -> ContainerResources:
        """A bare map of quantities, such as ``allocatedResources``, as requests."""
        decoded = self.overhead(raw)
        if decoded.resources is None:
            return decoded
        return ContainerResources(
            Resources(requests=decoded.resources.limits), (), decoded.faults, decoded.notes
        )


def _read(text: bytes, level: Level) -> ContainerResources:
    if text in (b"", b"null"):
        return NOT_SPECIFIED
    if text == b"{}":
        return ContainerResources(Resources())
    faults: list[FieldFault] = []
    notes: list[FieldFault] = []
    try:
        fields = decode_raw_map(text)
    except DECODE_ERRORS:
        return ContainerResources(Resources(), faults=(FieldFault("", _not_an_object(text)),))
    for name in fields:
        if name not in _FIELDS:
            hint = nearest(name, _FIELDS) or "known are requests, limits and claims"
            faults.append(FieldFault(child("", name), "is not a field of resources", hint))
    limits = _amounts(_field(fields, "limits"), "limits", level, faults, notes)
    requests = _amounts(_field(fields, "requests"), "requests", level, faults, notes)
    if level == "pod" and _field(fields, "claims") not in (b"", b"null", b"[]"):
        faults.append(FieldFault("claims", "a pod's own resources cannot have claims"))
    defaulted: tuple[str, ...] = ()
    broken = {fault.path for fault in faults}
    if level == "container":
        missing = [name for name in limits if name not in requests]
        defaulted = tuple(name for name in missing if child("requests", name) not in broken)
        requests = {**requests, **{name: limits[name] for name in defaulted}}
    _compare(requests, limits, level, faults, broken)
    return ContainerResources(Resources(requests, limits), defaulted, tuple(faults), tuple(notes))


def _field(fields: dict[str, Raw], name: str) -> bytes:
    raw = fields.get(name)
    return b"" if raw is None else bytes(raw)


def _type_of(text: bytes) -> str | None:
    """The JSON type of a text; None where it is broken JSON."""
    try:
        return type_name(msgspec.json.decode(text))
    except DECODE_ERRORS:
        return None


def _not_an_object(text: bytes) -> str:
    kind = _type_of(text)
    return "is broken JSON" if kind is None else f"must be an object, is {kind}"


def _amounts(
    text: bytes, path: str, level: Level, faults: list[FieldFault], notes: list[FieldFault]
) -> Quantities:
    """The quantities of one map; what is wrong with them goes to ``faults``."""
    if text in (b"", b"null", b"{}"):
        return NO_QUANTITIES
    try:
        given = decode_raw_map(text)
    except DECODE_ERRORS:
        faults.append(FieldFault(path, _not_an_object(text)))
        return NO_QUANTITIES
    amounts = {}
    for name, raw in given.items():
        place = child(path, name)
        fault = name_fault(name, level)
        if fault:
            faults.append(FieldFault(place, *fault))
        if bytes(raw) == b"null":
            hint = "set a value or remove the field"
            notes.append(FieldFault(place, "null is read as 0, as the API server does", hint))
        try:
            amount = _quantity(bytes(raw))
            _sensible(name, amount)
        except QuantityError as error:
            faults.append(
                FieldFault(place, shown(str(error), 200), _quantity_hint(name, bytes(raw)))
            )
            continue
        if name != "cpu" and amount.nano % NANO:
            hint = "the suffix m means thousandths; did you mean M or Mi?"
            notes.append(
                FieldFault(place, f"{canonical(amount)} is rounded up to whole units", hint)
            )
        if not fault:
            amounts[name] = amount
    return amounts


def _quantity(raw: bytes) -> Quantity:
    """A quantity as it stands in JSON; numbers are read by their text, as Go does."""
    first = raw[:1]
    if first == b'"':
        try:
            text: str = msgspec.json.decode(raw, type=str).strip()
        except DECODE_ERRORS:
            raise QuantityError("is broken text") from None
    elif first in b"-0123456789":
        text = raw.decode()
    elif raw == b"null":
        text = "0"
    else:
        raise QuantityError(f"must be a quantity, is {_type_of(raw) or 'broken JSON'}")
    try:
        amount = parse(text)
    except QuantityError as error:
        raise QuantityError(f"{shown(text, 40)!r} {error}") from None
    digits = text.lstrip("+-")
    if not (digits[:1].isdigit() or (digits[1:2].isdigit() and digits[0] == ".")):
        raise QuantityError(f"{text!r} has no digits")
    if amount.nano % _MILLI:
        # The API server rounds every quantity up to thousandths when it is decoded.
        return from_nano(-(-amount.nano // _MILLI) * _MILLI, amount.format, amount.wide)
    return amount


def _sensible(name: str, amount: Quantity) -> None:
    text = canonical(amount)
    if amount.nano < 0:
        raise QuantityError(f"{text} is negative")
    if name == "cpu":
        if amount.nano // _MILLI * 1024 > INT64_MAX:
            raise QuantityError(f"{text} overflows int64 when converted to CPU shares")
    elif amount.nano >= INT64_MAX * NANO:
        raise QuantityError(f"{text} overflows int64")
    if name.startswith(HUGEPAGES):
        size = page_size(name)
        if size and amount.nano % (size * NANO):
            raise QuantityError(f"{text} is not a multiple of the page size {name[10:]}")
    elif "/" in name and "kubernetes.io/" not in name and amount.nano % NANO:
        raise QuantityError(f"{text} must be a whole number")


_SLIPS = {"k": "Ki or k", "m": "Mi or M", "g": "Gi or G", "t": "Ti or T", "p": "Pi or P"}


def _quantity_hint(name: str, raw: bytes) -> str:
    text = raw.decode(errors="replace").strip('" ')
    if text.startswith("-"):
        return "use 0 or more"
    suffix = text.lstrip("+0123456789.").strip().lower()
    if suffix.removesuffix("b").removesuffix("i") in _SLIPS and name != "cpu":
        return f"did you mean {_SLIPS[suffix[0]]}?"
    if name == "cpu":
        return "write cores or millicores, such as 2, 0.5 or 500m"
    return "write a number and a suffix, such as 512Mi or 1G" if name in _STANDARD else ""


def page_size(name: str) -> int:
    """Bytes of a ``hugepages-SIZE`` resource; 0 where SIZE is no positive whole size."""
    try:
        size = parse(name.removeprefix(HUGEPAGES))
    except QuantityError:
        return 0
    return size.value if size.nano > 0 and size.nano % NANO == 0 else 0


def name_fault(name: str, level: Level) -> tuple[str, str] | None:
    """Message and hint where ``name`` is no resource that may stand there."""
    if name.startswith(HUGEPAGES) and "/" not in name:
        if page_size(name):
            return None
        return f"{shown(name, 60)} has no valid page size", "such as hugepages-2Mi or hugepages-1Gi"
    if level == "pod":
        if name in _POD_LEVEL:
            return None
        return (
            f"{shown(name, 60)} is not supported at pod level",
            "cpu, memory and hugepages-* are",
        )
    if name in _STANDARD:
        return None
    domain, slash, short = name.rpartition("/")
    if not slash:
        hint = nearest(name, _STANDARD) or "other resources need a domain: example.com/name"
        return f"{shown(name, 60)} is not a container resource", hint
    if name.startswith("requests.") or not (is_subdomain(domain) and is_short_name(short)):
        return f"{shown(name, 60)} is not a valid resource name", "such as example.com/gpu"
    return None


def is_label(text: str) -> bool:
    """Whether ``text`` is an RFC 1123 label, as container names and namespaces must be."""
    return len(text) <= 63 and _is_part(text)


def is_subdomain(text: str) -> bool:
    """Whether ``text`` is an RFC 1123 subdomain, as pod and node names must be."""
    if len(text) > 253:
        return False
    return _is_part(text) or ("." in text and all(map(_is_part, text.split("."))))


def _is_part(text: str) -> bool:
    """Whether ``text`` is a part of a DNS name, of any length: a-z, 0-9, and - inside."""
    return (
        text.isascii()
        and text.replace("-", "").isalnum()
        and text == text.lower()
        and text[0] != "-"
        and text[-1] != "-"
    )


def is_short_name(text: str) -> bool:
    """Whether ``text`` is the name part of a qualified name."""
    return (
        len(text) <= 63
        and text.isascii()
        and (text.isalnum() or (text[:1].isalnum() and text[-1].isalnum() and _is_joined(text)))
    )


def _is_joined(text: str) -> bool:
    return text.replace("-", "").replace("_", "").replace(".", "").isalnum()


def _above_hint(name: str, limit: Quantity) -> str:
    """What to do about a request above a ``limit``."""
    text = canonical(limit)
    if name == "memory" and text.endswith("m"):
        return f"m is a thousandth of a byte: did you mean {text[:-1]}Mi or {text[:-1]}M?"
    return "raise the limit or lower the request"


def _compare(
    requests: Quantities,
    limits: Quantities,
    level: Level,
    faults: list[FieldFault],
    broken: set[str],
) -> None:
    """Requests against limits, and what hugepages need next to them."""
    for name, request in requests.items():
        limit = limits.get(name)
        place = child("requests", name)
        exact = name.startswith(HUGEPAGES) or ("/" in name and "kubernetes.io/" not in name)
        if limit is None:
            if exact and child("limits", name) not in broken and level == "container":
                hint = f"set limits too: {name} cannot be overcommitted"
                faults.append(FieldFault(place, "has no limit", hint))
        elif exact and request != limit:
            message = f"{canonical(request)} must equal the limit {canonical(limit)}"
            faults.append(FieldFault(place, message, f"{name} cannot be overcommitted"))
        elif request.nano > limit.nano:
            message = f"{canonical(request)} is above the limit {canonical(limit)}"
            faults.append(FieldFault(place, message, _above_hint(name, limit)))
    given = {*requests, *limits}
    if any(name.startswith(HUGEPAGES) for name in given) and not given & {"cpu", "memory"}:
        cause = "hugepages need a cpu or memory request"
        faults.append(FieldFault("", cause, "add a cpu or memory request"))
