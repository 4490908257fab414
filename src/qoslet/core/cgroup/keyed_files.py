"""Files with a line for each device or resource: a write changes what it names, no more.

Source: block/blk-cgroup.c, blk-throttle.c, blk-iocost.c, blk-iolatency.c, bfq-cgroup.c;
kernel/cgroup/rdma.c, misc.c, dmem.c.
"""

from __future__ import annotations

from collections.abc import Callable

from qoslet.core.cgroup.features import Ground
from qoslet.core.cgroup.kernel_numbers import (
    BLANKS,
    INVALID,
    MOST,
    RANGE,
    LatePattern,
    memparse,
    scanned,
    simple,
    whole,
)

NO_DEVICE = "no such device"
Complaint = tuple[str, str]

_DEVICE = LatePattern(r"[ \t\n\v\f\r]*([0-9]{1,9}):([0-9]{1,9})[ \t\n\v\f\r]+")
_DISK = "a disk that the machine has"
_RATES = ("rbps", "wbps", "riops", "wiops")
_HCA = ("hca_handle", "hca_object")
_TOKEN = 26
_MOST_OPS = 2**32 - 1
_MOST_WEIGHT, _MOST_BFQ = 10000, 1000

Lines = dict[str, str]


def _lines(stands: str | None) -> Lines:
    """What a file of lines holds, by their first word."""
    found = [line.partition(" ") for line in (stands or "").split("\n") if line]
    return {name: rest for name, _, rest in found}


def _text(lines: Lines) -> str:
    return "\n".join(f"{name} {rest}" for name, rest in lines.items())


def _disk(text: str, ground: Ground, takes: str) -> tuple[str, str] | Complaint:
    """The device and what follows it, or a complaint."""
    found = _DEVICE.match(text)
    if found is None:
        return INVALID, takes
    device = f"{int(found[1])}:{int(found[2])}"
    if ground.devices is not None and device not in ground.devices:
        return NO_DEVICE, _DISK
    return device, text[found.end() :]


def _settings(rest: str | None, keys: tuple[str, ...]) -> dict[str, str]:
    """``KEY=VALUE`` words as they stand; what is not named has no limit."""
    found = dict.fromkeys(keys, "max")
    for word in (rest or "").split():
        key, _, amount = word.partition("=")
        found[key] = amount
    return found


def _line(settings: dict[str, str]) -> str:
    return " ".join(f"{key}={amount}" for key, amount in settings.items())


def rates(text: str, stands: str | None, ground: Ground) -> str | Complaint:
    """io.max. A rate that is not named stays; a device without one has no line."""
    takes = "MAJOR:MINOR with rbps=, wbps=, riops= or wiops="
    device, rest = _disk(text, ground, takes)
    if device in (INVALID, NO_DEVICE):
        return device, rest
    lines = _lines(stands)
    found = _settings(lines.get(device), _RATES)
    for word in rest.split():
        key, equals, given = word.partition("=")
        amount = scanned(given, ground.wraps)
        if not equals or len(word) > _TOKEN or (amount is None and given != "max"):
            return INVALID, takes
        if amount == 0:
            return RANGE, "rates above 0"
        if key not in _RATES:
            return INVALID, takes
        if key.endswith("iops") and amount is not None and amount >= _MOST_OPS:
            amount = None
        found[key] = "max" if amount in (None, MOST) else str(amount)
    if any(amount != "max" for amount in found.values()):
        lines[device] = _line(found)
    else:
        lines.pop(device, None)
    return _text(lines)


def weights(text: str, stands: str | None, ground: Ground) -> str | Complaint:
    """io.weight: ``N``, ``default N``, and a weight or ``default`` for a device."""
    complaint = INVALID, f"a weight of 1 to {_MOST_WEIGHT}, default N, MAJOR:MINOR N"
    if text[:1] in BLANKS and text.strip(BLANKS).startswith("default"):
        # sscanf skips blanks before a number, not before a word
        return complaint
    return _weighed(text, stands, ground, _MOST_WEIGHT, scanned, complaint, complaint)


def bfq_weights(text: str, stands: str | None, ground: Ground) -> str | Complaint:
    """io.bfq.weight, the same with smaller weights."""
    takes = f"a weight of 1 to {_MOST_BFQ}, default N, MAJOR:MINOR N"
    return _weighed(text, stands, ground, _MOST_BFQ, simple, (RANGE, takes), (INVALID, takes))


def _weighed(
    text: str,
    stands: str | None,
    ground: Ground,
    most: int,
    bare: Callable[[str, bool], int | None],
    beyond: Complaint,
    none: Complaint,
) -> str | Complaint:
    lines = {"default": "100"} | _lines(stands)
    words = text.strip(BLANKS)
    device, rest, read = "default", words, bare
    if ":" in words:
        device, rest = _disk(words, ground, none[1])
        if device in (INVALID, NO_DEVICE):
            return device, rest
        if rest == "default":
            lines.pop(device, None)
            return _text(lines)
        read = scanned
    elif words.startswith("default"):
        rest, read = words.removeprefix("default"), scanned
    amount = read(rest, ground.wraps)
    if amount is None:
        return none
    if not 1 <= amount <= most:
        return beyond
    lines[device] = str(amount)
    return _text(lines)


def latency(text: str, stands: str | None, ground: Ground) -> str | Complaint:
    """io.latency: a target in microseconds for a device; 0 takes it away."""
    takes = "MAJOR:MINOR target=N"
    device, rest = _disk(text, ground, takes)
    if device in (INVALID, NO_DEVICE):
        return device, rest
    key, _, given = rest.strip(BLANKS).partition("=")
    amount = 0 if given == "max" else scanned(given, ground.wraps)
    if key != "target" or amount is None:
        return INVALID, takes
    lines = _lines(stands)
    lines.pop(device, None)
    if amount:
        lines[device] = f"target={amount}"
    return _text(lines)


def rdma(text: str, stands: str | None, ground: Ground) -> str | Complaint:
    """rdma.max: a device of /sys/class/infiniband and its limits; others are not known here."""
    takes = "a device with hca_handle=N or hca_object=N"
    device, *words = text.strip(BLANKS).split(" ")
    if not device:
        return INVALID, takes
    lines = _lines(stands)
    found = _settings(lines.get(device), _HCA)
    for word in words:
        key, _, given = word.partition("=")
        amount = whole(given, True, 32)
        if key not in _HCA or (given != "max" and (isinstance(amount, str) or amount < 0)):
            return INVALID, takes
        found[key] = given if given == "max" else str(amount)
    if not words:
        return NO_DEVICE, takes
    lines[device] = _line(found)
    return _text(lines)


def misc(text: str, stands: str | None, ground: Ground) -> str | Complaint:
    """misc.max: one resource and its limit."""
    name, _, given = text.strip(BLANKS).partition(" ")
    amount = whole(given)
    if name not in ("sev", "sev_es", "tdx") or (given != "max" and amount == INVALID):
        return INVALID, "sev, sev_es or tdx with N or max"
    if given != "max" and isinstance(amount, str):
        return amount, "N or max"
    return _text(_lines(stands) | {name: given if given == "max" else str(amount)})


def regions(text: str, stands: str | None, ground: Ground) -> str | Complaint:
    """dmem.max, low, min: one region of device memory and its bytes."""
    name, _, given = text.strip(BLANKS).partition(" ")
    amount = memparse(given, ground.wraps)
    if not name or not given or (given != "max" and amount is None):
        return INVALID, "a region with bytes, or max"
    return _text(_lines(stands) | {name: given if given == "max" else str(amount)})
