"""Kubernetes quantities, exactly: read, rounded, compared, added and printed as apimachinery does.

A quantity is held as a whole number of nano units (finer input is rounded away from zero, as
``resource.ParseQuantity`` does), so sums are exact and only reading an amount rounds. Amounts
that leave int64 reproduce what the real code returns: 0 when the number came through its fast
path, the low 64 bits when it is a big decimal.

Source: k8s.io/apimachinery/pkg/api/resource quantity.go, amount.go, math.go, suffix.go;
executed on kubelet 1.36.2 for the cases in ``tests/data/rules.json``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

NANO = 10**9
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAME = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_MIB = 1 << _BINARY["Mi"]
_BINARY_NAME = {exponent: suffix for suffix, exponent in _BINARY.items()} | {0: ""}

_FAST_DIGITS = 18
"""Longest decimal mantissa of the int64 fast path (maxInt64Factors)."""


class QuantityError(ValueError):
    """The text is no quantity; the message says why."""


class Quantity(Struct, frozen=True, gc=False, eq=False):
    """An exact amount and the notation that it was written in.

    ``value`` and ``milli`` are what ``Value()`` and ``MilliValue()`` return (rounded up to a
    whole unit, to a whole thousandth). ``wide`` tells that the real code holds a big decimal.
    """

    nano: int
    format: Format
    wide: bool
    value: int
    milli: int
    fast_int64: bool = False
    """Whether ``AsInt64()`` would succeed: a whole number, on the fast path, within int64."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.nano)

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __repr__(self) -> str:
        """The amount in its notation."""
        return f"Quantity({canonical(self)!r})"

    def __str__(self) -> str:
        return canonical(self)


def _read_amount(nano: int, unit: int, wide: bool) -> int:
    """Round ``nano`` to whole ``unit`` nanos the way ScaledValue does, overflow included."""
    if wide:
        amount = -(-nano // unit)
        return (amount - INT64_MIN) % 2**64 + INT64_MIN
    amount = -(-nano // unit) if nano >= 0 else nano // unit
    return amount if INT64_MIN <= amount <= INT64_MAX else 0


def from_nano(nano: int, format: Format = "DecimalSI", wide: bool = False) -> Quantity:
    """The quantity of ``nano`` nano units."""
    value = _read_amount(nano, NANO, wide)
    fast = not wide and nano % NANO == 0 and abs(nano) <= INT64_MAX * NANO
    return Quantity(nano, format, wide, value, _read_amount(nano, 10**6, wide), fast)


def from_int(amount: int, format: Format = "DecimalSI") -> Quantity:
    """A quantity of whole units, as ``resource.NewQuantity``."""
    return from_nano(amount * NANO, format)


def binary(amount: int) -> str:
    """Whole units with a binary suffix, such as ``64Mi``."""
    return canonical(from_int(amount, "BinarySI"))


def from_milli(milli: int) -> Quantity:
    """A decimal quantity of thousandths, as ``resource.NewMilliQuantity``."""
    return from_nano(milli * 10**6, "DecimalSI")


ZERO = from_int(0)

_parsed: dict[str, Quantity] = {}
_PARSED_MAX = 4096


def parse(text: str) -> Quantity:
    """Read a quantity as ``resource.ParseQuantity``; raises QuantityError.

    Surrounding space is an error here; JSON and YAML decoding trim it first
    (``Quantity.UnmarshalJSON``), which is the manifest reader's business.
    """
    found = _parsed.get(text)
    if found is None:
        found = _parse(text)
        if len(_parsed) >= _PARSED_MAX:
            _parsed.clear()
        _parsed[text] = found
    return found


def _digits(text: str, start: int) -> int:
    end = start
    while end < len(text) and "0" <= text[end] <= "9":
        end += 1
    return end


def _split(text: str) -> tuple[bool, str, str, str]:
    """Sign, whole digits, fraction digits and suffix of ``text``."""
    if not text:
        raise QuantityError("is empty")
    start = 1 if text[0] in "+-" else 0
    dot = _digits(text, start)
    whole, end = text[start:dot], dot
    fraction = ""
    if text[dot : dot + 1] == ".":
        end = _digits(text, dot + 1)
        fraction = text[dot + 1 : end]
    return text[0] == "-", whole, fraction, text[end:]


def _suffix(suffix: str) -> tuple[Format, int, int]:
    """Format, base and exponent that ``suffix`` stands for."""
    if suffix in _DECIMAL:
        return "DecimalSI", 10, _DECIMAL[suffix]
    if suffix in _BINARY:
        return "BinarySI", 2, _BINARY[suffix]
    if suffix[0] in "eE":
        number = suffix[1:]
        digits = number[1:] if number[:1] in ("+", "-") else number
        if digits and digits.isascii() and digits.isdigit() and len(digits) <= 9:
            return "DecimalExponent", 10, int(number)
    known = "n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent such as e3"
    raise QuantityError(f"has the unknown suffix {suffix!r}: known are {known}")


_EXPONENT_MAX = 1000
"""Beyond this a number is not worked out: it would only cost memory."""


def _parse(text: str) -> Quantity:
    negative, whole, fraction, suffix = _split(text)
    format, base, exponent = _suffix(suffix)
    whole = whole.lstrip("0") or "0"
    if len(whole) + len(fraction) > _EXPONENT_MAX or abs(exponent) > _EXPONENT_MAX:
        raise QuantityError(f"is beyond 1e{_EXPONENT_MAX}")
    mantissa = int(whole + fraction)
    if base == 10:
        power = exponent - len(fraction) + 9
        nano, rest = (mantissa * 10**power, 0) if power >= 0 else divmod(mantissa, 10**-power)
        fast = len(whole) + len(fraction) <= _FAST_DIGITS and exponent - len(fraction) >= -9
    else:
        nano, rest = divmod((mantissa << exponent) * NANO, 10 ** len(fraction))
        # float32, as the real code estimates the decimal digits of the binary factor
        fast = not fraction and 15 - len(whole) - exponent * 3 // 10 - 1 >= 0
    if rest:
        nano += 1
    if base == 2:
        if not fast:
            nano = min(nano, INT64_MAX * NANO)
        if 0 < nano < NANO:
            format = "DecimalSI"
    return from_nano(-nano if negative else nano, format, wide=not fast)


def add(left: Quantity, right: Quantity) -> Quantity:
    """``Quantity.Add``: exact, in the left notation unless the left is zero."""
    if left.nano == 0:
        return Quantity(
            right.nano, right.format, right.wide, right.value, right.milli, right.fast_int64
        )
    if right.nano == 0:
        return left
    nano = left.nano + right.nano
    wide = left.wide or right.wide or not _fits_fast(left, right, nano)
    return from_nano(nano, left.format, wide)


def _fits_fast(left: Quantity, right: Quantity, nano: int) -> bool:
    """Whether int64Amount.Add succeeds: the sum fits in units of the finer operand's scale."""
    for scale in (10**18 * NANO, 10**9 * NANO, NANO, 10**6, 1000, 1):
        if left.nano % scale == 0 and right.nano % scale == 0:
            return abs(nano) // scale <= INT64_MAX
    return False


def sub(left: Quantity, right: Quantity) -> Quantity:
    """``Quantity.Sub``: exact, in the left notation."""
    return add(left, from_nano(-right.nano, right.format, right.wide))


def total(amounts: Iterable[Quantity]) -> Quantity:
    """The sum of ``amounts``, starting from an empty quantity."""
    result = ZERO
    for amount in amounts:
        result = add(result, amount)
    return result


def counted(resource: str, amount: Quantity) -> int:
    """Millicores of ``cpu``, whole units of any other resource."""
    return amount.milli if resource == "cpu" else amount.value


def bytes_text(amount: int) -> str:
    """Bytes for people: above a MiB those that are no whole number of MiB are rounded."""
    if amount > _MIB and amount % _MIB:
        return f"{amount / _MIB:.1f}Mi"
    return binary(amount)


def canonical(quantity: Quantity) -> str:
    """The canonical text, as ``Quantity.String`` and the API server print it."""
    nano = quantity.nano
    if quantity.format == "BinarySI" and nano % NANO == 0 and abs(nano) >= 1024 * NANO:
        amount, exponent = nano // NANO, 0
        while amount % 1024 == 0 and exponent < 60:
            amount //= 1024
            exponent += 10
        return f"{amount}{_BINARY_NAME[exponent]}"
    if nano == 0:
        return "0"
    amount, exponent = nano, -9
    while amount % 1000 == 0:
        amount //= 1000
        exponent += 3
    if quantity.format == "DecimalExponent":
        return f"{amount}e{exponent}" if exponent else str(amount)
    # Past E the real code finds no suffix and prints the mantissa alone.
    return f"{amount}{_DECIMAL_NAME.get(exponent, '')}"
