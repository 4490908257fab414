"""Whole numbers as few bytes: seven bits a byte, the lowest first."""

from __future__ import annotations

_PAGE = 4096
_MOST_SHIFT = 140


def put(out: bytearray, value: int) -> None:
    """Append a number that is not negative."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def take(data: bytes, at: int) -> tuple[int, int]:
    """The number at ``at`` and where the next one begins. Raises IndexError at the end of the data,
    ValueError for a number that is too long."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _MOST_SHIFT:
            raise ValueError("a number is too long")


def folded(change: int) -> int:
    """A change of either sign as a number that is not negative; whole pages become short ones."""
    paged = change % _PAGE == 0
    if paged:
        change //= _PAGE
    sign = -2 * change - 1 if change < 0 else 2 * change
    return sign << 1 | paged


def unfolded(value: int) -> int:
    """The change that ``folded`` made a number of."""
    sign = value >> 1
    change = -(sign + 1) // 2 if sign & 1 else sign // 2
    return change * _PAGE if value & 1 else change
