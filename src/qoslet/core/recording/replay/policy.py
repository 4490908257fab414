"""The policy of a replay: the guard's mode, and its numbers with those that are set otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from msgspec import Struct
from msgspec.structs import fields, replace

from qoslet.core.pressure.guard_mode import Mode
from qoslet.core.pressure.node_pressure import PRESSURE_THRESHOLDS, PressureThresholds
from qoslet.core.pressure.stall_tuning import STALL_TUNING, StallTuning
from qoslet.core.pressure.throttle_guard import GUARD_POLICY, GuardPolicy
from qoslet.errors import BadInput


class ReplayPolicy(Struct, frozen=True):
    """``mode`` is of pods that choose none. The numbers are those of the agent."""

    mode: Mode = "act"
    tuning: StallTuning = STALL_TUNING
    guard: GuardPolicy = GUARD_POLICY
    thresholds: PressureThresholds = PRESSURE_THRESHOLDS


_PARTS: tuple[str, ...] = ("tuning", "guard", "thresholds")


def settings(policy: ReplayPolicy) -> dict[str, int | float]:
    """Every number by its name; of two parts with one name the first one's."""
    found: dict[str, int | float] = {}
    for part in _PARTS:
        one = getattr(policy, part)
        for field in fields(one):
            found.setdefault(field.name, getattr(one, field.name))
    return found


def with_settings(policy: ReplayPolicy, rows: Iterable[str]) -> ReplayPolicy:
    """The policy with each ``key=value`` set, in every part that has it. Raises BadInput."""
    for row in rows:
        key, _, text = row.partition("=")
        name = key.strip().replace("-", "_")
        known = settings(policy)
        if name not in known:
            raise BadInput(f"unknown setting {key!r}", where="--set", hint=_hint(name, known))
        kind = type(known[name])
        try:
            value = kind(text)
        except (ValueError, OverflowError):
            value = kind(-1)
        if not isfinite(value) or not 0 <= value <= 1 << 62:
            what = "whole number of bytes or times" if kind is int else "number"
            raise BadInput(f"{text!r} is not a {what}", where=f"--set {key}")
        for part in _PARTS:
            one = getattr(policy, part)
            if hasattr(one, name):
                policy = replace(policy, **{part: replace(one, **{name: value})})
    return policy


def _hint(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), 1, 0.5)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def changed(policy: ReplayPolicy) -> dict[str, int | float]:
    """The numbers that are not the agent's."""
    usual = settings(ReplayPolicy())
    return {name: value for name, value in settings(policy).items() if usual[name] != value}
