"""How long the plugin of a runtime takes for a callback, while it plans a node of 110 pods again and
again; the floor is a callback that decides nothing.

The plugin is a process of its own, with its journal in /run; the runtime is this process, over the
same socket and in the same bytes. No cgroup is made.
"""

from __future__ import annotations

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
from contextlib import contextmanager
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

    def update(self, pod: int, limit: int) -> float:
        """Milliseconds of an UpdateContainer that gets the values of a new plan."""
        asked = pb.UpdateContainerRequest(pod=_sandbox(pod))
        asked.container.CopyFrom(self._container(pod, 1, f"u{pod}", 64))
        asked.linux_resources.memory.limit.value = limit * MIB
        begun = time.perf_counter()
        data = self.runtime.answer(self.runtime.send("UpdateContainer", asked.SerializeToString()))
        took = time.perf_counter() - begun
        if "memory.high" not in str(pb.UpdateContainerResponse.FromString(data)):
            raise SystemExit("no values in an update")
        return took * 1000

    def _container(self, pod: int, number: int, id: str, limit: int) -> pb.Container:
        linux = pb.LinuxContainer(cgroups_path=f"{self.root}/burstable/podp{pod}/{id}")
        linux.resources.memory.limit.value = limit * MIB
        return pb.Container(id=id, pod_sandbox_id="s", name=f"c{number}", linux=linux)

    def nothing(self) -> float:
        """Milliseconds of a callback that decides nothing."""
        begun = time.perf_counter()
        self.runtime.answer(self.runtime.send("PostCreateContainer", b""))
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


def measure() -> list[Figure]:
    """Callbacks for pods that are planned, while others change, and for pods that have just come."""
    with plugin() as one:
        one.create(0, 0)
        known, floor, came = list[float](), list[float](), list[float]()
        changed = time.monotonic()
        for turn in range(ROUNDS * PODS):
            if time.monotonic() > changed + REPLAN_SECONDS:
                changed = time.monotonic()
                one.put(pods(65 + turn % 7))
            known.append(one.create(turn % PODS, 0))
            floor.append(one.nothing())
            time.sleep(0.002)
        resized, quiet, limits = list[float](), list[float](), dict[int, int]()
        for turn in range(2 * PODS):
            pod, limit = turn % PODS, 65 + turn % 7
            limits[pod] = limit
            one.put(pods(64, resized=limits))
            resized.append(one.update(pod, limit))
            quiet.append(one.nothing())
        for more in range(1, 4 * ROUNDS + 1):
            one.put(pods(64, more))
            came.append(one.create(PODS + more - 1, 0))
    return [
        Figure("NRI callback, median", "ms", median(known), median(floor), "an empty one", None),
        Figure(
            "NRI callback, p99, the node planned anew meanwhile",
            "ms",
            percentile(known, 0.99),
            None,
            "",
            50,
        ),
        Figure(
            "NRI callback for a resize, median",
            "ms",
            median(resized),
            median(quiet),
            "an empty one",
            None,
        ),
        Figure(
            "NRI callback for a resize, p99",
            "ms",
            percentile(resized, 0.99),
            None,
            "",
            50,
        ),
        Figure(
            "NRI callback that decides nothing, p99",
            "ms",
            percentile(quiet, 0.99),
            None,
            "",
            None,
        ),
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
    show(measure())
