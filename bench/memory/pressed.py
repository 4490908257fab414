"""A node that a best-effort hog makes short of memory, beside a burstable and a guaranteed pod with
warm page cache: what ``bench.memory.pressure`` and ``bench.memory.protection`` measure. For guests only."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from tests.live.memory import node_load, pulse
from tests.live.memory.node_load import kibibytes

Row = TypeVar("Row")
MIB = 1 << 20
LOAD = (sys.executable, "-ISs", str(Path(node_load.__file__)))
"""The command of ``node_load``."""
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, uid: {uid}, annotations: {annotations}}}
spec:
  restartPolicy: {restart}
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      command: {command}
      resources: {resources}
"""
SERVING = {
    "b": (160, "{requests: {cpu: 100m, memory: 260Mi}}"),
    "g": (80, "{requests: {cpu: 900m, memory: 180Mi}, limits: {cpu: 900m, memory: 180Mi}}"),
}
"""MiB of the file that a pod reads from, and its resources; each holds ``HELD`` MiB beside it."""
HELD = 60
PODS = ("hog", "b", "g")
TIERS = {"hog": "besteffort", "q": "besteffort", "b": "burstable"}
"""The QoS cgroup of each pod that is in one."""


class Node:
    """An agent with the serving pods, and the node's pulse."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.tiers = dict(TIERS)
        self.uids: dict[str, str] = {}
        self.name = f"bench{secrets.token_hex(3)}"
        self.manifests = folder / "manifests"
        self.manifests.mkdir(mode=0o700)
        for name, (size, resources) in SERVING.items():
            words = ["serve", f"/var/tmp/serve-{size}", str(size), str(HELD), str(folder / name)]
            self.put(name, words, resources)
        command = [sys.executable, "-m", "qoslet", "run", str(self.manifests), "--keep"]
        command += ["--cgroup-root", f"/{self.name}", "--cgroup-driver", "systemd"]
        command += ["--log-format", "json", *options]
        self.log = (folder / "log").open("w+")
        self.agent = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self._pulse: subprocess.Popen[bytes] | None = None

    @property
    def top(self) -> str:
        """The group of the root."""
        return f"/sys/fs/cgroup/{self.name}.slice"

    @property
    def kubepods(self) -> str:
        """The path of the group of all pods, below the mount."""
        return f"{self.name}.slice/{self.name}-kubepods.slice"

    def put(self, name: str, words: list[str], resources: str = "{}") -> None:
        """A pod that does what the words say to ``node_load``."""
        self.create(name, [*LOAD, *words], resources)

    def create(
        self,
        name: str,
        command: list[str],
        resources: str = "{}",
        annotations: Mapping[str, str] | None = None,
        restart: str = "Always",
    ) -> None:
        """A manifest; a pod's UID is its name, from the second of that name on with another, for a
        pod that has ended does not begin again."""
        self.uids[name] = name if name not in self.uids else f"{name}{secrets.token_hex(3)}"
        text = POD.format(
            name=name,
            uid=self.uids[name],
            command=json.dumps(command),
            resources=resources,
            annotations=json.dumps(annotations or {}),
            restart=restart,
        )
        (self.manifests / f".{name}").write_text(text)
        (self.manifests / f".{name}").rename(self.manifests / f"{name}.yaml")

    def group(self, name: str) -> str:
        """The group of a pod; one that is not there yet is where it will be."""
        tier = f"-{self.tiers[name]}" if name in self.tiers else ""
        stem = f"{self.name}-kubepods"
        above = f"{self.top}/{stem}.slice"
        if tier:
            above += f"/{stem}{tier}.slice"
        return f"{above}/{stem}{tier}-pod{self.uids.get(name, name)}.slice"

    def warm(self, seconds: float) -> None:
        """Wait until both serve from page cache for a while."""
        until(lambda: all(len(self.took(name)) > 5 for name in SERVING), 300)
        words = [*LOAD, "pulse", str(self.folder / "pulse")]
        self._pulse = subprocess.Popen([*words, *(self.group(name) for name in PODS)])
        time.sleep(seconds)

    def took(self, name: str) -> list[tuple[float, float]]:
        """When a pod's reads began and how long they took, in seconds."""
        try:
            lines = (self.folder / name).read_text().split("\n")[:-1]
        except OSError:
            return []
        return [(float(line.split()[0]), float(line.split()[1])) for line in lines if line]

    def rows(self) -> list[dict[str, Any]]:
        """The pulse so far."""
        return pulse.rows(self.folder / "pulse")

    def said(self, *words: str) -> list[str]:
        """What the agent said of memory, or what holds one of these words."""
        lines = (self.folder / "log").read_text().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [
            f"{row['time']} {row['message']}"
            for row in found
            if any(word in row["message"] for word in words or ("memory is short", "decision"))
        ]

    def serving(self) -> bool:
        """Whether the files of the serving pods are in memory, all but a twentieth."""
        return all(cached(stat(self, name)) >= size * 0.95 for name, (size, _) in SERVING.items())

    def lives(self, name: str) -> bool:
        """Whether a process of the pod is left."""
        return "populated 1" in node_load.text(f"{self.group(name)}/cgroup.events")

    def remove(self, name: str) -> None:
        """Remove a pod, and wait until its group is gone."""
        (self.manifests / f"{name}.yaml").unlink()
        until(lambda: not Path(self.group(name)).exists(), 60)

    def end(self) -> None:
        """End and remove everything."""
        for process, number in ((self._pulse, signal.SIGKILL), (self.agent, signal.SIGTERM)):
            if process is not None:
                process.send_signal(number)
                process.wait(120)
        for manifest in self.manifests.iterdir():
            manifest.unlink()
        command = [sys.executable, "-m", "qoslet", "release", "--cgroup-root", f"/{self.name}"]
        subprocess.run(
            [*command, "--cgroup-driver", "systemd", "--force"], check=False, timeout=120
        )
        self.log.close()


def stat(made: Node, name: str) -> dict[str, int]:
    """``memory.stat`` of a pod, and its events."""
    found = {}
    for file in ("memory.stat", "memory.events"):
        for line in Path(made.group(name), file).read_text().splitlines():
            found[line.split()[0]] = int(line.split()[1])
    return found


def cached(found: Mapping[str, int]) -> int:
    """MiB of page cache in a pod's numbers, shared memory left out."""
    return (found["file"] - found["shmem"]) // MIB


@contextmanager
def node(*options: str) -> Iterator[Node]:
    """A node whose agent has these options."""
    if "QOSLET_SYSTEM" not in os.environ:
        sys.exit(
            "it fills the memory of the whole machine: make vm-run SYSTEM=trixie-peers CMD=..."
        )
    with tempfile.TemporaryDirectory() as folder:
        made = Node(Path(folder), *options)
        try:
            yield made
        finally:
            made.end()


def shrink(huge_pages: int) -> None:
    """Take memory away from the machine, for a hog of fewer pages is sooner there."""
    Path("/proc/sys/vm/drop_caches").write_text("3")
    Path("/proc/sys/vm/nr_hugepages").write_text(str(huge_pages))


def until(ready: Callable[[], bool], seconds: float) -> bool:
    """Wait; whether it came to be."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def milliseconds(took: list[tuple[float, float]], begin: float, end: float) -> dict[str, float]:
    """Median, 99th percentile and longest of the reads that began in a span."""
    found = sorted(1000 * seconds for at, seconds in took if begin <= at < end)
    if not found:
        return {"reads": 0}
    return {
        "reads": len(found),
        "median": round(found[len(found) // 2], 2),
        "p99": round(found[min(len(found) - 1, len(found) * 99 // 100)], 2),
        "longest": round(found[-1], 2),
    }


class Served(Struct, frozen=True):
    """What became of a serving pod beside another: pages that were taken and read again, MiB of page
    cache at the end, OOM kills, and its reads (of 1.6 MiB each) before and beside it."""

    refaults: int
    taken: int
    cache_mib: int
    oom_kills: int
    before_ms: dict[str, float]
    beside_ms: dict[str, float]


def served(made: Node, name: str, before: Mapping[str, int], begun: float, end: float) -> Served:
    """A serving pod between two times, and in the ten seconds before."""
    after = stat(made, name)

    def grown(key: str) -> int:
        return after.get(key, 0) - before.get(key, 0)

    return Served(
        grown("workingset_refault_file"),
        grown("pgsteal"),
        cached(after),
        grown("oom_kill"),
        milliseconds(made.took(name), begun - 10, begun),
        milliseconds(made.took(name), begun, end),
    )


class Guest(Struct, Generic[Row], frozen=True):
    """The rows of one boot of a guest: kernel, machine and day of all of them."""

    kernel: str
    machine: str
    date: str
    rows: list[Row]

    @property
    def linux(self) -> str:
        """The kernel's release, as people name it."""
        return ".".join(self.kernel.split("-")[0].split(".")[:2])


def guest(rows: list[Row]) -> Guest[Row]:
    """These rows, measured on this machine."""
    machine = f"emulated, {os.cpu_count()} CPUs, {kibibytes('MemTotal') >> 10} MiB"
    return Guest(os.uname().release, machine, f"{datetime.now(UTC):%Y-%m-%d}", rows)


def keep(files: Sequence[str], results: Path, type: type[Guest[Row]]) -> None:
    """Several guests' rows in one file."""
    guests = [msgspec.json.decode(Path(file).read_bytes(), type=type) for file in files]
    text = msgspec.json.format(msgspec.json.encode(guests), indent=1)
    results.write_bytes(text + b"\n")


def kept(results: Path, type: type[Guest[Row]]) -> list[Guest[Row]]:
    """What ``keep`` wrote."""
    return msgspec.json.decode(results.read_bytes(), type=list[type])  # type: ignore[valid-type]


def measure_or_keep(
    usage: str,
    measure: Callable[[Path, list[str]], None],
    results: Path,
    type: type[Guest[Row]],
) -> int:
    """What the command line asks of a bench with ``measure FILE NAME...`` and ``keep FILE...``; its
    exit code."""
    match sys.argv[1:]:
        case ["measure", file, *names]:
            measure(Path(file), names)
        case ["keep", *files]:
            keep(files, results, type)
        case _:
            sys.stderr.write(f"{usage}\n")
            return 2
    return 0
