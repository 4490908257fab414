"""qoslet's own finder finds what Python's would, and leaves the rest to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.fixtures import environment

BEGIN = """
import sys
import own
from qoslet.cli.own_modules import find_own_modules
before = len(sys.meta_path)
find_own_modules("own")
ours = len(sys.meta_path) > before
"""
FACTS = """
import own.below.leaf as leaf, own.below as below
print(leaf.VALUE, leaf.__file__, leaf.__cached__, below.__file__, list(below.__path__),
      leaf.__package__, leaf.__spec__.parent, leaf.read.__code__.co_filename,
      leaf.__spec__.loader.get_source("own.below.leaf") == open(leaf.__file__).read())
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with a folder and a module in it."""
    below = tmp_path / "own" / "below"
    below.mkdir(parents=True)
    (tmp_path / "own" / "__init__.py").write_text("")
    (below / "__init__.py").write_text("")
    write(below / "leaf.py", "first")
    return tmp_path


def write(path: Path, value: str) -> None:
    """A module with a value."""
    path.write_text(f"VALUE = {value!r}\ndef read(): return VALUE\n")


def python(package: Path, code: str, *options: str, **more: str) -> str:
    """What code prints in an interpreter of its own."""
    given = {key: value for key, value in environment().items() if key != "PYTHONDONTWRITEBYTECODE"}
    given["PYTHONPATH"] = f"{given['PYTHONPATH']}:{package}"
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        env={**given, **more},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_module_has_what_python_gives_it(package: Path) -> None:
    usual = python(package, FACTS)
    assert python(package, BEGIN + "assert ours\n" + FACTS) == usual


def test_a_source_without_its_compiled_form_is_compiled_and_kept(package: Path) -> None:
    assert python(package, BEGIN + FACTS).startswith("first ")
    tail = f"leaf.{sys.implementation.cache_tag}.pyc"
    assert (package / "own/below/__pycache__" / tail).is_file()


@pytest.mark.parametrize("later", [0, 7])
def test_a_changed_source_counts(package: Path, later: int) -> None:
    leaf = package / "own/below/leaf.py"
    python(package, BEGIN + FACTS)
    before = leaf.stat().st_mtime
    write(leaf, "other" if later else "longer value")
    os.utime(leaf, (before + later, before + later))
    assert python(package, BEGIN + "import own.below.leaf as leaf; print(leaf.VALUE)") == (
        "other\n" if later else "longer value\n"
    )


@pytest.mark.parametrize("content", [b"", b"\0" * 16, b"\0" * (1 << 17)])
def test_a_damaged_compiled_form_does_not_count(package: Path, content: bytes) -> None:
    python(package, BEGIN + FACTS)
    (compiled,) = (package / "own/below/__pycache__").glob("leaf.*")
    compiled.write_bytes(content)
    assert python(package, BEGIN + FACTS).startswith("first ")


def test_a_long_module_is_loaded(package: Path) -> None:
    leaf = package / "own/below/leaf.py"
    leaf.write_text(leaf.read_text() + f"LONG = {'x' * 100_000!r}\n")
    for _ in range(2):
        assert python(package, BEGIN + FACTS).startswith("first ")


def test_compiled_forms_elsewhere_are_left_to_python(package: Path) -> None:
    code = BEGIN + "print(ours)"
    assert python(package, code, "-O") == "False\n"
    elsewhere = str(package / "compiled")
    assert python(package, code, PYTHONPYCACHEPREFIX=elsewhere) == "False\n"


def test_a_missing_module_is_missing(package: Path) -> None:
    code = (
        "try:\n    import own.below.absent\nexcept ModuleNotFoundError as error: print(error.name)"
    )
    assert python(package, BEGIN + code) == "own.below.absent\n"


def test_the_program_uses_it() -> None:
    code = (
        "import os, sys\nfrom qoslet.cli import main\n"
        "sys.argv[1:] = ['version']\nos._exit = lambda code: None\n"
        "try:\n    main.main()\nexcept SystemExit: pass\n"
        "print(type(sys.modules['qoslet.cli.help.version'].__spec__.loader).__module__)"
    )
    assert python(Path("/"), code).splitlines()[-1] == "qoslet.cli.own_modules"
