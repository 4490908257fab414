"""A cluster's pods, read and planned on one node, against ``json.loads`` of the same bytes.

The last two figures are of pods as the API server sends them, with managedFields and in a thousand
shapes; their other floor is msgspec's decoding to the same types, with nothing looked at.

Every measurement is the CPU time of a process of its own and begins with the bytes in memory:
nothing is read or waited for, and neighbours only make it wait. Reasons are not put
into words and nothing is printed. The reader turns Python's cycle collector off while it reads;
the second figure turns it off for ``json.loads`` too.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import msgspec

from bench.figures import Figure, paired, show
from bench.pods import listing, real_listing
from qoslet.core.api.manifest import Options
from qoslet.core.api.schema import PodShape
from qoslet.core.node.flags import Flags
from qoslet.core.plan.plan import plan
from qoslet.host.files.manifests import load_text
from qoslet.host.files.node import load_node

PODS = 10_000
ROUNDS = 5


def ours(data: bytes) -> int:
    """Read and plan; the number of groups planned."""
    node, problems = load_node([], Flags(kubernetes="1.36"))
    loaded = load_text(data, Options())
    return len(plan(loaded.pods, node, (*problems, *loaded.problems)).cgroups)


def floor(data: bytes) -> int:
    """Decode; the number of items."""
    return len(json.loads(data)["items"])


def typed(data: bytes) -> int:
    """Decode to types; the number of items."""
    return len(msgspec.json.Decoder(_Listed).decode(data).items)


class _Listed(msgspec.Struct):
    items: list[PodShape]


def child(side: str, collector: str, path: str) -> float:
    """Milliseconds of CPU of one side in a fresh process."""
    command = [sys.executable, "-m", "bench.offline.pods10k", side, collector, path]
    count, elapsed = subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.split()
    if int(count) < PODS:
        raise SystemExit(f"{side} found {count} of {PODS} pods")
    return float(elapsed)


def measure(side: str, collector: str, path: str) -> None:
    """Print count and milliseconds."""
    data = Path(path).read_bytes()
    work = {"ours": ours, "floor": floor, "typed": typed}[side]
    if collector == "off":
        gc.disable()
    begin = time.process_time()
    count = work(data)
    print(count, (time.process_time() - begin) * 1000)


def main() -> None:
    """Measure and print."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.writelines(listing(PODS))
        file.flush()
        plain, off = [
            paired(
                partial(child, "ours", collector, file.name),
                partial(child, "floor", collector, file.name),
                ROUNDS,
            )
            for collector in ("on", "off")
        ]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.writelines(real_listing(PODS))
        file.flush()
        loads, types = [
            paired(
                partial(child, "ours", "off", file.name),
                partial(child, side, "off", file.name),
                ROUNDS,
            )
            for side in ("floor", "typed")
        ]
    name = f"{PODS:,} pods of 5 KB read and planned"
    real = f"{PODS:,} pods of the API server, a thousand shapes"
    show(
        [
            Figure(name, "ms", *plain, "json.loads", 1),
            Figure(f"{name}, collector off", "ms", *off, "json.loads, collector off", None),
            Figure(real, "ms", *loads, "json.loads, collector off", 1),
            Figure(f"{real}, types", "ms", *types, "typed decode, collector off", 3),
        ]
    )


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in ("ours", "floor", "typed"):
        measure(*sys.argv[1:])
    else:
        main()
