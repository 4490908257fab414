"""The changelog's fragments: towncrier prints each of them, and each is short."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import REPO

FRAGMENTS = sorted(path for path in (REPO / "changes").iterdir() if path.name[0] != ".")
NAME = re.compile(r"(\+[a-z0-9-]+|\d+)\.(added|changed|fixed|removed)\.md")
RELEASE = re.compile(r"^## \d", re.MULTILINE)


def test_the_draft_holds_every_fragment() -> None:
    program = Path(sys.executable).with_name("towncrier")
    words = [str(program), "build", "--draft", "--version", "1.2.3"]
    done = subprocess.run(words, cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = "".join(done.stdout.split())
    assert "##1.2.3" in printed
    assert len(FRAGMENTS) > 20
    texts = {path.name: path.read_text(encoding="utf-8") for path in FRAGMENTS}
    assert not [name for name, text in texts.items() if "".join(text.split()) not in printed]


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("+x.added.md", True),
        ("13.fixed.md", True),
        ("+x.feature.md", False),
        ("+x.added", False),
        ("x.added.md", False),
        ("13.upgrade.added.md", False),
    ],
)
def test_the_names_that_towncrier_reads(name: str, fits: bool) -> None:
    assert bool(NAME.fullmatch(name)) is fits


def test_nothing_is_fixed_before_the_first_release() -> None:
    fixed = [path.name for path in FRAGMENTS if ".fixed." in path.name]
    released = RELEASE.search((REPO / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert released or not fixed, "edit the fragment of what is not released yet"


def test_fragments_are_named_by_kind_and_short() -> None:
    wrong = [path.name for path in FRAGMENTS if not NAME.fullmatch(path.name)]
    assert not wrong, "towncrier leaves them out: +NAME.added.md, or changed, fixed, removed"
    assert not [path.name for path in FRAGMENTS if len(path.read_text()) > 600]
