"""The agent on this machine's kernel: what it keeps, follows, resizes, reserves and gives back."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.agent.test_run import EMULATED, ENVIRONMENT, PATIENCE, Live, ended, pod

pytestmark = [pytest.mark.live, pytest.mark.timeout(2 * PATIENCE + 10)]

SLOW = 5.0 if EMULATED else 1.0
MIB = 1 << 20


class Agent(Live):
    """One root with the agents in it, each left to itself."""

    @property
    def v2(self) -> bool:
        return self.tree.hierarchy == "v2"

    @property
    def limit_file(self) -> str:
        return "memory.max" if self.v2 else "memory.limit_in_bytes"

    def service(self, *options: str) -> subprocess.Popen[str]:
        return self.begin("--keep", *options)

    def apps(self) -> set[str]:
        return {path for path in self.groups() if path.endswith("/app")}

    def read(self, path: str, file: str) -> str:
        tree = self.tree.layout.tree_of(file.partition(".")[0])
        assert tree is not None
        return tree.read(path, file)

    def value(self, path: str, file: str) -> str:
        """As ``read``, empty where the group is not there (yet)."""
        try:
            return self.read(path, file)
        except OSError:
            return ""

    def limit(self, path: str) -> int:
        text = self.value(path, self.limit_file)
        return int(text) if text.isdigit() else 0

    def eventually(self, ready: Callable[[], bool], seconds: float = 15 * SLOW) -> None:
        """As ``until``, whether an agent runs or not."""
        deadline = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < deadline, f"not reached; groups: {self.groups()}"
            time.sleep(0.02)

    def until(self, ready: Callable[[], bool], seconds: float = 15 * SLOW) -> None:
        super().until(ready, seconds)

    def release(self, *options: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "qoslet", "release", "--cgroup-root", self.root, *options]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def rows(self) -> list[dict[str, object]]:
        """The pods as ``qoslet ps`` tells them."""
        done = subprocess.run(
            self.verb("ps", "-o", "json"), env=ENVIRONMENT, capture_output=True, check=False
        )
        return list(json.loads(done.stdout)["items"]) if done.returncode == 0 else []

    def stop(self, run: subprocess.Popen[str], code: int = 0) -> str:
        """End an agent; what it said."""
        run.send_signal(signal.SIGTERM)
        return "".join(ended(run, code))

    def answers(self) -> bool:
        """Whether an agent turns and tells so."""
        with socket.socket(socket.AF_UNIX) as asked:
            try:
                asked.connect(str(self.folder / "agent.sock"))
                asked.settimeout(5 * SLOW)
                asked.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                return b" 200 " in asked.recv(100)
            except OSError:
                return False

    @property
    def folder(self) -> Path:
        return Path("/run/qoslet") / self.root[1:]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    assert os.getuid() == 0, "live tests write to this machine's kernel: run them as root"
    made = Agent(tmp_path)
    try:
        yield made
    finally:
        for run in made.runs:
            if run.poll() is None:
                run.kill()
                run.communicate()
        if (made.folder / "journal").exists():
            made.release("--force")
        made.clean()


def identities(agent: Agent) -> dict[str, int | None]:
    return {path: agent.tree.identity(path) for path in agent.groups()}


def test_what_runs_outlives_the_agent_and_release_undoes_it(agent: Agent) -> None:
    for name in "ab":
        agent.write(name, pod(name, "exec sleep 1000"))
    first = agent.service()
    agent.until(lambda: len(agent.pids()) == 2)
    out = agent.stop(first)
    assert "2 pods kept" in out
    pids, groups = agent.pids(), identities(agent)
    assert len(pids) == 2
    second = agent.service()
    agent.until(agent.answers)
    assert (agent.pids(), identities(agent)) == (pids, groups)
    out = agent.stop(second)
    assert "2 pods, 2 of 2 containers running; the tree is as planned" in out
    said = agent.release("--dry-run")
    assert "would be stopped first" in said
    assert agent.pids() == pids
    said = agent.release()
    assert said.count(": stopped") == 2
    assert not agent.groups()
    assert not agent.alive(pids)
    assert not agent.folder.exists(), list(agent.folder.iterdir())


def test_a_second_agent_is_told_who_has_the_root(agent: Agent) -> None:
    agent.write("a", pod("a", "exec sleep 1000"))
    first = agent.service()
    agent.until(lambda: len(agent.pids()) == 1)
    _, err = ended(agent.begin(), 3)
    assert f"another qoslet runs here (process {first.pid})" in err
    said = agent.release(code=3)
    assert f"process {first.pid}" in said
    agent.runs.pop()
    assert len(agent.pids()) == 1


def test_release_after_both_were_killed(agent: Agent) -> None:
    agent.write("a", pod("a", "sleep 1000 & sleep 1000"))
    run = agent.service()
    agent.until(lambda: len(agent.pids()) == 3)
    keeper = {
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and agent.root in _command(entry) and "keeper" in _command(entry)
    }
    assert len(keeper) == 1
    pids = agent.pids()
    for pid in (run.pid, *keeper):
        os.kill(pid, signal.SIGKILL)
    run.communicate()
    agent.release()
    assert not agent.groups()
    assert not agent.alive(pids)


def _command(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def test_a_killed_agent_is_followed_by_one_that_restarts_nobody(agent: Agent) -> None:
    for name in "abcd":
        agent.write(name, pod(name, "exec sleep 1000"))
    run = agent.service()
    agent.until(lambda: len(agent.pids()) == 4)
    kept = agent.pids()
    for round_ in range(6):
        run.kill()
        run.communicate()
        (agent.manifests / f"{'abcd'[round_ % 4]}.yaml").unlink(missing_ok=True)
        agent.write(f"n{round_}", pod(f"n{round_}", "exec sleep 1000"))
        run = agent.service()
        # a different moment each time
        time.sleep(0.12 * SLOW * (round_ + 1))
    agent.eventually(lambda: len(agent.pids()) == 6 and len(agent.apps()) == 6)
    agent.stop(run)
    assert not agent.pids() & kept, "all four are gone by now"
    assert len(agent.apps()) == 6


def test_edited_resources_are_written_in_place(agent: Agent) -> None:
    text = pod("a", "exec sleep 1000")
    agent.write("a", text)
    run = agent.service()
    agent.until(lambda: len(agent.pids()) == 1)
    pids, groups = agent.pids(), identities(agent)
    (app,) = agent.apps()
    agent.write(
        "a", text.replace("memory: 32Mi}", "memory: 64Mi}").replace("cpu: 200m", "cpu: 300m")
    )
    agent.until(lambda: agent.limit(app) == 64 * MIB)
    agent.until(lambda: agent.limit(app.removesuffix("/app")) == 64 * MIB)
    agent.write(
        "a",
        text.replace("memory: 16Mi", "memory: 900Gi").replace("memory: 32Mi}", "memory: 900Gi}"),
    )
    agent.write("b", pod("b", "exec sleep 1000"))
    agent.until(lambda: len(agent.pids()) == 2)
    assert agent.limit(app) == 64 * MIB, "infeasible: it keeps what it has"
    agent.write("a", text)
    agent.until(lambda: agent.limit(app) == 32 * MIB)
    assert agent.pids() >= pids
    assert identities(agent).items() >= groups.items()
    out = agent.stop(run)
    assert "resize Infeasible: memory" in out


def test_a_limit_below_the_usage_is_followed_down_and_nobody_is_killed(agent: Agent) -> None:
    hold = "import sys,time; held = bytearray(100 << 20); print(1, flush=True)\nwhile not __import__('os').path.exists(sys.argv[1]): time.sleep(0.05)\ndel held; time.sleep(1000)"
    script, flag = agent.manifests.parent / "hold.py", agent.manifests.parent / "flag"
    script.write_text(hold)
    text = pod("a", f"exec {sys.executable} {script} {flag}").replace(
        "memory: 32Mi}", "memory: 192Mi}"
    )
    agent.write("a", text)
    run = agent.service()
    usage = "memory.current" if agent.v2 else "memory.usage_in_bytes"
    agent.until(
        lambda: any(int(agent.value(path, usage) or 0) > 100 * MIB for path in agent.apps())
    )
    pids = agent.pids()
    (app,) = agent.apps()
    agent.write("a", text.replace("memory: 192Mi}", "memory: 64Mi}"))
    agent.until(lambda: agent.limit(app) < 192 * MIB)
    assert 100 * MIB < agent.limit(app) < 130 * MIB, "near the usage"
    flag.touch()
    agent.until(lambda: agent.limit(app) == 64 * MIB, 30 * SLOW)
    assert agent.pids() == pids
    agent.stop(run)


def test_reserved_memory_limits_the_lower_tiers_before_the_pod_starts(agent: Agent) -> None:
    options = ("--qos-reserved", "memory=100%", "--feature-gates", "QOSReserved=true")
    agent.write("b", pod("b", "exec sleep 1000"))
    run = agent.service(*options)
    agent.until(lambda: len(agent.pids()) == 1)
    tier = next(path for path in agent.groups() if path.endswith("/besteffort"))
    before = agent.limit(tier)
    text = pod("g", "cat /proc/self/cgroup > /dev/null; exec sleep 1000")
    agent.write(
        "g",
        text.replace("requests: {cpu: 100m, memory: 16Mi}", "requests: {cpu: 200m, memory: 32Mi}"),
    )
    agent.until(lambda: len(agent.pids()) == 2)
    page = 4096
    assert abs(before - agent.limit(tier) - 32 * MIB) < page
    (agent.manifests / "g.yaml").unlink()
    agent.until(lambda: agent.limit(tier) == before)
    err = agent.stop(run)
    assert "error" not in err


def test_pods_outside_pod_groups_are_brought_in_or_fail(agent: Agent) -> None:
    out = ("--cgroups-per-qos=false", "--enforce-node-allocatable=none")
    agent.write("a", pod("a", "exec sleep 1000"))
    agent.write("b", pod("b", "exec sleep 1000", "Never"))
    run = agent.service(*out)
    agent.until(lambda: len(agent.pids()) == 2)
    assert not [path for path in agent.groups() if "kubepods" in path]
    agent.stop(run)
    run = agent.service()
    agent.until(lambda: len(agent.apps()) == 1 and len(agent.pids()) == 1)
    (app,) = agent.apps()
    assert "/kubepods/burstable/pod" in app
    out_text = agent.stop(run)
    assert "restartPolicy Never" in out_text
    agent.release()
    assert not agent.groups()


def test_orphans_are_found_by_the_journal_and_removed(agent: Agent) -> None:
    for name in "ab":
        agent.write(name, pod(name, "exec sleep 1000"))
    run = agent.service()
    agent.until(lambda: len(agent.pids()) == 2)
    agent.stop(run)
    (agent.folder / "keeper.lock").exists()
    # the records of one pod are lost with their keeper
    for entry in (agent.folder / "keeper").iterdir():
        entry.unlink() if entry.is_file() else None
    (agent.manifests / "a.yaml").unlink()
    (agent.manifests / "b.yaml").unlink()
    run = agent.service()
    agent.until(lambda: not agent.apps(), 30 * SLOW)
    out = agent.stop(run)
    assert not agent.pids()
    agent.release()
    assert out


class Reserved:
    """A group of somebody else, in every hierarchy."""

    def __init__(self, agent: Agent) -> None:
        self.path = f"{agent.root}-system"
        self.trees = agent.tree.layout.trees

    def __enter__(self) -> Reserved:
        for tree in self.trees:
            tree.mkdir(self.path)
        return self

    def __exit__(self, *_: object) -> None:
        for tree in self.trees:
            tree.rmdir(self.path)


def test_reserved_groups_must_be_there_are_written_and_given_back(agent: Agent) -> None:
    agent.write("a", pod("a", "exec sleep 1000"))
    weight, limit = ("cpu.weight", "memory.max") if agent.v2 else ("cpu.shares", agent.limit_file)
    options = (
        "--system-reserved=cpu=500m,memory=256Mi",
        f"--system-reserved-cgroup={agent.root}-system",
        "--enforce-node-allocatable=pods,system-reserved",
    )
    _, err = ended(agent.begin(*options), 3)
    assert f"{agent.root}-system" in err
    assert "does not exist" in err
    with Reserved(agent) as system:
        if agent.v2:
            agent.tree.layout.trees[0].write("", "cgroup.subtree_control", "+memory +cpu +pids")
        before = {file: agent.read(system.path, file) for file in (weight, limit)}
        run = agent.begin(*options)
        agent.until(lambda: agent.limit(system.path) == 256 * MIB)
        agent.until(lambda: len(agent.pids()) == 1)
        assert agent.read(system.path, weight) != before[weight]
        agent.stop(run)
        assert {file: agent.read(system.path, file) for file in (weight, limit)} == before
        run = agent.service(*options)
        agent.until(lambda: agent.limit(system.path) == 256 * MIB)
        run.kill()
        run.communicate()
        agent.release()
        assert {file: agent.read(system.path, file) for file in (weight, limit)} == before


def test_a_hang_up_reads_the_configuration_again(agent: Agent) -> None:
    node = agent.manifests.parent / "kubelet.yaml"
    text = (
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        "failCgroupV1: false\nfailSwapOn: false\ncgroupDriver: cgroupfs\n"
    )
    node.write_text(text)
    agent.write("a", pod("a", "exec sleep 1000"))
    run = agent.service("--node", str(node))
    agent.until(lambda: len(agent.pids()) == 1)
    pids = agent.pids()
    (app,) = agent.apps()
    quota = "cpu.max" if agent.v2 else "cpu.cfs_quota_us"
    assert agent.read(app, quota).startswith("20000")
    node.write_text(f"{text}cpuCFSQuota: false\n")
    run.send_signal(signal.SIGHUP)
    agent.until(lambda: agent.read(app, quota).split()[0] in ("-1", "max"))
    node.write_text("{broken")
    run.send_signal(signal.SIGHUP)
    time.sleep(SLOW)
    assert agent.pids() == pids
    out = agent.stop(run)
    assert "the last valid one stays in effect" in out


def test_a_node_file_that_changes_is_read_by_itself(agent: Agent) -> None:
    node = agent.manifests.parent / "kubelet.yaml"
    text = (
        "apiVersion: qoslet/v1\nkind: Node\ncapacity: {memory: 8Gi}\n---\n"
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        "failCgroupV1: false\nfailSwapOn: false\ncgroupDriver: cgroupfs\n"
    )

    def becomes(more: str) -> None:
        """The file is replaced, as a configuration management does it."""
        new = node.with_suffix(".new")
        new.write_text(text + more)
        os.rename(new, node)

    def turned() -> None:
        """A turn has begun and ended since."""
        for _ in range(2):
            agent.until(agent.answers)

    becomes("")
    agent.write("a", pod("a", "exec sleep 1000"))
    run = agent.service("--node", str(node))
    agent.until(lambda: len(agent.pids()) == 1)
    pids = agent.pids()
    (app,) = agent.apps()
    quota = "cpu.max" if agent.v2 else "cpu.cfs_quota_us"
    for _ in range(2):
        becomes("cpuCFSQuota: false\n")
        agent.until(lambda: agent.read(app, quota).split()[0] in ("-1", "max"))
        becomes("")
        agent.until(lambda: agent.read(app, quota).startswith("20000"))
    for wrong in ("cpuCFSQuota: 7\n", "cpuCFSQuota: false\nkubeReserved: {memory: 8Gi}\n"):
        becomes(wrong)
        turned()
    node.unlink()
    turned()
    assert agent.read(app, quota).startswith("20000")
    assert agent.pids() == pids
    out = agent.stop(run)
    assert "configuration reloaded" in out
    said = [
        line for line in out.splitlines() if line.endswith("the last valid one stays in effect")
    ]
    for why in ("cpuCFSQuota", "a kubelet refuses to start", "does not exist"):
        assert any(why in line for line in said), said
    assert "Traceback" not in out


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_typo_and_a_restart_end_no_pod(agent: Agent, how: int) -> None:
    good = pod("a", "exec sleep 1000") + "---" + pod("b", "exec sleep 1000")
    agent.write("ab", good)
    agent.write("c", pod("c", "exec sleep 1000"))
    agent.write("d", pod("d", "exec sleep 1000"))
    first = agent.service()
    agent.until(lambda: len(agent.pids()) == 4)
    pids = agent.pids()
    agent.write("ab", good.replace("memory: 32Mi}", "memory: 32Mib}", 1))
    first.send_signal(how)
    first.communicate(timeout=PATIENCE)
    (agent.manifests / "d.yaml").unlink()
    second = agent.service()
    agent.until(lambda: agent.answers() and len(agent.pids()) == 3)
    assert agent.pids() < pids, "a and b of the file with the fault, and c"
    agent.write("ab", good)
    agent.until(lambda: "cannot be read" not in json.dumps(agent.rows()))
    assert agent.pids() < pids
    out = agent.stop(second)
    assert out.count("/ab.yaml cannot be read: the pod stays as it is") == 2
    assert "default/d: " in out
    assert "/d.yaml no longer has it: stopping it" in out


def test_the_log_tells_when_a_pod_died(agent: Agent) -> None:
    agent.write("web", pod("web", "exec sleep 1000"))
    agent.write("typo", pod("typo", "exec sleep 1000").replace("[sh, -c,", "[/nosuch, -c,"))
    log = agent.manifests.parent / "log"
    command = agent.verb("run", str(agent.manifests), "--keep", "-v", "--log-format", "json")
    with open(log, "w") as out:
        run = subprocess.Popen(command, env=ENVIRONMENT, stdout=out, stderr=out, text=True)
    agent.runs.append(run)

    def rows(name: str, pod: str = "web") -> list[dict[str, Any]]:
        found = [json.loads(line) for line in log.read_text().splitlines()]
        assert all(row["time"] for row in found)
        return [row for row in found if row.get("event") == name and row.get("pod", pod) == pod]

    agent.eventually(
        lambda: bool(rows("ContainerStarted") and rows("ContainerStartFailed", "typo"))
    )
    assert "No such file" in rows("ContainerStartFailed", "typo")[0]["message"]
    assert any(
        row["level"] == "warning"
        and row["message"] == "default/typo/app: /nosuch: No such file or directory"
        for row in map(json.loads, log.read_text().splitlines())
    ), "the runtime's note, at once"
    (pid,) = agent.pids()
    os.kill(pid, signal.SIGKILL)
    agent.eventually(lambda: bool(rows("ContainerExited")))
    [row] = rows("ContainerExited")
    assert (row["namespace"], row["container"], row["exitCode"]) == ("default", "app", 137)
    assert (row["signal"], row["level"]) == ("SIGKILL", "warning")
    assert row["restartInSeconds"] is None, "the first restart is at once"
    agent.write("web", pod("web", "exec sleep 1000").replace("cpu: 100m", "cpu: 150m"))
    agent.eventually(lambda: any("resize Done" in row["message"] for row in rows("PodResize")))
    (agent.manifests / "web.yaml").unlink()
    agent.eventually(lambda: bool(rows("PodRemoved")))
    actions = {row["action"] for row in rows("CgroupAction")}
    assert actions == {"create", "set", "remove"}
    (agent.manifests / "typo.yaml").unlink()
    agent.eventually(lambda: not agent.apps())
    run.send_signal(signal.SIGTERM)
    assert run.wait(PATIENCE) == 0
    agent.release()


@pytest.mark.parametrize("killed", [False, True])
def test_controllers_that_a_reserved_cgroup_lacks_are_given_and_taken_back(
    agent: Agent, killed: bool
) -> None:
    if not agent.v2:
        pytest.skip("v1 has nothing to enable")
    agent.write("a", pod("a", "exec sleep 1000"))
    above, tree = f"{agent.root}-above", agent.tree.layout.trees[0]
    reserved = f"{above}/kube"
    tree.mkdir(above)
    tree.mkdir(reserved)

    def state() -> dict[str, object]:
        """What is enabled above, and the files that this makes."""
        files = os.listdir(f"/sys/fs/cgroup{reserved}")
        return {
            "root": sorted(tree.read("", "cgroup.subtree_control").split()),
            "above": tree.read(above, "cgroup.subtree_control"),
            "files": sorted(file for file in files if file.startswith(("cpu.w", "memory", "pids"))),
        }

    try:
        before = state()
        options = (
            "--kube-reserved=cpu=500m,memory=256Mi",
            f"--kube-reserved-cgroup={reserved}",
            "--enforce-node-allocatable=pods,kube-reserved",
        )
        run = agent.service(*options)
        agent.until(lambda: agent.value(reserved, "memory.max") == str(256 * MIB))
        agent.until(lambda: len(agent.pids()) == 1)
        if killed:
            run.kill()
            run.communicate()
        else:
            agent.stop(run)
        said = agent.release("--verbose")
        assert "cannot be read" not in said
        assert state() == before, said
        assert not agent.folder.exists()
    finally:
        tree.rmdir(reserved)
        tree.rmdir(above)


def test_a_reserved_cgroup_needs_the_hierarchies_of_its_values_only(agent: Agent) -> None:
    if agent.v2:
        pytest.skip("v2 has one hierarchy")
    agent.write("a", pod("a", "exec sleep 1000"))
    options = (
        "--system-reserved=cpu=500m,memory=256Mi",
        f"--system-reserved-cgroup={agent.root}-system",
        "--enforce-node-allocatable=pods,system-reserved",
    )
    with Reserved(agent) as system:
        for name, needed in (
            ("freezer", False),
            ("cpuset", False),
            ("cpu", True),
            ("memory", True),
        ):
            tree = agent.tree.layout.tree_of(name)
            if tree is None:
                continue
            tree.rmdir(system.path)
            if needed:
                _, err = ended(agent.begin(*options), 3)
                assert f"does not exist in the hierarchy of {name}" in err
                agent.runs.pop()
            else:
                run = agent.service(*options)
                agent.until(lambda: agent.value(system.path, "cpu.shares") == "512")
                agent.until(lambda: len(agent.pids()) == 1)
                out = agent.stop(run)
                assert "does not exist" not in out
                agent.release()
                assert agent.value(system.path, "cpu.shares") == "1024"
            tree.mkdir(system.path)
