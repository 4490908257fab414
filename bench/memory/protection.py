"""What memory protection is worth to pods with warm page cache beside a best-effort hog: refaults and
latency with and without it, with and without swap, and nobody ended by qoslet.

In a guest: ``make vm-run SYSTEM=trixie CMD='python3 -m bench.memory.protection'``. Prints a table and
writes ``/out/protection.json``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.memory.memqos import number
from bench.memory.pressed import MIB, SERVING, Node, cached, milliseconds, node, stat, until
from tests.live.memory.node_load import kibibytes

FORMS = {"without": ("--memory-qos", "off"), "with": ("--memory-qos", "qoslet")}
SWAP = Path("/var/tmp/swap")
SECONDS = 40.0


def holds(made: Node) -> float:
    """MiB of the hog, swapped out or not; 0 where it is gone."""
    files = ("memory.current", "memory.swap.current")
    return sum(number(Path(made.group("hog")), file) or 0 for file in files) / MIB


def spare(made: Node) -> int:
    """MiB that can be had without taking from the pods."""
    return kibibytes("MemAvailable") // 1024 - sum(size for size, _ in SERVING.values())


def measure(options: tuple[str, ...], wanted: Callable[[Node], int]) -> dict[str, Any]:
    """The load under one form, with a hog that wants so many MiB."""
    Path("/proc/sys/vm/drop_caches").write_text("3")
    with node("--guard", "off", *options) as made:
        made.warm(10.0)
        amount = wanted(made)
        before = {name: stat(made, name) for name in SERVING}
        begun = time.monotonic()
        made.put("hog", ["hold", str(amount)])
        until(lambda: made.rows()[-1]["left"][0], 120)
        until(lambda: not made.rows()[-1]["left"][0] or holds(made) >= amount * 0.97, 120)
        time.sleep(SECONDS)
        end = time.monotonic()
        after = {name: stat(made, name) for name in SERVING}
        files = ("memory.min", "memory.low", "memory.current")
        return {
            "hog_mib": amount,
            "hog_lives": made.rows()[-1]["left"][0],
            "pods": {
                name: {
                    "files": {
                        file: Path(made.group(name), file).read_text().strip() for file in files
                    },
                    "refaults": _grown(before, after, name, "workingset_refault_file"),
                    "taken": _grown(before, after, name, "pgsteal"),
                    "cache_mib": cached(after[name]),
                    "before_ms": milliseconds(made.took(name), 0, begun),
                    "beside_ms": milliseconds(made.took(name), end - SECONDS / 2, end),
                }
                for name in SERVING
            },
        }


def _grown(before: Any, after: Any, name: str, key: str) -> int:
    return int(after[name].get(key, 0) - before[name].get(key, 0))


def swap(mebibytes: int) -> None:
    """Swap in a file from now on; none for 0."""
    if SWAP.exists():
        subprocess.run(["swapoff", SWAP], check=True)
        SWAP.unlink()
    if mebibytes:
        with SWAP.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, mebibytes * MIB)
        SWAP.chmod(0o600)
        for words in (["mkswap", str(SWAP)], ["swapon", str(SWAP)]):
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    """All four; those with the MiB of swap that are given on the command line, if any are."""
    found: dict[str, Any] = {"kernel": os.uname().release, "runs": {}}
    for amount in [int(word) for word in sys.argv[1:]] or (0, 256):
        swap(amount)
        hogs: list[int] = []
        over = 150 if amount else 120

        def wanted(made: Node, hogs: list[int] = hogs, over: int = over) -> int:
            # the same for both, so that they can be compared
            hogs.append(hogs[0] if hogs else spare(made) + over)
            return hogs[-1]

        for form, options in FORMS.items():
            name = f"{form} protection, {f'{amount} MiB of' if amount else 'no'} swap"
            row = found["runs"][name] = measure(options, wanted)
            print(f"{name}: {json.dumps(row)}", flush=True)
            if os.path.isdir("/out"):
                Path("/out/protection.json").write_text(json.dumps(found, indent=1) + "\n")
    swap(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
