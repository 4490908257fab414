"""Groups of a test's own with containers in them, made by the parts that a run is made of."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from qoslet.core.reconcile.steps import Step
from qoslet.core.workload.process_spec import MemoryVolume, PodSpec, ProcessSpec, VolumeMount
from qoslet.core.workload.security.context import DEFAULT_CAPABILITIES, Credentials
from qoslet.host.containers.spawn import Spawned
from qoslet.host.containers.tmpfs_volumes import TmpfsVolumes
from qoslet.host.keeper.container_cgroups import KernelContainerCgroups, end_group
from qoslet.host.machine.probe import probe
from tests.contract.drivers import mounts_of
from tests.host.containers.started import started

MIB = 1 << 20
ROOT = Credentials(0, 0, (), DEFAULT_CAPABILITIES, False)
ENV = (("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),)


class Ground:
    """A root of its own; ``folder`` holds volumes, ``output`` what containers print."""

    def __init__(self, folder: Path) -> None:
        here = probe()
        assert here.hierarchy is not None, "this machine has no cgroups"
        self.hierarchy = here.hierarchy
        self.root = f"/qoslet-test-{secrets.token_hex(4)}"
        self.groups = KernelContainerCgroups(here.hierarchy, mounts_of(here.hierarchy), self.root)
        self.folder = Path(f"/run{self.root}")
        self.folder.mkdir(mode=0o700)
        self.volumes = TmpfsVolumes(str(self.folder / "volumes"))
        self.output = folder / "output"
        self.started: list[Spawned] = []

    def need_memory(self) -> None:
        """Skip where the kernel has no memory controller in this hierarchy."""
        if self.groups.layout.tree_of("memory") is None:
            pytest.skip("no memory controller: Debian's kernels from 13 on have none for v1")

    def make(self, path: str, memory: int | None = None) -> str:
        """A group with its parents, and its memory limit."""
        steps, at = [], ""
        for part in f"{self.root}/{path}".split("/")[1:]:
            at = f"{at}/{part}"
            if self.groups.identity(at) is None:
                steps.append(Step("create", at))
        if memory is not None:
            file = "memory.limit_in_bytes" if self.hierarchy == "v1" else "memory.max"
            steps.append(Step("set", at, file, str(memory)))
        wrong = [one.error for one in self.groups.perform(steps) if one.error]
        assert not wrong
        return at

    def remove(self, path: str) -> list[str]:
        """Remove a group and all below; what went wrong."""
        steps = [Step("remove", one) for one in self.groups.below(path)]
        return [one.error for one in self.groups.perform(steps) if one.error]

    def begin(
        self,
        group: str | None,
        script: str,
        mounts: Sequence[VolumeMount] = (),
        uid: str = "u1",
        volumes: Sequence[MemoryVolume] = (),
    ) -> Spawned:
        """A shell as a container of pod ``uid``, with volumes that are provided before."""
        sources = self.volumes.provide(uid, volumes)
        launch = ProcessSpec(
            "app", "regular", ("sh", "-c", script), ENV, "/", ROOT, "Never", mounts=tuple(mounts)
        )
        spec = PodSpec(uid, f"default/{uid}", (launch,), 1.0, (), tuple(volumes)).sourced(sources)
        joins = [] if group is None else self.groups.join_fds(group)
        output = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            self.started.append(started(spec.launches[0], joins, output))
        finally:
            for descriptor in (*joins, output):
                os.close(descriptor)
        return self.started[-1]

    def run(self, group: str | None, script: str, *more: object) -> tuple[int, str]:
        """The same to its end: exit code (128 and the signal if killed) and what it printed."""
        self.output.write_text("")
        one = self.begin(group, script, *more)  # type: ignore[arg-type]
        return self.ended(one), self.output.read_text(errors="replace")

    def ended(self, one: Spawned) -> int:
        """Wait for a container's end, and for that of all in its group."""
        found = os.waitid(os.P_PIDFD, one.pidfd, os.WEXITED)
        assert found is not None
        self.started.remove(one)
        os.close(one.pidfd)
        return found.si_status + (0 if found.si_code == os.CLD_EXITED else 128)

    def kill(self, one: Spawned) -> int:
        """SIGKILL to a container."""
        signal.pidfd_send_signal(one.pidfd, signal.SIGKILL)
        return self.ended(one)

    def number(self, path: str, v1: str, v2: str) -> int:
        """A file's number, or that of ``file:key`` in one of many lines."""
        file, _, key = (v1 if self.hierarchy == "v1" else v2).partition(":")
        tree = self.groups.layout.tree_of(file.partition(".")[0])
        assert tree is not None
        text = tree.read(path, file)
        if key:
            text = dict(line.split() for line in text.splitlines())[key]
        return int(text)

    def memory(self, path: str) -> int:
        """Bytes in use by a group and all below."""
        return self.number(path, "memory.usage_in_bytes", "memory.current")

    def shmem(self, path: str) -> int:
        """Bytes of tmpfs among them."""
        return self.number(path, "memory.stat:total_shmem", "memory.stat:shmem")

    def oom_kills(self, path: str) -> int:
        """How often the kernel killed in the group itself."""
        return self.groups.oom_kills(path) or 0

    def until(self, ready: Callable[[], bool], what: str, seconds: float = 30) -> None:
        """Wait for something that has to come."""
        deadline = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < deadline, f"not reached: {what}"
            time.sleep(0.05)

    def clear(self) -> None:
        for one in list(self.started):
            self.kill(one)
        for path in self.groups.below(self.root):
            end_group(self.groups, path)
        for uid in self.volumes.existing():
            self.volumes.remove(uid, detach=True)
        self.until(lambda: not self.remove(self.root), "groups are removed")
        shutil.rmtree(self.folder)
        assert not self.groups.below(self.root)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    assert os.getuid() == 0, "live tests write to this machine's kernel: run them as root"
    made = Ground(tmp_path)
    try:
        yield made
    finally:
        made.clear()
