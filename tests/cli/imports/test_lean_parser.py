"""The parser matches arguments as argparse does, with the patterns left out."""

from __future__ import annotations

import argparse
import subprocess
import sys
from itertools import product

import pytest

from qoslet.cli.parser import Parser
from tests.cli.fixtures import environment
from tests.paths import REPO

PATTERNS = ["".join(letters) for size in range(5) for letters in product("AO-", repeat=size)]
"""What argparse makes of arguments: A for a value, O for an option, - for the two dashes."""


@pytest.fixture(scope="module")
def parser() -> Parser:
    """A parser with both kinds of argument."""
    made = Parser("qoslet", "", "", None)
    made.add_argument("--one")
    made.add_argument("paths", nargs="*")
    return made


def counted(match: object, *given: object) -> object:
    """What a matching gives, or its fault."""
    assert callable(match)
    try:
        return match(*given)
    except argparse.ArgumentError as error:
        return str(error)


def test_an_option_of_one_value_takes_what_argparse_takes(parser: Parser) -> None:
    usual = argparse.ArgumentParser._match_argument
    option = next(one for one in parser._actions if one.dest == "one")
    for pattern in PATTERNS:
        wanted = counted(usual, parser, option, pattern)
        assert counted(parser._match_argument, option, pattern) == wanted, pattern


def test_arguments_take_what_argparse_gives_them(parser: Parser) -> None:
    usual = argparse.ArgumentParser._match_arguments_partial
    paths = [one for one in parser._actions if one.dest == "paths"]
    for actions in (paths, [], paths * 2):
        for pattern in PATTERNS:
            wanted = usual(parser, actions, pattern)
            assert parser._match_arguments_partial(actions, pattern) == wanted, pattern


@pytest.mark.parametrize("value", ["-", "-5", "-.5", "-5.5", "-²", "-٣", "--5", "-a", ""])
def test_negative_numbers_are_arguments(value: str) -> None:
    code = (
        "from qoslet.cli.lean_imports import import_argparse, import_msgspec\n"
        "import_msgspec(); import_argparse(); import argparse, re, sys\n"
        "late = argparse.ArgumentParser()._negative_number_matcher\n"
        "assert type(late).__name__ == '_Number', type(late)\n"
        "real = re.compile(*late._given)\n"
        "assert bool(late.match(sys.argv[1])) == bool(real.match(sys.argv[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, value], env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_plan_needs_no_pattern(hierarchy: str) -> None:
    code = (
        "import os, sys\nfrom qoslet.cli import main\n"
        f"os.chdir({str(REPO)!r})\n"
        "before = set(sys.modules)\n"
        "sys.argv[1:] = ['plan', '-f', 'bench/pod.json', '-o', 'json', '--kubernetes', '1.36',"
        f" '--hierarchy', {hierarchy!r}]\n"
        "os._exit = lambda code: None\n"
        "try:\n    main.main()\nexcept SystemExit: pass\n"
        "print({'re', 'warnings'} & set(sys.modules) - before, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )
    assert done.stderr.splitlines()[-1] == "set()", done.stderr
