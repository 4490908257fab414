"""What guests found, as rows: system x driver x suite."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

_DRIVER = re.compile(r"cgroupfs|systemd")
HEADS = ("system", "driver", "suite", "passed", "failed", "skipped", "compared", "seconds", "note")


@dataclass
class Row:
    """One suite through one driver in one system; `compared` is what its tests recorded."""

    system: str
    driver: str
    suite: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    compared: int = 0
    seconds: float = 0.0
    note: str = ""
    faults: list[str] = field(default_factory=list)

    def cells(self) -> tuple[str, ...]:
        """The row as texts, in the order of HEADS."""
        numbers = (self.passed, self.failed, self.skipped, self.compared)
        shown = (str(number) if number else "-" for number in numbers)
        seconds = f"{self.seconds:.0f}" if self.seconds else "-"
        return (self.system, self.driver, self.suite, *shown, seconds, self.note)


def read(system: str, report: Path) -> list[Row]:
    """The rows of a JUnit report.

    A test's driver is its property `driver`, else the one that its name has; what it compared is its
    property `compared`. What failed and passed when it was run once more, beside the report, has
    passed, and the note says so: an emulated machine is at times slower than any patience.
    """
    later = _passed(report.with_name("again.xml"))
    rows: dict[tuple[str, str], Row] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name', '')}"
        told = {one.get("name"): one.get("value") or "" for one in case.iter("property")}
        driver = told.get("driver") or _driver(name)
        suite = _suite(case.get("classname", ""))
        row = rows.setdefault((suite, driver), Row(system, driver, suite))
        row.seconds += float(case.get("time") or 0)
        row.compared += int(told.get("compared") or 0)
        if _key(case) in later:
            row.passed += 1
            row.note = "passed when run once more"
            continue
        _count(row, case, name)
    return [rows[key] for key in sorted(rows)]


def _key(case: ElementTree.Element) -> tuple[str | None, str | None]:
    return case.get("classname"), case.get("name")


def _passed(report: Path) -> set[tuple[str | None, str | None]]:
    """The tests that passed in a report; none where there is no report."""
    if not report.exists():
        return set()
    faults = ("failure", "error", "skipped")
    cases = ElementTree.parse(report).getroot().iter("testcase")
    bad: set[tuple[str | None, str | None]] = set()
    good: set[tuple[str | None, str | None]] = set()
    for case in cases:
        (bad if any(case.find(one) is not None for one in faults) else good).add(_key(case))
    return good - bad


def _driver(name: str) -> str:
    found = set(_DRIVER.findall(name))
    return found.pop() if len(found) == 1 else "any"


def _suite(module: str) -> str:
    """tests.live.test_run.TestIt -> live/run."""
    parts = module.split(".")
    named = [number for number, part in enumerate(parts) if part.startswith("test_")]
    if not named:
        return module
    place = parts[named[0] - 1] + "/" if named[0] else ""
    return place + parts[named[0]].removeprefix("test_")


def _count(row: Row, case: ElementTree.Element, name: str) -> None:
    fault = case.find("failure")
    if fault is None:
        fault = case.find("error")
    left_out = case.find("skipped")
    if fault is not None:
        row.failed += 1
        row.faults.append(f"{name}: {_gist(fault.get('message') or '')}"[:250])
    elif left_out is not None:
        row.skipped += 1
        row.note = row.note or (left_out.get("message") or "skipped")[:60]
    else:
        row.passed += 1


def _gist(message: str) -> str:
    """The line that says most: the first, and of a traceback the last with words."""
    lines = [line.strip() for line in message.splitlines() if any(map(str.isalpha, line))] or [""]
    return f"{lines[0]} ... {lines[-1]}" if "Traceback" in lines[0] else lines[0]


def judge(rows: Sequence[Row], floors: Mapping[str, int | None]) -> list[str]:
    """What is wrong with the rows of one system, beyond what failed.

    A driver with a floor must have passed tests that compared at least so much.
    """
    wrong = []
    for driver, floor in floors.items():
        own = [row for row in rows if row.driver == driver]
        compared = sum(row.compared for row in own)
        if floor is not None and not sum(row.passed for row in own):
            wrong.append(f"no test of {driver} passed")
        elif floor is not None and compared < floor:
            wrong.append(f"{driver}: compared {compared} values, {floor} at least are wanted")
    return wrong


def nowhere(rows: Iterable[Row]) -> list[str]:
    """Suites that ran in no system at all."""
    ran: dict[str, int] = {}
    for row in rows:
        if row.suite != "-":
            ran[row.suite] = ran.get(row.suite, 0) + row.passed + row.failed
    return [suite for suite, count in sorted(ran.items()) if not count]


def plain(rows: Sequence[Row]) -> str:
    """The table for a terminal."""
    lines = [HEADS, *(row.cells() for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEADS))]
    return "".join(_aligned(line, widths).rstrip() + "\n" for line in lines)


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    cells = (
        cell.rjust(width) if 3 <= at <= 7 else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(line, widths, strict=True))
    )
    return "  ".join(cells)


def markdown_head() -> str:
    """What the table of a page begins with."""
    heads = (*HEADS, "seen")
    head = "| " + " | ".join(heads) + " |\n"
    return (
        head + "|" + "|".join("--:" if 3 <= at <= 7 else "---" for at in range(len(heads))) + "|\n"
    )


def markdown_rows(rows: Sequence[Row], seen: str) -> str:
    """Lines of the table of a page, which say when that was ``seen``."""
    return "".join("| " + " | ".join((*row.cells(), seen)) + " |\n" for row in rows)


def by_system(page: str) -> dict[str, str]:
    """The lines of a page's table, by the name of their system."""
    found: dict[str, str] = {}
    for line in page.splitlines():
        words = line.split()
        if len(words) > 2 and words[0] == "|" and words[1] != HEADS[0]:
            found[words[1]] = found.get(words[1], "") + f"{line}\n"
    return found
