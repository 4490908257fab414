"""Prints the sentences that are not as they were frozen: ``python -m tests.frozen.wording``."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.frozen import store
from tests.frozen.answers import MACHINE, asked, compared


def main() -> None:
    """Each pair of sentences once, with the place where it was met first."""
    seen: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        store.place(store.read_documents(), Path(folder))
        os.chdir(folder)
        for group in store.groups():
            if group == MACHINE:
                continue
            for was in store.read(group):
                for one in compared(was, asked(group, was.argv, was.stdin)):
                    pair = f"- {one.was}\n+ {one.now}\n"
                    if one.wording and pair not in seen:
                        seen.add(pair)
                        sys.stdout.write(f"{one.place} ({was.name})\n{pair}")
        os.chdir("/")
    sys.stdout.write(f"{len(seen)} sentences are others\n")


if __name__ == "__main__":
    main()
