"""Pods in a containerd of the tests' own, with agents in a root of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.names import root_path
from qoslet.core.cgroup.unit_properties import written_by_systemd
from qoslet.host.linux.mountinfo import beside
from tests.live.agent.agents import SLOW, Agent
from tests.live.cri.containerd import IMAGE, Containerd

SLEEPS = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"
"""What ends at once when it is asked to, and does nothing until then."""


def container(name: str, script: str = SLEEPS, **more: Any) -> dict[str, Any]:
    """A container of the tests' image."""
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        **more,
    }


def amounts(cpu: str, memory: str, cpu_limit: str = "", memory_limit: str = "") -> dict[str, Any]:
    """Requests, and limits where they are given."""
    limits = {"cpu": cpu_limit, "memory": memory_limit}
    return {
        "requests": {"cpu": cpu, "memory": memory},
        "limits": {name: text for name, text in limits.items() if text},
    }


def pod(name: str, *containers: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod on the host's network."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": f"{name}-uid"},
        "spec": {
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 3,
            "containers": list(containers) or [container("app")],
            **spec,
        },
    }


class Cri(Agent):
    """One root with agents whose pods are in a containerd."""

    def __init__(self, folder: Path, containerd: Containerd, driver: str = "cgroupfs") -> None:
        super().__init__(folder)
        self.containerd = containerd
        self.driver = driver
        self.place = root_path(self.root, "systemd") if driver == "systemd" else self.root

    @property
    def folder(self) -> Path:
        return Path("/run/qoslet") / self.place[1:]

    def groups(self) -> list[str]:
        return self.tree.below(self.place)

    @property
    def words(self) -> list[str]:
        """What names the runtime and the driver."""
        return ["--with", "containerd", "--container-runtime-endpoint", self.containerd.endpoint]

    def put(self, *pods: Mapping[str, Any]) -> None:
        """Write manifests."""
        for one in pods:
            place = self.manifests / f"{one['metadata']['name']}.yaml"
            new = place.with_suffix(".new")
            new.write_text(yaml.safe_dump(one))
            new.rename(place)

    def begin(self, *options: str, user: int | None = None) -> subprocess.Popen[str]:
        words = () if "--with" in options else self.words
        driver = () if self.driver == "cgroupfs" else ("--cgroup-driver", self.driver)
        return super().begin(*words, *driver, *options, user=user)

    def qoslet(self, *words: str, code: int = 0) -> str:
        """Another verb; what it said."""
        command = [sys.executable, "-m", "qoslet", *words]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60 * SLOW, check=False
        )
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout

    def pods(self) -> dict[str, dict[str, Any]]:
        """What the agent tells of its pods, by name."""
        document = json.loads(self.qoslet("ps", "-o", "json", "--cgroup-root", self.root))
        return {item["name"]: item for item in document["items"]}

    def states(self, name: str) -> dict[str, dict[str, Any]]:
        """The containers of a pod, by name."""
        return {one["name"]: one for one in self.pods().get(name, {}).get("containers", [])}

    def running(self, *names: str) -> bool:
        """Whether all containers of these pods run."""
        if not self.answers():
            return False
        pods = self.pods()
        return all(
            name in pods
            and pods[name]["containers"]
            and all(one["running"] and one["pid"] for one in pods[name]["containers"])
            for name in names
        )

    def up(self, *names: str) -> None:
        """Wait until all containers of these pods run."""
        self.until(lambda: self.running(*names), 40 * SLOW)

    def soon(self, ready: Callable[[], bool], seconds: float = 20.0) -> None:
        """As ``eventually``, with what the agent tells where it does not come."""
        deadline = time.monotonic() + seconds * SLOW
        while not ready():
            assert time.monotonic() < deadline, json.dumps(self.pods(), indent=1)
            time.sleep(0.05)

    def pid(self, name: str, of: str = "app") -> int:
        """The main process of a container."""
        return int(self.states(name)[of]["pid"])

    def log(self, name: str, *words: str) -> str:
        """What a container printed."""
        return self.qoslet("logs", name, "--cgroup-root", self.root, *words)

    def left(self) -> list[str]:
        """What of pods is left, anywhere."""
        found = [f"group {path}" for path in self.groups()]
        points = {tree.point for tree in self.tree.layout.trees}
        found += [
            f"group {point}{self.root}"
            for point in beside(points)
            if os.path.isdir(point + self.root)
        ]
        found += [f"shim {pid}" for pid in self.containerd.shims()]
        found += [f"mount {path}" for path in self.containerd.mounts()]
        if self.containerd.process is not None:
            found += self.containerd.ctr("containers", "ls", "-q").stdout.split()
        return found

    def nothing_left(self) -> None:
        """Wait until nothing is."""
        deadline = time.monotonic() + 10 * SLOW
        while left := self.left():
            assert time.monotonic() < deadline, (left, self.containerd.told())
            time.sleep(0.05)

    def ends(self, run: subprocess.Popen[str], code: int = 0) -> str:
        """End an agent with its pods, which exits with ``code``; what it said. Nothing is left."""
        run.send_signal(signal.SIGTERM)
        out, err = run.communicate(timeout=90 * SLOW)
        assert run.returncode == code, (run.returncode, out, err)
        self.nothing_left()
        return out + err

    def clean(self) -> None:
        for run in self.runs:
            if run.poll() is None:
                run.kill()
            run.communicate()
        if self.containerd.process is None:
            self.containerd.begin()
        if (self.folder / "journal").exists():
            self.release("--force")
        super().clean()
        shutil.rmtree(self.folder, ignore_errors=True)

    def compared(self, *options: str) -> tuple[int, list[str]]:
        """How many files of all levels were compared with the plan, and which differ."""
        words = ["plan", str(self.manifests), "--cgroup-root", self.root, "-o", "json"]
        words += ["--cgroup-driver", self.driver, "--runtime", self.runtime(), *options]
        words += ["--probe", "always"]
        plan = json.loads(self.qoslet(*words))
        pods = self.pods()
        count, wrong = 0, []
        for group in plan["cgroups"]:
            path = group["path"]
            if group["container"] is not None:
                owner = pods[group["pod"]["name"]]["containers"]
                path = next(one["cgroup"] for one in owner if one["name"] == group["container"])
            elif group["level"] == "sandbox":
                path = self.sandbox_group(group["pod"]["name"])
            assert path, group
            for row in group["settings"]:
                found = self.value(path, row["file"])
                wanted = row.get("effective") or row["value"]
                count += 1
                # a runtime's own form stands until systemd writes the unit again
                later = self.driver == "systemd" and found == written_by_systemd(
                    row["file"], row["value"]
                )
                if not later and not same(row["file"], wanted, found):
                    wrong.append(f"{path}/{row['file']}: {wanted} planned, {found!r} found")
        return count, wrong

    def runtime(self) -> str:
        """The runtime as ``--runtime`` names it."""
        from qoslet.host.cri.runtime import read_facts

        return read_facts(self.containerd.endpoint).runtime

    def record(self, name: str) -> dict[str, Any]:
        """What is kept of a pod on disk."""
        text = (self.folder / "cri" / f"{name}-uid" / "pod.json").read_text()
        return dict(json.loads(text))

    def sandbox_group(self, name: str) -> str:
        """The group of a pod's own process."""
        box = self.record(name)["sandbox"]
        return next(path for path in self.groups() if box in path)
