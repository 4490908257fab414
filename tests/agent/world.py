"""A machine that an agent may be killed on: kernel, runtime, volumes and journal go on without it.

The driver and the journal are the real ones, on hierarchies made of values: each system call that
changes something, each line of the journal and each call of the runtime and of the volumes is a
boundary, at which the machine can be copied as a killed agent leaves it.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

from qoslet.agent.config import Config
from qoslet.agent.reconciler import Reconciler
from qoslet.agent.snapshots import SyncResult
from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.core.api.pod import Container, Pod, Resources
from qoslet.core.node.node import Node
from qoslet.core.reconcile.journal import Entry, JournalState, Key
from qoslet.core.workload.process_spec import (
    MemoryVolume,
    PodSpec,
    PodVolume,
    ProcessSpec,
    RestartPolicy,
    VolumeMount,
)
from qoslet.core.workload.security.context import Credentials
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.v1 import HierarchiesV1
from qoslet.host.cgroupfs.v2 import HierarchyV2
from qoslet.host.linux.openat import MountedTree
from qoslet.host.state.journal_file import JournalFile
from qoslet.host.state.resume import open_journal
from qoslet.sim.cgroups import refusal
from qoslet.sim.kernel import SimKernel
from tests.agent.fixtures import ROOT, Clock, Manifests, resources
from tests.agent.simulated_runtime import On, Runtime
from tests.core.reconcile.trees import FOUR_CPUS

TREES = ("memory", "cpu", "cpuacct", "cpuset", "pids")
WHO = Credentials(0, 0, (), frozenset(), False)


def pod(
    name: str,
    *containers: str,
    request: str = "cpu=100m memory=16Mi",
    limit: str = "",
    command: str = "sleep",
    restart: RestartPolicy = "Always",
    volumes: Sequence[str] = (),
) -> tuple[Pod, PodSpec]:
    """A pod whose UID is its name, and its processes. Containers are ``app``, ``i:init``,
    ``s:sidecar``; the command ``sleep`` runs for ever, ``slow`` takes its time to end and
    ``true`` ends by itself, as init containers do."""
    roles = {"i": "init", "s": "sidecar"}
    asked = resources(request, limit)
    made: list[Container] = []
    for number, each in enumerate(containers or ("app",)):
        role, _, plain = each.rpartition(":")
        field = f"spec.containers[{number}]"
        made.append(Container(plain, roles.get(role, "regular"), field, asked))  # type: ignore[arg-type]
    launches = tuple(
        ProcessSpec(
            one.name,
            one.role,
            ("true" if one.role == "init" else command,),
            (),
            "/",
            WHO,
            "Always" if one.role == "sidecar" else restart,
            mounts=tuple(VolumeMount(each, f"/{each}") for each in volumes),
        )
        for one in made
    )
    held = tuple(MemoryVolume(each, None) for each in volumes)
    return Pod("d", name, name, "t.yaml", tuple(made)), PodSpec(
        name, f"d/{name}", launches, 2.0, (), held
    )


_CLONING: WeakKeyDictionary[SimKernel, set[str]] = WeakKeyDictionary()
"""The cpusets of each kernel that give new ones what they have."""


class Directory(MountedTree):
    """One hierarchy of the simulated kernel, in the place of one that is mounted."""

    def __init__(self, point: str, kernel: SimKernel, on: On) -> None:
        super().__init__(point)
        self._kernel = kernel
        self._on = on
        self._tree = point.rpartition("/")[2] if kernel.hierarchy == "v1" else None
        self._cloning = _CLONING.setdefault(kernel, set())

    def _there(self, path: str) -> bool:
        group = self._kernel.groups.get(path or "/")
        return group is not None and (self._tree or "") in group.inodes

    def mkdir(self, path: str) -> bool:
        if self._there(path):
            return False
        self._on(f"mkdir {path} {self._tree}")
        self._kernel.mkdir(path, self._tree)
        above = path.rpartition("/")[0]
        if self._tree == "cpuset" and above in self._cloning:
            self._cloning.add(path)
            for file in ("cpuset.cpus", "cpuset.mems"):
                self._kernel.write(path, file, self._kernel.read(above, file))
        return True

    def rmdir(self, path: str) -> bool:
        if not self._there(path):
            return False
        self._on(f"rmdir {path} {self._tree}")
        self._kernel.rmdir(path, self._tree)
        if self._tree == "cpuset":
            self._cloning.discard(path)
        return True

    def write(self, path: str, file: str, value: str) -> None:
        self._on(f"write {path} {file}")
        if file == "cgroup.clone_children":
            self._cloning.add(path)
            return
        self._kernel.write(path or "/", file, value)

    def read(self, path: str, file: str) -> str:
        kernel = self._kernel
        if not self._there(path):
            raise refusal(errno.ENOENT)
        match file:
            case "cgroup.procs":
                return "\n".join(str(one.pid) for one in kernel.members(path or "/"))
            case "cgroup.clone_children":
                return str(int(path in self._cloning))
            case "cgroup.type":
                return "domain"
            case "cgroup.controllers" if not path:
                return " ".join(kernel.controllers)
            case "cgroup.controllers":
                return kernel.read(path.rpartition("/")[0] or "/", "cgroup.subtree_control")
            case "memory.current" | "memory.usage_in_bytes":
                return str(kernel.memory(path))
        return kernel.read(path or "/", file)

    def open_to_read(self, path: str, file: str) -> int:
        text = self.read(path, file)
        descriptor = os.memfd_create("file")
        os.write(descriptor, text.encode())
        return descriptor

    def open_to_write(self, path: str, file: str) -> int:
        raise refusal(errno.ENOENT)

    def identity(self, path: str) -> int | None:
        group = self._kernel.groups.get(path or "/")
        return None if group is None else group.inodes.get(self._tree or "")

    def inode(self, path: str) -> int:
        found = self.identity(path)
        if found is None:
            raise refusal(errno.ENOENT)
        return found

    def children(self, path: str) -> list[str]:
        return sorted(one for one in self._kernel.children(path or "/") if self._there(one))

    def below(self, path: str) -> dict[str, int]:
        if not self._there(path):
            return {}
        found = {path: self.inode(path)}
        for one in self.children(path):
            found |= self.below(one)
        return found


class Disk:
    """Volumes made of names."""

    def __init__(self, on: On) -> None:
        self.on = on
        self.there: dict[str, tuple[str, ...]] = {}

    def provide(self, uid: str, volumes: Sequence[PodVolume]) -> Mapping[str, str]:
        self.on(f"provide {uid}")
        self.there[uid] = tuple(volume.name for volume in volumes)
        return {volume.name: f"/v/{uid}/{volume.name}" for volume in volumes}

    def remove(self, uid: str) -> bool:
        if uid in self.there:
            self.on(f"give back {uid}")
            del self.there[uid]
        return True

    def existing(self) -> Mapping[str, tuple[str, ...]]:
        return dict(self.there)


class Paper:
    """The journal, with the boundaries before and after each of its writes."""

    wants_before = JournalFile.wants_before

    def __init__(self, journal: JournalFile, on: On) -> None:
        self._journal = journal
        self._on = on
        self.ledger: JournalState = journal.ledger

    def seen(self, values: Mapping[Key, str]) -> None:
        self._journal.seen(values)

    def record(self, entries: Sequence[Entry]) -> None:
        self._on("record")
        self._journal.record(entries)

    def record_later(self, entries: Sequence[Entry]) -> None:
        self._journal.record_later(entries)

    def rewrite(self) -> None:
        self._journal.rewrite()


class World:
    """What an agent leaves when it is killed. ``journal`` are the bytes of its file."""

    def __init__(self, hierarchy: str, others: Iterable[str] = ()) -> None:
        self.on: On = lambda what: None
        self.clock = Clock()
        self.kernel = SimKernel(
            hierarchy,  # type: ignore[arg-type]
            facts=FOUR_CPUS,
            controllers=TREES if hierarchy == "v1" else None,
            hugepages=(),
        )
        if hierarchy == "v2":
            words = " ".join(f"+{name}" for name in self.kernel.controllers)
            self.kernel.write("/", "cgroup.subtree_control", words)
        for path in others:
            self.kernel.mkdir(path)
        self.runtime = Runtime(self.kernel, self.clock, self._told)
        self.disk = Disk(self._told)
        self.journal = b""

    def _told(self, what: str) -> None:
        self.on(what)

    def copy(self) -> World:
        """The same machine once more."""
        other = World.__new__(World)
        other.on = lambda what: None
        other.clock = Clock()
        other.clock.now = self.clock.now
        other.kernel = self.kernel.copy()
        other.runtime = self.runtime.copy(other.kernel, other.clock, other._told)
        other.disk = Disk(other._told)
        other.disk.there = dict(self.disk.there)
        other.journal = self.journal
        return other

    def driver(self, root: str = ROOT) -> Cgroupfs:
        """The real driver on this kernel."""
        v1 = self.kernel.hierarchy == "v1"
        mounts = {tree: f"/simulated/{tree}" for tree in TREES} if v1 else {"unified": "/simulated"}
        made = Cgroupfs(self.kernel.hierarchy, mounts, root, sleep=lambda seconds: None)

        def opened(point: str) -> Directory:
            return Directory(point, self.kernel, self._told)

        made.layout = (
            HierarchiesV1(mounts, opened)
            if v1
            else HierarchyV2("/simulated", made.layout.wanted, opened)  # type: ignore[attr-defined]
        )
        return made

    @property
    def processes(self) -> Counter[str]:
        """How many processes live in each group."""
        return Counter(one.path for one in self.kernel.processes.values() if one.exit_code is None)


class Agent:
    """An agent on such a machine; ``state`` is its own directory."""

    def __init__(
        self,
        world: World,
        state: Path,
        node: Node,
        pods: Iterable[tuple[Pod, PodSpec]],
        config: Config | None = None,
    ) -> None:
        self.world = world
        folder = state / ROOT[1:]
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
        self.file = folder / "journal"
        if world.journal:
            self.file.write_bytes(world.journal)
        else:
            self.file.unlink(missing_ok=True)
        self.driver = world.driver()
        self.journal = open_journal(ROOT, self.driver, state=str(state), boot="boot", verb="run")
        self.driver.others.update(self.journal.ledger.adopted)
        self.paper = Paper(self.journal, world._told)
        self.driver.journal = self.paper
        self.source = Manifests(node)
        for one, spec in pods:
            self.source.put(one, spec)
        self.reconciler = Reconciler(
            config or Config(root=ROOT, interval_seconds=None),
            self.driver,
            world.kernel,
            world.runtime,
            world.disk,
            world.clock,
            world.kernel,
            journal=self.paper,
            adopt=self.driver.others.update,
        )
        self.said: list[str] = list(self.journal.notes)
        self.turns = 0

    def turn(self, *, whole: bool = False) -> SyncResult:
        self.world._told("turn")
        turn = self.reconciler.sync(self.source.current(), whole=whole)
        self.turns += 1
        self.said += [*turn.errors, *turn.notes]
        return turn

    def want(self, pods: Mapping[str, tuple[Pod, PodSpec]]) -> None:
        """These pods are wanted from now on."""
        for uid in [uid for uid in self.source.pods if uid not in pods]:
            self.source.drop(uid)
        for uid, (one, spec) in pods.items():
            was = self.source.pods.get(uid)
            if was is None or (was.pod, was.spec) != (one, spec):
                self.source.put(one, spec)

    def wait(self, longest: float = 1.0) -> None:
        """Let time pass until something is due."""
        clock, at = self.world.clock, self.reconciler.next_at()
        times = [longest, self.world.runtime.due()]
        times += [] if at is None else [at - clock.now]
        clock.now += max(0.001, min(one for one in times if one is not None))

    @property
    def idle(self) -> bool:
        """Whether every pod is where it is to be."""
        reconciler = self.reconciler
        if reconciler._collector.count or self.world.runtime.due() is not None:
            return False
        return all(
            (worker.phase is WorkerPhase.TERMINATED and worker.cleanup_done)
            or (
                worker.phase is WorkerPhase.RUNNING
                and worker.desired is not None
                and worker.resize_state != "InProgress"
                and not worker.in_backoff(reconciler.context.now)
            )
            for worker in reconciler.context.workers.values()
        )

    def settle(self, most: int = 40) -> int:
        """Turn until all is as it should be and a look at everything says so; how many turns."""
        whole = False
        for number in range(1, most + 1):
            turn = self.turn(whole=whole)
            if turn.quiet and self.idle:
                if whole:
                    return number
                whole = True
                continue
            whole = False
            self.wait()
        raise AssertionError(
            (self.said[-8:], [p.status_row(0.0) for p in self.reconciler.context.workers.values()])
        )

    def close(self) -> bytes:
        """What the journal holds; the file is let go as a killed process lets go of it."""
        data = self.file.read_bytes() if self.file.exists() else b""
        self.journal.close(gone=False)
        return data


__all__ = ["ROOT", "Agent", "Resources", "World", "pod"]
