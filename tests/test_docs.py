"""What the documents show is what the program does.

A fenced ``console`` block is run in the repository's root, line by line: ``$`` starts a command,
what follows is its output (standard error too), where ``...`` stands for any text within a line
and alone on a line for any lines. A block under ``<!-- not run: reason -->`` is left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.memory import memqos, memqosdraw
from docs.generate import __main__ as generate
from docs.pictures import growth, render, throttling
from qoslet.core.node.node import HostFacts
from tests.frozen import counts

ROOT = Path(__file__).parents[1]


def pages_of(root: Path) -> list[Path]:
    """The README and every page below ``docs``."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


PAGES = pages_of(ROOT)

BLOCK = re.compile(
    r"(?P<exempt><!-- not run: (?P<reason>[^>]+) -->\n+)?^```console\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def named(path: Path) -> str:
    """A page as it is called from the repository's root."""
    return path.relative_to(ROOT).as_posix()


class Example(NamedTuple):
    """One command of a page with the output that the page promises."""

    place: str
    command: str
    expected: str


class Page(NamedTuple):
    """The commands of a page, and the reasons why some of its blocks are not run."""

    examples: list[Example]
    exempt: list[str]


def commands(block: str, place: str) -> Iterator[Example]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        command = [lines.pop(0)]
        while command[-1].endswith("\\") and lines:
            command.append(lines.pop(0).removeprefix("> "))
        yield Example(place, "\n".join(command), "\n".join(lines).strip("\n"))


def page_of(path: Path) -> Page:
    text, page = path.read_text(encoding="utf-8"), Page([], [])
    for match in BLOCK.finditer(text):
        if match["exempt"]:
            page.exempt.append(match["reason"])
            continue
        place = f"{named(path)}:{text.count(chr(10), 0, match.start('text')) + 1}"
        page.examples.extend(commands(match["text"], place))
    return page


def pattern(expected: str) -> re.Pattern[str]:
    """The output that ``expected`` allows; spaces at the ends of lines mean nothing, and no line
    stands for a failure."""
    parts = []
    for line in expected.splitlines():
        if line.strip() == "...":
            parts.append(r"(?:(?!\[exit ).*\n)*?")
        else:
            parts.append(".*?".join(map(re.escape, line.rstrip().split("..."))) + r"[ ]*\n")
    return re.compile("".join(parts))


def run(command: str) -> str:
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", "/"),
        "COLUMNS": "80",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "PYTHONPATH": str(ROOT / "src"),
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
    )
    return done.stdout if done.returncode == 0 else f"{done.stdout}[exit {done.returncode}]\n"


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_examples_print_what_the_page_shows(path: Path, tmp_path: Path) -> None:
    own = f"{tmp_path}/"
    for example in page_of(path).examples:
        # what a page writes to /tmp goes with the test
        printed = run(re.sub(r"(?<!\w)/tmp/", own, example.command)).replace(own, "/tmp/")
        assert pattern(example.expected).fullmatch(printed), (
            f"{example.place}: $ {example.command}\nthe page:\n{example.expected}\n"
            f"the program:\n{printed}"
        )


def test_documents_hold_examples_that_run() -> None:
    pages = {named(path): page_of(path) for path in PAGES}
    executed = sum(len(page.examples) for page in pages.values())
    exempt = [f"{name}: {reason}" for name, page in pages.items() for reason in page.exempt]
    assert pages["README.md"].examples
    assert executed > len(exempt), exempt
    assert executed >= counts.written()["documents"]["all"]


def test_pages_are_read_from_every_folder(tmp_path: Path) -> None:
    inner = tmp_path / "docs/how/deep"
    inner.mkdir(parents=True)
    (inner / "page.md").write_text("")
    assert pages_of(tmp_path) == [tmp_path / "README.md", inner / "page.md"]
    shown = {named(path): len(page_of(path).examples) for path in PAGES}
    assert counts.documented(ROOT) == {name: count for name, count in shown.items() if count}


@pytest.mark.parametrize(
    ("expected", "printed", "fits"),
    [
        ("a\nb", "a\nb\n", True),
        ("a\nb", "a\nb\nc\n", False),
        ("a\n...\nd", "a\nb\nc\nd\n", True),
        ("a\n...", "a\n", True),
        ("a ... c", "a much c\n", True),
        ("a ... c", "a\nc\n", False),
        ("a.c", "abc\n", False),
        ("", "", True),
        ("", "surprise\n", False),
    ],
)
def test_the_comparison_bites(expected: str, printed: str, fits: bool) -> None:
    assert (pattern(expected).fullmatch(printed) is not None) is fits


def test_links_lead_somewhere() -> None:
    wrong = [
        f"{named(path)}: {target}"
        for path in PAGES
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8"))
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert not wrong


MADE = frozenset((".cache/vm", "bench/memory/hog", "qoslet/v1"))
"""What looks like a path of the checkout and is made by a command, or is none."""

FILE = re.compile(r"\.?[\w*-]+(/[\w.*-]+)+/?|[\w-]+\.(py|md|toml)")


@pytest.mark.parametrize("path", sorted((ROOT / "docs/development").glob("*.md")), ids=named)
def test_files_that_the_pages_of_development_name_exist(path: Path) -> None:
    words = set(re.findall(r"`([^`\n]+)`", path.read_text(encoding="utf-8"))) - MADE
    roots = (ROOT, ROOT / "src/qoslet", path.parent)
    wrong = [
        word
        for word in sorted(words)
        if FILE.fullmatch(word)
        and not any(list(root.glob(word.rstrip("/"))) for root in roots)
        and not ("/" not in word and list((ROOT / "tests").rglob(word)))
    ]
    assert not wrong


def test_tests_that_the_page_of_testing_names_exist() -> None:
    page = (ROOT / "docs/development/testing.md").read_text()
    named = [name for name in re.findall(r"`(\w*…[\w…]*|test_\w+)`", page) if len(name) > 1]
    sources = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    defined = " ".join(re.findall(r"def (test_\w+)", "".join(sources)))
    assert len(named) > 15
    assert not [name for name in named if not re.search(name.replace("…", r"\w*") + r"\b", defined)]


def test_modules_that_docstrings_name_exist() -> None:
    source = ROOT / "src/qoslet"
    rooms = "|".join(sorted(path.name for path in source.iterdir() if path.is_dir()))
    fields = {f"host.{name}" for name in HostFacts.__struct_encode_fields__}
    wrong = []
    for path in sorted(source.rglob("*.py")):
        for word in re.findall(rf"``((?:{rooms})(?:\.\w+)+)``", path.read_text(encoding="utf-8")):
            module = source / word.replace(".", "/")
            there = any(one.with_suffix(".py").exists() for one in (module, module.parent))
            if not (there or module.is_dir() or word in fields or word == "agent.sock"):
                wrong.append(f"{named(path)}: {word}")
    assert not wrong


@pytest.mark.parametrize("path", generate.pages(), ids=named)
def test_parts_from_the_code_are_current(path: Path) -> None:
    assert generate.current(path) == path.read_text(encoding="utf-8"), "make docs writes it"


def test_index_names_every_page() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    names = {path.relative_to(ROOT / "docs").as_posix() for path in PAGES[1:]} - {"index.md"}
    assert not [name for name in sorted(names) if f"]({name})" not in index]


def test_picture_is_current() -> None:
    assert render.picture() == render.PICTURE.read_text(encoding="utf-8"), "make docs draws it"


def test_curves_are_drawn_from_what_was_measured(tmp_path: Path) -> None:
    kept = ROOT / "docs/pictures"
    memqosdraw.draw(memqos.RESULTS, tmp_path)
    for picture in memqosdraw.PICTURES:
        assert (tmp_path / picture.file).read_text() == (kept / picture.file).read_text(), (
            "python -m bench.memory.memqos draw"
        )


def test_growth_is_drawn_from_what_was_measured() -> None:
    assert growth.picture() == growth.PICTURE.read_text(encoding="utf-8"), "make docs draws it"


def test_neighbours_are_drawn_from_what_was_measured() -> None:
    made = throttling.PICTURE.read_text(encoding="utf-8")
    assert throttling.picture() == made, "make docs draws it"


def test_every_picture_is_shown() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    names = [path.name for path in sorted((ROOT / "docs/pictures").glob("*.svg"))]
    assert not [name for name in names if f"pictures/{name})" not in pages]
