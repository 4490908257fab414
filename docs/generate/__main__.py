"""Writes the parts of the documents that come from the code; ``--check`` only compares.

A part stands between ``<!-- from the code: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType

from msgspec import structs

import qoslet.core.rules
from bench.figures import Figure
from bench.figures import table as figure_table
from bench.offline import growth
from bench.run import KEPT
from docs.generate import deploy_parts, memory_forms, memory_measured, phases, reference_parts
from docs.generate.specimens import sentences
from qoslet.cli.help.man_page import page
from qoslet.core.reconcile.file_writers import NEWEST, TABLE, FileWriter
from qoslet.core.rules.catalog import RULES, Rule
from qoslet.core.versions.kubernetes import DESIGN_ROWS, ROWS, ReleaseBehaviour

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "qoslet"
FAMILIES = ("cpu", "memory", "swap", "hugetlb", "pids", "oom", "oci", "windows")

PART = re.compile(
    r"(<!-- from the code: (?P<name>[a-z ]+) -->\n).*?(<!-- end -->)", re.MULTILINE | re.DOTALL
)


def table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "---|" * len(titles)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def prose(docstring: str | None) -> str:
    """A docstring as one paragraph of Markdown."""
    return " ".join((docstring or "").split()).replace("``", "`")


def first_sentence(path: Path) -> str:
    """What the module's docstring begins with."""
    text = prose(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))))
    return re.split(r"(?<=[.;?!:])\s", text, maxsplit=1)[0].rstrip(".;:")


SHOWN = (
    "plan, JSON to JSON, cold",
    "10,000 pods of 5 KB read and planned",
    "50 pods, manifest to cgroups",
    "333 groups, nothing to do, cold",
    "convert: one block, JSON in, rows out",
    "one manifest, p50",
    "idle with 50 pods",
    "resident with 50 pods",
)
"""The figures of the README."""

FLOORS = ("", "core", "agent", "sim", "host", "render", "app", "cli", "schema")
"""The packages at the top, in the order in which a value passes them."""


def layout() -> Iterator[str]:
    """Every package and module with the first sentence of its docstring."""
    for floor in FLOORS:
        folders = [SOURCE / floor]
        if floor:
            folders += sorted(path.parent for path in (SOURCE / floor).glob("*/**/__init__.py"))
        for folder in folders:
            name = str(folder.relative_to(SOURCE))
            yield from _package("" if name == "." else name)


def _package(name: str) -> Iterator[str]:
    folder = SOURCE / name
    if not (folder / "__init__.py").exists():
        return
    about = first_sentence(folder / "__init__.py")
    yield f"**`{name or 'qoslet'}/`**{': ' + about if about else ''}"
    yield ""
    modules = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    yield from table(
        ("module", "what it decides or does"),
        ((f"`{path.name}`", first_sentence(path)) for path in modules),
    )
    yield ""


def formulas(module: ModuleType) -> Iterator[str]:
    """The public functions of a family of rules, as their docstrings state them."""
    for name, function in vars(module).items():
        own = inspect.isfunction(function) and function.__module__ == module.__name__
        if own and not name.startswith("_"):
            yield f"- `{name}`: {prose(function.__doc__)}"


def families() -> dict[ModuleType, list[Rule]]:
    """The rules by the module that they are written in."""
    for each in pkgutil.iter_modules(qoslet.core.rules.__path__, "qoslet.core.rules."):
        importlib.import_module(each.name)
    found: dict[ModuleType, list[Rule]] = {}
    for rule in RULES.values():
        found.setdefault(sys.modules[rule.because.__module__], []).append(rule)

    def place(module: ModuleType) -> tuple[int, str]:
        name = module.__name__.rpartition(".")[2]
        return FAMILIES.index(name) if name in FAMILIES else len(FAMILIES), name

    return {module: found[module] for module in sorted(found, key=place)}


def rules() -> Iterator[str]:
    """Every rule, by family: the arithmetic, the ids, an example and the source."""
    seen = sentences()
    for module, own in families().items():
        yield f"### {module.__name__.rpartition('.')[2]}"
        yield ""
        yield prose(module.__doc__)
        yield ""
        yield from formulas(module)
        yield ""
        yield from table(
            ("rule", "for example", "source"),
            ((f"`{rule.id}`", seen.get(rule.id, ""), rule.source) for rule in own),
        )
        yield ""


def profiles() -> Iterator[str]:
    """Every change between releases, and what the design documents say differently."""
    rows = [(f"1.{row.since}", row) for row in ROWS] + [("design", row) for row in DESIGN_ROWS]
    yield from table(
        ("since", "choice", "value", "evidence", "source"),
        (
            (since, f"`{row.choice}`", f"`{row.value}`", row.evidence, row.source)
            for since, row in rows
        ),
    )


def choices() -> Iterator[str]:
    """What a profile chooses, with the value of 1.6."""
    yield from table(
        ("choice", "in 1.6"),
        ((f"`{field.name}`", f"`{field.default}`") for field in structs.fields(ReleaseBehaviour)),
    )


def writers() -> Iterator[str]:
    """Who writes which file of a kubelet's tree, and what resets a value set by hand."""
    yield from table(
        ("level", "files", "writer", "releases", "when", "resets a hand-set value", "source"),
        (
            (
                row.level,
                ", ".join(
                    f"`{start}*`" if start.endswith(".") else f"`{start or '*'}`"
                    for start in row.files
                ),
                row.writer,
                _releases(row),
                row.when,
                row.reset or "never",
                row.source,
            )
            for row in TABLE
        ),
    )


def _releases(row: FileWriter) -> str:
    if row.until < NEWEST:
        return f"to 1.{row.until}" if not row.since else f"1.{row.since}-1.{row.until}"
    return f"since 1.{row.since}" if row.since else "all"


def measured() -> tuple[str, list[Figure]]:
    """The kept run of ``make bench``: where it ran, and its figures."""
    document = json.loads(KEPT.read_text(encoding="utf-8"))
    about = f"{document['machine']}; load {document['load']:.2f} before the run."
    return about, [Figure(**row) for row in document["figures"]]


def figures() -> Iterator[str]:
    """Every figure of the kept run."""
    about, rows = measured()
    yield about
    yield ""
    yield figure_table(rows)


def main_figures() -> Iterator[str]:
    """Those of the kept run that the README shows."""
    about, rows = measured()
    yield figure_table(row for row in rows if row.name in SHOWN)
    yield ""
    yield about


def fleet_growth() -> Iterator[str]:
    """The kept run of ``make bench-fleet``."""
    kept = growth.kept()
    yield f"{kept.date}, {kept.machine}; load {kept.load:.2f} before the run."
    yield ""
    yield from growth.table(kept)


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "layout": layout,
    "rules": rules,
    "profiles": profiles,
    "choices": choices,
    "writers": writers,
    "figures": figures,
    "main figures": main_figures,
    "growth": fleet_growth,
    **memory_forms.PARTS,
    **memory_measured.PARTS,
    **reference_parts.PARTS,
    **phases.PARTS,
}


def current(path: Path) -> str:
    """The page as the code would have it."""

    def fill(match: re.Match[str]) -> str:
        text = "\n".join(PARTS[match["name"]]()).strip()
        return f"{match[1]}\n{text}\n\n{match[3]}"

    return PART.sub(fill, path.read_text(encoding="utf-8"))


MAN_PAGE = ROOT / "docs" / "qoslet.1"


def pages() -> list[Path]:
    """The pages that hold parts from the code."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if PART.search(path.read_text(encoding="utf-8"))]


def main() -> int:
    """Write the pages, or with ``--check`` name those that are out of date."""
    made = {path: current(path) for path in pages()} | {MAN_PAGE: page()} | deploy_parts.files()
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: make docs")
        return int(bool(stale))
    for path in stale:
        path.write_text(made[path], encoding="utf-8")
        print(f"{path.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
