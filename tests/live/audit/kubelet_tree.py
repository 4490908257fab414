"""Pods as a kubelet and containerd leave them in this kernel, written without a journal, and
random changes behind their back."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from qoslet.app.audit.machine import LiveMachine, audit_source
from qoslet.core.api.manifest import Options
from qoslet.core.audit.finding import AuditReport
from qoslet.core.audit.live import SUBTREE
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.node.flags import Flags
from qoslet.core.plan.plan import plan
from qoslet.core.reconcile.steps import Step
from qoslet.core.resources.cgroup_tree import Cgroup
from qoslet.host.cgroupfs.observe.audit_reader import CgroupReader
from qoslet.host.files import manifests
from qoslet.host.files import node as node_files
from tests.contract.drivers import Bench, mounts_of
from tests.live.kernel.parity import QosTotals, check

RESOURCES: tuple[dict[str, Any], ...] = (
    {"limits": {"cpu": "200m", "memory": "64Mi"}},
    {"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"cpu": "500m", "memory": "96Mi"}},
    {"requests": {"cpu": "50m"}},
    {},
)
PODS = 8
"""Each of the four kinds of pods twice."""


class Change(NamedTuple):
    """What was done, the finding that it must give (verdict, path, file), and how it is undone."""

    what: str
    verdict: str
    path: str
    file: str | None
    undo: Callable[[], object]


def pod_document(number: int) -> dict[str, Any]:
    containers = [
        {"name": f"c{one}", "image": "x", "resources": RESOURCES[(number + one) % 4]}
        for one in range(1 + number % 2)
    ]
    statuses = [
        {
            "name": f"c{one}",
            "containerID": f"containerd://{number:032x}{one:032x}",
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
        for one in range(len(containers))
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{number}", "uid": f"0a1b2c3d-0000-4000-8000-{number:012d}"},
        "spec": {"containers": containers},
        "status": {"phase": "Running", "containerStatuses": statuses},
    }


class KubeletTree:
    """The tree below the root of a bench."""

    def __init__(self, bench: Bench, folder: Path, count: int = PODS) -> None:
        self.bench = bench
        mounts = mounts_of(bench.hierarchy)
        self.mounts = {"unified": mounts} if isinstance(mounts, str) else dict(mounts)
        pods = folder / "pods.json"
        items = [pod_document(number) for number in range(count)]
        pods.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
        flags = Flags(
            kubernetes="1.36",
            runtime="containerd-2.2.0+runc-1.4.0",
            cgroup_root=bench.root,
            cgroup_driver="cgroupfs",
        )
        node = node_files.load_node([], flags)[0]
        self.plan = plan(manifests.load([str(pods)], Options()).pods, node)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        totals = QosTotals()
        placed = tuple(one for one in self.plan.cgroups if one.path is not None)
        check(0, replace(self.plan, cgroups=placed), bench.driver, bench.observer, totals)
        assert totals.different == []
        assert totals.refused == []
        for cgroup in self._containers():
            self._start(cgroup.path or "", cgroup)
        for number, cgroup in enumerate(one for one in self.plan.cgroups if one.level == "sandbox"):
            self._sandbox(cgroup, number)

    def _containers(self) -> list[Cgroup]:
        return [one for one in self.plan.cgroups if one.level == "container"]

    def _sandbox(self, sandbox: Cgroup, number: int) -> None:
        pod = next(
            one for one in self.plan.cgroups if one.level == "pod" and one.pod is sandbox.pod
        )
        path = f"{pod.path}/{number + 1:064x}"
        self._do(Step("create", path))
        for setting in sandbox.settings:
            self._do(Step("set", path, setting.file, setting.value))
        self._start(path, sandbox)

    def _start(self, path: str, cgroup: Cgroup) -> None:
        process = subprocess.Popen(["sleep", "100000"])
        self.processes[path] = process
        self._do(Step("attach", path, pid=process.pid))
        with suppress(PermissionError):
            Path(f"/proc/{process.pid}/oom_score_adj").write_text(str(cgroup.oom_score_adj))

    def _do(self, step: Step) -> None:
        (outcome,) = self.bench.driver.perform([step])
        assert outcome.error is None, outcome.error

    def look(self) -> AuditReport:
        """The audit of the tree, two looks without a pause."""
        reader = CgroupReader(self.bench.hierarchy, self.mounts)
        source = LiveMachine(reader, systemd=False)
        return audit_source(
            self.plan, source, self.mounts, lambda: self.plan, pause=lambda _seconds: None
        ).report

    def pod(self, number: int) -> str:
        """The path of a pod's cgroup."""
        pods = [one.path for one in self.plan.cgroups if one.level == "pod"]
        return pods[number] or ""

    def end(self) -> None:
        """End the processes."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()

    def directory(self, path: str, name: str = "memory") -> Path:
        """Where a cgroup is in the hierarchy of a controller."""
        if self.bench.hierarchy == "v1":
            return Path(self.mounts[name] + path)
        return Path(self.mounts["unified"] + path)

    def directories(self, path: str) -> list[Path]:
        """Where it is, in all hierarchies that have it."""
        points = dict.fromkeys(self.mounts.values()) if self.bench.hierarchy == "v1" else ()
        found = [Path(point + path) for point in points]
        return [place for place in found if place.exists()] or [self.directory(path)]

    def write(self, path: str, file: str, value: str) -> str:
        """Write a file; its text before."""
        place = self.directory(path, controller(file)) / file
        before = place.read_text().strip()
        place.write_text(value)
        return before


def changes(tree: KubeletTree, chance: random.Random) -> Iterator[Change]:
    """Random changes that the kernel takes, without an end."""
    kinds = (
        *(_value, _value, _value, _unplanned, _group, _moved, _removed, _oom, _controller),
        _stranger,
    )
    while True:
        with suppress(OSError, StopIteration):
            yield chance.choice(kinds)(tree, chance)


VALUES = {
    "cpu.shares": ("3", "777"),
    "cpu.weight": ("9", "777"),
    "cpu.max": ("33000 100000", "44000 100000"),
    "cpu.cfs_quota_us": ("9000", "11000"),
    "memory.max": ("41943040", "50331648"),
    "memory.limit_in_bytes": ("41943040", "50331648"),
    "pids.max": ("77", "99"),
}


def _planned(tree: KubeletTree) -> list[Cgroup]:
    return [one for one in tree.plan.cgroups if one.path is not None]


def _value(tree: KubeletTree, chance: random.Random) -> Change:
    cgroup = chance.choice(_planned(tree))
    setting = chance.choice([one for one in cgroup.settings if one.file in VALUES])
    value = chance.choice([one for one in VALUES[setting.file] if one != setting.applied])
    path = cgroup.path or ""
    before = tree.write(path, setting.file, value)
    # where the plan writes that there is no limit, one was left: a resize cannot remove limits
    verdict = "stale" if setting.applied in ("-1", "max 100000") else "drift"
    return Change(
        f"{path}/{setting.file} = {value}", verdict, path, setting.file,
        lambda: tree.write(path, setting.file, before),
    )  # fmt: skip


def _unplanned(tree: KubeletTree, chance: random.Random) -> Change:
    """A limit that no plan sets: a limit that was removed, or Memory QoS that is off."""
    pods = [one for one in _planned(tree) if one.level in ("pod", "container")]
    cgroup = chance.choice(pods)
    planned = {one.file for one in cgroup.settings}
    v1 = tree.bench.hierarchy == "v1"
    files = ("memory.limit_in_bytes",) if v1 else ("memory.max", "memory.high", "memory.low")
    file = chance.choice([one for one in files if one not in planned] or [""])
    if not file:
        raise StopIteration
    path, value = cgroup.path or "", "67108864"
    before = tree.write(path, file, value)
    fresh = "-1" if v1 else before
    return Change(
        f"{path}/{file} = {value}, not planned", "stale", path, file,
        lambda: tree.write(path, file, fresh),
    )  # fmt: skip


def _group(tree: KubeletTree, chance: random.Random) -> Change:
    cgroup = chance.choice([one for one in _planned(tree) if one.level in ("node", "qos", "pod")])
    orphan = cgroup.level != "pod" and chance.random() < 0.5
    leaf = f"{'pod' if orphan else 'x'}{chance.randrange(10**9)}"
    path = f"{cgroup.path}/{leaf}"
    made = [place / leaf for place in tree.directories(cgroup.path or "")]
    if chance.random() < 0.3:
        made = [tree.directory(path)]
    for place in made:
        place.mkdir()

    def undo() -> None:
        for place in made:
            place.rmdir()

    return Change(f"mkdir {path}", "orphan" if orphan else "foreign", path, None, undo)


def _moved(tree: KubeletTree, chance: random.Random) -> Change:
    """A process beside the containers; v2 refuses that, where it is moved to another container."""
    containers = [one for one in _planned(tree) if one.level == "container"]
    cgroup = chance.choice(containers)
    path = cgroup.path or ""
    pid = tree.processes[path].pid
    v1 = tree.bench.hierarchy == "v1"
    above = path.rpartition("/")[0]
    to = above if v1 else next(one.path or "" for one in containers if one.path != path)
    places = tree.directories(to)
    for place in places:
        (place / "cgroup.procs").write_text(str(pid))

    def undo() -> None:
        for place in tree.directories(path):
            (place / "cgroup.procs").write_text(str(pid))

    verdict, at = ("foreign", above) if v1 else ("missing", path)
    return Change(f"process {pid} to {to}", verdict, at, None, undo)


def _removed(tree: KubeletTree, chance: random.Random) -> Change:
    cgroup = chance.choice([one for one in _planned(tree) if one.level == "container"])
    path = cgroup.path or ""
    pid = tree.processes[path].pid
    for place in tree.directories(tree.bench.root):
        (place.parent / "cgroup.procs").write_text(str(pid))
    for place in tree.directories(path):
        with suppress(FileNotFoundError):
            place.rmdir()

    def undo() -> None:
        tree._do(Step("create", path))
        for setting in cgroup.settings:
            tree._do(Step("set", path, setting.file, setting.value))
        tree._do(Step("attach", path, pid=pid))

    return Change(f"rmdir {path}", "missing", path, None, undo)


def _stranger(tree: KubeletTree, chance: random.Random) -> Change:
    """A process of another mount namespace in a container's cgroup, beside its own."""
    cgroup = chance.choice([one for one in _planned(tree) if one.level == "container"])
    path = cgroup.path or ""
    child = subprocess.Popen(["unshare", "-m", "sleep", "100000"])
    own = os.readlink("/proc/self/ns/mnt")

    def undo() -> None:
        child.kill()
        child.wait()

    try:
        for _ in range(500):
            if os.readlink(f"/proc/{child.pid}/ns/mnt") != own:
                break
            time.sleep(0.01)
        for place in tree.directories(path):
            (place / "cgroup.procs").write_text(str(child.pid))
    except OSError:
        undo()
        raise

    return Change(f"process {child.pid} in {path}", "foreign", path, None, undo)


def _oom(tree: KubeletTree, chance: random.Random) -> Change:
    cgroup = chance.choice([one for one in _planned(tree) if one.level == "container"])
    path = cgroup.path or ""
    place = Path(f"/proc/{tree.processes[path].pid}/oom_score_adj")
    before = place.read_text().strip()
    value = "1000" if before != "1000" else "17"
    place.write_text(value)
    return Change(
        f"{place} = {value}", "drift", path, "oom_score_adj",
        lambda: place.write_text(before),
    )  # fmt: skip


def _controller(tree: KubeletTree, chance: random.Random) -> Change:
    """v2: a controller that is switched off below a pod's cgroup, which loses the containers' values."""
    if tree.bench.hierarchy == "v1":
        raise StopIteration
    pod = chance.choice([one for one in _planned(tree) if one.level == "pod"])
    path = pod.path or ""
    tree.directory(path).joinpath(SUBTREE).write_text("-cpu")

    def undo() -> None:
        tree.directory(path).joinpath(SUBTREE).write_text("+cpu")
        for cgroup in tree.plan.cgroups:
            if cgroup.path is not None and cgroup.path.startswith(f"{path}/"):
                for setting in cgroup.settings:
                    if controller(setting.file) == "cpu":
                        tree._do(Step("set", cgroup.path, setting.file, setting.value))
        for below, process in tree.processes.items():
            if below.startswith(f"{path}/") and process.poll() is None:
                sandbox = next(one for one in tree.plan.cgroups if one.level == "sandbox")
                if all(one.path != below for one in tree.plan.cgroups):
                    for setting in sandbox.settings:
                        tree._do(Step("set", below, setting.file, setting.value))

    return Change(f"-cpu in {path}", "controller", path, SUBTREE, undo)
