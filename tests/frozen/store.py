"""Where the frozen answers lie, and how: a line of JSON an answer, compressed, sorted."""

from __future__ import annotations

import lzma
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

FROZEN = Path(__file__).parents[1] / "data" / "frozen"
DOCUMENTS = "documents"


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command with what it answered. ``out`` is the document that it printed, or its text;
    ``form`` says how the document was written: ``pretty`` is the usual JSON, ``yaml`` YAML."""

    argv: list[str]
    code: int
    form: str = "text"
    out: Any = ""
    stdin: str = ""

    @property
    def name(self) -> str:
        """The command as a person would type it."""
        return " ".join(self.argv) + (f" < {self.stdin}" if self.stdin else "")


def groups() -> list[str]:
    """The groups that are kept."""
    names = sorted(path.name.removesuffix(".jsonl.xz") for path in FROZEN.glob("*.jsonl.xz"))
    return [name for name in names if name != DOCUMENTS]


def _path(group: str) -> Path:
    return FROZEN / f"{group}.jsonl.xz"


@lru_cache(maxsize=2)
def read(group: str) -> list[Asked]:
    """The answers of a group."""
    lines = lzma.decompress(_path(group).read_bytes()).splitlines()
    return [msgspec.json.decode(line, type=Asked) for line in lines]


def write(group: str, answers: Iterable[Asked]) -> int:
    """Keep the answers of a group; the bytes that it takes."""
    rows = sorted(answers, key=lambda one: one.name)
    return _write(group, b"".join(msgspec.json.encode(one) + b"\n" for one in rows))


def _write(group: str, data: bytes) -> int:
    FROZEN.mkdir(parents=True, exist_ok=True)
    packed = lzma.compress(data, preset=9)
    _path(group).write_bytes(packed)
    return len(packed)


def read_documents() -> dict[str, str]:
    """The input files by name."""
    data = lzma.decompress(_path(DOCUMENTS).read_bytes())
    return dict(map(msgspec.json.decode, data.splitlines()))


def write_documents(documents: dict[str, str]) -> int:
    """Keep the input files; the bytes that they take."""
    rows = (msgspec.json.encode(row) + b"\n" for row in sorted(documents.items()))
    return _write(DOCUMENTS, b"".join(rows))


def place(documents: dict[str, str], folder: Path) -> None:
    """Write the input files."""
    for name, text in documents.items():
        (folder / name).write_text(text, encoding="utf-8")
