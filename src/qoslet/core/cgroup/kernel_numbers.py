"""Numbers and lists as the kernel's parsers read them, which is not as Python does.

Source: lib/kstrtox.c, lib/cmdline.c memparse, lib/vsprintf.c sscanf, lib/bitmap-str.c; written to
files of kernels 6.1, 6.12, 6.18 and 7.2. ``wraps``: before Linux 7 a number beyond 64 bits wraps,
where no error is given, and a suffix without a number is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator

INVALID, RANGE = "invalid argument", "numerical result out of range"
WIDE = "value too large for defined data type"
NO_DEVICE = "no such device"

BLANKS = " \t\n\v\f\r"
"""What the kernel strips."""

MOST = 2**64 - 1
"""Infinity; since Linux 7 larger numbers are read as this, too."""


class LatePattern:
    """A pattern that is compiled at its first use: most values are plain numbers and need none."""

    match: Callable[[str], re.Match[str] | None]
    fullmatch: Callable[[str], re.Match[str] | None]
    finditer: Callable[[str], Iterator[re.Match[str]]]

    def __init__(self, text: str) -> None:
        self._text = text

    def __getattr__(self, name: str) -> object:
        import re

        compiled = re.compile(self._text)
        self.match, self.fullmatch = compiled.match, compiled.fullmatch
        self.finditer = compiled.finditer
        return getattr(compiled, name)


_UNSIGNED = 2**32
_NUMBER = r"0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*"
_KSTRTO = LatePattern(rf"([+-]?)({_NUMBER})(\n?\Z)?")
_MEMPARSE = LatePattern(rf"({_NUMBER}|)([KkMmGgTtPpEe]?)\Z")
_SCANNED = LatePattern(r"[ \t\n\v\f\r]*([0-9]+)")
_PART = LatePattern(r"[^ \t\n\v\f\r,]+")
_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_PLAIN = 18
_CHUNK = 4000
_HALF = 3


def plain(text: str) -> bool:
    """Whether the text is a decimal number without sign or leading zero, well below 64 bits."""
    return (
        len(text) <= _PLAIN
        and text.isdigit()
        and text.isascii()
        and (text[0] != "0" or text == "0")
    )


def _value(digits: str) -> int:
    """The number in the base of its prefix."""
    if digits[:1] == "0":
        return int(digits, 16 if digits[1:2] in ("x", "X") else 8)
    if len(digits) <= _CHUNK:
        return int(digits)
    number = 0
    for start in range(0, len(digits), _CHUNK):
        part = digits[start : start + _CHUNK]
        number = number * 10 ** len(part) + int(part)
    return number


def whole(text: str, signed: bool = False, bits: int = 64) -> int | str:
    """kstrtoull, kstrtoll or kstrtoint: the number, or the error."""
    if plain(text[1:] if signed and text[:1] == "-" else text):
        return _bounded(int(text), signed, bits)
    match = _KSTRTO.match(text)
    if match is None or (match[1] == "-" and not signed):
        return INVALID
    amount = _value(match[2])
    if amount > MOST:
        return RANGE
    if match[3] is None:
        return INVALID
    return _bounded(-amount if match[1] == "-" else amount, signed, bits)


def _bounded(amount: int, signed: bool, bits: int) -> int | str:
    most = 1 << (bits - signed)
    return amount if (-most if signed else 0) <= amount < most else RANGE


def _fitted(amount: int, wraps: bool) -> int:
    return amount & MOST if wraps else min(amount, MOST)


def memparse(text: str, wraps: bool = False) -> int | None:
    """Decimal, octal or hexadecimal bytes with an optional suffix K to E; None for other text. An
    empty text is 0."""
    # the largest counter of v1 has a digit more than a plain number
    if plain(text) or (len(text) == _PLAIN + 1 and plain(text[1:]) and plain(text[:-1])):
        return int(text)
    match = _MEMPARSE.match(text)
    if match is None or (match[2] and not match[1] and not wraps):
        return None
    amount = _value(match[1]) if match[1] else 0
    return _fitted(amount << _SHIFTS[match[2].upper()], wraps)


def simple(text: str, wraps: bool = False) -> int | None:
    """simple_strtoull of a whole text: as memparse, without a suffix."""
    match = _MEMPARSE.match(text)
    return None if match is None or match[2] else memparse(text, wraps)


def scanned(text: str, wraps: bool = False) -> int | None:
    """What sscanf's %llu reads at the beginning of the text; the rest is ignored."""
    match = _SCANNED.match(text)
    return None if match is None else _fitted(_value(match[1].lstrip("0") or "0"), wraps)


def members(text: str, bits: int) -> frozenset[int] | str:
    """The numbers of a CPU or node list below ``bits``, or the error of its first invalid part.
    Parts may be ``0-9:2/4``, ``N`` (the last number) and ``all``."""
    result: set[int] = set()
    for match in _PART.finditer(text):
        part = match[0]
        numbers = _region(f"0-N{part[3:]}" if part[:3].lower() == "all" else part, bits)
        if isinstance(numbers, str):
            return numbers
        first, last, used, group = numbers
        if first > last or not group or used > group:
            return INVALID
        if last >= bits:
            return RANGE
        result.update(
            number for number in range(first, last + 1) if (number - first) % group < used
        )
        if text[match.end() :].startswith("\n") and "/" not in part:
            # an end of line right after a part ends the list
            break
    return frozenset(result)


def _region(part: str, bits: int) -> tuple[int, int, int, int] | str:
    """``FIRST[-LAST[:USED/GROUP]]``, read number by number."""
    numbers: list[int] = []
    for mark in ("-", ":", "/", None):
        digits = _SCANNED.match(part)
        if part[:1] != "N" and digits is None:
            return INVALID
        number = bits - 1 if digits is None else _value(digits[1].lstrip("0") or "0")
        if number >= _UNSIGNED:
            return WIDE
        numbers.append(number)
        part = part[1 if digits is None else digits.end() :]
        if not part:
            break
        if part[0] != mark:
            return INVALID
        part = part[1:]
    if len(numbers) == _HALF:
        return INVALID
    return (numbers[0], numbers[-1] if len(numbers) == 1 else numbers[1],
            *((numbers[2], numbers[3]) if len(numbers) > _HALF else (1, 1)))  # fmt: skip
