"""The program in this process: arguments and standard input in, exit code and output out."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

ENTRIES = ("qoslet.cli.main", "qoslet.surfaces.cli.entry")
METRICS = ("qoslet.render.metrics", "qoslet.surfaces.metrics")
"""Where a module stands now, then where it stood."""


class Answer(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: bytes
    err: str


def module_of(names: Sequence[str]) -> Any:
    """The first module of ``names`` that this source tree has."""
    for name in names:
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
    raise ModuleNotFoundError(" or ".join(names))


def entry() -> Callable[[Sequence[str]], int]:
    """The program as a function."""
    found: Callable[[Sequence[str]], int] = module_of(ENTRIES).run
    return found


class _Input:
    """Standard input that holds some bytes."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)

    def read(self) -> str:
        return self.buffer.read().decode()

    def isatty(self) -> bool:
        return False


@contextmanager
def _streams(data: bytes) -> Iterator[tuple[io.BytesIO, io.TextIOWrapper, io.StringIO]]:
    out, err = io.BytesIO(), io.StringIO()
    text = io.TextIOWrapper(out, encoding="utf-8", errors="surrogateescape", write_through=True)
    kept = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = _Input(data), text, err
    try:
        yield out, text, err
    finally:
        sys.stdin, sys.stdout, sys.stderr = kept


def ask(arguments: Sequence[str], data: bytes = b"") -> Answer:
    """Run the program on ``arguments``, with ``data`` on its standard input."""
    run = entry()
    with _streams(data) as (out, text, err):
        code = run(list(arguments))
        text.flush()
        printed = out.getvalue()
        text.detach()
    return Answer(code, printed, err.getvalue())


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser of a command, as the program builds it."""
    found: list[argparse.ArgumentParser] = []

    def keep(parser: argparse.ArgumentParser, *_: object, **__: object) -> Any:
        found.append(parser)
        raise SystemExit(0)

    kept = argparse.ArgumentParser.parse_known_args
    argparse.ArgumentParser.parse_known_args = keep  # type: ignore[method-assign, assignment]
    try:
        ask([command])
    finally:
        argparse.ArgumentParser.parse_known_args = kept  # type: ignore[method-assign]
    assert found, f"{command} has no parser"
    return found[-1]
