"""systemd's properties of a unit: from cgroup files and a unified map, by systemd version.

Source: opencontainers/cgroups systemd common.go, cpuset.go, v2.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from qoslet.core.cgroup.interface_files import joined, property_of
from qoslet.core.rules.cpu import QUOTA_PERIOD_US, systemd_quota, systemd_quota_per_second

Value = int | bytes
Property = tuple[str, Value]

UNLIMITED = 2**64 - 1
"""``infinity`` on D-Bus."""

IDLE_SINCE, CPUSET_SINCE, PERIOD_SINCE, OOM_POLICY_SINCE = 252, 244, 242, 253
"""First systemd versions with CPUWeight 0 as "idle", with AllowedCPUs, with CPUQuotaPeriodUSec,
and with an OOMPolicy for scopes."""

_AMOUNTS = {
    "memory.high": "MemoryHigh",
    "memory.low": "MemoryLow",
    "memory.max": "MemoryMax",
    "memory.min": "MemoryMin",
    "memory.swap.max": "MemorySwapMax",
    "pids.max": "TasksMax",
}
_AMOUNTS_V1 = {
    "cpu.shares": "CPUShares",
    "memory.limit_in_bytes": "MemoryLimit",
    "pids.max": "TasksMax",
}
_QUOTA, _PERIOD = "cpu.cfs_quota_us", "cpu.cfs_period_us"
_LISTS = {"cpuset.cpus": "AllowedCPUs", "cpuset.mems": "AllowedMemoryNodes"}


def version_of(text: str) -> int:
    """The number in systemd's version text (``"v245.4-1.fc32"`` is 245); ValueError without one."""
    start = next((at for at, letter in enumerate(text) if "0" <= letter <= "9"), len(text))
    end = start
    while end < len(text) and "0" <= text[end] <= "9":
        end += 1
    if start == end:
        raise ValueError(f"{text!r} is not a systemd version")
    return int(text[start:end])


def unit_type(unit: str) -> Literal["Slice", "Scope"]:
    """The type of a unit, by its suffix."""
    return "Slice" if unit.endswith(".slice") else "Scope"


def oom_policy(oom_group: str) -> Literal["continue", "kill"]:
    """OOMPolicy for ``memory.oom.group``, which can be set at a unit's creation only; ValueError
    for values other than 0 and 1."""
    if oom_group not in ("0", "1"):
        raise ValueError(f"{oom_group!r} is not 0 or 1")
    return "kill" if oom_group == "1" else "continue"


def cpu_mask(text: str) -> bytes:
    """A CPU or node list as D-Bus carries it: one bit for each, the lowest byte first.

    Empty entries and space around entries do not count; ValueError for any other text.
    """
    mask = 0
    for entry in text.split(","):
        part = entry.strip()
        if not part:
            continue
        first, dash, last = part.partition("-")
        if not _number(first) or (dash and not _number(last)):
            raise ValueError(f"{part!r} is not a number or range")
        low, high = int(first), int(last or first)
        if high < low:
            raise ValueError(f"{part!r} ends before it begins")
        mask |= ((1 << (high - low + 1)) - 1) << low
    if not mask:
        raise ValueError("a CPU list cannot be empty")
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def _number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5


def cpu_list(mask: bytes) -> str:
    """The list of a mask, sorted, ranges joined."""
    bits = int.from_bytes(mask, "little")
    return joined(at for at in range(bits.bit_length()) if bits >> at & 1)


def _amount(file: str, text: str) -> int:
    if text == "max":
        return UNLIMITED
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{file} {text!r} is neither a number nor max")
    return int(text)


def bandwidth(quota_us: int, period_us: int, version: int) -> list[Property]:
    """The properties of a quota (0 and -1: none) and a period in microseconds (0: default).

    The quota is per second of all CPUs, rounded up to 10 ms: see ``systemd_quota``.
    """
    properties: list[Property] = []
    if period_us and version >= PERIOD_SINCE:
        properties.append(("CPUQuotaPeriodUSec", period_us))
    if quota_us or period_us:
        per_second = UNLIMITED
        if quota_us > 0:
            per_second = systemd_quota_per_second(quota_us, period_us)
        properties.append(("CPUQuotaPerSecUSec", per_second))
    return properties


def _cpu_max(text: str, version: int) -> list[Property]:
    words = text.split()
    if not 1 <= len(words) <= 2:
        raise ValueError(f"cpu.max {text!r} is not a quota with a period")
    quota = 0 if words[0] == "max" else _amount("cpu.max", words[0])
    period = _amount("cpu.max", words[1]) if len(words) > 1 else QUOTA_PERIOD_US
    return bandwidth(quota, period, version)


def properties(unified: Mapping[str, str], version: int) -> list[Property]:
    """The unit properties of a unified map, in the order of its keys.

    Keys without a property, such as ``memory.oom.group``, are skipped. ValueError for an invalid
    key or value.
    """
    idle = unified.get("cpu.idle", "").strip() == "1" and version >= IDLE_SINCE
    result: list[Property] = []
    for key, given in unified.items():
        if "/" in key or key.find(".") <= 0:
            raise ValueError(f"{key!r} is not CONTROLLER.PARAMETER")
        text = given.strip()
        if key == "cpu.idle" and idle:
            result.append(("CPUWeight", 0))
        elif key == "cpu.weight" and not idle:
            result.append(("CPUWeight", _amount(key, text)))
        elif key == "cpu.max":
            result += _cpu_max(text, version)
        elif key in _LISTS and version >= CPUSET_SINCE:
            result.append((_LISTS[key], cpu_mask(text)))
        elif key in _AMOUNTS:
            result.append((_AMOUNTS[key], _amount(key, text)))
    return result


def carried(file: str, hierarchy: str, version: int) -> bool:
    """Whether that systemd version writes the file from a property that can change at any time."""
    if file == "cpu.idle":
        return False
    return property_of(file, hierarchy, version) is not None


def properties_v1(
    files: Mapping[str, str], version: int, period_us: int = QUOTA_PERIOD_US
) -> list[Property]:
    """The unit properties of v1 files. ``period_us`` is the period of a quota if ``files`` have
    none. ValueError for an invalid value."""
    result: list[Property] = []
    for file, text in files.items():
        if file in _AMOUNTS_V1:
            amount = UNLIMITED if text == "-1" else _amount(file, text)
            result.append((_AMOUNTS_V1[file], amount))
    if _PERIOD in files:
        period_us = _amount(_PERIOD, files[_PERIOD])
        if version >= PERIOD_SINCE:
            result.append(("CPUQuotaPeriodUSec", period_us))
    if _QUOTA in files:
        quota = -1 if files[_QUOTA] == "-1" else _amount(_QUOTA, files[_QUOTA])
        result.append(bandwidth(quota, period_us, version)[-1])
    return result


def written_by_systemd(file: str, value: str, period_us: int = QUOTA_PERIOD_US) -> str:
    """What systemd writes into the file for a value: quotas in whole percents of a CPU, and the
    default period without a quota."""
    if file == "cpu.max":
        quota, _, period = value.partition(" ")
        period_ = int(period or QUOTA_PERIOD_US)
        return (
            f"max {QUOTA_PERIOD_US}"
            if quota == "max"
            else f"{systemd_quota(int(quota), period_)} {period_}"
        )
    if file == _QUOTA and value.isdecimal():
        return str(systemd_quota(int(value), period_us))
    return value


def words(properties: Sequence[Property]) -> list[str]:
    """Properties as ``systemctl set-property`` reads them."""
    texts = []
    for name, value in properties:
        if isinstance(value, bytes):
            texts.append(f"{name}={cpu_list(value)}")
        elif name == "CPUQuotaPerSecUSec":
            texts.append("CPUQuota=" + ("" if value == UNLIMITED else f"{value // 10_000}%"))
        elif name == "CPUQuotaPeriodUSec":
            texts.append(f"CPUQuotaPeriodSec={value}us")
        else:
            texts.append(f"{name}={'infinity' if value == UNLIMITED else value}")
    return texts


Signed = tuple[str, str, object]
"""A property as a call carries it: name, D-Bus signature, value."""

ACCOUNTING = ("CPUAccounting", "MemoryAccounting", "TasksAccounting")
"""Without them systemd removes the cgroup from a v1 hierarchy, and a v2 cgroup lacks the files of
controllers that no property needs."""


def signed(properties: Sequence[Property]) -> list[Signed]:
    """Values with their signatures."""
    return [(name, "ay" if isinstance(value, bytes) else "t", value) for name, value in properties]


FIRST_V1 = {"CPUShares": "CPUWeight", "MemoryLimit": "MemoryMax"}
"""The property that systemd prefers on v1 to the key, if a unit has both."""


def alone(properties: Sequence[Signed]) -> list[Signed]:
    """Properties of v1, and those that systemd would prefer to them: ``CPUWeight`` is unset, ``MemoryMax``
    says the same. Beside a ``MemoryHigh`` or ``MemoryLow`` systemd takes ``MemoryMax``, also one that is unset.
    Source: systemd 252 core/cgroup.c cgroup_context_apply, unit_has_unified_memory_config."""
    preferred = [
        (FIRST_V1[name], "t", value if name == "MemoryLimit" else UNLIMITED)
        for name, _, value in properties
        if name in FIRST_V1
    ]
    return [*properties, *preferred]


def description(unit: str) -> str:
    """What a unit that qoslet makes is called."""
    return f"qoslet: {unit}"


def creation(unit: str, above: str, pids: Sequence[int] = ()) -> list[Signed]:
    """The properties of a new slice or scope besides its values; ``above`` is its slice. Source:
    opencontainers/cgroups systemd."""
    result: list[Signed] = [
        ("Description", "s", description(unit)),
        ("DefaultDependencies", "b", False),
    ]
    if unit_type(unit) == "Slice":
        if above:
            result.append(("Wants", "as", [above]))
    else:
        result.append(("Slice", "s", above))
        result.append(("Delegate", "b", True))
        result.append(("PIDs", "au", list(pids)))
    return result + [(name, "b", True) for name in ACCOUNTING]
