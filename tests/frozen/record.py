"""Records the answers of a source tree: ``PYTHONPATH=TREE/src:. python -m tests.frozen.record``.

Whoever records anew says what every answer is now: the answers are those of the tree on the path.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.frozen import contract, store
from tests.frozen.answers import asked
from tests.frozen.questions import cases


def main(wanted: list[str]) -> None:
    """Record the groups of these names, or all."""
    documents, groups = cases.inputs(), cases.groups()
    total = store.write_documents(documents)
    contract.write()
    with tempfile.TemporaryDirectory() as folder:
        store.place(documents, Path(folder))
        os.chdir(folder)
        for name, commands in groups.items():
            if wanted and name not in wanted:
                continue
            begun = time.monotonic()
            found = {one.name: one for one in (asked(name, *case) for case in commands)}
            size = store.write(name, found.values())
            total += size
            seconds = time.monotonic() - begun
            sys.stdout.write(f"{name}: {len(found)} answers, {size >> 10} KiB, {seconds:.1f} s\n")
        os.chdir("/")
    sys.stdout.write(f"{total >> 10} KiB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
