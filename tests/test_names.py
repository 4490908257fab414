"""Class names: each once in its room; those of the agent and the host are plain words or entries of
docs/glossary.md."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.paths import DATA, REPO

ROOMS = ("core", "agent", "sim", "host", "render", "app", "cli")
SPELLED = ("agent", "host")
GLOSSARY = REPO / "docs" / "glossary.md"

PLAIN = frozenset((DATA / "plain-words.txt").read_text(encoding="utf-8").split())
"""Words that Kubernetes, the kernel, systemd, the OCI or any engineer use. A new word belongs here
only if a stranger to this code knows what it means; else it is coined and the glossary says it."""

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|V\d|[A-Z][a-z0-9]*|[A-Z]+")


def words(name: str) -> list[str]:
    """The words of a class name, in small letters."""
    return [word.lower() for word in _WORD.findall(name)]


def class_names(room: str) -> Iterator[str]:
    """The classes of a room; those that are generated aside."""
    for path in sorted((REPO / "src" / "qoslet" / room).rglob("*.py")):
        if "pb" not in path.parts:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    yield node.name


def coined() -> set[str]:
    """The words of the glossary."""
    rows = re.findall(r"^\| ([^|]+) \|", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    return {word.strip("` ").lower() for word in rows}


@pytest.mark.parametrize("room", SPELLED)
def test_class_names_are_plain_words_or_in_the_glossary(room: str) -> None:
    known = PLAIN | coined()
    strange = {
        name: [word for word in words(name) if word not in known] for name in class_names(room)
    }
    assert not {name: found for name, found in strange.items() if found}


@pytest.mark.parametrize("room", ROOMS)
def test_no_class_name_stands_twice_in_a_room(room: str) -> None:
    public = Counter(name for name in class_names(room) if not name.startswith("_"))
    assert not [name for name, count in public.items() if count > 1]


def test_a_riddle_is_found() -> None:
    assert words("OCIPodV2Wheel") == ["oci", "pod", "v2", "wheel"]
    assert "wheel" not in PLAIN | coined()
