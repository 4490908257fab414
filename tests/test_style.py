"""Style, types and import contracts, as tests: one command checks a change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
CODE = ("src", "bench", "docs", "tests")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(("ruff", "check", "--quiet", *CODE), id="ruff check"),
        pytest.param(("ruff", "format", "--check", "--quiet", *CODE), id="ruff format"),
        pytest.param(("mypy",), id="mypy"),
        pytest.param(("lint-imports",), id="lint-imports"),
    ],
)
def test_tool_finds_nothing(tool: tuple[str, ...]) -> None:
    program, *arguments = tool
    env = {**os.environ, "PYTHONPATH": "src", "NO_COLOR": "1"}
    command = [str(BIN / program), *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode:
        pytest.fail(f"{' '.join(tool)} (`make lint`, `make fmt`)\n{done.stdout}{done.stderr}")
