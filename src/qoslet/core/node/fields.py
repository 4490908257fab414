"""Readers for the values of node documents and flags: a decoded value in, an exact one out.

Each reader takes the collector, the place for messages and the value; what is wrong goes to the
collector, so that all faults of the input are told at once, and the reader returns None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from qoslet.core.node.faults import Faults, close_to, kind_of, shown
from qoslet.core.node.node import ENFORCE_OPTIONS, PLANNED_CONTROLLERS
from qoslet.core.quantity import INT64_MAX, NANO, Quantity, QuantityError, parse

RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
"""What kube-reserved and system-reserved may name: kubelet app parseResourceList."""

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


def mapping(faults: Faults, where: str, value: Any) -> Mapping[str, Any] | None:
    """A map whose keys are texts."""
    if not isinstance(value, Mapping):
        faults.add(where, f"must be a map, not {kind_of(value)}")
        return None
    for key in value:
        if not isinstance(key, str):
            faults.add(where, f"has the key {shown(key)}, which is not a string", "quote it")
            return None
    return value


def known_fields(
    faults: Faults, where: str, value: Mapping[str, Any], known: set[str], *, top: bool = False
) -> None:
    """Fault for every key that is not in ``known``; ``top``: ``where`` is a file."""
    for key in value:
        if faults.full:
            return
        if key not in known:
            hint = close_to(key, known) or f"known are {', '.join(sorted(known))}"
            joint = ": " if top else "."
            faults.add(f"{where}{joint}{key}", "is not a known field", hint)


def text(faults: Faults, where: str, value: Any) -> str | None:
    """A text without control characters."""
    if not isinstance(value, str):
        faults.add(where, f"must be a string, not {kind_of(value)}", "quote it")
        return None
    if not value.isprintable():
        faults.add(where, f"contains a control character: {shown(value)}")
        return None
    return value


def version(faults: Faults, where: str, value: Any) -> str | None:
    """A version as text. A number stands only where YAML cannot have eaten a zero."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = repr(value)
        if len(number.partition(".")[2]) >= 2:
            return number
        faults.add(where, f"must be a string, not the number {number}", f'quote it: "{number}0"?')
        return None
    return text(faults, where, value)


def choice(faults: Faults, where: str, value: Any, options: Iterable[str]) -> str | None:
    """One of the given texts."""
    found = text(faults, where, value)
    if found is None or found in (known := tuple(options)):
        return found
    near = close_to(found, known)
    names = " or ".join(option or '""' for option in known)
    faults.add(where, f"is {shown(found)}, must be {names}", near)
    return None


def boolean(faults: Faults, where: str, value: Any) -> bool | None:
    """True or false."""
    if not isinstance(value, bool):
        faults.add(where, f"must be true or false, not {shown(value)}")
        return None
    return value


def integer(
    faults: Faults, where: str, value: Any, low: int = -(2**63), high: int = INT64_MAX
) -> int | None:
    """A whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int):
        faults.add(where, f"must be a whole number, not {shown(value)}")
        return None
    if not low <= value <= high:
        faults.add(where, f"is {shown(value)}, must be between {low} and {high}")
        return None
    return value


def amount(faults: Faults, where: str, value: Any) -> Quantity | None:
    """A quantity of at least zero, within int64; numbers are read as apimachinery does."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        faults.add(where, f"must be a quantity, not {kind_of(value)}", 'such as "500m" or "2Gi"')
        return None
    if isinstance(value, int) and abs(value) > INT64_MAX:
        faults.add(where, "exceeds the largest amount, 2^63 - 1")
        return None
    try:
        found = parse(value.strip() if isinstance(value, str) else repr(value))
    except QuantityError as error:
        faults.add(where, f"{shown(value)} {error}")
        return None
    if found.nano < 0:
        faults.add(where, f"is {shown(value)}, must not be negative")
        return None
    # A binary amount beyond int64 is read as its largest number.
    if found.nano >= INT64_MAX * NANO:
        faults.add(where, f"is {shown(value)}, above the largest amount, 2^63 - 1")
        return None
    return found


def size(faults: Faults, where: str, value: Any) -> int | None:
    """A positive whole number of bytes."""
    found = amount(faults, where, value)
    if found is None:
        return None
    if found.nano % NANO or not found.nano:
        faults.add(where, f"is {shown(value)}, must be a positive whole number of bytes")
        return None
    return found.value


def page(faults: Faults, where: str, value: Any) -> int | None:
    """The size of a page in bytes: a power of two."""
    found = size(faults, where, value)
    if found is not None and (found & (found - 1) or found < 1024):
        faults.add(where, f"is {shown(value)}, must be a power of two of at least 1Ki")
        return None
    return found


def texts(faults: Faults, where: str, value: Any) -> tuple[str, ...] | None:
    """A list of texts."""
    if not isinstance(value, list | tuple):
        faults.add(where, f"must be a list, not {kind_of(value)}")
        return None
    found = [text(faults, f"{where}[{at}]", entry) for at, entry in enumerate(value)]
    return tuple(entry for entry in found if entry is not None)


def page_sizes(faults: Faults, where: str, value: Any) -> tuple[int, ...] | None:
    """Sizes of pages in bytes, smallest first."""
    if not isinstance(value, list | tuple):
        faults.add(where, f"must be a list, not {kind_of(value)}", "such as [2Mi, 1Gi]")
        return None
    sizes = [page(faults, f"{where}[{at}]", entry) for at, entry in enumerate(value)]
    return tuple(sorted({size for size in sizes if size is not None}))


def controllers(faults: Faults, where: str, value: Any) -> frozenset[str] | None:
    """Names of controllers in any order; a kernel may have others than a plan has files of."""
    found = texts(faults, where, value)
    if found is None:
        return None
    for at, name in enumerate(found):
        if name not in PLANNED_CONTROLLERS and (hint := close_to(name, PLANNED_CONTROLLERS)):
            faults.add(f"{where}[{at}]", f"{shown(name)} is not a controller", hint)
    return frozenset(found)


def mounts(faults: Faults, where: str, value: Any) -> dict[str, str] | None:
    """A map of texts."""
    given = mapping(faults, where, value)
    if given is None:
        return None
    found = {name: text(faults, f"{where}.{name}", entry) for name, entry in given.items()}
    return {name: entry for name, entry in found.items() if entry is not None}


def reserved(faults: Faults, where: str, value: Any) -> dict[str, Quantity] | None:
    """kubeReserved or systemReserved: resource to quantity, both texts."""
    given = mapping(faults, where, value)
    if given is None:
        return None
    result = {}
    for name, entry in given.items():
        if faults.full:
            break
        spot = f"{where}.{name}"
        if name not in RESERVABLE:
            hint = close_to(name, RESERVABLE) or f"known are {', '.join(RESERVABLE)}"
            faults.add(spot, f"{shown(name)} cannot be reserved", hint)
        elif not isinstance(entry, str):
            faults.add(spot, f"must be a string, not {kind_of(entry)}", "quote it")
        elif (found := amount(faults, spot, entry)) is not None:
            result[name] = found
    return result


def options(faults: Faults, where: str, value: Any) -> tuple[str, ...] | None:
    """enforceNodeAllocatable: known options, each once, none alone, no full with compressible.

    Source: kubelet apis/config/validation ValidateKubeletConfiguration.
    """
    given = texts(faults, where, value)
    if given is None:
        return None
    for at, option in enumerate(given):
        if faults.full:
            break
        spot = f"{where}[{at}]"
        if option not in ENFORCE_OPTIONS:
            hint = close_to(option, ENFORCE_OPTIONS) or f"known are {', '.join(ENFORCE_OPTIONS)}"
            faults.add(spot, f"{shown(option)} is not an option", hint)
        elif option in given[:at]:
            faults.add(spot, f"{option} occurs twice")
        elif option == "none" and len(set(given)) > 1:
            faults.add(spot, "none excludes other options", "remove the other options, or none")
        elif option.endswith("-compressible") and option.removesuffix("-compressible") in given:
            full = option.removesuffix("-compressible")
            faults.add(spot, f"{full} and {option} exclude each other", "remove one of them")
    return given


def gates(faults: Faults, where: str, value: Any) -> dict[str, bool] | None:
    """featureGates: name to true or false; names are checked against the releases later."""
    given = mapping(faults, where, value)
    if given is None:
        return None
    found = {name: boolean(faults, f"{where}.{name}", entry) for name, entry in given.items()}
    return {name: entry for name, entry in found.items() if entry is not None}


def percent(faults: Faults, where: str, value: Any) -> int | None:
    """qosReserved: the percentage of ``memory``, the only resource that can be reserved.

    Source: kubelet cm ParseQOSReserved.
    """
    given = mapping(faults, where, value)
    if given is None:
        return None
    result = None
    for name, entry in given.items():
        spot = f"{where}.{name}"
        found = text(faults, spot, entry)
        if name != "memory":
            faults.add(spot, f"{shown(name)} cannot be reserved", "only memory can be reserved")
        elif found is not None:
            number = found.removesuffix("%")
            fits = number.isascii() and number.isdigit() and len(number) < 10
            if not found.endswith("%") or not fits or int(number) > 100:
                faults.add(spot, f"is {shown(found)}, must be a whole percentage, 0% to 100%")
            else:
                result = int(number)
    return result


def nanoseconds(given: str) -> int | None:
    """A Go duration (``1m2.5s``) in nanoseconds; None where the text is none."""
    sign, rest = (-1, given[1:]) if given[:1] == "-" else (1, given.removeprefix("+"))
    if rest == "0":
        return 0
    if not rest or len(rest) > 100:
        return None
    total = 0
    while rest:
        end = 0
        while end < len(rest) and (rest[end] in "0123456789."):
            end += 1
        whole, _, part = rest[:end].partition(".")
        unit_end = end
        while unit_end < len(rest) and rest[unit_end] not in "0123456789.":
            unit_end += 1
        unit = _UNITS.get(rest[end:unit_end])
        if unit is None or not whole + part or "." in part:
            return None
        total += int(whole or "0") * unit + int(part or "0") * unit // 10 ** len(part)
        rest = rest[unit_end:]
    return sign * total


def duration(faults: Faults, where: str, value: Any, example: str = "1m30s") -> int | None:
    """A Go duration in nanoseconds."""
    found = text(faults, where, value)
    nano = None if found is None else nanoseconds(found)
    if found is not None and nano is None:
        faults.add(where, f"{shown(found)} is not a duration", f'such as "{example}"')
    return nano


def period(faults: Faults, where: str, value: Any) -> int | None:
    """cpuCFSQuotaPeriod, a Go duration from 1ms to 1s, in microseconds."""
    nano = duration(faults, where, value, "100ms")
    if nano is None or 10**6 <= nano <= 10**9:
        return None if nano is None else nano // 1000
    faults.add(where, f"is {shown(value)}, must be from 1ms to 1s")
    return None


def factor(faults: Faults, where: str, value: Any) -> float | None:
    """memoryThrottlingFactor: above 0, at most 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        faults.add(where, f"must be a number, not {kind_of(value)}")
        return None
    if not 0 < value <= 1:
        faults.add(where, f"is {shown(value)}, must be above 0 and at most 1")
        return None
    return float(value)


def cpus(given: str) -> set[int] | None:
    """A CPU list (``0-3,8``) as numbers; None where the text is none, or names the same ranges over
    and over."""
    found: set[int] = set()
    work = 0
    for part in given.split(",") if given else ():
        low, dash, high = part.partition("-")
        ends = (low, high) if dash else (low, low)
        if not all(end.isascii() and end.isdigit() and len(end) <= 5 for end in ends):
            return None
        work += int(ends[1]) - int(ends[0])
        if int(ends[0]) > int(ends[1]) or work > 1 << 20:
            return None
        found.update(range(int(ends[0]), int(ends[1]) + 1))
    return found


def cpu_list(faults: Faults, where: str, value: Any) -> str | None:
    """A CPU list in the kernel's format, as text."""
    found = text(faults, where, value)
    if found is not None and cpus(found) is None:
        faults.add(where, f"{shown(found)} is not a CPU list", 'such as "0-3,8"')
        return None
    return found
