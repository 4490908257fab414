"""A root with pods and two reserved cgroups, on which Memory QoS is switched on and off."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from qoslet.core.api.manifest import Options
from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.interface_files import released
from qoslet.core.cgroup.names import root_path
from qoslet.core.node.flags import Flags
from qoslet.core.node.resolve import as_written
from qoslet.core.plan.plan import plan
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.files.manifests import load
from qoslet.host.files.node import load_node
from tests.contract.drivers import mounts_of
from tests.live.agent.test_run import EMULATED, PATIENCE
from tests.live.machine import remove_files
from tests.live.systemd.slices import need_systemd

Kind = Literal["cgroupfs", "systemd"]
MIB = 1 << 20
SLOW = 90 if EMULATED else 20
"""Seconds within which a change of the node has to stand."""
FILES = ("memory.min", "memory.low", "memory.high", "memory.oom.group")
PROPERTIES = {"MemoryMin": "memory.min", "MemoryLow": "memory.low", "MemoryHigh": "memory.high"}
THEIRS = {"memory.min": 16 * MIB, "memory.low": 8 * MIB}
"""What its owner has in one of the reserved groups."""

NODE = """\
apiVersion: qoslet/v1
kind: Node
{form}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: {driver}
failSwapOn: false
featureGates: {{MemoryQoS: {gate}}}
memoryThrottlingFactor: {factor}
memoryReservationPolicy: {policy}
systemReserved: {{cpu: 100m, memory: 64Mi}}
kubeReserved: {{cpu: 100m, memory: 32Mi}}
systemReservedCgroup: {system}
kubeReservedCgroup: {kube}
enforceNodeAllocatable: [{enforced}]
"""

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - {{name: app, command: [sleep, "100000"], resources: {resources}}}
"""
PODS = {
    "guaranteed": "{limits: {cpu: 100m, memory: 32Mi}}",
    "burstable": "{requests: {memory: 16Mi}, limits: {memory: 48Mi}}",
    "unlimited": "{requests: {cpu: 50m, memory: 8Mi}}",
    "besteffort": "{}",
}
Values = Mapping[tuple[str, str], str]


class Site:
    """A root with pods, two groups of somebody else that the node has reserved, and agents."""

    def __init__(self, folder: Path, driver: Kind) -> None:
        self.driver = driver
        mounts = mounts_of("v2")
        if driver == "systemd":
            need_systemd()
        tag = secrets.token_hex(4)
        self.name = f"/qoslet-test-{tag}"
        self.root = root_path(self.name, driver)
        self.tree = Cgroupfs("v2", mounts, self.root)
        self.files = self.tree.layout.trees[0]
        self.node = folder / "node.yaml"
        self.log = folder / "log"
        self.manifests = folder / "pods"
        self.manifests.mkdir(mode=0o755)
        for name, resources in PODS.items():
            text = POD.format(name=name, resources=resources)
            (self.manifests / f"{name}.yaml").write_text(text)
        # a - in a unit's name is a level, as the kubelet reads it
        self.others = [f"/qoslettest{tag}{what}" for what in ("sys", "kube")]
        self.reserved = [root_path(name, driver) for name in self.others]
        self.run: subprocess.Popen[bytes] | None = None
        self.compared = 0
        self._reserve()

    def _reserve(self) -> None:
        """Make the groups of somebody else, with values of theirs in the first."""
        first = self.reserved[0]
        if self.driver == "cgroupfs":
            self.files.write("", "cgroup.subtree_control", "+memory +cpu +pids")
            for path in self.reserved:
                self.files.mkdir(path)
            for file, value in THEIRS.items():
                self.files.write(first, file, str(value))
            return
        for path in self.reserved:
            values = f"MemoryMin={16 * MIB}\nMemoryLow={8 * MIB}\n" if path == first else ""
            unit = Path("/run/systemd/system", path[1:])
            unit.write_text(f"[Slice]\nMemoryAccounting=yes\n{values}")
        systemctl("daemon-reload")
        systemctl("start", *(path[1:] for path in self.reserved))

    def wants(
        self,
        form: str,
        *,
        gate: bool = True,
        policy: str = "TieredReservation",
        factor: str = "0.8",
        enforced: str = "pods, system-reserved, kube-reserved",
    ) -> None:
        """The node is described so from now on, by a file that takes the place of the last."""
        # a scope's memory.oom.group is given to it once, and releases differ in it
        release = self.driver == "cgroupfs" and form.startswith("1.")
        named = f'kubernetes: "{form if release else "1.36"}"'
        if gate and not release:
            named += f'\nmemoryQos: "{form}"'
        text = NODE.format(
            form=named,
            driver=self.driver,
            gate=str(gate).lower(),
            # a kubelet refuses a policy without its gate
            policy=policy if gate else "None",
            factor=factor,
            system=self.others[0],
            kube=self.others[1],
            enforced=enforced,
        )
        new = self.node.with_suffix(".new")
        new.write_text(text)
        os.rename(new, self.node)

    def begin(self) -> None:
        """An agent."""
        words = [sys.executable, "-m", "qoslet", "run", str(self.manifests), "--keep"]
        words += ["--node", str(self.node), "--cgroup-root", self.name]
        path = os.pathsep.join(sys.path)
        environment = {**os.environ, "PYTHONPATH": path, "QOSLET_DEBUG": "1"}
        with self.log.open("ab") as log:
            self.run = subprocess.Popen(words, env=environment, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self.run is not None
        self.run.kill()
        self.run.wait()

    def planned(self) -> dict[tuple[str, str], str]:
        """The value of each of the files on each level, as the plan has it or as it is without
        one."""
        flags = Flags(cgroup_root=self.name, runtime="process", cgroup_driver=self.driver)
        node, _ = load_node([str(self.node)], flags, acts=True)
        made = plan(load([str(self.manifests)], Options()).pods, as_written(node))
        found: dict[tuple[str, str], str] = {}
        for path in (self.root, *self.reserved):
            for file in FILES:
                found[path, file] = str(released(file, "v2"))
        for file, value in THEIRS.items():
            found[self.reserved[0], file] = str(value)
        for group in made.cgroups:
            assert group.path is not None
            values = {row.file: row.applied for row in group.settings}
            for file in FILES:
                if file in values or (group.path, file) not in found:
                    found[group.path, file] = values.get(file, str(released(file, "v2")))
        levels = {group.level for group in made.cgroups}
        assert levels == {"node", "qos", "pod", "container"}
        return found

    def standing(self, keys: Mapping[tuple[str, str], object]) -> dict[tuple[str, str], str]:
        found = {}
        for path, file in keys:
            try:
                found[path, file] = self.files.read(path, file)
            except OSError:
                found[path, file] = "absent"
        return found

    def stands(self) -> Values:
        """Wait until everything is as planned, and compare it; what stands."""
        wanted = self.planned()
        page = os.sysconf("SC_PAGE_SIZE")

        def off() -> dict[tuple[str, str], tuple[str, str]]:
            seen = self.standing(wanted)
            return {
                key: (value, seen[key])
                for key, value in wanted.items()
                if not same(key[1], value, seen[key], page)
            }

        self.until(lambda: not off(), lambda: f"wanted and found: {off()}")
        self.compared += len(wanted)
        return self.standing(wanted)

    def until(self, ready: Callable[[], bool], why: Callable[[], str]) -> None:
        deadline = time.monotonic() + SLOW
        while not ready():
            assert self.run is not None
            assert time.monotonic() < deadline, f"{why()}\n{self.said()}"
            assert self.run.poll() is None, self.said()
            time.sleep(0.05)

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def pids(self) -> dict[str, set[int]]:
        """The processes of each container that are its program; what keeps a scope is none."""
        every = {path: self.tree.members(path) for path in self.tree.below(self.root)}
        programs = {
            path: {pid for pid in found if command(pid) == "sleep"} for path, found in every.items()
        }
        return {path: found for path, found in programs.items() if found}

    def properties(self) -> int:
        """Compare what systemd says of its units with what stands; how many values."""
        paths = [*self.tree.below(self.root), *self.reserved]
        units = {path.rpartition("/")[2]: path for path in paths}
        shown = systemctl("show", "-p", ",".join(["Id", *PROPERTIES]), *units)
        count = 0
        for block in shown.split("\n\n"):
            row = dict(line.split("=", 1) for line in block.splitlines())
            for name, file in PROPERTIES.items():
                stands = self.files.read(units[row["Id"]], file)
                said = row[name].replace("infinity", "max")
                assert same(file, said, stands, os.sysconf("SC_PAGE_SIZE")), (row, file, stands)
                count += 1
        return count

    def kept(self) -> list[str]:
        """What is in drop-ins of our units, or of those of others, that is no default."""
        names = {path.rpartition("/")[2] for path in [*self.tree.below(self.root), *self.reserved]}
        found = []
        for folder in ("transient", "system.control"):
            for file in Path("/run/systemd", folder).glob("*.d/*.conf"):
                if file.parent.name.removesuffix(".d") in names:
                    found += re.findall(
                        r"^Memory(?:Min|Low|High)=.*", file.read_text(), re.MULTILINE
                    )
        neutral = {"MemoryMin=0", "MemoryLow=0", "MemoryHigh=infinity"}
        neutral |= {f"MemoryMin={16 * MIB}", f"MemoryLow={8 * MIB}"}
        return [line for line in found if line not in neutral]

    def release(self) -> None:
        words = [sys.executable, "-m", "qoslet", "release", "--cgroup-root", self.name]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, (done.stdout, done.stderr, self.said())

    def clear(self) -> None:
        try:
            if self.run is not None and self.run.poll() is None:
                self.run.send_signal(signal.SIGTERM)
                self.run.wait(PATIENCE)
            self.release()
            wanted = dict.fromkeys(((self.reserved[0], file) for file in THEIRS), "")
            assert self.standing(wanted) == {key: str(THEIRS[key[1]]) for key in wanted}
            assert self.tree.below(self.root) == []
        finally:
            if self.run is not None and self.run.poll() is None:
                self.kill()
            self._unreserve()
            remove_files(self.root)
            self.tree.close()

    def _unreserve(self) -> None:
        if self.driver == "cgroupfs":
            for path in self.reserved:
                self.files.rmdir(path)
            return
        for path in self.reserved:
            systemctl("stop", path[1:])
            systemctl("revert", path[1:])
            Path("/run/systemd/system", path[1:]).unlink(missing_ok=True)
        systemctl("daemon-reload")


def command(pid: int) -> str:
    """The name of a process's program, empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def systemctl(*words: str) -> str:
    done = subprocess.run(
        ["systemctl", *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"systemctl {' '.join(words)}: {done.stderr}"
    return done.stdout.strip()
