"""Readers for the eviction thresholds of a kubelet and for what belongs to them.

Each is a map by eviction signal. Source: kubelet eviction ParseThresholdConfig.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from qoslet.core.node import fields as read
from qoslet.core.node.faults import Faults, close_to, shown

SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "allocatableMemory.available",
    "pid.available",
)
"""Eviction signals: kubelet eviction/api OpForSignal."""

_T = TypeVar("_T")

_IGNORED = ("0%", "100%")
"""Thresholds that a kubelet passes over."""


def _by_signal(
    faults: Faults, where: str, value: Any, reader: Callable[[Faults, str, str], _T | None]
) -> dict[str, _T] | None:
    """A map by eviction signal of texts, each read by ``reader``."""
    given = read.mapping(faults, where, value)
    if given is None:
        return None
    result: dict[str, _T] = {}
    for signal, entry in given.items():
        if faults.full:
            break
        spot = f"{where}.{signal}"
        if signal not in SIGNALS:
            hint = close_to(signal, SIGNALS) or f"known are {', '.join(SIGNALS)}"
            faults.add(spot, f"{shown(signal)} is not an eviction signal", hint)
            continue
        text = read.text(faults, spot, entry)
        found = None if text is None else reader(faults, spot, text)
        if found is not None:
            result[signal] = found
    return result


def thresholds(faults: Faults, where: str, value: Any) -> dict[str, str] | None:
    """evictionHard or evictionSoft: a positive quantity or a percentage from 0 to 100."""
    return _by_signal(faults, where, value, _threshold)


def grace_periods(faults: Faults, where: str, value: Any) -> dict[str, int] | None:
    """evictionSoftGracePeriod: a duration of at least zero, in nanoseconds."""
    return _by_signal(faults, where, value, _grace_period)


def minimum_reclaims(faults: Faults, where: str, value: Any) -> dict[str, str] | None:
    """evictionMinimumReclaim: a quantity of at least zero or a percentage above zero."""
    return _by_signal(faults, where, value, _minimum_reclaim)


def check_soft(faults: Faults, thresholds: Any, where: str, periods: Any) -> None:
    """Fault for every soft threshold in force without a grace period. A kubelet of every release
    refuses it."""
    if not isinstance(thresholds, Mapping) or not isinstance(periods, Mapping | None):
        return
    for signal, threshold in thresholds.items():
        if signal in SIGNALS and threshold not in _IGNORED and signal not in (periods or {}):
            hint = f'set evictionSoftGracePeriod: {{{signal}: "1m30s"}}'
            faults.add(f"{where}.{signal}", "needs a grace period", hint)


def _percentage(given: str) -> float | None:
    """The number before the percent sign; None where it is none."""
    number = given[:-1]
    digits = number.replace(".", "", 1)
    return float(number) if digits.isascii() and digits.isdigit() and len(digits) < 30 else None


def _threshold(faults: Faults, where: str, given: str) -> str | None:
    if given.endswith("%"):
        percentage = _percentage(given)
        if percentage is not None and percentage <= 100:
            return given
        faults.add(where, f"is {shown(given)}, must be a percentage from 0% to 100%")
        return None
    found = read.amount(faults, where, given)
    if found is not None and not found.nano:
        hint = "leave the signal out to disable it"
        faults.add(where, f"is {shown(given)}, must be positive", hint)
    return given if found is not None and found.nano > 0 else None


def _grace_period(faults: Faults, where: str, given: str) -> int | None:
    found = read.duration(faults, where, given)
    if found is not None and found < 0:
        faults.add(where, f"is {shown(given)}, must not be negative")
        return None
    return found


def _minimum_reclaim(faults: Faults, where: str, given: str) -> str | None:
    if not given.endswith("%"):
        return given if read.amount(faults, where, given) is not None else None
    if _percentage(given):
        return given
    faults.add(where, f"is {shown(given)}, must be a percentage above 0%")
    return None
