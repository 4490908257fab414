"""CPU shares as ``diff`` foretells them, beside what busy threads get from this kernel."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from qoslet.core.api.documents import Options
from qoslet.core.diff.cpu_shares import competes, cpu_shares
from qoslet.core.diff.diff import diff
from qoslet.core.node.flags import Flags
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.host.files.manifests import load_text
from qoslet.host.files.node import load_node
from tests.live.machine import Machine
from tests.live.oci.bundles import EMULATED

pytestmark = [pytest.mark.live, pytest.mark.alone, pytest.mark.timeout(300)]

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, uid: {name}}}
spec: {{containers: [{containers}]}}
---
"""
CONTAINER = "{{name: {name}, resources: {{requests: {{cpu: {cpu}}}}}}}"
GUARANTEED = "{name: a, resources: {limits: {cpu: 500m, memory: 64Mi}}}"
SMALL = dict.fromkeys("abcde", "100m")
PODS = {"p": {**SMALL, "main": "4"}, "q": {"a": "250m", "b": "750m"}, "r": {"a": "500m"}}

RUNTIMES = ("runc-1.3.1", "runc-1.3.2")
"""Before and after runc took the other curve from requests to weights."""
ENOUGH = 4.0
"""CPU seconds that all threads together need, so that the least share is many time slices."""
POINTS = 0.05
CPU = min(os.sched_getaffinity(0))


def planned(runtime: str) -> Plan:
    """The pods on a v2 node with this runtime."""
    text = POD.format(name="g", containers=GUARANTEED)
    for name, containers in PODS.items():
        rows = [CONTAINER.format(name=one, cpu=cpu) for one, cpu in containers.items()]
        text += POD.format(name=name, containers=", ".join(rows))
    text += POD.format(name="e", containers="{name: a}")
    flags = Flags(kubernetes="1.36", runtime=runtime, hierarchy="v2", cgroup_driver="cgroupfs")
    node, _ = load_node([], flags)
    return plan(load_text(text.encode(), Options()).pods, node)


class Tree:
    """The competing cgroups of a plan on this machine, with a busy thread in each container."""

    def __init__(self, machine: Machine, top: str, tree: Plan) -> None:
        self._machine, self._top = machine, top
        self._threads: list[subprocess.Popen[bytes]] = []
        self._make("", "100")
        for cgroup in tree.cgroups:
            if competes(cgroup):
                self._make(cgroup.name, _weight(cgroup))
            if competes(cgroup) and cgroup.level == "container":
                self._threads.append(machine.process(top + cgroup.name, *SPIN))

    def _make(self, name: str, weight: str) -> None:
        machine, path = self._machine, self._top + name
        machine.driver.layout.create(path)
        if machine.v1:
            # the kernel keeps a weight as so many shares: sched_weight_from_cgroup
            weight = str(round(int(weight) * 1024 / 100))
        machine.write(path, machine.share, weight)

    def used(self, name: str) -> float:
        """CPU seconds of a cgroup and all below."""
        path = self._top + name
        if self._machine.v1:
            return int(self._machine.read(path, "cpuacct.usage")) / 1e9
        return int(self._machine.read(path, "cpu.stat").split()[1]) / 1e6

    def measured(self, names: list[str]) -> dict[str, float]:
        """The part of the pods' CPU that each cgroup got."""
        before = {name: self.used(name) for name in names}
        while self.used("/kubepods") - before["/kubepods"] < ENOUGH:
            time.sleep(0.2)
        got = {name: self.used(name) - before[name] for name in names}
        return {name: one / got["/kubepods"] for name, one in got.items()}

    def end(self) -> None:
        for thread in self._threads:
            thread.kill()
            thread.wait()


SPIN = ("taskset", "-c", str(CPU), "sh", "-c", "while :; do :; done")


def _weight(cgroup: Cgroup) -> str:
    return next(one.applied for one in cgroup.settings if one.file == "cpu.weight")


def test_busy_threads_get_what_diff_foretells(machine: Machine, record_property) -> None:
    if EMULATED and machine.v1:
        pytest.skip("CPUs of an emulator give no even share of cpu.shares")
    before, after = (planned(runtime) for runtime in RUNTIMES)
    shares = {one.name: (one.before, one.after) for one in diff(before, after).shares}
    moved = [name for name, (old, new) in shares.items() if abs(old - new) > POINTS]
    assert moved, "the curves give the same: nothing would be told apart"
    machine.driver.layout.create(machine.root)
    machine.write(machine.root, machine.share, "20480" if machine.v1 else "2000")
    wrong, compared = [], 0
    for side, tree in enumerate((before, after)):
        foretold = dict(cpu_shares(tree))
        assert all(foretold[name] == both[side] for name, both in shares.items())
        made = Tree(machine, f"{machine.root}/{side}", tree)
        try:
            found = made.measured(list(foretold))
        finally:
            made.end()
        for name, part in foretold.items():
            compared += 1
            if abs(found[name] - part) > POINTS:
                wrong.append(f"{RUNTIMES[side]} {name}: {found[name]:.3f}, not {part:.3f}")
    assert not wrong
    assert compared >= 2 * (1 + 2 + 5 + 11)
    record_property("compared", compared)
