"""Times and durations as options."""

from __future__ import annotations

import argparse
import re

from qoslet.errors import BadInput

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = r"\d{1,9}(?:\.\d{1,9})?"
_DURATION = re.compile(rf"(?:{_PART}(?:ms|s|m|h|d))+|{_PART}")
_PARTS = re.compile(rf"({_PART})(ms|s|m|h|d)?")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
_BACKWARDS = re.compile(r"-\d")


def span(text: str) -> float:
    """Seconds of ``90``, ``0.5``, ``90s``, ``1h30m``, below 32 years. Raises ArgumentTypeError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = _seconds(text) if _DURATION.fullmatch(text) else -1.0
    if not 0 <= seconds < 10**9:
        raise _no_duration(text)
    return seconds


def duration(text: str) -> float:
    """The same above zero. Raises ArgumentTypeError."""
    seconds = span(text)
    if not seconds:
        raise _no_duration(text)
    return seconds


def _no_duration(text: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"{text!r} is not a duration such as 10s, 5m or 1h30m")


def _seconds(text: str) -> float:
    return sum(float(number) * _UNITS[unit or "s"] for number, unit in _PARTS.findall(text))


def check_interval(args: argparse.Namespace, least: float) -> None:
    """Raise BadInput for an ``--interval`` below ``least`` seconds or above an hour."""
    if not least <= args.interval <= 3600:
        raise BadInput(f"must be {least:g} to 3600 seconds", where="--interval")


def point(text: str) -> tuple[str, float]:
    """A time in a recording: ``("end", -30.0)`` of ``-30s``, ``("start", 90.0)`` of ``+90s``,
    ``("clock", seconds of the day)`` of ``14:05`` and ``("wall", seconds since 1970)`` of
    ``2026-03-01T14:05:00Z``. Times are UTC but where they say otherwise. Raises
    ArgumentTypeError."""
    sign, rest = text[:1], text[1:]
    if sign in ("-", "+") and _DURATION.fullmatch(rest):
        seconds = _seconds(rest)
        return ("end", -seconds) if sign == "-" else ("start", seconds)
    found = _CLOCK.fullmatch(text)
    if found:
        hours, minutes, seconds_ = (int(part or 0) for part in found.groups())
        return "clock", float(hours * 3600 + minutes * 60 + seconds_)
    from datetime import UTC, datetime

    try:
        when = datetime.fromisoformat(text)
        when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
        return "wall", when.timestamp()
    except (ValueError, OverflowError):
        message = f"{text!r} is not a time such as -30s, +5m, 14:05:00 or 2026-03-01T14:05:00Z"
        raise argparse.ArgumentTypeError(message) from None


def joined(arguments: list[str], option: str) -> list[str]:
    """The arguments with a value of ``option`` that begins with a minus joined to it, which argparse
    would take for an option."""
    found: list[str] = []
    for word in arguments:
        if found and found[-1] == option and _BACKWARDS.match(word):
            found[-1] = f"{option}={word}"
        else:
            found.append(word)
    return found
