"""A cluster, read and planned by all processors, against unpacking and decoding the same file.

The input is made before, compressed, and is the same in every run: pods of 5 KB as kubectl prints
them, on nodes of 20 kinds. The floor is one process that unpacks the file and decodes each pod
without looking at it. ``bench.offline.growth`` takes other numbers of nodes and pods.
"""

from __future__ import annotations

import gc
import gzip
import os
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from functools import partial
from pathlib import Path

import msgspec

from bench.figures import Figure, paired, show
from bench.pods import pod
from qoslet.core.api.schema import decode_pod
from qoslet.core.fleet.cluster import Cluster
from qoslet.core.fleet.nodes import NodeFactory
from qoslet.core.fleet.plan import FleetPlanner
from qoslet.core.fleet.read import BatchReader
from qoslet.core.fleet.splitter import Batch, ItemSplitter
from qoslet.core.node.flags import Flags

NODES, PODS = 5_000, 150_000
ROUNDS = 3
KINDS = 20


def node(number: int) -> dict[str, object]:
    """A node; those of a kind differ in their names only."""
    kind = number % KINDS
    amounts = {"cpu": "32", "pods": "110", "memory": f"{131_072_000 + kind // 5 * 4}Ki"}
    info = {
        "kubeletVersion": f"v1.{32 + kind % 5}.2",
        "containerRuntimeVersion": "containerd://2.1.4",
        "operatingSystem": "linux",
        "kernelVersion": "6.12.0",
        "osImage": "Debian GNU/Linux 13 (trixie)",
        "architecture": "amd64",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number:05}"},
        "status": {"capacity": amounts, "allocatable": amounts, "nodeInfo": info},
    }


def indented(document: dict[str, object]) -> str:
    """A document as kubectl prints it."""
    return msgspec.json.format(msgspec.json.encode(document), indent=4).decode()


def generate(path: Path, nodes: int, pods: int) -> None:
    """Write the cluster."""
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write('{\n    "apiVersion": "v1",\n    "items": [\n')
        file.write(",\n".join(indented(node(number)) for number in range(nodes)))
        for number in range(pods):
            made = pod(number)
            spec = made["spec"]
            assert isinstance(spec, dict)
            spec["nodeName"] = f"node-{number * 7919 % nodes:05}"
            text = indented(made).replace("\n", "\n        ")
            file.write(f",\n        {text}")
        file.write('\n    ],\n    "kind": "List"\n}\n')


def floor(path: Path) -> float:
    """Seconds to unpack and decode."""
    begin = time.perf_counter()
    unpacker, splitter, count = zlib.decompressobj(wbits=31), ItemSplitter("floor"), 0
    with path.open("rb") as file:
        while data := file.read(1 << 18):
            for batch in splitter.feed(unpacker.decompress(data)):
                assert isinstance(batch, Batch)
                for start, end in batch.spans:
                    decode_pod(batch.data[start:end])
                    count += 1
    if count < 1:
        raise SystemExit("the input holds nothing")
    return time.perf_counter() - begin


def ours(path: Path, *options: str, pods: int = PODS) -> float:
    """Seconds of ``qoslet fleet``."""
    command = [sys.executable, "-m", "qoslet", "fleet", str(path), "-o", "json", *options]
    begin = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    elapsed = time.perf_counter() - begin
    totals = msgspec.json.decode(done.stdout)["totals"]
    if done.returncode or totals["pods"] < pods:
        raise SystemExit(f"qoslet fleet ended with {done.returncode}: {totals}")
    return elapsed


def read_cluster(path: Path) -> Cluster:
    """What the file holds, read by this process."""
    cluster, reader, splitter = Cluster(), BatchReader(), ItemSplitter("cluster")
    with gzip.open(path) as file:
        while data := file.read(1 << 20):
            for batch in splitter.feed(data):
                assert isinstance(batch, Batch)
                cluster.add(reader.read(batch))
    for batch in splitter.finish():
        assert isinstance(batch, Batch)
        cluster.add(reader.read(batch))
    return cluster


SIDES = (("1.36",), ("1.36", "1.37"))
TURN = 20
"""Nodes that one planner plans before it is the other's turn."""


def planning(cluster: Cluster) -> tuple[float, float]:
    """Seconds of CPU to plan all nodes on one side, and on both. Two planners take turns every few
    milliseconds, each first in every other turn: what slows the machine slows both alike, and their
    difference is that of the work."""
    planners = [
        FleetPlanner(cluster, [NodeFactory(Flags(kubernetes=one)) for one in releases])
        for releases in SIDES
    ]
    names, spent, turn = list(cluster.nodes), [0.0, 0.0], [0, 1]
    for at in range(0, len(names), TURN):
        for side in turn:
            begin = time.process_time()
            for _ in planners[side].results(names[at : at + TURN]):
                pass
            spent[side] += time.process_time() - begin
        turn.reverse()
    return spent[0], spent[1]


def second_side(path: Path) -> tuple[float, float]:
    """Seconds of CPU that a second side adds to the planning, and those of the first side: the
    round whose ratio is the middle one."""
    cluster = read_cluster(path)
    gc.collect()
    gc.disable()  # as in the processes that plan
    rounds = sorted(
        ((both - one, one) for one, both in (planning(cluster) for _ in range(ROUNDS))),
        key=lambda pair: pair[0] / pair[1],
    )
    return rounds[ROUNDS // 2]


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.json.gz"
        generate(path, NODES, PODS)
        pair = paired(partial(ours, path), partial(floor, path), ROUNDS)
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        both = min(ours(path, "--rehearse", "1.36-to-1.37") for _ in range(ROUNDS))
        one = min(ours(path, "--kubernetes", "1.36") for _ in range(ROUNDS))
        added = second_side(path)
    name = f"{PODS:,} pods on {NODES:,} nodes"
    bound = 10.0 if len(os.sched_getaffinity(0)) >= 2 else None
    show(
        [
            Figure(name, "s", pair[0], None, "", bound),
            Figure(f"{name}, over its floor", "s", *pair, "unpack and decode, one process", None),
            Figure(f"{name}, largest process", "MB", memory, None, "", 600),
            Figure(f"{name}, before and after", "s", both, one, "one side", None),
            Figure(f"{name}, a second side, CPU", "s", *added, "planning of the first", 0.1),
        ]
    )


if __name__ == "__main__":
    main()
