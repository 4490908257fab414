"""The changelog's fragments: towncrier prints each of them, and each is short."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.paths import REPO

FRAGMENTS = sorted((REPO / "changes").glob("*.md"))
NAME = re.compile(r"(\+[a-z0-9-]+|\d+)(\.[a-z0-9-]+)?\.(added|changed|fixed|removed)(\.\d+)?\.md")


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


def test_fragments_are_named_by_kind_and_short() -> None:
    assert not [path.name for path in FRAGMENTS if not NAME.fullmatch(path.name)]
    assert not [path.name for path in FRAGMENTS if len(path.read_text()) > 600]
