"""``qoslet run`` on this machine's kernel, in a root of its own that is always cleaned."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.machine.probe import probe
from tests.cli.fixtures import answer
from tests.contract.drivers import mounts_of
from tests.live.machine import remove_files
from tests.paths import REPO as ROOT

EMULATED = "QOSLET_SYSTEM" in os.environ
"""Whether this is a guest without KVM, where Python is ten times slower."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "QOSLET_DEBUG": "1"}
PATIENCE = 120 if EMULATED else 40
"""Seconds within which a run has to end."""
STARTED = "20" if EMULATED else "3"
"""Seconds after which a run has started its containers."""

pytestmark = [pytest.mark.live, pytest.mark.timeout(2 * PATIENCE + 10)]

POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 3
  restartPolicy: POLICY
  containers:
    - name: app
      command: [sh, -c, "COMMAND"]
      resources: {requests: {cpu: 100m, memory: 16Mi}, limits: {cpu: 200m, memory: 32Mi}}
"""


def pod(name: str, command: str, policy: str = "Always") -> str:
    return POD.replace("NAME", name).replace("COMMAND", command).replace("POLICY", policy)


class Live:
    """One root with the runs in it."""

    def __init__(self, folder: Path) -> None:
        here = probe()
        assert here.hierarchy is not None, "this machine has no cgroups"
        self.root = f"/qoslet-test-{secrets.token_hex(4)}"
        self.manifests = folder / "manifests"
        self.manifests.mkdir(mode=0o755)
        self.tree = Cgroupfs(here.hierarchy, mounts_of(here.hierarchy), self.root)
        self.runs: list[subprocess.Popen[str]] = []

    def write(self, name: str, text: str) -> None:
        (self.manifests / f"{name}.yaml").write_text(text)

    def begin(self, *options: str, user: int | None = None) -> subprocess.Popen[str]:
        run = subprocess.Popen(
            self.verb("run", str(self.manifests), "--interval", "0.2", *options),
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            user=user,
        )
        self.runs.append(run)
        return run

    def verb(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "qoslet", *words, "--cgroup-root", self.root]

    def summary(self) -> str:
        """The last turn in one sentence, as ``qoslet ps`` tells it; nothing if nobody answers."""
        done = answer("ps", "-o", "json", "--cgroup-root", self.root)
        return json.loads(done.stdout)["summary"] if done.returncode == 0 else ""

    def groups(self) -> list[str]:
        return self.tree.below(self.root)

    def pids(self) -> set[int]:
        return {pid for path in self.groups() for pid in self.tree.members(path)}

    def alive(self, pids: set[int]) -> list[str]:
        """Those that still run or wait to be collected by qoslet."""
        found = []
        for pid in pids:
            try:
                text = Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue
            if text.rpartition(")")[2].split()[0] != "Z":
                found.append(text)
        return found

    def until(self, ready: Callable[[], bool], seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < deadline, f"not reached; groups: {self.groups()}"
            assert self.runs[-1].poll() is None, self.runs[-1].communicate()
            time.sleep(0.05)

    def clean(self) -> None:
        for run in self.runs:
            if run.poll() is None:
                run.kill()
            run.communicate()
        if self.groups():
            self.tree.kill(self.root)
            for path in self.groups():
                self.tree.discard(path)
        remove_files(self.root)
        left = self.groups()
        self.tree.close()
        assert not left, "the test left groups behind"


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    assert os.getuid() == 0, "live tests write to this machine's kernel: run them as root"
    made = Live(tmp_path)
    try:
        yield made
    finally:
        made.clean()


def ended(run: subprocess.Popen[str], code: int = 0, patience: float = PATIENCE) -> tuple[str, str]:
    out, err = run.communicate(timeout=patience)
    assert run.returncode == code, (run.returncode, out, err)
    return out, err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_no_group_and_no_process(live: Live, number: int) -> None:
    live.write("a", pod("a", "sleep 1000 & sleep 1000"))
    run = live.begin()
    live.until(lambda: len(live.pids()) >= 3)
    before = live.pids()
    run.send_signal(number)
    ended(run)
    assert not live.groups()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in before), "not even a zombie"


def test_a_second_signal_hurries(live: Live) -> None:
    text = pod("a", "trap : TERM; while :; do sleep 0.1; done")
    live.write("a", text.replace("GracePeriodSeconds: 3", "GracePeriodSeconds: 60"))
    run = live.begin()
    live.until(lambda: bool(live.pids()))
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    time.sleep(1)
    assert run.poll() is None, "it waits for the grace period"
    run.send_signal(signal.SIGINT)
    ended(run)
    assert not live.groups()


def test_after_a_kill_the_next_run_takes_up_what_stands(live: Live) -> None:
    live.write("a", pod("a", "exec sleep 1000"))
    live.write("b", pod("b", "exec sleep 1000"))
    first = live.begin()
    live.until(lambda: len(live.pids()) == 2)
    kept = live.pids()
    first.kill()
    first.communicate()
    assert live.pids() == kept, "containers outlive the agent"
    (live.manifests / "b.yaml").unlink()
    live.write("c", pod("c", "exec sleep 1000"))
    second = live.begin()
    live.until(lambda: len(live.pids() - kept) == 1 and len(live.pids() & kept) == 1)
    live.until(lambda: sum(path.endswith("/app") for path in live.groups()) == 2)
    live.until(lambda: "2 pods, 2 of 2 containers running" in live.summary())
    second.send_signal(signal.SIGTERM)
    out, _ = ended(second)
    assert "2 pods, 2 of 2 containers running" in out
    assert not live.groups()
    assert not live.alive(kept)


def test_a_foreign_tree_is_refused_and_untouched(live: Live) -> None:
    for tree in live.tree.layout.trees:
        tree.mkdir(live.root)
    live.write("a", pod("a", "exec sleep 1000"))
    _, err = ended(live.begin("--for", "1"), 3)
    assert "no qoslet journal has it" in err
    assert live.groups() == [live.root]


def test_values_processes_and_drift(live: Live) -> None:
    live.write("a", pod("a", "exec sleep 1000"))
    run = live.begin()
    live.until(lambda: bool(live.pids()))
    path = next(one for one in live.groups() if one.endswith("/app"))
    knobs = {"cpu.cfs_quota_us": "20000", "memory.limit_in_bytes": str(32 << 20)}
    if live.tree.hierarchy == "v2":
        knobs = {"cpu.max": "20000 100000", "memory.max": str(32 << 20)}

    def found() -> dict[str, str]:
        trees = {file: live.tree.layout.tree_of(file.partition(".")[0]) for file in knobs}
        return {file: tree.read(path, file) for file, tree in trees.items() if tree}

    assert found() == knobs

    def members() -> list[set[int]]:
        texts = [each.read(path, "cgroup.procs") for each in live.tree.layout.trees]
        return [{int(pid) for pid in text.split()} for text in texts]

    # the child joins one hierarchy after the other
    live.until(lambda: all(one == live.pids() for one in members()))
    file = next(iter(knobs))
    tree = live.tree.layout.tree_of("cpu")
    assert tree is not None
    tree.write(path, file, "10000" if file.endswith("us") else "10000 100000")
    live.until(lambda: found() == knobs)
    run.send_signal(signal.SIGTERM)
    _, said = ended(run)
    assert "kubelet refuses" not in said, "there is no kubelet here"


def test_manifests_that_change_are_followed(live: Live) -> None:
    live.write("a", pod("a", "exec sleep 1000"))
    run = live.begin()
    live.until(lambda: len(live.pids()) == 1)
    kept = live.pids()
    live.write("b", pod("b", "exec sleep 1000"))
    live.until(lambda: len(live.pids()) == 2)
    (live.manifests / "b.yaml").write_text("{broken")
    time.sleep(0.6)
    assert len(live.pids()) == 2, "the last good state stands"
    (live.manifests / "b.yaml").unlink()
    live.until(lambda: live.pids() == kept)
    live.until(lambda: sum(one.endswith("/app") for one in live.groups()) == 1)
    run.send_signal(signal.SIGTERM)
    ended(run)


def test_a_container_that_meets_its_memory_limit_is_said(live: Live) -> None:
    live.write("a", pod("a", "dd if=/dev/zero of=/dev/null bs=64M count=1", "Never"))
    out, _ = ended(live.begin("--for", "30" if EMULATED else "4"), 1)
    assert "a/app: OOM-killed, exit code 137" in out
    row = next(line for line in out.splitlines() if line.startswith("a/app") and "32Mi" in line)
    kills, restarts = row.split()[-2:]
    # v2 kills and counts every process of the container
    assert int(kills) == 1 or (live.tree.hierarchy == "v2" and int(kills) > 1)
    assert restarts == "0"


def test_a_pod_that_is_refused_does_not_stop_others(live: Live) -> None:
    good = pod("good", "echo hello; exec sleep 1000")
    bad = pod("bad", "exec sleep 1000").replace(
        "    - name: app\n", "    - name: app\n      securityContext: {runAsNonRoot: true}\n"
    )
    live.write("a", f"{good}---\n{bad}")
    run = live.begin("--logs")
    seen: list[str] = []
    assert run.stdout is not None
    wanted = {"1 of 1 containers running", "hello"}
    while wanted:
        line = run.stdout.readline()
        assert line, ended(run, 1)
        seen.append(line)
        wanted -= {text for text in wanted if text in line}
    run.send_signal(signal.SIGINT)
    out, err = ended(run, 1)
    out = "".join(seen) + out
    assert "1 pod, 1 of 1 containers running" in out
    assert "good/app | hello" in out
    assert "cannot isolate it as requested" in " ".join(err.split())
    _, err = ended(live.begin("--for", STARTED, "--unconfined"))
    assert "run anyway (--unconfined)" in err


def test_without_rights_it_exits_3(live: Live) -> None:
    live.write("a", pod("a", "exec sleep 1000"))
    from qoslet.app.agent.run import _need_rights
    from qoslet.errors import CannotDo

    pid = os.fork()
    if pid == 0:
        os.setgroups(())
        os.setgid(65534)
        os.setuid(65534)
        try:
            _need_rights([tree.point for tree in live.tree.layout.trees], live.root)
        except CannotDo as error:
            os._exit(error.exit_code)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3


@pytest.mark.skipif(EMULATED, reason="CPUs of an emulator give no even share")
@pytest.mark.alone
@pytest.mark.timeout(240)
def test_the_examples_get_the_cpu_that_they_asked_for(live: Live) -> None:
    for file in (ROOT / "examples").glob("*.yaml"):
        shutil.copy(file, live.manifests)
    # where others leave little, a greedy container needs longer to meet its limit
    for seconds in (12, 90):
        out, _ = ended(live.begin("--for", str(seconds)), patience=seconds + PATIENCE)
        table = out[out.index("asked → written → got") :]
        verdicts = re.findall(r"[✓✗]$", table, re.MULTILINE)
        assert verdicts == ["✓"] * 4, table
        assert not live.groups()
        if re.search(r"^web/greedy.* 64Mi +[1-9]\d* +\d+$", table, re.MULTILINE):
            return
    pytest.fail(table)
