"""Every vector of tests/data/rules.json against our functions, or listed with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.vectors import table
from tests.core.vectors.runners.dispatch import RUNNERS
from tests.core.vectors.vectors import (
    NOT_APPLICABLE,
    RUN_ELSEWHERE,
    Vector,
    exemption,
    minors,
    vectors,
)

ALL = vectors()
HERE = [v for v in ALL if v.fn in RUNNERS and exemption(v) is None]


@pytest.mark.parametrize("vector", HERE, ids=lambda vector: vector.id)
def test_vector(vector: Vector) -> None:
    for minor in minors(vector):
        found, wanted = RUNNERS[vector.fn](vector, minor)
        assert found == wanted, f"1.{minor}"


def test_every_vector_runs_or_says_why_not() -> None:
    for vector in ALL:
        places = [vector.fn in RUNNERS, vector.fn in RUN_ELSEWHERE]
        exempt = exemption(vector) is not None
        assert sum(places) == 1 or (exempt and not any(places)), vector.id


def test_counts_add_up() -> None:
    rows = table.rows()
    assert sum(row.vectors for row in rows) == len(ALL) == 1059
    assert all(row.vectors == row.run + row.not_applicable for row in rows)
    assert all(bool(row.why) for row in rows if row.not_applicable)


def test_every_exemption_is_used() -> None:
    for row in NOT_APPLICABLE:
        assert any(exemption(vector) is row for vector in ALL), row.fn


@pytest.mark.parametrize("fn", RUN_ELSEWHERE)
def test_what_runs_elsewhere_does(fn: str) -> None:
    text = (Path(__file__).parents[1] / RUN_ELSEWHERE[fn]).read_text()
    assert f'vectors("{fn}")' in text


def test_table_holds_the_sum() -> None:
    lines = list(table.table())
    assert len(lines) == 2 + len({vector.fn for vector in ALL}) + 1
    assert lines[-1].startswith("| **all** | 1059 |")


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ("", [36]),
        ("1.22-1.26", [22, 23, 24, 25, 26]),
        (">=1.36", [36, 37]),
        ("<=1.8", [6, 7, 8]),
        ("1.36 (1.37 also adds nothing for high)", [36]),
        ("all releases up to at least 1.36", [36]),
        ("crun >=1.23", [36]),
    ],
)
def test_span_of_a_vector(versions: str, expected: list[int]) -> None:
    assert minors(Vector("a/b", "a", {}, None, versions)) == expected
