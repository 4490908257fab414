"""A file's value as the unit property that carries it, in the words of ``systemctl show``.

Source: systemd src/shared/bus-print-properties.c, src/basic/time-util.c format_timespan;
systemd.resource-control(5).
"""

from __future__ import annotations

import re

from msgspec import Struct

from qoslet.core.cgroup.interface_files import cpu_list, property_of
from qoslet.core.rules.cpu import systemd_quota_per_second

UNSET = ("", "[not set]", "infinity", "18446744073709551615")
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(us|ms|s|min|h|d|w|month|y)?")
_MICROSECONDS = {
    "us": 1,
    "ms": 1000,
    "s": 10**6,
    "min": 60 * 10**6,
    "h": 3600 * 10**6,
    "d": 86400 * 10**6,
    "w": 7 * 86400 * 10**6,
}
_PERIOD = "CPUQuotaPeriodUSec"


class UnitProperty(Struct, frozen=True):
    """What a unit says of a file: the property's name, empty if it has none, and its text, None if unknown.
    ``period_us`` is that of a v1 quota."""

    file: str
    name: str
    text: str | None
    period_us: int
    hierarchy: str
    version: int
    page_size: int

    def expected(self, value: str) -> str | None:
        """What it says where the file was set to ``value``; None where it is unknown, or that says nothing of it."""
        if self.text is None:
            return None
        return wanted(self.file, value, self.period_us, self.hierarchy, self.version)

    def says(self, value: str) -> bool | None:
        """Whether systemd would write ``value``; None as of ``expected``."""
        expected = self.expected(value)
        if expected is None or self.text is None:
            return None
        return agrees(self.name, self.text, expected, self.page_size)


def wanted(file: str, value: str, period_us: int, hierarchy: str, version: int) -> str | None:
    """What the property of ``file`` says where it was set to ``value``, canonical; None for a file
    without a property, or a value that says nothing of it."""
    name = property_of(file, hierarchy, version)
    if name is None or name == _PERIOD:
        return None
    if name == "CPUQuotaPerSecUSec":
        quota, _, period = value.partition(" ")
        if not quota.isdecimal():
            return "infinity"
        return str(systemd_quota_per_second(int(quota), int(period or period_us)))
    return canonical(name, value)


def canonical(name: str, text: str) -> str:
    """The text of a property in one form: ``infinity``, a number, or a sorted list of CPUs."""
    text = text.strip()
    if name in ("AllowedCPUs", "AllowedMemoryNodes"):
        return cpu_list(text.replace(" ", ","))
    if text in UNSET or text in ("max", "-1"):
        return "infinity"
    if name == "CPUQuotaPerSecUSec":
        return _microseconds(text)
    return "0" if text == "idle" else text


def agrees(name: str, text: str, expected: str, page_size: int) -> bool:
    """Whether a property says what is expected of it. Amounts of memory count in whole pages, as
    the kernel keeps them: a property has the bytes that were asked for."""
    found = canonical(name, text)
    if found == expected:
        return True
    if not name.startswith("Memory") or not (found.isdecimal() and expected.isdecimal()):
        return False
    return int(found) // page_size == int(expected) // page_size


def _microseconds(text: str) -> str:
    """``1s 500ms`` in microseconds; the text itself where it is no time span."""
    total = 0.0
    for number, unit in _SPAN.findall(text):
        if unit not in _MICROSECONDS and unit:
            return text
        total += float(number) * _MICROSECONDS.get(unit, 1)
    return str(round(total))


def shown(name: str, value: object) -> str:
    """A D-Bus value of a property as ``systemctl show`` prints it."""
    if isinstance(value, bytes):
        bits = int.from_bytes(value, "little")
        return cpu_list(",".join(str(bit) for bit in range(bits.bit_length()) if bits >> bit & 1))
    if value == 2**64 - 1:
        return "[not set]" if "Weight" in name or "Shares" in name else "infinity"
    if name.endswith("USec") and isinstance(value, int):
        return f"{value}us"
    return str(value)
