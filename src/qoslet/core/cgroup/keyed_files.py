"""Files with a line for each device or resource: a write changes only the entries that it names.

Source: block/blk-cgroup.c, blk-throttle.c, blk-iocost.c, blk-iolatency.c, bfq-cgroup.c;
kernel/cgroup/rdma.c, misc.c, dmem.c.
"""

from __future__ import annotations

from collections.abc import Callable

from qoslet.core.cgroup.features import KernelFeatures
from qoslet.core.cgroup.kernel_numbers import (
    BLANKS,
    INVALID,
    MOST,
    NO_DEVICE,
    RANGE,
    LatePattern,
    memparse,
    scanned,
    simple,
    whole,
)

Complaint = tuple[str, str]

_DEVICE = LatePattern(r"[ \t\n\v\f\r]*([0-9]{1,9}):([0-9]{1,9})[ \t\n\v\f\r]+")
_DISK = "a disk that the machine has"
_RATES = ("rbps", "wbps", "riops", "wiops")
_HCA = ("hca_handle", "hca_object")
_TOKEN = 26
_MOST_OPS = 2**32 - 1
_MOST_WEIGHT, _MOST_BFQ = 10000, 1000

Lines = dict[str, str]


def _lines(current: str | None) -> Lines:
    """The lines of a file, by their first word."""
    parts = [line.partition(" ") for line in (current or "").split("\n") if line]
    return {name: rest for name, _, rest in parts}


def _text(lines: Lines) -> str:
    return "\n".join(f"{name} {rest}" for name, rest in lines.items())


def _disk(text: str, features: KernelFeatures, takes: str) -> tuple[str, str] | Complaint:
    """The device and the text after it, or a complaint."""
    match = _DEVICE.match(text)
    if match is None:
        return INVALID, takes
    device = f"{int(match[1])}:{int(match[2])}"
    if features.devices is not None and device not in features.devices:
        return NO_DEVICE, _DISK
    return device, text[match.end() :]


def _settings(rest: str | None, keys: tuple[str, ...]) -> dict[str, str]:
    """The ``KEY=VALUE`` words of a line; ``max`` for keys that it does not have."""
    settings = dict.fromkeys(keys, "max")
    for word in (rest or "").split():
        key, _, amount = word.partition("=")
        settings[key] = amount
    return settings


def _line(settings: dict[str, str]) -> str:
    return " ".join(f"{key}={amount}" for key, amount in settings.items())


def rates(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    """io.max. Rates that are not named stay; a device without rates has no line."""
    takes = "MAJOR:MINOR with rbps=, wbps=, riops= or wiops="
    device, rest = _disk(text, features, takes)
    if device in (INVALID, NO_DEVICE):
        return device, rest
    lines = _lines(current)
    settings = _settings(lines.get(device), _RATES)
    for word in rest.split():
        key, equals, given = word.partition("=")
        amount = scanned(given, features.wraps)
        if not equals or len(word) > _TOKEN or (amount is None and given != "max"):
            return INVALID, takes
        if amount == 0:
            return RANGE, "rates above 0"
        if key not in _RATES:
            return INVALID, takes
        if key.endswith("iops") and amount is not None and amount >= _MOST_OPS:
            amount = None
        settings[key] = "max" if amount in (None, MOST) else str(amount)
    if any(amount != "max" for amount in settings.values()):
        lines[device] = _line(settings)
    else:
        lines.pop(device, None)
    return _text(lines)


def weights(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    """io.weight: ``N``, ``default N``, ``MAJOR:MINOR N`` or ``MAJOR:MINOR default``."""
    complaint = INVALID, f"a weight of 1 to {_MOST_WEIGHT}, default N, MAJOR:MINOR N"
    if text[:1] in BLANKS and text.strip(BLANKS).startswith("default"):
        # sscanf skips blanks before a number, not before a word
        return complaint
    return _weighed(text, current, features, _MOST_WEIGHT, scanned, complaint, complaint)


def bfq_weights(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    """io.bfq.weight: as io.weight, with smaller weights."""
    takes = f"a weight of 1 to {_MOST_BFQ}, default N, MAJOR:MINOR N"
    return _weighed(text, current, features, _MOST_BFQ, simple, (RANGE, takes), (INVALID, takes))


def _weighed(
    text: str,
    current: str | None,
    features: KernelFeatures,
    most: int,
    bare: Callable[[str, bool], int | None],
    beyond: Complaint,
    none: Complaint,
) -> str | Complaint:
    lines = {"default": "100"} | _lines(current)
    words = text.strip(BLANKS)
    device, rest, read = "default", words, bare
    if ":" in words:
        device, rest = _disk(words, features, none[1])
        if device in (INVALID, NO_DEVICE):
            return device, rest
        if rest == "default":
            lines.pop(device, None)
            return _text(lines)
        read = scanned
    elif words.startswith("default"):
        rest, read = words.removeprefix("default"), scanned
    amount = read(rest, features.wraps)
    if amount is None:
        return none
    if not 1 <= amount <= most:
        return beyond
    lines[device] = str(amount)
    return _text(lines)


def latency(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    """io.latency: a target in microseconds for a device; 0 removes it."""
    takes = "MAJOR:MINOR target=N"
    device, rest = _disk(text, features, takes)
    if device in (INVALID, NO_DEVICE):
        return device, rest
    key, _, given = rest.strip(BLANKS).partition("=")
    amount = 0 if given == "max" else scanned(given, features.wraps)
    if key != "target" or amount is None:
        return INVALID, takes
    lines = _lines(current)
    lines.pop(device, None)
    if amount:
        lines[device] = f"target={amount}"
    return _text(lines)


def rdma(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    """rdma.max: a device of /sys/class/infiniband and its limits; device names are not checked."""
    takes = "a device with hca_handle=N or hca_object=N"
    device, *words = text.strip(BLANKS).split(" ")
    if not device:
        return INVALID, takes
    lines = _lines(current)
    settings = _settings(lines.get(device), _HCA)
    for word in words:
        key, _, given = word.partition("=")
        amount = whole(given, True, 32)
        if key not in _HCA or (given != "max" and (isinstance(amount, str) or amount < 0)):
            return INVALID, takes
        settings[key] = given if given == "max" else str(amount)
    if not words:
        return NO_DEVICE, takes
    lines[device] = _line(settings)
    return _text(lines)


def misc(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    """misc.max: one resource and its limit."""
    name, _, given = text.strip(BLANKS).partition(" ")
    amount = whole(given)
    if name not in ("sev", "sev_es", "tdx") or (given != "max" and amount == INVALID):
        return INVALID, "sev, sev_es or tdx with N or max"
    if given != "max" and isinstance(amount, str):
        return amount, "N or max"
    return _text(_lines(current) | {name: given if given == "max" else str(amount)})


def regions(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    """dmem.max, low, min: one region of device memory and its bytes."""
    name, _, given = text.strip(BLANKS).partition(" ")
    amount = memparse(given, features.wraps)
    if not name or not given or (given != "max" and amount is None):
        return INVALID, "a region with bytes, or max"
    return _text(_lines(current) | {name: given if given == "max" else str(amount)})
