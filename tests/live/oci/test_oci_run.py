"""``qoslet run --with runc|crun``: every file on every level equals the plan; agents killed; undone."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import qoslet
from qoslet.app.runtimes.oci_run import naming
from qoslet.core.cgroup.names import cgroups_path, root_path
from qoslet.core.cgroup.observed import Observed
from qoslet.core.reconcile.drift import Cause, compare
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from qoslet.host.linux.mountinfo import mounts
from qoslet.host.machine.probe import probe
from qoslet.host.oci import find_runtime
from tests.contract.drivers import mounts_of
from tests.live.oci.bundles import PATIENCE, busybox, found
from tests.paths import REPO as ROOT

pytestmark = [pytest.mark.live, pytest.mark.timeout(6 * PATIENCE)]

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: fixed, uid: fixed-0}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      image: busybox:1
      command: [sleep, "600"]
      resources: {limits: {cpu: 250m, memory: 64Mi}}
    - name: side
      image: busybox:1
      command: [sleep, "600"]
      resources: {limits: {cpu: 15m, memory: 48Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: burst, uid: burst-0}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
    - name: first
      image: busybox:1
      command: ["true"]
      resources: {requests: {cpu: 10m, memory: 8Mi}}
    - name: beside
      image: busybox:1
      restartPolicy: Always
      command: [sleep, "600"]
      resources: {requests: {cpu: 20m, memory: 16Mi}, limits: {memory: 32Mi}}
  containers:
    - name: app
      image: busybox:1
      command: [sleep, "600"]
      resources: {requests: {cpu: 100m, memory: 32Mi}, limits: {cpu: 500m, memory: 64Mi}}
    - name: open
      image: busybox:1
      command: [sleep, "600"]
      resources: {requests: {memory: 16Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: best, uid: best-0}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: busybox:1, command: [sleep, "600"]}]
"""
HUNGRY = """
apiVersion: v1
kind: Pod
metadata: {name: hungry, uid: hungry-0}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox:1
      command: [dd, if=/dev/zero, of=/dev/null, bs=64M]
      resources: {limits: {memory: 16Mi}}
"""
RUNNING = 6
"""Containers of these pods that stay."""


class Run:
    """A root with an agent in it, its images and its storage."""

    def __init__(self, folder: Path, runtime: find_runtime.InstalledRuntime, driver: str) -> None:
        self.folder, self.found, self.driver = folder, runtime, driver
        name = f"qoslet-test-{secrets.token_hex(4)}"
        self.root = f"/{name}"
        self.place = root_path(self.root, driver)  # type: ignore[arg-type]
        self.manifests = folder / "manifests"
        self.manifests.mkdir(mode=0o755)
        os.chmod(folder, 0o755)
        self.images = busybox(folder)
        self.agents: list[subprocess.Popen[str]] = []
        self.eyes = CgroupObserver(probe().hierarchy or "v1", mounts_of(probe().hierarchy or "v1"))

    @property
    def words(self) -> list[str]:
        return [
            *("--cgroup-root", self.root, "--cgroup-driver", self.driver),
            *("--with", self.found.name, "--images", str(self.images)),
            *("--storage", str(self.folder / "storage")),
        ]

    def write(self, text: str = PODS, name: str = "pods") -> None:
        new = self.folder / "new"
        new.write_text(text)
        new.chmod(0o644)
        new.rename(self.manifests / f"{name}.yaml")

    def begin(self, *words: str) -> subprocess.Popen[str]:
        log = open(self.folder / f"agent-{len(self.agents)}.log", "w")  # noqa: SIM115
        command = [sys.executable, "-m", "qoslet", "run", str(self.manifests), *self.words]
        with log:
            agent = subprocess.Popen(
                [*command, "--keep", *words],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.agents.append(agent)
        return agent

    def said(self) -> str:
        return "".join(one.read_text() for one in sorted(self.folder.glob("agent-*.log")))

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        where = ["--cgroup-root", self.root]
        where += ["--cgroup-driver", self.driver] if words[0] != "ps" else []
        command = [sys.executable, "-m", "qoslet", *words, *where]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    def pods(self) -> list[dict[str, Any]]:
        done = self.call("ps", "-o", "json")
        return list(json.loads(done.stdout)["items"]) if done.returncode == 0 else []

    def containers(self) -> dict[str, dict[str, Any]]:
        return {
            f"{pod['name']}/{one['name']}": one for pod in self.pods() for one in pod["containers"]
        }

    def until(self, ready: Callable[[dict[str, dict[str, Any]]], object]) -> Any:
        deadline = time.monotonic() + 2 * PATIENCE
        while True:
            seen = self.containers()
            result = ready(seen)
            if result:
                return result
            assert self.agents[-1].poll() is None, self.said()
            assert time.monotonic() < deadline, (seen, self.pods(), self.said())
            time.sleep(0.2)

    def running(self, count: int = RUNNING) -> dict[str, int]:
        """The processes of the containers, once so many run."""

        def ready(seen: dict[str, dict[str, Any]]) -> dict[str, int] | None:
            pids = {name: one["pid"] for name, one in seen.items() if one.get("pid")}
            return pids if len(pids) == count else None

        return dict(self.until(ready))

    def planned(self) -> Plan:
        """What the agent plans by: it names the containers itself."""
        node = qoslet.load_node(
            cgroup_root=self.root, cgroup_driver=self.driver, runtime=self.found.profile
        )
        return qoslet.plan(qoslet.load_pods(str(self.manifests / "pods.yaml")), naming(node))

    def compared(self) -> int:
        """Compare everything with the plan; how many values were."""
        planned = self.planned()
        groups = [group for group in planned.cgroups if group.path is not None]
        self.eyes.watch({row.file for group in groups for row in group.settings})
        looked = (self.eyes.read_cgroup(str(group.path)) for group in groups)
        seen = {look.path: look for look in looked if look is not None}
        ended = {g.path for g in groups if g.container is not None and g.container.role == "init"}
        observed = Observed(0.0, seen)
        # what nobody planned is systemd's to choose for a scope, until the agent looks at it
        wrong = [
            row
            for row in compare(planned, observed)
            if row.path not in ended and row.cause is Cause.PLANNED
        ]
        assert wrong == [], wrong
        return sum(len(group.settings) for group in groups if group.path not in ended)

    def release(self) -> None:
        for agent in self.agents:
            if agent.poll() is None:
                agent.kill()
                agent.wait()
        done = self.call("release")
        assert done.returncode == 0, (done.stdout, done.stderr, self.said())

    @property
    def name(self) -> str:
        """What the names of its groups and of its state begin with."""
        return self.place.strip("/").removesuffix(".slice")

    def left(self) -> list[str]:
        """What stands that ought to be gone."""
        name = self.name
        trees = [one.point for one in mounts() if one.type in ("cgroup", "cgroup2")]
        states = [
            *Path("/run/qoslet").glob(f"{name}*/oci"),
            *Path("/run/qoslet").glob(f"{name}*/keeper*"),
        ]
        found = [f"{one}/{group}" for one in trees for group in os.listdir(one) if name in group]
        found += [one.point for one in mounts() if name in one.point]
        return (
            found
            + [str(one) for one in states]
            + [str(one) for one in (self.folder / "storage/containers").glob("**/*")]
        )


@pytest.fixture(params=["cgroupfs", "systemd"])
def driver(request: pytest.FixtureRequest) -> str:
    if request.param == "systemd" and not os.path.isdir("/run/systemd/system"):
        pytest.skip("systemd does not run here")
    return str(request.param)


@pytest.fixture(params=["runc", "crun"])
def run(request: pytest.FixtureRequest, tmp_path: Path, driver: str) -> Iterator[Run]:
    runtime = found(request.param)
    if isinstance(runtime, str):
        pytest.skip(runtime)
    made = Run(tmp_path, runtime, driver)
    try:
        yield made
        made.release()
        assert made.left() == [], made.said()
    finally:
        for agent in made.agents:
            agent.kill()
            agent.wait()
        made.call("release")
        made.eyes.close()
        shutil.rmtree(tmp_path / "storage", ignore_errors=True)


def test_every_file_on_every_level_equals_the_plan(run: Run, driver: str, record_property) -> None:
    run.write()
    run.begin()
    before = run.running()
    compared = run.compared()
    assert compared >= 30
    state = next(Path("/run/qoslet").glob(f"{run.name}*/oci/pods"))
    done = run.call("plan", "-o", "oci", "-f", str(run.manifests), "--runtime", run.found.profile)
    rows = {
        (pod["uid"], one["name"]): one
        for pod in json.loads(done.stdout)["items"]
        for one in pod["containers"]
    }
    places = {
        (group.pod.uid, group.container.name): os.path.dirname(group.path or "")
        for group in run.planned().cgroups
        if group.pod is not None and group.container is not None
    }
    for path in state.glob("*/*/config.json"):
        config = json.loads(path.read_text())
        uid, name = path.parts[-3:-1]
        wanted = rows[uid, name]
        place = cgroups_path(None, places[uid, name], f"{uid}-{name}")
        assert config["linux"]["cgroupsPath"] == place
        resources = config["linux"]["resources"]
        resources.pop("devices")
        assert resources == wanted["linux"]["resources"]
        score = wanted["process"]["oomScoreAdj"]
        # without CAP_SYS_RESOURCE nobody's goes below one's own
        least = int(Path("/proc/self/oom_score_adj").read_text()) if _bound() else -1000
        assert config["process"]["oomScoreAdj"] == max(score, least)
        compared += 3
    for pid in before.values():
        groups = Path(f"/proc/{pid}/cgroup").read_text()
        assert run.name in groups
    record_property("compared", compared)
    record_property("driver", driver)


def test_agents_and_keepers_that_are_killed_restart_nothing(run: Run) -> None:
    run.write()
    agent = run.begin()
    before = run.running()
    agent.kill()
    agent.wait()
    agent = run.begin()
    assert run.running() == before
    keeper = _keeper(run)
    agent.kill()
    agent.wait()
    os.kill(keeper, signal.SIGKILL)
    run.begin()
    assert run.running() == before
    assert run.compared() >= 30


def _bound() -> bool:
    """Whether this process lacks CAP_SYS_RESOURCE."""
    rows = Path("/proc/self/status").read_text().splitlines()
    held = next(row for row in rows if row.startswith("CapPrm:")).split()[1]
    return not int(held, 16) >> 24 & 1


def _keeper(run: Run) -> int:
    """The process that keeps the containers: their parent."""
    pid = next(iter(run.running().values()))
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_resize_is_written_in_place_and_kept_for_the_next_start(run: Run) -> None:
    run.write()
    run.begin()
    before = run.running()
    run.write(
        PODS.replace("limits: {cpu: 250m, memory: 64Mi}", "limits: {cpu: 350m, memory: 80Mi}")
    )
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            assert run.compared() >= 30
            break
        except AssertionError:
            assert time.monotonic() < deadline, run.said()
            time.sleep(0.3)
    assert run.running() == before
    os.kill(before["fixed/app"], signal.SIGKILL)
    run.until(lambda seen: seen["fixed/app"].get("pid") not in (None, before["fixed/app"]))
    run.running()
    assert run.compared() >= 30


def test_memory_that_is_not_there_is_told_as_oom(run: Run) -> None:
    run.write(HUNGRY)
    run.begin()
    one = run.until(
        lambda seen: (one := seen.get("hungry/app", {})).get("exitCode") is not None and one
    )
    assert (one["reason"], one["exitCode"]) == ("OOMKilled", 137)


def test_an_image_that_is_missing_is_told_and_begun_when_it_is_there(
    run: Run, tmp_path: Path
) -> None:
    run.images.rename(tmp_path / "elsewhere")
    (tmp_path / "images").mkdir()
    run.write()
    run.begin()
    run.until(lambda seen: "is not in" in str(seen.get("best/app", {})))
    (tmp_path / "images").rmdir()
    (tmp_path / "elsewhere").rename(run.images)
    run.running()


def test_crun_is_refused_where_it_cannot_work(tmp_path: Path) -> None:
    why = found("crun")
    if not isinstance(why, str) or "installed" in why:
        pytest.skip("crun works here, or is not there")
    (tmp_path / "pod.yaml").write_text(PODS)
    root = f"/qoslet-test-{secrets.token_hex(4)}"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "qoslet",
            "run",
            str(tmp_path),
            "--with",
            "crun",
            "--cgroup-root",
            root,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "--with runc works here" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not [one.point for one in mounts() if os.path.isdir(one.point + root)]
