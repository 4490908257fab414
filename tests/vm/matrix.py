"""The live tests in several systems, and one table of what they found."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from xml.etree.ElementTree import ParseError

from tests.vm import table
from tests.vm.cache import REPO, Unavailable, VmError
from tests.vm.commands import say, tail
from tests.vm.guest import Job, Left, boot, room
from tests.vm.image import Facts, image
from tests.vm.systems import ALL, System
from tests.vm.table import Row

PAGE = REPO / "docs" / "development" / "vm-table.md"
_COLLECTED = (0, 1)


@dataclass(frozen=True)
class Result:
    """One system: its name, its rows, and what is wrong with it."""

    name: str
    rows: list[Row]
    wrong: list[str]


def matrix(systems: Sequence[System], settings: dict[str, str], seconds: float) -> list[Result]:
    """Runs the suite in each system, as many at once as there is room for."""
    with ThreadPoolExecutor(room()) as pool:
        return list(pool.map(lambda system: _system(system, settings, seconds), systems))


def report(results: Sequence[Result]) -> bool:
    """Prints the table and what is wrong; returns whether all is well."""
    rows = [row for result in results for row in result.rows]
    sys.stdout.write(table.plain(rows))
    wrong = [f"{result.name}: {fault}" for result in results for fault in result.wrong]
    wrong += [f"{suite} ran in no system" for suite in table.nowhere(rows)]
    passed, failed = sum(row.passed for row in rows), sum(row.failed for row in rows)
    for fault in wrong:
        sys.stdout.write(f"FAILED {fault}\n")
    compared = sum(row.compared for row in rows)
    sys.stdout.write(
        f"{len(results)} systems: {passed} passed, {failed} failed, {compared} values compared\n"
    )
    sys.stdout.flush()
    return not wrong


def write_page(results: Sequence[Result], when: str, *, whole: bool) -> None:
    """Writes the table of the long matrix, which is kept with the documents. Where not the
    ``whole`` of it ran, what the page has of the other systems stays."""
    rows = {result.name: table.markdown_rows(result.rows, when) for result in results}
    if not whole and PAGE.exists():
        rows = {**table.by_system(PAGE.read_text()), **rows}
    order = {name: place for place, name in enumerate(ALL)}
    names = sorted((name for name in rows if name in order), key=order.__getitem__)
    PAGE.write_text(
        "# What real systems answered\n\n"
        "The last run of each system that was kept: `make test-vm-full` writes it anew, system by system ([testing](testing.md)"
        "\nsays what it boots). `compared` counts values that were read back from the kernel and compared; a suite that cannot be"
        "\nhad says why. `seen` has the day and the commit; `+` stands for changes that were not committed.\n\n"
        + table.markdown_head()
        + "".join(rows[name] for name in names)
    )


def _system(system: System, settings: dict[str, str], seconds: float) -> Result:
    if system.missing:
        return _not_to_be_had(system, system.missing)
    try:
        return _result(system, *_run(system, Job("test", settings, seconds)))
    except Unavailable as error:
        return _not_to_be_had(system, str(error))
    except VmError as error:
        row = Row(system.name, "any", "-", note="did not run")
        return Result(system.name, [row], [str(error)])


def _not_to_be_had(system: System, why: str) -> Result:
    say(f"{system.name}: cannot be had: {why}")
    row = Row(system.name, "any", "-", note=f"cannot be had: {why}")
    return Result(system.name, [row], [])


def _run(system: System, job: Job) -> tuple[Facts, Left]:
    """Boots a system for its tests. An image that was not built and a guest that did not come up
    are tried once more, and it is said; a guest in which tests began is not."""
    try:
        facts, left = _boot(system, job)
        if left.code is not None or left.booted:
            return facts, left
        wrong = left.why()
    except Unavailable:
        raise
    except VmError as error:
        wrong = str(error)
    say(f"{system.name}: once more, for {wrong}")
    return _boot(system, job)


def _boot(system: System, job: Job) -> tuple[Facts, Left]:
    with image(system.suite) as disk:
        say(f"Booting {system.name}: Linux {disk.facts.kernel}, systemd {disk.facts.systemd}")
        left = boot(system, disk, job)
        say(f"{system.name}: off after {left.seconds:.0f} s")
        return disk.facts, left


def _result(system: System, facts: Facts, left: Left) -> Result:
    label = (
        f"{system.name} ({system.hierarchy}, Linux {_short(facts.kernel)}, systemd {facts.systemd})"
    )
    output = left.logs / "output.log"
    try:
        rows = table.read(label, left.logs / "junit.xml")
    except (OSError, ParseError):
        rows = []
    if left.code is None:
        note, wrong = "did not finish", [f"{left.why()}\n{output} ends with:\n{tail(output)}"]
        return Result(system.name, rows or [Row(label, "any", "-", note=note)], wrong)
    wrong = [fault for row in rows for fault in row.faults]
    if left.code not in _COLLECTED or not rows:
        wrong.append(f"pytest ended with {left.code}; {output} ends with:\n{tail(output)}")
    wrong += table.judge(rows, system.floors())
    if wrong:
        wrong.append(f"logs: {left.logs}")
    if system.lacks:
        note = f"the rest cannot be had: its kernel has no {' and '.join(system.lacks)}"
        rows.append(Row(label, "any", "-", note=f"{note} on {system.hierarchy}"))
    return Result(system.name, rows, wrong)


def _short(kernel: str) -> str:
    return kernel.split("-")[0].split("+")[0]


def chosen(names: Sequence[str], default: Sequence[System]) -> list[System]:
    """The systems of those names, or the default ones."""
    unknown = [name for name in names if name not in ALL]
    if unknown:
        raise VmError(f"no system {unknown[0]}; there are {', '.join(ALL)}")
    return [ALL[name] for name in names] or list(default)
