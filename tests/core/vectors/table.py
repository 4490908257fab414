"""The table of what ran of tests/data/rules.json: ``python -m tests.core.vectors.table``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from msgspec import Struct

from tests.core.vectors.runners.dispatch import RUNNERS
from tests.core.vectors.vectors import RUN_ELSEWHERE, Vector, exemption, minors, vectors


class Row(Struct):
    """One rule: how many vectors, how many of them run, and why others do not.

    ``cases`` counts a vector once for each release that it is run under.
    """

    fn: str
    vectors: int = 0
    run: int = 0
    cases: int = 0
    not_applicable: int = 0
    why: str = ""


def rows() -> list[Row]:
    """One row a rule, in the order of the data."""
    found: dict[str, Row] = {}
    for vector in vectors():
        row = found.setdefault(vector.fn, Row(vector.fn))
        row.vectors += 1
        exempt = exemption(vector)
        if exempt is not None:
            row.not_applicable += 1
            row.why = exempt.why
        elif vector.fn in RUN_ELSEWHERE:
            row.run += 1
            row.cases += 1
            row.why = f"run by {RUN_ELSEWHERE[vector.fn]}"
        elif vector.fn in RUNNERS:
            row.run += 1
            row.cases += len(minors(vector))
    return list(found.values())


def failing(vector: Vector) -> list[str]:
    """What differs from a vector, by release."""
    found = []
    for minor in minors(vector):
        got, wanted = RUNNERS[vector.fn](vector, minor)
        if got != wanted:
            found.append(f"1.{minor}: got {got}, not {wanted}")
    return found


def table() -> Iterator[str]:
    """The Markdown lines, the sum last."""
    made = rows()
    yield "| fn | vectors | run | cases by release | not applicable | why |"
    yield "|---|---|---|---|---|---|"
    total = Row("**all**")
    for row in made:
        for name in ("vectors", "run", "cases", "not_applicable"):
            setattr(total, name, getattr(total, name) + getattr(row, name))
    for row in (*made, total):
        cells = (row.fn, row.vectors, row.run, row.cases, row.not_applicable, row.why)
        yield "| " + " | ".join(str(cell) for cell in cells) + " |"


if __name__ == "__main__":
    sys.stdout.write("\n".join(table()) + "\n")
