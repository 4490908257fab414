"""CPUs and memory of one's own, as planned, in the kernel; on two NUMA nodes where there are two."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from qoslet.cli import main
from qoslet.core.node.fields import cpus
from qoslet.host.machine.topology import numa
from tests.live.machine import KUBELET, Machine

pytestmark = pytest.mark.live

NODES = [node for node in numa("") or () if node.cpus]
two_nodes = pytest.mark.skipif(
    len(NODES) < 2, reason="this machine has one NUMA node; the guest trixie-numa has two"
)
STATIC = f"{KUBELET}cpuManagerPolicy: static\n"
PLACED = f"""{STATIC}memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
reservedMemory:
- {{numaNode: 0, limits: {{memory: 100Mi}}}}
- {{numaNode: 1, limits: {{memory: 100Mi}}}}
"""


def pods(*asked: tuple[str, str, str]) -> str:
    """Guaranteed pods of one container, by name, CPU and memory."""
    return "".join(
        f"""---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, uid: {name}0}}
spec: {{containers: [{{name: c, resources: {{limits: {{cpu: {cpu}, memory: {memory}}}}}}}]}}
status: {{containerStatuses: [{{name: c, containerID: "containerd://c0ffee{name}"}}]}}
"""
        for name, cpu, memory in asked
    )


Files = dict[str, dict[str, str]]


class Placed:
    """Pods applied on a machine, and what was planned for their containers."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.paths: dict[str, str] = {}
        self.compared = 0

    def apply(self, kubelet: str, manifests: str) -> Files:
        """Apply, and compare every cpuset file with the plan. The planned files by pod."""
        machine = self.machine
        machine.node.write_text(kubelet.replace("SYSTEM", machine.system))
        machine.pods.write_text(manifests)
        words = ["plan", "--cgroup-root", machine.root, str(machine.pods)]
        words += ["--node", str(machine.node), "--kubernetes", "1.34", "-o", "json"]
        words += ["--probe", "always"]
        assert main.run(words) in (0, 1)
        planned: dict[str, Any] = json.loads("".join(list(machine.capture())[:1]))
        done = machine.run("apply")
        assert done.code == 0, done
        found: Files = {}
        for group in planned["cgroups"]:
            if group["level"] != "container":
                continue
            files = {row["file"]: row for row in group["settings"]}
            name = group["pod"]["name"]
            self.paths[name] = group["path"]
            found[name] = {file: row["value"] for file, row in files.items()}
            for file, row in files.items():
                if file.startswith("cpuset."):
                    kept = row.get("effective") or row["value"]
                    assert machine.read(group["path"], file) == kept
                    self.compared += 1
        return found

    @contextmanager
    def inside(self, name: str, size: int) -> Iterator[int]:
        """A process in a container's group that has written ``size`` bytes of memory."""
        code = (
            "import sys; sys.stdin.readline(); "
            f"kept = bytearray({size}); kept[::4096] = b'x' * len(kept[::4096]); "
            "print(len(kept), flush=True); sys.stdin.read()"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            for tree in self.machine.driver.layout.trees:
                place = Path(f"{tree.point}{self.paths[name]}/cgroup.procs")
                place.write_text(str(child.pid))
            child.stdin.write(b"\n")
            child.stdin.flush()
            assert int(child.stdout.readline()) == size
            yield child.pid
        finally:
            child.stdin.close()
            child.wait()
            child.stdout.close()


@pytest.fixture
def placed(machine: Machine) -> Placed:
    return Placed(machine)


def allowed(pid: int, what: str) -> set[int]:
    """CPUs or memory nodes that the kernel lets a process use."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}_allowed_list:"):
            return cpus(line.split()[1]) or set()
    raise AssertionError(what)


def pages(pid: int, least: int) -> dict[int, int]:
    """Pages by NUMA node, of the mappings that have at least so many."""
    found: dict[int, int] = {}
    for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines():
        counts = {
            int(word[1:].split("=")[0]): int(word.split("=")[1])
            for word in line.split()
            if word[0] == "N" and word[1:2].isdigit()
        }
        if sum(counts.values()) >= least:
            for node, number in counts.items():
                found[node] = found.get(node, 0) + number
    return found


def test_cgroupfs_own_cpus_and_what_is_left(
    placed: Placed, record_property: Callable[[str, object], None]
) -> None:
    online = cpus(Path("/sys/devices/system/cpu/online").read_text().strip()) or set()
    if len(online) < 2:
        pytest.skip("one CPU: none can be anybody's own")
    files = placed.apply(STATIC, pods(("own", "1", "64Mi"), ("shares", "500m", "64Mi")))
    own = cpus(files["own"]["cpuset.cpus"]) or set()
    pool = cpus(files["shares"]["cpuset.cpus"]) or set()
    assert len(own) == 1
    assert own | pool == online
    assert not own & pool
    quota = "cpu.cfs_quota_us" if placed.machine.v1 else "cpu.max"
    no_quota = "-1" if placed.machine.v1 else "max 100000"
    assert placed.machine.read(placed.paths["own"], quota) == no_quota
    for name, expected in (("own", own), ("shares", pool)):
        with placed.inside(name, 1 << 16) as pid:
            assert allowed(pid, "Cpus") == expected
            placed.compared += 1
    files = placed.apply(STATIC, pods(("shares", "500m", "64Mi")))
    assert cpus(files["shares"]["cpuset.cpus"]) == online
    record_property("compared", placed.compared)
    assert placed.compared >= 5


@two_nodes
def test_cgroupfs_memory_lies_beside_the_cpus(
    placed: Placed, record_property: Callable[[str, object], None]
) -> None:
    files = placed.apply(PLACED, pods(("first", "1", "500Mi"), ("second", "2", "500Mi")))
    assert {name: own["cpuset.mems"] for name, own in files.items()} == {
        "first": "0",
        "second": "1",
    }
    size = 96 << 20
    for name, node in (("first", NODES[0]), ("second", NODES[1])):
        own = cpus(files[name]["cpuset.cpus"]) or set()
        assert own <= (cpus(node.cpus) or set())
        with placed.inside(name, size) as pid:
            assert allowed(pid, "Cpus") == own
            assert allowed(pid, "Mems") == {node.id}
            found = pages(pid, size // 4096)
            # what it had before it was put there may be in the same mapping
            elsewhere = sum(found.values()) - found[node.id]
            assert found[node.id] >= size // 4096 > 10 * elsewhere
            placed.compared += 3
    record_property("compared", placed.compared)
    assert placed.compared >= 10


@two_nodes
def test_cgroupfs_memory_beyond_a_node_lies_on_both(
    placed: Placed, record_property: Callable[[str, object], None]
) -> None:
    kubelet = PLACED.replace("single-numa-node", "restricted")
    files = placed.apply(kubelet, pods(("wide", "500m", "1200Mi")))
    assert files["wide"]["cpuset.mems"] == "0,1"
    with placed.inside("wide", 1 << 16) as pid:
        assert allowed(pid, "Mems") == {0, 1}
    record_property("compared", placed.compared + 1)
