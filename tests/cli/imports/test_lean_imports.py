"""What is left out of an import is there for whoever asks for it later."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.fixtures import environment
from tests.paths import REPO

LEFT_OUT = """
assert not {"decimal", "uuid", "gettext", "platform", "textwrap", "msgspec.inspect"} & loaded
assert not {"re", "warnings"} & loaded - before, loaded
"""
REAL_ONES = """
import argparse, datetime, decimal, gettext, msgspec, re, typing, uuid, warnings
assert type(re) is type(warnings) is type(uuid)
assert (typing.Pattern.__origin__, typing.Match.__origin__) == (re.Pattern, re.Match)
assert (argparse._re.sub("a", "b", "aa"), argparse._re.ASCII) == ("bb", re.ASCII)
assert argparse._re.compile(r"\\s+", re.ASCII).sub(" ", "a  b") == "a b"
text = msgspec.json.Decoder(typing.Annotated[str, msgspec.Meta(pattern="^a+$")])
assert text.decode('"aa"') == "aa"
try:
    text.decode('"b"')
except msgspec.ValidationError:
    pass
else:
    raise AssertionError("the pattern does not count")
from msgspec import inspect
assert not hasattr(msgspec, "other")
assert {msgspec.toml.decode("a = 1")["a"], msgspec.yaml.decode("1")} == {1}
assert inspect.type_info(int) == inspect.IntType()
assert msgspec.msgpack.encode(1) == b"\\x01"
from msgspec.yaml import decode
assert msgspec.json.schema(int) == {"type": "integer"}
assert msgspec.json.schema_components([int])[0] == ({"type": "integer"},)
assert msgspec.json.encode(datetime.date(2026, 1, 2)) == b'"2026-01-02"'
assert (decimal.Decimal(1), uuid.UUID(int=1).int, gettext.gettext("a")) == (1, 1, "a")
"""


def python(code: str) -> None:
    """Run code in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_real_modules_come_later() -> None:
    python(
        "import sys; before = set(sys.modules)\n"
        "from qoslet.cli.lean_imports import import_argparse, import_msgspec\n"
        "import_msgspec(); import_argparse(); loaded = set(sys.modules)\n" + LEFT_OUT + REAL_ONES
    )


def test_no_syntax_tree_is_prepared() -> None:
    python(
        "import typing; real = typing.ForwardRef\n"
        "from qoslet.cli.lean_imports import import_msgspec\n"
        "import_msgspec()\n"
        "assert typing.ForwardRef is real\n"
        "assert 'AST' not in {one.__name__ for one in object.__subclasses__()}\n"
    )


@pytest.mark.parametrize("wanted", ["uuid", "decimal", "msgspec._json_schema"])
def test_a_stand_in_that_does_not_fit_is_not_used(wanted: str) -> None:
    python(
        "from qoslet.cli import lean_imports as lean\n"
        "apart = lean._beside_msgspec()\n"
        f"apart[{wanted!r}] = lean._StandIn()\n"
        "lean._beside_msgspec = lambda: apart\n"
        "lean.import_msgspec(); import msgspec\n" + REAL_ONES
    )


def test_what_is_imported_already_stays() -> None:
    python(
        "import decimal, msgspec, uuid; from qoslet.cli.lean_imports import import_msgspec\n"
        "import_msgspec()\n"
        'wanted = b\'["1","00000000-0000-0000-0000-000000000001"]\'\n'
        "assert msgspec.json.encode([decimal.Decimal(1), uuid.UUID(int=1)]) == wanted\n"
    )


RARE = (
    "qoslet.core.api.input.unknown_fields", "qoslet.core.managers.container_manager",
    "qoslet.core.managers.checkpoint", "qoslet.core.memory.effective_protection",
    "qoslet.core.oci.crun", "qoslet.core.oci.runc_update", "qoslet.core.oci.unified",
    "qoslet.core.plan.manager_problems", "qoslet.core.plan.memory_problems",
    "qoslet.core.pressure.throttle_guard", "qoslet.host.files.manifest_names",
    "qoslet.core.resources.windows", "qoslet.core.rules.windows",
    "qoslet.core.cgroup.tree_owner", "qoslet.core.cgroup.keyed_files",
    "bisect", "math",
)  # fmt: skip
MODULES = {"plan": 114, "version": 16}
"""The most modules of qoslet that a command imports."""


@pytest.mark.parametrize(
    ("command", "options"),
    [("plan", ("-f", "bench/pod.json", "-o", "json", "--kubernetes", "1.36")), ("version", ())],
)
def test_a_command_imports_what_it_uses(command: str, options: tuple[str, ...]) -> None:
    python(
        "import contextlib, io, os, sys; from qoslet.cli.main import run\n"
        f"os.chdir({str(REPO)!r})\n"
        "said = io.TextIOWrapper(io.BytesIO(), 'utf-8')\n"
        "with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):\n"
        f"    code = run({[command, *options]!r})\n"
        "own = {name for name in sys.modules if name.partition('.')[0] == 'qoslet'}\n"
        f"rare = set(sys.modules) & set({RARE!r})\n"
        "assert (code, rare) == (0, set()), (code, rare)\n"
        f"assert len(own) <= {MODULES[command]}, len(own)\n"
    )


HELP = 9
"""The most modules of qoslet that the overview imports; of others it needs none."""


@pytest.mark.parametrize("options", [("--help",), ("help",), ()])
def test_the_overview_imports_nothing_but_its_words(options: tuple[str, ...]) -> None:
    python(
        "import contextlib, io, sys; before = set(sys.modules)\n"
        "from qoslet.cli.main import run\n"
        "said = io.TextIOWrapper(io.BytesIO(), 'utf-8')\n"
        "with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):\n"
        f"    run({list(options)!r})\n"
        "loaded = set(sys.modules) - before\n"
        "own = {name for name in loaded if name.partition('.')[0] == 'qoslet'}\n"
        "assert loaded - own <= {'__future__'}, loaded - own\n"
        f"assert 'qoslet.errors' not in own and len(own) <= {HELP}, own\n"
    )
