"""Durations, as each option that takes one reads them."""

from __future__ import annotations

import argparse

import pytest

from qoslet.cli.commands import parser_of
from qoslet.cli.times import duration, span


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("0.5", 0.5), (".5", 0.5), ("1e3", 1000.0), ("90s", 90.0), ("500ms", 0.5), ("1h30m", 5400.0), ("2d", 172800.0)],
)  # fmt: skip
def test_a_duration_is_seconds(text: str, seconds: float) -> None:
    assert duration(text) == span(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "s", "5x", "soon", "nan", "inf", "-1", "1m-2s", "1000000000", "999999999d"]
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a duration such as 10s"):
        span(text)


def test_only_some_options_take_zero() -> None:
    assert span("0s") == 0
    with pytest.raises(argparse.ArgumentTypeError, match="'0s' is not a duration"):
        duration("0s")


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("run", "x", "--for", "1m30s"), "seconds"),
        (("run", "x", "--interval", "1m30s"), "interval"),
        (("agent", "--for", "1m30s"), "seconds"),
        (("agent", "--interval", "1m30s"), "interval"),
        (("nri", "--for", "1m30s"), "seconds"),
        (("top", "--interval", "1m30s"), "interval"),
        (("web", "--interval", "1m30s"), "interval"),
        (("audit", "--interval", "1m30s"), "interval"),
        (("record", "x", "--interval", "1m30s"), "interval"),
        (("record", "x", "--for", "1m30s"), "seconds"),
        (("logs", "x", "--since", "1m30s"), "since"),
    ],
)
def test_every_option_takes_them(words: tuple[str, ...], field: str) -> None:
    assert getattr(parser_of(words[0]).parse_args(words[1:]), field) == 90.0
