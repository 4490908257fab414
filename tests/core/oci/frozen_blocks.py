"""830 containers on 40 nodes: the cases whose answers tests/data/oci-blocks.jsonl.xz holds.

`python -m tests.core.oci.frozen_blocks FILE` writes the answers of the planner anew; a container
whose block `convert` writes otherwise ends it.
"""

from __future__ import annotations

import itertools
import json
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import qoslet
from qoslet.core.plan.cri_messages import oci

DATA: Final = Path(__file__).parents[2] / "data" / "oci-blocks.jsonl.xz"

HIERARCHIES: Final = ("v2", "v1")
RUNTIMES: Final = (
    *("runc-1.1.5", "runc-1.1.15", "runc-1.3.2", "runc-1.4.0", "crun-1.8.1", "crun-1.21"),
    *("crun-1.23", "containerd-1.7.24", "containerd-2.2.0", "cri-o-1.34+crun-1.21"),
)
DRIVERS: Final = ("cgroupfs", "systemd")
SWAPS: Final = (False, True)

_NODE: Final = """
apiVersion: qoslet/v1
kind: Node
capacity: {{cpu: "64", memory: 256Gi, hugepages-2Mi: 1Gi, pods: "110"}}
swap: 8Gi
host: {{hierarchy: {hierarchy}, kernel: "6.12", pageSize: 4096, hugepageSizes: [2Mi],
  swapController: true, cpus: "0-63"}}
kubernetes: "1.34"
runtime: {runtime}
"""
_AMOUNTS: Final = (
    ("0", "1m", "100m", "1", "60", "300"),
    ("0", "5m", "150m", "2", "60", "300"),
    ("0", "100Mi"),
    ("0", "1", "1Ki", "100Mi", "1Gi", "8Ei"),
    (False, True),
)

Answer = dict[str, str]
"""What reads back of each file that the runtime writes."""
Block = dict[str, Any]


class Case(NamedTuple):
    """A node: all that changes how a runtime writes a container's block."""

    hierarchy: str
    runtime: str
    driver: str
    swap: bool


class Written(NamedTuple):
    """A container's OCI resource block and its answer."""

    block: Block
    answer: Answer


def cases() -> Iterator[Case]:
    """Every node."""
    for row in itertools.product(HIERARCHIES, RUNTIMES, DRIVERS, SWAPS):
        yield Case(*row)


def documents() -> Iterator[dict[str, Any]]:
    """Pods of one container with every mix of amounts; some of them are not valid."""
    for number, row in enumerate(itertools.product(*_AMOUNTS)):
        cpu, most_cpu, memory, most_memory, hugepages = row
        requests = {"cpu": cpu, "memory": memory, "hugepages-2Mi": "4Mi" if hugepages else "0"}
        limits = {
            "cpu": most_cpu,
            "memory": most_memory,
            "hugepages-2Mi": requests["hugepages-2Mi"],
        }
        resources = {
            "requests": {name: amount for name, amount in requests.items() if amount != "0"},
            "limits": {name: amount for name, amount in limits.items() if amount != "0"},
        }
        container = {"name": "c", "image": "x", "resources": resources}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{number}"},
            "spec": {"containers": [container]},
        }


def pods() -> list[qoslet.Pod]:
    """The valid ones."""
    found = []
    for document in documents():
        try:
            found.extend(qoslet.read_pods(json.dumps(document)).pods)
        except qoslet.QosletError:
            continue
    return found


def node(case: Case, folder: Path) -> qoslet.Node:
    """The node of a case."""
    path = folder / "node.yaml"
    path.write_text(_NODE.format(hierarchy=case.hierarchy, runtime=case.runtime))
    swap = {"feature_gates": "NodeSwap=true", "memory_swap_behavior": "LimitedSwap"}
    return qoslet.load_node(str(path), cgroup_driver=case.driver, **(swap if case.swap else {}))


def planned(found: list[qoslet.Pod], machine: qoslet.Node) -> list[Written]:
    """What the planner says of each pod's container, in the pods' order."""
    plan = qoslet.plan(found, machine)
    blocks = {item["name"]: item["containers"][0]["linux"]["resources"] for item in oci(plan)}
    answers = {
        group.pod.name: {row.file: row.applied for row in group.settings if row.writer == "runtime"}
        for group in plan.cgroups
        if group.level == "container" and group.pod is not None
    }
    return [Written(blocks[pod.name], answers[pod.name]) for pod in found]


def converted(block: Block, case: Case) -> Answer:
    """What `convert` says of a block."""
    runtime = case.runtime.rpartition("+")[2]
    (part,) = qoslet.convert(
        block, case.hierarchy, runtime=runtime, driver=case.driver, source="oci"
    ).parts
    assert part.refusal is None, part.refusal
    return {row.file: row.applied for row in part.rows}


def frozen() -> dict[Case, list[Written]]:
    """The committed answers: of each node, those of every pod in order."""
    with lzma.open(DATA, "rt") as lines:
        blocks, answers = json.loads(next(lines)), json.loads(next(lines))
        found = {}
        for line in lines:
            row = json.loads(line)
            found[Case(*row["case"])] = [
                Written(blocks[block], answers[answer])
                for block, answer in zip(row["blocks"], row["answers"], strict=True)
            ]
    return found


class _Distinct:
    """Values numbered in the order in which they are first met."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[str, int] = {}

    def number(self, value: object) -> int:
        key = json.dumps(value, sort_keys=True)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]


def freeze(out: Path, folder: Path) -> int:
    """Writes the answers of today's planner; returns how many."""
    found, blocks, answers, rows = pods(), _Distinct(), _Distinct(), []
    for case in cases():
        written = planned(found, node(case, folder))
        for one in written:
            assert converted(one.block, case) == one.answer, (case, one)
        rows.append(
            {
                "case": case,
                "blocks": [blocks.number(one.block) for one in written],
                "answers": [answers.number(one.answer) for one in written],
            }
        )
    with lzma.open(out, "wt", preset=9) as lines:
        for row in (blocks.values, answers.values, *rows):
            lines.write(f"{json.dumps(row, separators=(',', ':'))}\n")
    return sum(len(row["answers"]) for row in rows)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    sys.stdout.write(f"{freeze(target, target.parent)} answers\n")
