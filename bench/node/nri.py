"""How long the plugin of a runtime takes for each callback, while it plans a node of 110 pods with 220
containers again and again; the floor is a callback that decides nothing, in the same moment.

The plugin is a process of its own, with its journal in /run; the runtime is this process, real-time where
the kernel allows that, over the same socket and in the same bytes. No cgroup is made. ``--busy N`` has N processes compute meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

from bench.figures import Figure, show
from bench.running.agent import percentile
from qoslet.host.nri.pb import nri_pb2 as pb
from tests.host.nri.fake_runtime import FakeRuntime

PODS, CONTAINERS, ROUNDS = 110, 2, 10
MIB = 1 << 20
NONE: Mapping[int, int] = {}
REPLAN_SECONDS = 0.5
_CHILD = """
import sys
from functools import partial
from qoslet.app.guest import nri_run
from qoslet.app.tree import TreeLocation
from qoslet.cli.agent.agent import shared_options
from qoslet.cli.commands import parser_of
args = parser_of("nri").parse_args(sys.argv[2:])
nri_run.location_of = lambda view: TreeLocation("v2", {"unified": "/nonexistent"}, sys.argv[1])
nri_run.run(shared_options(args), nri_run.NriOptions(socket=args.nri_socket))
"""


def pods(limit: int, more: int = 0, resized: Mapping[int, int] = NONE) -> bytes:
    """The pods of a kubelet, all with this limit in MiB; ``more`` have come, ``resized`` are other limits
    of second containers by the numbers of their pods."""
    items = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{pod}", "namespace": "d", "uid": f"p{pod}"},
            "spec": {
                "containers": [
                    {
                        "name": f"c{number}",
                        "resources": {
                            "requests": {"cpu": "10m", "memory": "16Mi"},
                            "limits": {"memory": f"{resized.get(pod, limit) if number else 64}Mi"},
                        },
                    }
                    for number in range(CONTAINERS)
                ]
            },
            "status": {"phase": "Running"},
        }
        for pod in range(PODS + more)
    ]
    return json.dumps({"apiVersion": "v1", "kind": "PodList", "items": items}).encode()


class Plugin:
    """A plugin that is registered here."""

    def __init__(self, folder: Path, root: str) -> None:
        self.root = f"{root}/kubepods"
        self.folder = folder
        self.put(pods(64))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / "nri.sock"))
        listener.listen()
        words = ["--mode", "protect", "--memory-qos", "qoslet", "--nri-socket"]
        words += [str(folder / "nri.sock"), "--pods-from", str(folder / "pods.json")]
        words += ["--kubernetes", "1.36", "--memory-throttling-factor", "0.9"]
        words += ["--runtime", "containerd-2.2.0+runc-1.4.0"]
        words += ["--hierarchy", "v2", "--cgroup-driver", "cgroupfs", "--cgroup-root", root]
        command = [sys.executable, "-c", _CHILD, self.root, *words]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        listener.settimeout(30)
        sock, _ = listener.accept()
        sock.setblocking(True)
        listener.close()
        # what it waits for is the plugin alone; the thread that it starts inherits this
        with suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        self.runtime = FakeRuntime(sock)
        if not self.runtime.registered.wait(30):
            raise SystemExit(f"no registration: {self.process.communicate()[1]}")
        self._number = 0

    def put(self, data: bytes) -> None:
        """Pods as they are from now on."""
        new = self.folder / ".new"
        new.write_bytes(data)
        new.rename(self.folder / "pods.json")

    def create(self, pod: int, number: int, limit: int = 64) -> float:
        """Milliseconds of a CreateContainer that gets its values."""
        self._number += 1
        one = self._container(pod, number, f"c{self._number}", limit)
        begun = time.perf_counter()
        values = self.runtime.created(one, _sandbox(pod))
        took = time.perf_counter() - begun
        if "memory.high" not in values:
            raise SystemExit(f"no values: {values}")
        return took * 1000

    def update(self, pod: int, limit: int) -> tuple[float, bool]:
        """Milliseconds of an UpdateContainer, and whether it got the values of a new plan in time."""
        asked = pb.UpdateContainerRequest(pod=_sandbox(pod))
        asked.container.CopyFrom(self._container(pod, 1, f"u{pod}", 64))
        asked.linux_resources.memory.limit.value = limit * MIB
        begun = time.perf_counter()
        data = self.runtime.answer(self.runtime.send("UpdateContainer", asked.SerializeToString()))
        took = time.perf_counter() - begun
        told = pb.PostUpdateContainerRequest(pod=_sandbox(pod), container=asked.container)
        self.runtime.answer(self.runtime.send("PostUpdateContainer", told.SerializeToString()))
        values = str(pb.UpdateContainerResponse.FromString(data))
        return took * 1000, "memory.high" in values

    def remove(self, number: int) -> float:
        """Milliseconds of a RemoveContainer of one that has values."""
        asked = pb.RemoveContainerRequest(container=pb.Container(id=f"c{number}"))
        return self._call("RemoveContainer", asked.SerializeToString())

    def synchronize(self) -> float:
        """Milliseconds of a Synchronize with all containers."""
        sandboxes = [pb.PodSandbox(id=f"s{pod}", uid=f"p{pod}") for pod in range(PODS)]
        containers = list[pb.Container]()
        for pod in range(PODS):
            for number in range(CONTAINERS):
                made = self._container(pod, number, f"s{pod}c{number}", 64)
                made.pod_sandbox_id = f"s{pod}"
                containers.append(made)
        asked = pb.SynchronizeRequest(pods=sandboxes, containers=containers)
        return self._call("Synchronize", asked.SerializeToString())

    def _container(self, pod: int, number: int, id: str, limit: int) -> pb.Container:
        linux = pb.LinuxContainer(cgroups_path=f"{self.root}/burstable/podp{pod}/{id}")
        linux.resources.memory.limit.value = limit * MIB
        return pb.Container(id=id, pod_sandbox_id="s", name=f"c{number}", linux=linux)

    def nothing(self) -> float:
        """Milliseconds of a callback that decides nothing."""
        return self._call("PostCreateContainer", b"")

    def _call(self, method: str, payload: bytes) -> float:
        begun = time.perf_counter()
        self.runtime.answer(self.runtime.send(method, payload))
        return (time.perf_counter() - begun) * 1000

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.communicate(timeout=30)
        self.runtime.close()


def _sandbox(pod: int) -> pb.PodSandbox:
    return pb.PodSandbox(id="s", uid=f"p{pod}", name=f"p{pod}", namespace="d")


@contextmanager
def plugin() -> Iterator[Plugin]:
    """One, and nothing left of it."""
    root = f"/qoslet-bench-{secrets.token_hex(4)}"
    with tempfile.TemporaryDirectory() as folder:
        made = Plugin(Path(folder), root)
        try:
            yield made
        finally:
            made.close()
            shutil.rmtree(f"/run/qoslet/{root[1:]}%2Fkubepods", ignore_errors=True)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that compute."""
    begun = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in begun:
            process.kill()
            process.wait()


class Times:
    """Milliseconds of callbacks, each beside one that decides nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ours, self.floor = list[float](), list[float]()

    def figures(self) -> list[Figure]:
        """Median and p99."""
        name, ours, floor = f"NRI {self.name}", self.ours, self.floor
        return [
            Figure(f"{name}, median", "ms", median(ours), median(floor), "an empty one", None),
            Figure(f"{name}, p99", "ms", percentile(ours, 0.99), None, "", 50),
            Figure(f"{name}, p99 of empty ones", "ms", percentile(floor, 0.99), None, "", None),
        ]


def measure(others: int = 0) -> list[Figure]:
    """Callbacks of each kind while the node is planned anew, and for pods that have just come."""
    with busy(others), plugin() as one:
        created, removed = Times("CreateContainer"), Times("RemoveContainer")
        resized, synchronized = Times("UpdateContainer"), Times("Synchronize")
        one.create(0, 0)
        changed = time.monotonic()
        for turn in range(ROUNDS * PODS):
            if time.monotonic() > changed + REPLAN_SECONDS:
                changed = time.monotonic()
                one.put(pods(65 + turn % 7))
            created.ours.append(one.create(turn % PODS, 0))
            created.floor.append(one.nothing())
            removed.ours.append(one.remove(turn + 1))
            removed.floor.append(one.nothing())
            time.sleep(0.002)
        limits, answered = dict[int, int](), 0
        for turn in range(ROUNDS * PODS):
            pod, limit = turn % PODS, 65 + turn % 7
            limits[pod] = limit
            one.put(pods(64, resized=limits))
            took, in_time = one.update(pod, limit)
            answered += in_time
            resized.ours.append(took)
            limits[pod] = 128
            one.put(pods(64, resized=limits))
            resized.floor.append(one.nothing())
        for turn in range(ROUNDS * 10):
            one.put(pods(65 + turn % 7))
            synchronized.ours.append(one.synchronize())
            one.put(pods(66 + turn % 7))
            synchronized.floor.append(one.nothing())
        came = list[float]()
        for more in range(1, 4 * ROUNDS + 1):
            one.put(pods(64, more))
            came.append(one.create(PODS + more - 1, 0))
    share = 100 * answered / len(resized.ours)
    return [
        *(row for times in (created, resized, removed, synchronized) for row in times.figures()),
        Figure("NRI UpdateContainer, answered with values", "%", share, None, "", None),
        Figure(
            "NRI callback for a pod that has just come, median", "ms", median(came), None, "", None
        ),
        Figure(
            "NRI callback for a pod that has just come, slowest", "ms", max(came), None, "", 1000
        ),
    ]


if __name__ == "__main__":
    if os.geteuid():
        raise SystemExit("needs root's rights, as the plugin does")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy", type=int, default=0, help="processes that compute meanwhile")
    show(measure(parser.parse_args().busy))
