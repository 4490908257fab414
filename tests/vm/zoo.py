"""The zoo of loads in guests, and the page that keeps what came of each."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.live.memory.zoo.drive import chosen
from tests.live.memory.zoo.scenes import SCENES
from tests.vm.cache import REPO, VmError
from tests.vm.commands import say, seen
from tests.vm.guest import Job, boot
from tests.vm.image import image
from tests.vm.systems import ALL

PAGE: Final = REPO / "docs" / "development" / "zoo-table.md"
SYSTEMS: Final = ("trixie-zoo", "sid-zoo")
HEADS: Final = (
    *("system", "run", "load", "program", "limit", "expected", "times", "outcome"),
    *("at high", "at max", "else", "decided", "fault", "seen"),
)
_NEIGHBOURS: Final = {load.name for scene in SCENES for load in scene.neighbours}
_SCENES: Final = {scene.name: scene for scene in SCENES}
_SECONDS = 1500.0
"""After which a boot begins no other scene."""
_LONGEST_SCENE = 3600.0
_DRIVER = "python3 -m tests.live.memory.zoo.drive"
_INTRO = """# What the guard did with the zoo

`make zoo` runs these loads (`tests/live/memory/zoo`) under `qoslet run --guard act` in guests of {systems}, and replaces the
rows of what ran ([testing](testing.md) says how to run some of them). Amounts are in MiB, times in seconds. `at high`, `at max` and
`else` are the longest times in which a load took no step, by where its usage stood: at `memory.high` below the limit, at
`memory.max`, elsewhere; of several `times`, the median and the worst. The guests are emulated and slow; where the
system says `user-mode`, the kernel ran as a process: as fast as the machine, with one CPU and a slow disk, without huge pages and real-time limits. `decided` lists what qoslet did to the pod, and `fault` what an operator would
complain about. A hog's row counts the neighbours to whom nothing happened; others have a row. `seen` has the day and the commit
(`+` stands for changes that were not committed) and, where it was noted, the load that the machine around the guest had at the end, over five minutes on two CPUs.

"""


def play(words: Sequence[str], seconds: float = _SECONDS) -> int:
    """Runs the zoo in the systems that are named, else in both; ``trixie-zoo`` or ``trixie-zoo:SCENE``,
    after a number so many times. Returns 1 if a row has a fault."""
    bad = False
    times, words = (int(words[0]), words[1:]) if words and words[0].isdecimal() else (1, words)
    scenes: dict[str, list[str]] = {}
    for word in words or SYSTEMS:
        name, _, wanted = word.partition(":")
        if name not in SYSTEMS:
            raise VmError(f"no zoo in {name}; there is {', '.join(SYSTEMS)}")
        _, _, loads = wanted.partition(":")
        scenes.setdefault(name, []).extend(
            f"{scene.name}:{loads}" if loads else scene.name
            for scene in chosen([wanted] if wanted else [])
        )
    for name, left in scenes.items():
        while left:
            rows, count = played(name, left, times, seconds)
            write_page(rows)
            bad |= any(row["fault"] for row in rows)
            left = left[count:]
    return 1 if bad else 0


def played(
    name: str, scenes: Sequence[str], times: int = 1, seconds: float = _SECONDS
) -> tuple[list[dict[str, str]], int]:
    """The rows of one boot of a system, and how many of the scenes it played: no scene is begun after
    ``seconds``, or after one that left something behind. VmError if none was played."""
    system = ALL[name]
    options = ["--times", str(times), "--seconds", str(seconds)]
    command = shlex.join([*_DRIVER.split(), *options, *scenes])
    when = seen()
    with image(system.suite) as disk:
        label = f"{name} (Linux {disk.facts.kernel.partition('-')[0].partition('+')[0]})"
        say(f"Booting {label} for {', '.join(scenes)}")
        job = Job("run", {"QOSLET_COMMAND": command}, seconds + _LONGEST_SCENE)
        left = boot(system, disk, job)
    when += f", load {os.getloadavg()[1]:.0f}"
    found, count = left.logs / "zoo.jsonl", left.logs / "played"
    if not count.exists():
        raise VmError(left.why() if left.code is None else f"no row; logs: {left.logs}")
    rows = rows_from(label, when, map(json.loads, found.read_text().splitlines()))
    return rows, len(count.read_text().splitlines())


def rows_from(label: str, seen: str, documents: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
    """The rows of what the driver wrote, one for a load that was played several times. Neighbours to
    whom nothing happened are counted in the row of the hog beside them."""
    played_as: dict[tuple[str, str], list[dict[str, Any]]] = {}
    well: Counter[str] = Counter()
    for document in documents:
        if document["load"] in _NEIGHBOURS and not document["faults"]:
            well[document["scene"]] += 1
        else:
            played_as.setdefault((document["scene"], document["load"]), []).append(document)
    rows = [_row(label, seen, found) for found in played_as.values()]
    for row in rows:
        if row["run"] in well and row["load"] not in _NEIGHBOURS:
            row["outcome"] += f"; {well[row['run']]} neighbours untouched"
    return rows


def _row(label: str, seen: str, documents: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The cells of the rows that the driver wrote about one load."""
    first = documents[0]
    faults = [fault for document in documents for fault in document["faults"]]
    return {
        "system": label,
        "run": first["scene"],
        "load": first["load"],
        "program": first["words"],
        "limit": str(first["limit"]) if first["limit"] else "-",
        "expected": first["expected"],
        "times": str(len(documents)),
        "outcome": _counted([document["outcome"] for document in documents], len(documents)),
        "at high": _seconds([document["at_high"] for document in documents]),
        "at max": _seconds([document["at_max"] for document in documents]),
        "else": _seconds([document["elsewhere"] for document in documents]),
        "decided": " or ".join(dict.fromkeys(", ".join(one["answers"]) for one in documents)),
        "fault": _counted(faults, len(documents)),
        "seen": seen,
    }


def _counted(texts: Sequence[str], times: int) -> str:
    """Different texts, each with how often it came unless it always did."""
    counts = Counter(texts)
    return "; ".join(
        text if count == times else f"{text} ({count} of {times})" for text, count in counts.items()
    )


def _seconds(amounts: Sequence[float]) -> str:
    """Seconds; of several times the median and the worst."""
    found = [amounts[0]] if len(amounts) == 1 else [median(amounts), max(amounts)]
    if max(found) < 0.05:
        return "-"
    return " / ".join(f"{amount:.1f}" for amount in found)


def _key(row: dict[str, str]) -> tuple[str, str, str]:
    return row["system"].split()[0], row["run"], row["load"]


def merged(page: str, rows: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """The rows of a page, with newer ones in place of those of the same system, run and load."""
    new = {_key(row): row for row in rows}
    played_again = {key[:2] for key in new}
    kept = {
        key: row
        for key, row in ((_key(row), row) for row in rows_of(page))
        if not (key[2] in _NEIGHBOURS and key[:2] in played_again)
    } | new
    return sorted(kept.values(), key=_place)


def _place(row: dict[str, str]) -> tuple[int, ...]:
    """Where a row stands: by system, scene and load; what is no longer in the zoo at the end."""
    system, scene, load = _key(row)
    loads = [one.name for one in _SCENES[scene].loads] if scene in _SCENES else []
    lists = ([*SYSTEMS], [*_SCENES], loads)
    return tuple(
        names.index(name) if name in names else len(names)
        for name, names in zip((system, scene, load), lists, strict=True)
    )


def rows_of(page: str) -> list[dict[str, str]]:
    """The table of a page."""
    found = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == len(HEADS) and cells[0] != HEADS[0]:
            found.append(dict(zip(HEADS, cells, strict=True)))
    return found


def write_page(rows: Iterable[dict[str, str]], page: Path = PAGE) -> None:
    """Writes the page with these rows anew."""
    all_rows = merged(page.read_text() if page.exists() else "", rows)
    sides = ["--:" if name in ("limit", "at high", "at max", "else") else "---" for name in HEADS]
    lines = ["| " + " | ".join(HEADS) + " |", "|" + "|".join(sides) + "|"]
    lines += ["| " + " | ".join(row[name] for name in HEADS) + " |" for row in all_rows]
    intro = _INTRO.format(systems="Debian 13 (`trixie-zoo`) and unstable (`sid-zoo`)")
    page.write_text(intro + "\n".join(lines) + "\n")
