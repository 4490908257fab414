"""Numbers as people read them, with exact ones on demand.

Bytes become ``243Mi`` (one decimal at most), CPU time becomes cores as Kubernetes writes them
(``500m``).
"""

from __future__ import annotations

_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

HUGE = 1 << 60
"""From here on a byte count stands for "no limit" (2^62, 2^63 less a page)."""


def size(amount: int, exact: bool = False) -> str:
    """Bytes in the largest binary unit that leaves a short number; ``exact`` gives all digits."""
    if exact:
        return str(amount)
    sign, rest = ("-", -amount) if amount < 0 else ("", amount)
    level = 0
    while level < len(_SUFFIXES) - 1 and rest >= 1024 ** (level + 1):
        level += 1
    unit = 1024**level
    whole, left = divmod(rest, unit)
    if left == 0:
        return f"{sign}{whole}{_SUFFIXES[level]}"
    below = 1024 ** (level - 1)
    if rest % below == 0 and rest // below < 10_000:
        return f"{sign}{rest // below}{_SUFFIXES[level - 1]}"
    if rest >= 100 * unit:
        return f"{sign}{(rest + unit // 2) // unit}{_SUFFIXES[level]}"
    whole, tenth = divmod((rest * 10 + unit // 2) // unit, 10)
    return (
        f"{sign}{whole}.{tenth}{_SUFFIXES[level]}" if tenth else f"{sign}{whole}{_SUFFIXES[level]}"
    )


def rounded(amount: int) -> int:
    """Bytes in whole Mi above one Mi, in whole Ki below: enough for the eye."""
    unit = 1 << 20 if amount >= 1 << 20 else 1 << 10
    return amount // unit * unit


def cores(milli: int) -> str:
    """Millicores as Kubernetes writes them: ``500m``, ``2``."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def bandwidth(quota: str, period: str, exact: bool = False) -> str:
    """A CFS quota as cores: ``500m`` for 50000 of 100000 us; ``max`` where there is none."""
    if exact:
        return f"{quota}/{period}" if period else quota
    if quota in ("max", "-1", "0", ""):
        return "max"
    if not (quota.isdigit() and period.isdigit() and int(period)):
        return quota
    micro = int(quota) * 1_000_000 // int(period)
    if micro % 1000 == 0:
        return cores(micro // 1000)
    return f"{micro / 1000:.1f}m"


def memory(value: str, exact: bool = False) -> str:
    """The value of a memory file in human units; words such as ``max`` stay."""
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return value
    number = int(value)
    if not exact and (number == -1 or number >= HUGE):
        return "max"
    return size(number, exact)
