"""The numbers of a cgroup by name: made of what the kernel prints, and read as samples again.

Amounts are bytes (``UNLIMITED`` for ``max``), times microseconds, averages of pressure hundredths of
a percent. A file that is absent has no names. The names are v2's, on v1 those of what means the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.memory.sample import MemorySample, NodeMemory, Pressure
from qoslet.core.memory.stat_parser import limit_v1, number, pairs, stat_v1
from qoslet.core.recording.moment import NODE, Moment, Series

AMOUNTS = (
    "memory.current",
    "memory.high",
    "memory.max",
    "memory.low",
    "memory.min",
    "memory.swap.current",
    "memory.swap.max",
)
FILES_V2 = (
    *AMOUNTS,
    # up to Linux 6.15 this brings memory.stat up to date
    "cpu.stat",
    "memory.stat",
    "memory.events",
    "memory.events.local",
    "memory.pressure",
    "cpu.max",
    "cpu.pressure",
)
"""What is read of a cgroup on v2."""
FILES_V1 = (
    "memory.usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.memsw.usage_in_bytes",
    "memory.stat",
    "memory.oom_control",
    "memory.failcnt",
    "cpuacct.usage",
    "cpu.stat",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
)
"""The same on v1."""
CPU_FILE = {"v2": "cpu.stat", "v1": "cpuacct.usage"}
"""The file that tells whether anything ran in a cgroup since it was read last."""

STAT = (
    "anon",
    "file",
    "kernel",
    "sock",
    "shmem",
    "slab_reclaimable",
    "inactive_anon",
    "active_anon",
    "inactive_file",
    "active_file",
    "file_dirty",
    "file_writeback",
    "pgscan",
    "pgsteal",
    "workingset_refault_anon",
    "workingset_refault_file",
    "pswpin",
    "pswpout",
)
"""The lines of ``memory.stat`` that the guard's decision reads."""
_STAT_NAMES = tuple((name, f"stat.{name}") for name in STAT)
_EVENTS = ("low", "high", "max", "oom", "oom_kill")
_CPU = ("usage_usec", "user_usec", "throttled_usec")
_PRESSURE = ("some.avg10", "some.total", "full.avg10", "full.total")


def values_v2(texts: Mapping[str, str]) -> dict[str, int]:
    """The numbers of files of v2."""
    values: dict[str, int] = {}
    for name in AMOUNTS:
        amount = number(texts.get(name))
        if amount is not None:
            values[name] = amount
    lines = _pairs(texts.get("memory.stat", ""))
    for name, own in _STAT_NAMES:
        if name in lines:
            values[own] = int(lines[name])
    for file, prefix in (("memory.events", "events."), ("memory.events.local", "local.")):
        lines = _pairs(texts.get(file, ""))
        for name in _EVENTS:
            if name in lines:
                values[prefix + name] = int(lines[name])
    lines = _pairs(texts.get("cpu.stat", ""))
    for name in _CPU:
        if name in lines:
            values["cpu." + name] = int(lines[name])
    _quota(texts.get("cpu.max", "").split(), values)
    for file in ("memory.pressure", "cpu.pressure"):
        _pressure(file, texts.get(file, ""), values)
    return values


def values_v1(texts: Mapping[str, str]) -> dict[str, int]:
    """The numbers of files of v1."""
    used = number(texts.get("cpuacct.usage"))
    both = number(texts.get("memory.memsw.usage_in_bytes"))
    current = number(texts.get("memory.usage_in_bytes"))
    throttled = pairs(texts.get("cpu.stat")).get("throttled_time")
    stat = stat_v1(texts.get("memory.stat"))
    found = {
        "memory.current": current,
        "memory.max": limit_v1(texts.get("memory.limit_in_bytes")),
        "memory.swap.current": None if both is None or current is None else max(0, both - current),
        "local.max": number(texts.get("memory.failcnt")),
        "local.oom_kill": pairs(texts.get("memory.oom_control")).get("oom_kill"),
        "cpu.usage_usec": None if used is None else used // 1000,
        "cpu.throttled_usec": None if throttled is None else throttled // 1000,
        **{own: stat.get(name) for name, own in _STAT_NAMES},
    }
    values = {name: value for name, value in found.items() if value is not None}
    quota = texts.get("cpu.cfs_quota_us", "")
    words = ["max" if quota.startswith("-") else quota, texts.get("cpu.cfs_period_us", "")]
    _quota([word.strip() for word in words], values)
    return values


def cpu_time(hierarchy: str, text: str) -> int | None:
    """Microseconds of CPU time by the text of ``CPU_FILE``."""
    if hierarchy == "v1":
        used = number(text)
        return None if used is None else used // 1000
    return pairs(text).get("usage_usec")


def node_series(node: NodeMemory) -> Series:
    """The node's memory."""
    found = {
        "total": node.total,
        "available": node.available,
        "free": node.free,
        "swap.total": node.swap_total,
        "swap.free": node.swap_free,
        "pgscan": node.scanned,
        "pgsteal": node.stolen,
    }
    values = {name: value for name, value in found.items() if value is not None}
    if node.pressure is not None:
        one = node.pressure
        amounts = (
            round(one.some_avg10 * 100),
            one.some_total,
            round(one.full_avg10 * 100),
            one.full_total,
        )
        for name, amount in zip(_PRESSURE, amounts, strict=True):
            values[f"memory.pressure.{name}"] = amount
    return Series(NODE, 0, values)


def node_memory(moment: Moment) -> NodeMemory | None:
    """The node's memory at a moment; None where it was not recorded."""
    series = moment.series.get(NODE)
    if series is None:
        return None
    values = series.values
    return NodeMemory(
        at=moment.at,
        total=values.get("total", 0),
        available=values.get("available", 0),
        free=values.get("free", 0),
        swap_total=values.get("swap.total", 0),
        swap_free=values.get("swap.free", 0),
        pressure=_as_pressure(values),
        scanned=values.get("pgscan"),
        stolen=values.get("pgsteal"),
    )


def memory_sample(series: Series, at: float, page_size: int = 4096) -> MemorySample | None:
    """A cgroup's memory as the guard reads it; None without a memory controller."""
    values = series.values
    if "memory.current" not in values:
        return None
    return MemorySample(
        path=series.path,
        at=at,
        identity=series.identity,
        current=values["memory.current"],
        high=values.get("memory.high"),
        max=values.get("memory.max"),
        low=values.get("memory.low"),
        min=values.get("memory.min"),
        swap=values.get("memory.swap.current"),
        swap_max=values.get("memory.swap.max"),
        stat={name: values[own] for name, own in _STAT_NAMES if own in values},
        events=_with_prefix(values, "events."),
        local=_with_prefix(values, "local."),
        pressure=_as_pressure(values),
        usage_usec=values.get("cpu.usage_usec"),
        user_usec=values.get("cpu.user_usec"),
        page_size=page_size,
    )


def observed(moment: Moment) -> Observed:
    """The cgroups of a moment as ``top`` reads them."""
    return Observed(
        moment.at,
        {path: _observed(one) for path, one in moment.series.items() if path != NODE},
    )


def _observed(series: Series) -> ObservedCgroup:
    values = series.values
    texts = {name: _amount(values[name]) for name in AMOUNTS if name in values}
    if "cpu.quota" in values:
        texts["cpu.max"] = f"{_amount(values['cpu.quota'])} {values.get('cpu.period', 100_000)}"
    for file in ("memory.pressure", "cpu.pressure"):
        if f"{file}.some.avg10" in values:
            texts[file] = f"some avg10={values[f'{file}.some.avg10'] / 100:.2f}"
    events = _with_prefix(values, "events.")
    texts["memory.events"] = "\n".join(f"{name} {count}" for name, count in events.items())
    return ObservedCgroup(
        path=series.path,
        identity=series.identity,
        values=texts,
        usage_usec=values.get("cpu.usage_usec"),
        memory=values.get("memory.current"),
        oom_kills=values.get("events.oom_kill", values.get("local.oom_kill")),
        throttled_usec=values.get("cpu.throttled_usec"),
    )


def _amount(value: int) -> str:
    return "max" if value >= UNLIMITED else str(value)


def _with_prefix(values: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name: values[prefix + name] for name in _EVENTS if prefix + name in values}


def _as_pressure(values: Mapping[str, int]) -> Pressure | None:
    try:
        some, some_total, full, full_total = (
            values[f"memory.pressure.{name}"] for name in _PRESSURE
        )
    except KeyError:
        return None
    return Pressure(some / 100, some_total, full / 100, full_total)


def _pairs(text: str) -> dict[str, str]:
    """Lines of a name and a number as texts; empty where the text is not such lines."""
    words = text.split()
    names, amounts = words[::2], words[1::2]
    if len(names) != len(amounts) or not all(map(str.isdigit, amounts)):
        return {name: str(amount) for name, amount in pairs(text).items()}
    return dict(zip(names, amounts, strict=True))


def _quota(words: list[str], values: dict[str, int]) -> None:
    """The two numbers of ``cpu.max``."""
    if len(words) != 2:
        return
    quota, period = number(words[0]), number(words[1])
    if quota is not None and period is not None:
        values["cpu.quota"], values["cpu.period"] = quota, period


def _pressure(file: str, text: str, values: dict[str, int]) -> None:
    """Averages over ten seconds and totals of a pressure file. CPU has no ``full`` of interest."""
    for line in text.splitlines():
        words = line.split()
        if len(words) != 5 or (words[0] == "full" and file != "memory.pressure"):
            continue
        average, total = words[1].removeprefix("avg10="), words[4].removeprefix("total=")
        try:
            values[f"{file}.{words[0]}.avg10"] = round(float(average) * 100)
            values[f"{file}.{words[0]}.total"] = int(total)
        except (ValueError, OverflowError):
            continue
