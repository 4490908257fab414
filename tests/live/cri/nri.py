"""A node whose containers the test itself creates over the CRI, as a kubelet does, with the plugin and
the agent of qoslet as processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from qoslet.core.cgroup.interface_files import MEMORY_QOS
from qoslet.host.cri.calls import Calls
from qoslet.host.cri.pb import cri_pb2 as pb
from tests.cli.fixtures import run
from tests.live.agent.agents import MIB, SLOW
from tests.live.cri.containerd import IMAGE, Containerd
from tests.live.cri.pods import SLEEPS

Resources = dict[str, tuple[int, int]]
"""Memory request and limit in MiB, by the name of a container."""


class NriNode:
    """Pods with their cgroups below a root of their own. Files of cgroup v2."""

    driver = "cgroupfs"

    def __init__(self, folder: Path, containerd: Containerd) -> None:
        self.folder = folder
        self.containerd = containerd
        self.root = f"/qoslet-nri{os.getpid()}"
        self.mount = Path("/sys/fs/cgroup")
        self.pods: dict[str, Resources] = {}
        self.sandboxes: dict[str, tuple[str, pb.PodSandboxConfig]] = {}
        self.containers: dict[tuple[str, str], str] = {}
        self.seconds: list[float] = []
        """How long each creation took."""
        self.created: dict[tuple[str, str], str] = {}
        """Those that are not started."""
        self.spent = defaultdict[str, float](float)
        """Seconds in calls of the runtime, by method, and in what the test itself waits for."""
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / "nri.log"
        self._loop = asyncio.Runner()
        self._calls = self._loop.run(self._opened())

    async def _opened(self) -> Calls:
        return Calls(self.containerd.endpoint)

    @property
    def options(self) -> list[str]:
        version = self.containerd.version.partition("~")[0]
        return [
            *("--kubernetes", "1.36", "--runtime", f"containerd-{version}+runc-1.1.15"),
            *("--cgroup-driver", self.driver, "--cgroup-root", self.root, "--memory-qos", "qoslet"),
            *("--memory-throttling-factor", "0.9"),
        ]

    def publish(self) -> None:
        """Write the pods as they are now, at once."""
        new = self.folder / ".pods.json"
        new.write_text(json.dumps(self.document()))
        new.rename(self.folder / "pods.json")

    def document(self) -> dict[str, Any]:
        items = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "d", "uid": name},
                "spec": {"containers": [_described(*one) for one in resources.items()]},
                "status": {"phase": "Running", "containerStatuses": self._statuses(name)},
            }
            for name, resources in self.pods.items()
        ]
        return {"apiVersion": "v1", "kind": "PodList", "items": items}

    def _statuses(self, pod: str) -> list[dict[str, Any]]:
        return [
            {"name": name, "containerID": f"containerd://{id}", "state": {"running": {}}}
            for (owner, name), id in self.containers.items()
            if owner == pod
        ]

    def planned(self) -> dict[tuple[str, str, str], str]:
        """The value of each file that the plugin sets: pod, container, file."""
        with self.timed("plan"):
            done = run("plan", "-f", str(self.folder / "pods.json"), *self.options, "-o", "json")
        assert done.returncode in (0, 1), done.stderr
        return {
            (one["pod"]["name"], one["container"], row["file"]): row["value"]
            for one in json.loads(done.stdout)["cgroups"]
            if one["level"] == "container"
            for row in one["settings"]
            if row["file"] in MEMORY_QOS
        }

    def call(self, method: str, request: Message, kind: type[Any]) -> Any:
        with self.timed(method):
            return self._loop.run(self._calls(method, request, kind, 120.0))

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Add the seconds of this to ``spent``."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.spent[what] += time.monotonic() - begun

    def kubepods(self, pod: str) -> str:
        return f"{self.root}/kubepods/burstable/pod{pod}"

    def make_cgroup(self, pod: str) -> str:
        """The cgroup of a pod, as a kubelet makes it; how the runtime is told of it."""
        path = self.mount
        for part in self.kubepods(pod)[1:].split("/"):
            (path / "cgroup.subtree_control").write_text("+cpuset +cpu +memory +pids")
            path /= part
            path.mkdir(exist_ok=True)
        (path / "cgroup.subtree_control").write_text("+cpuset +cpu +memory +pids")
        return self.kubepods(pod)

    def begin_pod(self, name: str) -> None:
        """Its cgroup and its sandbox."""
        namespaces = pb.NamespaceOption(network=pb.NODE)
        config = pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name=name, uid=name, namespace="d"),
            log_directory=str(self.folder),
            linux=pb.LinuxPodSandboxConfig(
                cgroup_parent=self.make_cgroup(name),
                security_context=pb.LinuxSandboxSecurityContext(namespace_options=namespaces),
            ),
        )
        request = pb.RunPodSandboxRequest(config=config)
        made = self.call("RunPodSandbox", request, pb.RunPodSandboxResponse)
        self.sandboxes[name] = made.pod_sandbox_id, config

    def create(self, pod: str, name: str, *, start: bool = True) -> str:
        """Create one container, and start it."""
        sandbox, config = self.sandboxes[pod]
        resources = _resources(self.pods[pod][name][1])
        request = pb.CreateContainerRequest(
            pod_sandbox_id=sandbox,
            sandbox_config=config,
            config=pb.ContainerConfig(
                metadata=pb.ContainerMetadata(name=name),
                image=pb.ImageSpec(image=IMAGE),
                command=["sh", "-c", SLEEPS],
                linux=pb.LinuxContainerConfig(
                    resources=resources,
                    security_context=pb.LinuxContainerSecurityContext(
                        namespace_options=pb.NamespaceOption(network=pb.NODE)
                    ),
                ),
            ),
        )
        begun = time.monotonic()
        made = self.call("CreateContainer", request, pb.CreateContainerResponse).container_id
        self.seconds.append(time.monotonic() - begun)
        self.created[pod, name] = made
        if start:
            self.start(pod, name)
        return str(made)

    def start(self, pod: str, name: str) -> None:
        """Start one that is created."""
        made = self.created[pod, name]
        self.call("StartContainer", pb.StartContainerRequest(container_id=made), pb.Empty)
        self.containers[pod, name] = self.created.pop((pod, name))

    def kept(self, id: str) -> dict[str, str]:
        """What the runtime has for a container's cgroup."""
        asked = pb.ContainerStatusRequest(container_id=id, verbose=True)
        told = self.call("ContainerStatus", asked, pb.ContainerStatusResponse).info["info"]
        found: dict[str, str] = json.loads(told)["runtimeSpec"]["linux"]["resources"].get(
            "unified", {}
        )
        return found

    def resize(self, pod: str, name: str, request: int, limit: int) -> None:
        """As a kubelet does: the pod first, then the container."""
        self.pods[pod][name] = request, limit
        self.publish()
        asked = pb.UpdateContainerResourcesRequest(
            container_id=self.containers[pod, name], linux=_resources(limit)
        )
        self.call("UpdateContainerResources", asked, pb.Empty)

    def remove(self, pod: str, name: str) -> None:
        id = self.containers.pop((pod, name), "") or self.created.pop((pod, name))
        self.call("StopContainer", pb.StopContainerRequest(container_id=id, timeout=0), pb.Empty)
        self.call("RemoveContainer", pb.RemoveContainerRequest(container_id=id), pb.Empty)

    def value(self, pod: str, name: str, file: str) -> str:
        leaf = self.leaf(self.containers[pod, name])
        return (self.mount / self.kubepods(pod)[1:] / leaf / file).read_text().strip()

    def leaf(self, id: str) -> str:
        """The last part of a container's cgroup."""
        return id

    def wrong(self) -> list[str]:
        """Each value that is not as planned."""
        found = []
        planned = self.planned()
        assert planned
        for (pod, name, file), value in planned.items():
            if (pod, name) in self.containers:
                actual = self.value(pod, name, file)
                if actual != value and int(actual.replace("max", "-1")) // 4096 * 4096 != (
                    int(value.replace("max", "-1")) // 4096 * 4096
                ):
                    found.append(f"{pod}/{name} {file}: {actual}, planned {value}")
        return found

    def begin(self, *options: str, command: str = "nri") -> subprocess.Popen[bytes]:
        """Start the plugin."""
        sockets = ["--nri-socket", str(self.containerd.nri_socket)]
        sockets += ["--container-runtime-endpoint", self.containerd.endpoint]
        words = [sys.executable, "-m", "qoslet", command, "--mode", "protect", *options]
        words += sockets if command == "nri" else []
        words += ["--pods-from", str(self.folder / "pods.json"), *self.options]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with self.log.open("ab") as log:
            made = subprocess.Popen(words, stdout=log, stderr=log, env=environment)
        if command == "nri":
            self.process = made
        return made

    def until_registered(self, before: int) -> None:
        """Wait for one more registration than ``before``."""
        self.until(lambda: self.registrations() > before)

    def end(self, number: int = signal.SIGTERM) -> int:
        """End the plugin."""
        assert self.process is not None
        self.process.send_signal(number)
        with self.timed("end of the plugin"):
            code = self.process.wait(60 * SLOW)
        self.process = None
        return code

    def until(self, ready: Callable[[], bool], seconds: float = 30.0) -> None:
        end = time.monotonic() + seconds * SLOW
        with self.timed("waits"):
            while not ready():
                assert time.monotonic() < end, f"{self.wrong()}\n{self.log.read_text()[-6000:]}"
                time.sleep(0.2)

    def registrations(self) -> int:
        return self.log.read_text().count("registered with") if self.log.exists() else 0

    def clean(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)
        for sandbox, _ in self.sandboxes.values():
            self.call("StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=sandbox), pb.Empty)
            request = pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox)
            self.call("RemovePodSandbox", request, pb.Empty)
        self._loop.run(self._calls.close())
        self._loop.close()
        self.remove_cgroups()

    def remove_cgroups(self) -> None:
        """The cgroups of pods, and what qoslet knew of them."""
        place = self.mount / self.root[1:]
        for folder, _, _ in os.walk(place, topdown=False):
            os.rmdir(folder)
        shutil.rmtree(f"/run/qoslet/{self.root[1:]}%2Fkubepods", ignore_errors=True)


class SystemdNode(NriNode):
    """The same where systemd makes the cgroups, below a slice of its own."""

    driver = "systemd"

    def __init__(self, folder: Path, containerd: Containerd) -> None:
        super().__init__(folder, containerd)
        self.root = f"/qosletnri{os.getpid()}"

    def kubepods(self, pod: str) -> str:
        names = [self.root[1:], "kubepods", "burstable", f"pod{pod}"]
        return "".join(f"/{'-'.join(names[: end + 1])}.slice" for end in range(len(names)))

    def make_cgroup(self, pod: str) -> str:
        return self.kubepods(pod).rpartition("/")[2]

    def leaf(self, id: str) -> str:
        return f"cri-containerd-{id}.scope"

    def remove_cgroups(self) -> None:
        subprocess.run(["systemctl", "stop", f"{self.root[1:]}.slice"], check=True, timeout=60)
        for place in Path("/run/qoslet").glob(f"{self.root[1:]}*"):
            shutil.rmtree(place)


def _described(name: str, memory: tuple[int, int]) -> dict[str, Any]:
    request, limit = memory
    return {
        "name": name,
        "image": IMAGE,
        "resources": {
            "requests": {"cpu": "10m", "memory": f"{request}Mi"},
            "limits": {"memory": f"{limit}Mi"},
        },
    }


def _resources(limit: int) -> pb.LinuxContainerResources:
    return pb.LinuxContainerResources(
        cpu_shares=10, memory_limit_in_bytes=limit * MIB, oom_score_adj=900
    )
