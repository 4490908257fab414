"""`python rewrite.py FOLDER...`: compiles the tests in folders as pytest does when it imports them.

Runs with the Python that will import them, and finds pytest on its path."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from _pytest.assertion import rewrite

_PATTERNS = ("conftest.py", "test_*.py")
_NO_CONFIG: Any = None


def main(folders: list[str]) -> None:
    """Writes the compiled module of each test beside it."""
    for pattern in _PATTERNS:
        for source in (found for one in folders for found in Path(one).rglob(pattern)):
            source_hash, code = rewrite._rewrite_test(source, _NO_CONFIG)
            place = source.parent / "__pycache__" / (source.stem + rewrite.PYC_TAIL)
            place.parent.mkdir(exist_ok=True)
            with place.open("wb") as file:
                rewrite._write_pyc_fp(file, source_hash, code)


if __name__ == "__main__":
    main(sys.argv[1:])
