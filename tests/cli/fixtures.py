"""Pods and a node that the tests of the surfaces share, and the program as a process."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from qoslet.cli import main
from qoslet.core.api.manifest import Options
from qoslet.core.node.flags import NO_FLAGS, Flags
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.host.files import manifests
from qoslet.host.files import node as node_files
from tests.paths import REPO as ROOT

GOLDEN = ROOT / "tests" / "render" / "golden"
DATA = ROOT / "tests" / "data"

PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, uid: 0a1b2c3d-0000-4000-8000-000000000001}
spec:
  containers:
  - name: postgres
    image: x
    resources: {limits: {cpu: "1", memory: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, uid: 0a1b2c3d-0000-4000-8000-000000000002}
spec:
  initContainers:
  - name: migrate
    image: x
    resources: {requests: {cpu: 250m, memory: 64Mi}, limits: {memory: 128Mi}}
  - name: mesh
    image: x
    restartPolicy: Always
    resources: {requests: {cpu: 50m, memory: 32Mi}, limits: {cpu: 105m, memory: 64Mi}}
  containers:
  - name: app
    image: x
    resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {cpu: 500m, memory: 256Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: batch, namespace: jobs, uid: 0a1b2c3d-0000-4000-8000-000000000003}
spec:
  containers:
  - {name: main, image: x}
"""

NODE = """\
apiVersion: qoslet/v1
kind: Node
metadata: {name: n1}
os: linux
capacity: {cpu: "8", memory: 32Gi, pid: "32768", hugepages-2Mi: 1Gi}
swap: 0
numa: []
host:
  hierarchy: v2
  kernel: "6.12"
  pageSize: 4Ki
  hugepageSizes: [2Mi]
  hugetlbRsvd: true
  swapController: true
  systemd: 257
  controllers: [cpu, cpuset, memory, hugetlb, pids, io]
  psi: true
  mounts: {}
  cpus: 0-7
kubernetes: "1.36"
runtime: containerd-2.2.0+runc-1.4.0
"""

KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
featureGates: {MemoryQoS: true}
memoryReservationPolicy: TieredReservation
podPidsLimit: 1024
systemReserved: {cpu: 500m, memory: 1Gi, pid: "1000"}
"""


def write(folder: Path) -> list[str]:
    """The documents as files, and the options that name them."""
    for name, text in (("pods.yaml", PODS), ("node.yaml", NODE), ("kubelet.yaml", KUBELET)):
        (folder / name).write_text(text)
    return ["-f", "pods.yaml", "--node", "node.yaml", "--node", "kubelet.yaml"]


def made(
    folder: Path, pods: str = PODS, *, with_kubelet: bool = True, flags: Flags = NO_FLAGS
) -> Plan:
    """The plan of the shared documents under flags."""
    write(folder)
    (folder / "pods.yaml").write_text(pods)
    names = ["node.yaml", "kubelet.yaml"] if with_kubelet else ["node.yaml"]
    node, problems = node_files.load_node([str(folder / n) for n in names], flags)
    loaded = manifests.load_text(pods, Options(), name="pods.yaml")
    return plan(loaded.pods, node, (*problems, *loaded.problems))


def environment(**more: str) -> dict[str, str]:
    """A plain environment: no colour or width from outside."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "LC_ALL": "C.UTF-8",
        **more,
    }


def command(*arguments: str) -> list[str]:
    """The program's command line."""
    return [sys.executable, "-m", "qoslet", *arguments]


def run(
    *arguments: str, folder: Path | None = None, stdin: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """The program, to its end."""
    return subprocess.run(
        command(*arguments),
        cwd=folder or ROOT,
        env=environment(**env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


def answer(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The same in this process: an emulated CPU takes seconds to start a Python."""
    written = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(one, "utf-8", write_through=True) for one in written)
    with redirect_stdout(out), redirect_stderr(err):
        code = main.run(arguments)
    texts = (one.getvalue().decode() for one in written)
    return subprocess.CompletedProcess(arguments, code, *texts)


def golden(name: str, text: str) -> None:
    """Compare with a text of the golden folder; QOSLET_GOLDEN=1 writes it."""
    path = GOLDEN / name
    if os.environ.get("QOSLET_GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text()
