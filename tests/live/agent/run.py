"""A run of ``qoslet run`` on this machine's kernel, in a root of its own that is always cleaned,
with pods as YAML."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from qoslet.host.keeper.container_cgroups import KernelContainerCgroups
from qoslet.host.machine.probe import probe
from qoslet.host.state.folder import escaped
from tests.cli.fixtures import answer
from tests.contract.drivers import mounts_of
from tests.live.machine import remove_files

MIB = 1 << 20
PATIENCE = 180
"""Seconds within which something has to come on a busy machine."""


class One(NamedTuple):
    """A container: its script and its resources as YAML."""

    name: str
    script: str
    resources: str = "{}"
    mounts: str = "[]"


def manifest(name: str, *containers: One, resources: str = "", **spec: str) -> str:
    """A pod of these containers; ``spec`` are further fields of it, as YAML."""
    fields = {"restartPolicy": "Never", "terminationGracePeriodSeconds": "0", **spec}
    lines = [
        "apiVersion: v1",
        "kind: Pod",
        f"metadata: {{name: {name}, uid: {name}0}}",
        "spec:",
        *(f"  {name}: {value}" for name, value in fields.items()),
        *([f"  resources: {resources}"] if resources else []),
        "  containers:",
    ]
    for one in containers:
        lines += [
            f"  - name: {one.name}",
            f"    resources: {one.resources}",
            f"    volumeMounts: {one.mounts}",
            "    command:",
            "    - sh",
            "    - -c",
            "    - |",
            f"      {one.script}",
        ]
    return "\n".join(lines) + "\n"


class Held:
    """A run with a root of its own."""

    def __init__(self, folder: Path) -> None:
        here = probe()
        assert here.hierarchy is not None, "this machine has no cgroups"
        self.hierarchy = here.hierarchy
        self.root = f"/qoslet-test-{secrets.token_hex(4)}"
        self.groups = KernelContainerCgroups(here.hierarchy, mounts_of(here.hierarchy), self.root)
        self.state = Path("/run/qoslet", escaped(self.root))
        self.folder = folder / "manifests"
        self.folder.mkdir(mode=0o755)
        self.errors = folder / "errors"
        self.run: subprocess.Popen[str] | None = None

    def need_memory(self) -> None:
        """Skip where the kernel has no memory controller in this hierarchy."""
        if self.groups.layout.tree_of("memory") is None:
            pytest.skip("no memory controller: Debian's kernels from 13 on have none for v1")

    def begin(self, *pods: str, options: Sequence[str] = (), files: int | None = None) -> None:
        """Run these pods until every container executes its command, with so many open files at
        most."""
        for number, text in enumerate(pods):
            (self.folder / f"{number}.yaml").write_text(text)
        command = [sys.executable, "-m", "qoslet", "run", str(self.folder), "--plain"]
        command += ["--cgroup-root", self.root, "--cgroup-driver", "cgroupfs", *options]
        if files is not None:
            command = ["prlimit", f"--nofile={files}:{files}", *command]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with open(self.errors, "w") as errors:
            self.run = subprocess.Popen(command, env=env, stdout=errors, stderr=errors, text=True)
        wanted = sum(text.count("\n  - name: ") for text in pods)
        self.until(lambda: len(self.executing()) == wanted, f"{wanted} containers run")

    def populated(self) -> list[str]:
        """The groups with processes in them."""
        return [path for path in self.groups.below(self.root) if self.groups.members(path)]

    def executing(self) -> list[str]:
        """The groups in which a command is executed: until then, a process has the words of its
        parent, which makes the container's file systems in it."""
        return [path for path in self.populated() if any(map(_executes, self.groups.members(path)))]

    def put_before_others(self, times: int) -> None:
        """Give the root so many times the weight that a group has."""
        v1 = self.hierarchy == "v1"
        tree = self.groups.layout.tree_of("cpu")
        assert tree is not None
        file, usual = ("cpu.shares", 1024) if v1 else ("cpu.weight", 100)
        tree.write(self.root, file, str(times * usual))

    def path(self, pod: str, container: str = "") -> str:
        """The group of a pod or of one of its containers."""
        end = f"/pod{pod}0/{container}".rstrip("/")
        return next(path for path in self.groups.below(self.root) if path.endswith(end))

    def text(self, path: str, file: str) -> str:
        tree = self.groups.layout.tree_of(file.partition(".")[0])
        assert tree is not None
        return tree.read(path, file)

    def used(self, path: str) -> float:
        """CPU seconds of a group and all below."""
        if self.hierarchy == "v1":
            return int(self.text(path, "cpuacct.usage")) / 1e9
        return int(self.text(path, "cpu.stat").split("usage_usec ")[1].split()[0]) / 1e6

    def weight(self, path: str) -> int:
        """What was written for a group's part of a busy CPU."""
        return int(self.text(path, "cpu.shares" if self.hierarchy == "v1" else "cpu.weight"))

    def throttled(self, path: str) -> int:
        """How often the quota held a group back."""
        return int(self.text(path, "cpu.stat").split("nr_throttled ")[1].split()[0])

    def shmem(self, path: str) -> int:
        """Bytes of tmpfs that are charged to a group and all below."""
        key = "\ntotal_shmem " if self.hierarchy == "v1" else "\nshmem "
        return int(self.text(path, "memory.stat").split(key)[1].split()[0])

    def memory(self, path: str) -> int:
        """Bytes in use by a group and all below."""
        v1 = self.hierarchy == "v1"
        return int(self.text(path, "memory.usage_in_bytes" if v1 else "memory.current"))

    def measure(self, paths: Sequence[str], enough: float) -> tuple[list[float], float]:
        """CPU seconds of each group and the time that passed, once all of them together have
        used ``enough`` CPU seconds."""
        before, began = [self.used(path) for path in paths], time.monotonic()
        deadline = began + PATIENCE
        while True:
            time.sleep(0.25)
            now = [self.used(path) for path in paths]
            passed = time.monotonic() - began
            got = [new - old for new, old in zip(now, before, strict=True)]
            if sum(got) >= enough:
                return got, passed
            assert time.monotonic() < deadline, f"{got} CPU seconds in {passed:.0f} s"

    def until(self, ready: Callable[[], bool], what: str) -> None:
        """Wait for something that has to come."""
        deadline = time.monotonic() + PATIENCE
        while not ready():
            said = self.errors.read_text()
            assert time.monotonic() < deadline, f"not reached: {what}\n{said}"
            assert self.run is not None
            assert self.run.poll() is None, said
            time.sleep(0.1)

    def clear(self) -> None:
        if self.run is not None and self.run.poll() is None:
            if self.groups.identity(self.root) is not None:
                self.put_before_others(1)
            self.run.send_signal(signal.SIGTERM)
            try:
                self.run.wait(PATIENCE)
            finally:
                self.run.kill()
                self.run.wait()
        if self.state.exists():
            answer("release", "--cgroup-root", self.root, "--cgroup-driver", "cgroupfs")
        left = self.groups.below(self.root)
        if left:
            self.groups.kill(self.root)
            for path in left:
                self.groups.discard(path)
        remove_files(self.root)
        assert not left, "the run left groups behind"


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    assert os.getuid() == 0, "live tests write to this machine's kernel: run them as root"
    made = Held(tmp_path)
    try:
        yield made
    finally:
        made.clear()


def _executes(pid: int) -> bool:
    """Whether a process has other words than its parent."""
    try:
        own = Path(f"/proc/{pid}/cmdline").read_bytes()
        parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        return own not in (b"", Path(f"/proc/{parent}/cmdline").read_bytes())
    except OSError:
        return False
