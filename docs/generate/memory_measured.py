"""The tables of what was measured in guests: ways to protect burstable pods (``bench.memory.burstable``), and
throttling beside the limit alone (``bench.memory.throttling``)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from statistics import median
from typing import TypeVar

from bench.memory import burstable, throttling
from bench.memory.pressed import Guest, Served, kept
from docs.generate.memory_forms import table

Row = TypeVar("Row", burstable.Outcome, throttling.Outcome)
Key = TypeVar("Key", bound=Hashable)

PAGES = 256
"""In a MiB."""


def by(guests: list[Guest[Row]], key: Callable[[Guest[Row], Row], Key]) -> dict[Key, list[Row]]:
    """The rows of all guests that have the same key, in the order in which keys come first."""
    found: dict[Key, list[Row]] = {}
    for guest in guests:
        for row in guest.rows:
            found.setdefault(key(guest, row), []).append(row)
    return found


def number(values: Sequence[float]) -> str:
    """The median in two or three digits."""
    if not values:
        return "–"
    middle = median(values)
    return f"{middle:.1f}" if abs(middle) < 10 else f"{middle:.0f}"


def _pages(rows: Sequence[Row], pod: str) -> str:
    """MiB that were taken, and read again."""
    taken, again = (
        number([getattr(row.pods[pod], name) / PAGES for row in rows])
        for name in ("taken", "refaults")
    )
    return f"{taken}, {again} MiB"


def _reads(rows: Sequence[Row], pod: str, key: str) -> str:
    def values(of: Callable[[Served], dict[str, float]]) -> list[float]:
        return [found[key] for row in rows if key in (found := of(row.pods[pod]))]

    return (
        f"{number(values(lambda one: one.before_ms))}, {number(values(lambda one: one.beside_ms))}"
    )


def _waited(rows: Sequence[Row]) -> str:
    some, full = (
        [100 * getattr(row, name) / row.seconds for row in rows] for name in ("some", "full")
    )
    return f"{number(some)}, {number(full)}"


def _hog(rows: Sequence[burstable.Outcome]) -> str:
    """Where the hog ends; each way that it went."""
    said: dict[str, list[float]] = {}
    for row in rows:
        if row.killed is not None:
            how, at = ("evicted" if row.log else "killed"), row.killed
        elif row.reached is not None:
            how, at = "got it", row.reached
        else:
            how, at = "stood still for", row.still
        said.setdefault(how, []).append(at)
    parts = []
    for how, times in said.items():
        count = f" ({len(times)} of {len(rows)})" if len(said) > 1 else ""
        parts.append(f"{how}{'' if how.endswith('for') else ' after'} {number(times)} s{count}")
    return ", ".join(parts)


def soft() -> Iterator[str]:
    """Each way to protect a burstable pod."""
    guests = kept(burstable.RESULTS, Guest[burstable.Outcome])
    groups = by(
        guests, lambda guest, row: (row.load, row.over, row.swap, row.guard, row.way, guest.linux)
    )
    titles = (
        *("way", "Linux", "the hog", "burstable: taken, read again", "its cache at the end"),
        *("its median before, beside", "its p99", "guaranteed: median", "tasks waited: some, all"),
    )
    lines = []
    head = None
    for (*setting, way, linux), rows in groups.items():
        if head != setting:
            head = setting
            lines.append((f"**{_section(rows[0])}**", *[""] * (len(titles) - 1)))
        least = number([row.pods["b"].cache_mib for row in rows])
        lines.append(
            (
                way,
                linux,
                f"{_hog(rows)}{_innocents(rows)}",
                _pages(rows, "b"),
                f"{least} MiB",
                f"{_reads(rows, 'b', 'median')} ms",
                f"{_reads(rows, 'b', 'p99')} ms",
                f"{_reads(rows, 'g', 'median')} ms",
                f"{_waited(rows)} %",
            )
        )
    yield from table(titles, lines)


def _section(row: burstable.Outcome) -> str:
    what = "anonymous memory" if row.load == "hold" else "a file in memory that it does not map"
    amount = f"{row.over} MiB more" if row.over == burstable.OVER else "all"
    swap = f"{row.swap} MiB of swap" if row.swap else "no swap"
    return f"the hog wants {amount}, in {what}; {swap}, guard {row.guard}"


def _innocents(rows: Sequence[burstable.Outcome]) -> str:
    gone = sum(not row.quiet or any(one.oom_kills for one in row.pods.values()) for row in rows)
    return f"; an innocent killed in {gone} of {len(rows)}" if gone else ""


def _end(rows: Sequence[throttling.Outcome]) -> str:
    said: dict[str, list[float]] = {}
    for row in rows:
        how = "evicted" if row.evicted else "killed" if row.oom_kills else "gone"
        said.setdefault("goes on" if row.ended is None else how, []).append(row.ended or 0)
    return ", ".join(
        how if how == "goes on" else f"{how} after {number(times)} s" for how, times in said.items()
    )


LOADS = {
    "touch": "touches pages",
    "read": "fills a buffer in one call",
    "files": "streams a file",
}


def throttled() -> Iterator[str]:
    """A container that grows beyond its limit, with and without memory.high."""
    guests = kept(throttling.RESULTS, Guest[throttling.Outcome])
    groups = by(guests, lambda guest, row: (row.place, row.load, guest.linux, row.factor))
    titles = (
        *("load", "Linux", "`memory.high`", "most", "end", "burstable: taken, read again"),
        *("its median before, beside", "its p99", "guaranteed: median", "tasks waited: some, all"),
    )
    lines = []
    head = None
    for (place, load, linux, factor), rows in groups.items():
        if head != place:
            head = place
            limit = number([row.limit for row in rows])
            what = "the node has room" if place == "room" else "the node has less than the limit"
            lines.append((f"**limit {limit} MiB, {what}**", *[""] * (len(titles) - 1)))
        lines.append(
            (
                LOADS[load],
                linux,
                f"{factor} of the limit" if factor else "none",
                f"{number([row.most for row in rows])} MiB",
                _end(rows),
                _pages(rows, "b"),
                f"{_reads(rows, 'b', 'median')} ms",
                f"{_reads(rows, 'b', 'p99')} ms",
                f"{_reads(rows, 'g', 'median')} ms",
                f"{_waited(rows)} %",
            )
        )
    yield from table(titles, lines)


PARTS = {"memory soft protection": soft, "memory throttled": throttled}
