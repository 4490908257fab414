"""Shares as people read them."""

from __future__ import annotations

import pytest

from qoslet.core.diff.diff import percents


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (0.21, 0.2, ("21%", "20%")),
        (0.194, 0.189, ("19.4%", "18.9%")),
        (0.0012, 0.00114, ("0.12%", "0.11%")),
        (0.0012, 0.001186, ("0.120%", "0.119%")),
    ],
)
def test_shares_have_the_digits_that_tell_them_apart(
    before: float, after: float, shown: tuple[str, str]
) -> None:
    assert percents(before, after) == shown
