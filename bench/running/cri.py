"""A pod of two containers through containerd: by an agent, and by bare calls with the same client.

A containerd of its own makes both; a container's first word is a file in a memory-backed volume. The
agent's side begins when the manifest is renamed into its directory and holds all that it adds: the
manifest, the plan, the groups, the volume, its own record. The bare side asks for the same sandbox
and the same containers, made in groups of the runtime's own. What counts is what of the agent's time
passes outside of its calls: a busy machine lengthens both sides by more than that. Needs root, containerd, runc and a static busybox:
``python -m bench.running.cri`` in the environment of ``make test``.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import yaml
from msgspec.structs import replace

from bench.figures import Figure, show
from qoslet.core.api.pod import Container, Pod
from qoslet.core.workload.container_spec import PodMessages
from qoslet.core.workload.oci.image_spec import read_images
from qoslet.core.workload.process_spec import PodSpec
from qoslet.host.cri import requests
from qoslet.host.cri.calls import Calls
from qoslet.host.cri.pb import cri_pb2 as pb
from tests.live.cri.containerd import IMAGE, Containerd

ROUNDS = int(os.environ.get("QOSLET_BENCH_ROUNDS", "15"))
BOUND_MS = 15.0
SCRIPT = "touch /v/{0}; sleep 1000"
NAMES = ("a", "b")
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, uid: {name}-uid}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  volumes: [{{name: v, emptyDir: {{medium: Memory, sizeLimit: 1Mi}}}}]
  containers:
"""
CONTAINER = """\
  - name: {name}
    image: {image}
    imagePullPolicy: Never
    command: [sh, -c, "{script}"]
    volumeMounts: [{{name: v, mountPath: /v}}]
    resources: {{requests: {{cpu: 100m, memory: 16Mi}}, limits: {{cpu: 500m, memory: 64Mi}}}}
"""


def manifest(name: str) -> str:
    """The pod."""
    rows = [CONTAINER.format(name=one, image=IMAGE, script=SCRIPT.format(one)) for one in NAMES]
    return POD.format(name=name) + "".join(rows)


def both(folder: Path, seconds: float = 60.0) -> float:
    """Wait for the first words of both containers; the time."""
    deadline = time.perf_counter() + seconds
    wanted = [folder / name for name in NAMES]
    while not all(map(os.path.exists, wanted)):
        if time.perf_counter() > deadline:
            raise SystemExit(f"nothing came up in {folder}")
        time.sleep(0.0002)
    return time.perf_counter()


class Bare:
    """The calls that no client can do without."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._folder = folder
        self._endpoint = endpoint
        self._count = 0
        self._calls = self._loop.run_until_complete(self._open())

    async def _open(self) -> Calls:
        calls = Calls(self._endpoint)
        await calls.open()
        return calls

    def once(self) -> float:
        """Milliseconds until both containers have said their first word."""
        self._count += 1
        place = self._folder / str(self._count)
        place.mkdir()
        begun = time.perf_counter()
        box = self._loop.run_until_complete(self._make(place))
        took = both(place) - begun
        self._loop.run_until_complete(self._drop(box))
        return took * 1000

    async def _make(self, place: Path) -> str:
        call = self._calls
        spec = self._spec(f"bare{self._count}", place)
        logs = str(place)
        config = requests.sandbox_config(spec, "", "/none", logs, 0, True)
        request = pb.RunPodSandboxRequest(config=config)
        box = (await call("RunPodSandbox", request, pb.RunPodSandboxResponse)).pod_sandbox_id
        for launch in spec.launches:
            (place / launch.name).mkdir()
            image = pb.ImageStatusRequest(image=pb.ImageSpec(image=IMAGE))
            known = await call("ImageStatus", image, pb.ImageStatusResponse, service="ImageService")
            made = requests.container_config(spec, launch, known.image.id, "/none", 0, True)
            create = pb.CreateContainerRequest(
                pod_sandbox_id=box, config=made, sandbox_config=config
            )
            answer = await call("CreateContainer", create, pb.CreateContainerResponse)
            start = pb.StartContainerRequest(container_id=answer.container_id)
            await call("StartContainer", start, pb.Empty)
        return box

    def _spec(self, name: str, place: Path) -> PodSpec:
        """The same pod as the agent's, below a group that the runtime makes."""
        document = yaml.safe_load(manifest(name))
        rows = [Container(one, "regular", f"spec.containers[{at}]") for at, one in enumerate(NAMES)]
        pod = Pod("default", name, f"{name}-uid", name, tuple(rows))
        block = {
            "cpu_shares": 102, "cpu_quota": 50000, "cpu_period": 100000,
            "memory_limit_in_bytes": 64 << 20, "oom_score_adj": 999,
        }  # fmt: skip
        parent = f"/qoslet-bench-bare/{self._count}"
        messages = PodMessages(parent, dict.fromkeys(NAMES, block), {"cpu_shares": 204}, {})
        spec = replace(read_images(pod, document), messages=messages)
        return spec.sourced({"v": str(place)})

    async def _drop(self, box: str) -> None:
        await self._calls("StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=box), pb.Empty)
        remove = pb.RemovePodSandboxRequest(pod_sandbox_id=box)
        await self._calls("RemovePodSandbox", remove, pb.Empty)

    def close(self) -> None:
        """Hang up; remove the groups that runc made above its own."""
        self._loop.run_until_complete(self._calls.close())
        self._loop.close()
        for point in Path("/sys/fs/cgroup").iterdir():
            for place in sorted((point / "qoslet-bench-bare").glob("*"), reverse=True):
                if place.is_dir():
                    place.rmdir()
            if (point / "qoslet-bench-bare").is_dir():
                (point / "qoslet-bench-bare").rmdir()


TIMED = """
import sys, time
from qoslet.host.cri.calls import Calls
told = open(sys.argv.pop(1), "w", buffering=1)
plain = Calls.__call__
async def timed(self, method, *words, **more):
    begun = time.perf_counter()
    try:
        return await plain(self, method, *words, **more)
    finally:
        told.write(f"{method} {begun} {time.perf_counter()}\\n")
Calls.__call__ = timed
from qoslet.cli import main
sys.exit(main())
"""
"""The program with its calls of the runtime timed: what passes in them is the runtime's."""
MAKING = ("RunPodSandbox", "ImageStatus", "CreateContainer", "StartContainer")


class Agent:
    """A ``qoslet run --with containerd``. ``outside`` are the milliseconds of each pod that passed
    outside of calls, from its manifest to the end of the last start."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self.root = f"/qoslet-bench-{secrets.token_hex(4)}"
        self._folder = folder
        self._manifests = folder / "manifests"
        self._manifests.mkdir(mode=0o700)
        self._state = Path("/run/qoslet") / self.root[1:]
        self.outside: list[float] = []
        self._told = folder / "calls"
        command = [sys.executable, "-c", TIMED, str(self._told), "run", str(self._manifests)]
        command += ["--plain"]
        command += ["--with", "containerd", "--container-runtime-endpoint", endpoint]
        command += ["--cgroup-root", self.root, "--interval", "60"]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        while not (self._state / "agent.sock").exists():
            if self._process.poll() is not None:
                raise SystemExit((folder / "log").read_text())
            time.sleep(0.05)
        self._count = 0

    def once(self) -> float:
        """Milliseconds from the manifest until both containers have said their first word."""
        self._count += 1
        name = f"pod{self._count}"
        aside = self._folder / f"{name}.yaml"
        aside.write_text(manifest(name))
        time.sleep(0.3)
        begun = time.perf_counter()
        aside.rename(self._manifests / aside.name)
        took = both(self._state / f"volumes/{name}-uid/v") - begun
        self.outside.append(self._outside(begun))
        (self._manifests / aside.name).unlink()
        while (self._state / f"volumes/{name}-uid").exists():
            time.sleep(0.01)
        return took * 1000

    def _outside(self, begun: float) -> float:
        """What was the agent's own of a pod's time."""
        while True:
            rows = [line.split() for line in self._told.read_text().splitlines()]
            calls = [(name, float(a), float(b)) for name, a, b in rows if float(a) > begun]
            made = [call for call in calls if call[0] in MAKING]
            if sum(name == "StartContainer" for name, _, _ in made) == len(NAMES):
                break
            time.sleep(0.01)
        return (made[-1][2] - begun - sum(end - at for _, at, end in made)) * 1000

    def close(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)


def main() -> int:
    """Measure in turns and print."""
    folder = Path(tempfile.mkdtemp(prefix="qoslet-bench-", dir="/tmp"))
    try:
        with Containerd(folder / "c") as containerd:
            bare, agent = Bare(containerd.endpoint, folder), Agent(containerd.endpoint, folder)
            try:
                bare.once(), agent.once()
                agent.outside.clear()
                pairs = [(agent.once(), bare.once()) for _ in range(ROUNDS)]
            finally:
                agent.close()
                bare.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ours, floor = median(p[0] for p in pairs), median(p[1] for p in pairs)
    figures = [
        Figure("pod of two containers through containerd", "ms", ours, floor, "bare calls", None),
        Figure("of that outside of calls", "ms", median(agent.outside), None, "", BOUND_MS),
    ]
    show(figures)
    return int(not all(one.holds for one in figures))


if __name__ == "__main__":
    sys.exit(main())
