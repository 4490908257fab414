"""What tests of OCI runtimes share: an image of busybox, a tree of one's own, the keeper's runtime."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from qoslet.core.api.ids import bundle_id
from qoslet.core.reconcile.steps import Step
from qoslet.core.workload.container_spec import (
    ContainerSpec,
    OciPod,
    OciRuntime,
    PlannedBlock,
    Sandbox,
)
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import Backoff
from qoslet.core.workload.oci.oci_spec import SHARED_MEMORY
from qoslet.core.workload.process_spec import MemoryVolume, PodSpec, ProcessSpec, VolumeMount
from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.containers.tmpfs_volumes import TmpfsVolumes
from qoslet.host.keeper.client import KeeperRuntime
from qoslet.host.linux.mountinfo import mounts
from qoslet.host.machine.probe import probe
from qoslet.host.oci import find_runtime
from tests.contract.drivers import mounts_of
from tests.host.images import layouts
from tests.live.agent.test_keeper import ROOT

EMULATED = "QOSLET_SYSTEM" in os.environ
PATIENCE = 240.0 if EMULATED else 40.0
QUICK = Backoff(first=0.2, longest=1.0)
BUSYBOX = "/bin/busybox"
APPLETS = "sh sleep cat echo id ls hostname ip touch mkdir env test kill true false head dd tr wc"

States = dict[str, ContainerState]


def busybox(folder: Path, **config: Any) -> Path:
    """A layout with an image ``busybox:1`` of two layers."""
    program = Path(BUSYBOX).read_bytes()
    first = layouts.layer(
        layouts.folder("bin"),
        layouts.file("bin/busybox", program, mode=0o755),
        *(layouts.link(f"bin/{name}", "busybox") for name in APPLETS.split()),
        layouts.file("etc/passwd", b"root:x:0:0::/root:/bin/sh\nweb:x:101:102::/:/bin/sh\n"),
        layouts.file("etc/group", b"root:x:0:\nweb:x:102:\nmore:x:103:web\n"),
        layouts.file("gone", b"1"),
    )
    second = layouts.layer(
        layouts.folder("tmp", mode=0o1777),
        layouts.folder("srv"),
        layouts.file("srv/page", b"of the image\n"),
        layouts.file(".wh.gone"),
    )
    name = {layouts.REF: "docker.io/library/busybox:1"}
    found = {"Cmd": ["sh", "-c", "echo from the image; exec sleep 600"], **config}
    made = layouts.Image([first, second], found, name, architecture=_architecture())
    return layouts.write(folder / "images", made)


def _architecture() -> str:
    from qoslet.core.workload.oci.image import architecture_of

    return architecture_of(os.uname().machine)


def found(name: str) -> find_runtime.InstalledRuntime | str:
    """A runtime, or why it cannot be had here."""
    try:
        return find_runtime.find(name)  # type: ignore[arg-type]
    except CannotDo as error:
        return str(error)


def launch(
    name: str, line: str = "", *, restart: str = "Never", stop: str = "SIGTERM", **asked: Any
) -> ProcessSpec:
    """A container that runs a line of shell, or what the image says."""
    command = ("sh", "-c", line) if line else ()
    mounted = asked.pop("mounts", ())
    own = ContainerSpec(**{"image": "busybox:1", "command": command, **asked})
    shm = (VolumeMount(SHARED_MEMORY, "/dev/shm"),)
    return ProcessSpec(
        name,
        asked.pop("role", "regular"),
        command,
        (),
        "/",
        ROOT,
        restart,  # type: ignore[arg-type]
        oom_score_adj=500,
        stop_signal=stop,
        mounts=(*mounted, *shm),
        contained=own,
    )


class Bench:
    """A tree with a keeper of its own; pods are in groups that the test makes, as the agent would."""

    def __init__(self, folder: Path, runtime: find_runtime.InstalledRuntime, **config: Any) -> None:
        self.hierarchy = probe().hierarchy or "v1"
        self.folder = folder / f"state-{secrets.token_hex(3)}"
        self.folder.mkdir(mode=0o700)
        self.root = f"/qoslet-test-{secrets.token_hex(4)}"
        self.tree = Cgroupfs(self.hierarchy, mounts_of(self.hierarchy), self.root)
        self.volumes = TmpfsVolumes(f"{self.folder}/volumes")
        self.storage = folder / "storage"
        self.engine = OciRuntime(
            runtime.name,
            runtime.program,
            str(self.storage),
            (str(busybox(folder, **config)),),
            v2=self.hierarchy == "v2",
        )
        self.clients: list[KeeperRuntime] = []
        self.runtime = self.client()

    def client(self) -> KeeperRuntime:
        made = KeeperRuntime.connect(
            str(self.folder),
            self.root,
            self.hierarchy,
            mounts_of(self.hierarchy),
            backoff=QUICK,
        )
        self.clients.append(made)
        return made

    def path(self, uid: str, name: str = "app") -> str:
        return f"{self.root}/pod{uid}/{bundle_id(uid, name)}"

    def spec(self, uid: str, *launches: ProcessSpec, limit: int = 0, **box: Any) -> PodSpec:
        memory: dict[str, Any] = {"memory": {"limit": limit}} if limit else {}
        return PodSpec(
            uid,
            f"default/{uid}",
            launches,
            5.0,
            (),
            volumes=(MemoryVolume(SHARED_MEMORY, 1 << 20), MemoryVolume("data", 1 << 20)),
            sandbox=Sandbox(**{"hostname": uid, **box}),
            bundles=OciPod(
                self.engine,
                {
                    one.name: PlannedBlock(
                        self.path(uid, one.name), {"cpu": {"shares": 102}, **memory}
                    )
                    for one in launches
                },
            ),
        )

    def begin(self, uid: str, *launches: ProcessSpec, **more: Any) -> PodSpec:
        spec = self.spec(uid, *launches, **more)
        self.start(spec)
        return spec

    def start(self, spec: PodSpec, runtime: KeeperRuntime | None = None) -> dict[str, str]:
        pod = f"{self.root}/pod{spec.uid}"
        assert [one.error for one in self.tree.perform([Step("create", pod)])] == [None]
        sources = self.volumes.provide(spec.uid, spec.volumes)
        paths = {one.name: self.path(spec.uid, one.name) for one in spec.launches}
        (runtime or self.runtime).start(spec.sourced(sources), paths)
        return paths

    def states(self) -> States:
        """The containers, by ``uid/name``."""
        return {f"{one.pod_uid}/{one.name}": one for one in self.runtime.poll()}

    def until(self, ready: Callable[[States], bool]) -> States:
        deadline = time.monotonic() + PATIENCE
        while True:
            states = self.states()
            if ready(states):
                return states
            assert time.monotonic() < deadline, (states, self.runtime.notes)
            time.sleep(0.005)

    def running(self) -> States:
        """All containers, once they run."""
        return self.until(lambda s: bool(s) and all(one.pid for one in s.values()))

    def over(self) -> States:
        """All containers, once they have ended."""
        return self.until(
            lambda s: (
                bool(s) and all(one.exit_code is not None and not one.running for one in s.values())
            )
        )

    def log(self, uid: str, name: str = "app", run: int = 0) -> list[str]:
        path = self.folder / f"logs/default_{uid}_{uid}/{name}/{run}.log"
        try:
            return [line.split(" ", 3)[3] for line in path.read_text().splitlines()]
        except FileNotFoundError:
            return []

    def printed(self, uid: str, line: str, name: str = "app") -> None:
        """Wait until a line was printed."""
        deadline = time.monotonic() + PATIENCE
        while line not in self.log(uid, name):
            assert time.monotonic() < deadline, (self.log(uid, name), self.states())
            time.sleep(0.01)

    def remove(self, uid: str) -> None:
        """A pod that has ended goes as the agent lets it go."""
        self.volumes.remove(uid)
        for path in self.tree.below(f"{self.root}/pod{uid}"):
            assert self.tree.perform([Step("remove", path)])[0].error is None
        self.runtime.remove_pod(uid)

    def end(self) -> None:
        """End everything; nothing may stay."""
        for uid in self.runtime.list_pods():
            self.runtime.stop(uid, 0)
        self.until(lambda s: not any(one.running for one in s.values()))
        for uid in list(self.runtime.list_pods()):
            self.remove(uid)
        for uid in self.volumes.existing():
            self.volumes.remove(uid)
        for path in self.tree.below(self.root):
            assert self.tree.perform([Step("remove", path)])[0].error is None
        for client in self.clients:
            if client is not self.runtime:
                client.close()
        self.runtime.close(PATIENCE)
        assert self.left() == []

    def left(self) -> list[str]:
        """What of ours stands anywhere."""
        found = [one.point for one in mounts() if str(self.folder) in one.point]
        trees = [one.point for one in mounts() if one.type in ("cgroup", "cgroup2")]
        found += [one + self.root for one in trees if os.path.isdir(one + self.root)]
        for place in (self.folder / "oci", self.folder / "keeper", self.storage / "containers"):
            found += [str(one) for one in [place, *place.rglob("*")] if one.exists()]
        return found

    def clean(self) -> None:
        """Whatever happened: nothing of the test stays."""
        for pid in {client.pid for client in self.clients} - {0}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for client in self.clients:
            client.close()
        self.tree.kill(self.root)
        for one in reversed(mounts()):
            if str(self.folder) in one.point:
                os.system(f"umount -l '{one.point}'")
        for one in mounts():
            if one.type in ("cgroup", "cgroup2"):
                for path, _, _ in os.walk(one.point + self.root, topdown=False):
                    os.rmdir(path)
        self.tree.close()
        shutil.rmtree(self.folder)
        shutil.rmtree(self.storage, ignore_errors=True)


def renamed(spec: PodSpec, engine: OciRuntime) -> PodSpec:
    """The same pod with another engine."""
    assert spec.bundles is not None
    return replace(spec, bundles=replace(spec.bundles, engine=engine))
