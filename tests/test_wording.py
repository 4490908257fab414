"""What qoslet says is plain: no text for users has one of the turns that readers stumble over.

Read are all string constants of ``src`` that hold more than one word, docstrings left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paths import REPO

SOURCE = REPO / "src" / "qoslet"

TICS = re.compile(
    r"\b(?:is|are|was|were) told\b"
    r"|\b(?:is|are|was|were) no (?!longer\b|more\b)"
    r"|\banew\b"
    r"|\bof (?:one's|its|their) own\b"
    r"|\b(?:some|any|every|no)body\b|\bwho(?:so)?ever\b"
    r"|\bof before\b"
    r"|, too\b"
    r"|\bof ours\b|\bmended?\b|\btaken? (?:up|back)\b|\bworth nothing\b"
)
"""Instead: the active voice with its subject, "is not a …", again, exclusive or separate, another
process or no process, the previous, also."""

ALLOWED: dict[str, str] = {}
"""A text that may stay, and why."""


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every string constant that is not a docstring, with its line."""
    statements = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in statements:
            continue
        if isinstance(node.value, str):
            yield node.lineno, node.value


def said(path: Path) -> Iterator[str]:
    for line, text in texts(ast.parse(path.read_text(encoding="utf-8"))):
        found = TICS.search(text)
        if found and " " in text.strip() and text not in ALLOWED:
            yield f"{path.relative_to(REPO)}:{line}: {found.group()!r} in {text[:100]!r}"


def test_no_text_has_a_tic() -> None:
    wrong = [row for path in sorted(SOURCE.rglob("*.py")) for row in said(path)]
    assert not wrong, "\n".join(wrong)


def test_what_is_allowed_is_there() -> None:
    known = {
        text
        for path in SOURCE.rglob("*.py")
        for _, text in texts(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert not ALLOWED.keys() - known


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x is no DNS name", True),
        ("the unit is told", True),
        ("it is made anew", True),
        ("a cgroup of its own", True),
        ("somebody wrote it", True),
        ("it is read, too", True),
        ("values of before", True),
        ("x is no longer planned", False),
        ("x is not a DNS name", False),
        ("too many pods", False),
    ],
)
def test_the_check_bites(text: str, found: bool) -> None:
    assert bool(TICS.search(text)) is found
