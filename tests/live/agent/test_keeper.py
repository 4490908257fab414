"""The keeper with real control groups: who is where, who is ended, what the kernel killed."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from qoslet.core.reconcile.steps import Step
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import Backoff
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.core.workload.security.context import DEFAULT_CAPABILITIES, Credentials
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.keeper.client import KeeperRuntime
from qoslet.host.machine.probe import probe
from tests.contract.drivers import mounts_of

pytestmark = pytest.mark.live

ROOT = Credentials(0, 0, (), DEFAULT_CAPABILITIES, False)
SOMEBODY = Credentials(1234, 2345, (), DEFAULT_CAPABILITIES, False)
ENV = (("PATH", "/usr/local/bin:/usr/bin:/bin"),)
PATIENCE = 120.0 if "QOSLET_SYSTEM" in os.environ else 40.0
QUICK = Backoff(first=0.2, longest=1.0)

Ready = Callable[[dict[str, ContainerState]], bool]


class Bench:
    """A tree with a keeper of its own."""

    def __init__(self, folder: Path) -> None:
        hierarchy = probe().hierarchy or "v1"
        self.folder = folder / "state"
        self.folder.mkdir(mode=0o700)
        self.root = f"/qoslet-test-{secrets.token_hex(4)}"
        self.tree = Cgroupfs(hierarchy, mounts_of(hierarchy), self.root)
        self.runtime = self.client()
        self.containers: list[str] = []

    def client(self) -> KeeperRuntime:
        hierarchy = probe().hierarchy or "v1"
        return KeeperRuntime.connect(
            str(self.folder), self.root, hierarchy, mounts_of(hierarchy), backoff=QUICK
        )

    def path(self, uid: str) -> str:
        return f"{self.root}/pod{uid}/app"

    def begin(
        self, uid: str, *argv: str, limit: int = 0, restart: str = "Never", who: Credentials = ROOT
    ) -> None:
        path = self.path(uid)
        steps = [Step("create", path)]
        file = "memory.limit_in_bytes" if self.tree.hierarchy == "v1" else "memory.max"
        if limit:
            steps.append(Step("set", path, file, str(limit)))
        assert [one.error for one in self.tree.perform(steps)] == [None] * len(steps)
        launch = ProcessSpec("app", "regular", argv, ENV, "/", who, restart)  # type: ignore[arg-type]
        self.runtime.start(PodSpec(uid, f"default/{uid}", (launch,), 5.0, ()), {"app": path})

    def until(self, ready: Ready) -> dict[str, ContainerState]:
        deadline = time.monotonic() + PATIENCE
        while True:
            states = {one.pod_uid: one for one in self.runtime.poll()}
            if ready(states):
                return states
            assert time.monotonic() < deadline, (states, self.runtime.notes)
            time.sleep(0.005)

    def log(self, uid: str, run: int = 0) -> list[str]:
        path = self.folder / f"logs/default_{uid}_{uid}/app/{run}.log"
        try:
            return [line.split(" ", 3)[3] for line in path.read_text().splitlines()]
        except FileNotFoundError:
            return []

    def end(self) -> None:
        for uid in self.runtime.list_pods():
            self.runtime.stop(uid, 0)
        self.until(lambda states: not any(one.running for one in states.values()))
        for uid in self.runtime.list_pods():
            self.runtime.remove_pod(uid)
        self.runtime.close(PATIENCE)

    def clean(self) -> None:
        self.tree.kill(self.root)
        for path in self.tree.below(self.root):
            self.tree.discard(path)
        left = self.tree.below(self.root)
        self.tree.close()
        shutil.rmtree(self.folder)
        assert left == []


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    try:
        yield made
        made.end()
    finally:
        made.clean()


def running(states: dict[str, ContainerState]) -> bool:
    return bool(states) and all(one.running and one.pid for one in states.values())


def test_a_container_is_in_its_group_everywhere_and_ends_as_a_whole(
    bench: Bench, record_property
) -> None:
    bench.begin("u1", "sh", "-c", "sleep 600 & setsid sleep 600 & echo up; sleep 600")
    bench.until(lambda s: running(s) and bench.log("u1") == ["up"])
    pid = bench.runtime.poll()[0].pid
    trees = bench.tree.layout.trees
    for tree in trees:
        assert str(pid) in tree.read(bench.path("u1"), "cgroup.procs").split()
    bench.until(lambda _: len(bench.tree.members(bench.path("u1"))) == 4)
    assert bench.runtime.pid not in bench.tree.members(bench.path("u1"))
    os.kill(pid or 0, signal.SIGKILL)
    state = bench.until(lambda s: not s["u1"].running)["u1"]
    assert (state.exit_code, state.reason, state.oom_killed) == (137, "Error", False)
    assert bench.tree.members(bench.path("u1")) == set(), "it is over when its group is empty"
    assert bench.tree.perform([Step("remove", bench.path("u1"))])[0].error is None
    record_property("compared", len(trees) + 4)


def test_what_the_kernel_kills_for_memory_is_told(bench: Bench) -> None:
    line = "x=$(head -c 400000000 /dev/zero | tr '\\0' x); echo $?"
    bench.begin("u1", "sh", "-c", line, limit=32 << 20, restart="Always")
    state = bench.until(lambda s: s["u1"].oom_killed)["u1"]
    assert state.reason in ("OOMKilled", "")
    again = bench.until(lambda s: s["u1"].restarts >= 1)["u1"]
    assert again.oom_killed


def test_killed_keepers_lose_no_container(bench: Bench) -> None:
    count = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.01; done"
    for number in range(5):
        bench.begin(f"u{number}", "sh", "-c", count)
    before = bench.until(running)
    for _ in range(5):
        old = bench.runtime.pid
        os.kill(old, signal.SIGKILL)
        bench.until(lambda s: bench.runtime.pid != old)  # noqa: B023
        seen = len(bench.log("u0"))
        bench.until(lambda s: len(bench.log("u0")) > seen + 5)  # noqa: B023
    after = bench.until(running)
    assert {uid: (s.pid, s.restarts) for uid, s in after.items()} == {
        uid: (s.pid, 0) for uid, s in before.items()
    }
    for uid in after:
        printed = [-1, *map(int, bench.log(uid))]
        steps = [later - earlier for earlier, later in pairwise(printed)]
        assert min(steps) == 1, "no line comes twice"
        # What a keeper had in its hands when it was killed goes with it.
        assert sum(step > 1 for step in steps) <= 5, "no line is lost in between"


def test_a_process_that_a_killed_keeper_had_just_begun_is_not_there_twice(bench: Bench) -> None:
    bench.begin("u0", "sleep", "600")
    bench.until(running)
    for number in range(1, 12):
        old = bench.runtime.pid
        bench.begin(f"u{number}", "sh", "-c", "echo $$; exec sleep 600")
        time.sleep(0.003 * number)
        os.kill(old, signal.SIGKILL)
        bench.until(lambda s: running(s) and bench.runtime.pid != old)  # noqa: B023
        # The child of one that was killed may still be on its way into its group.
        bench.until(lambda s: all(bench.tree.members(bench.path(uid)) == {s[uid].pid} for uid in s))


def test_a_restart_while_the_link_to_the_logs_is_gone_makes_no_others(bench: Bench) -> None:
    logs = bench.folder.parent / "logs"
    logs.mkdir(mode=0o700)
    (bench.folder / "logs").symlink_to(logs)
    bench.runtime = bench.client()
    bench.begin("a", "sh", "-c", "echo here; sleep 0.3", restart="Always")
    seen = bench.until(lambda s: s["a"].restarts >= 1)["a"].restarts
    (bench.folder / "logs").unlink()
    bench.until(lambda s: s["a"].restarts > seen + 1)
    assert not (bench.folder / "logs").exists()
    assert [path.name for path in logs.iterdir()] == ["default_a_a"]


def test_an_identity_may_open_its_output_again(bench: Bench) -> None:
    line = "echo one; echo two > /dev/stderr; echo three > /dev/stdout; id -u"
    bench.begin("u1", "sh", "-c", line, who=SOMEBODY)
    bench.until(lambda s: s["u1"].exit_code == 0)
    assert sorted(bench.log("u1")) == sorted(["one", "two", "three", "1234"])


def test_a_start_waits_for_a_group_that_is_not_there(bench: Bench) -> None:
    launch = ProcessSpec("app", "regular", ("sleep", "600"), ENV, "/", ROOT, "Never")
    spec = PodSpec("u1", "default/u1", (launch,), 5.0, ())
    bench.runtime.start(spec, {"app": bench.path("u1")})
    state = bench.until(lambda s: "cgroup.procs" in s["u1"].reason)["u1"]
    assert (state.running, state.exit_code) == (False, None)
    assert bench.tree.perform([Step("create", bench.path("u1"))])[0].error is None
    state = bench.until(running)["u1"]
    assert (state.restarts, state.reason) == (0, "")


def test_who_keeps_a_scope_for_an_agent_is_not_the_container(bench: Bench) -> None:
    path = f"{bench.root}/podu1/x.scope"
    assert bench.tree.perform([Step("create", path)])[0].error is None
    launch = ProcessSpec("app", "regular", ("sleep", "600"), ENV, "/", ROOT, "Never")
    holder = subprocess.Popen(["sleep", "600"])
    try:
        assert bench.tree.perform([Step("attach", path, pid=holder.pid)])[0].error is None
        bench.runtime.start(PodSpec("u1", "default/u1", (launch,), 5.0, ()), {"app": path})
        bench.until(lambda s: bench.tree.members(path) == {s["u1"].pid, holder.pid})
        bench.runtime.stop("u1", 0)
        bench.until(lambda s: not s["u1"].running)
        assert bench.tree.members(path) == {holder.pid}
    finally:
        holder.kill()
        holder.wait()


def test_fifty_pods_at_once(bench: Bench, record_property) -> None:
    for number in range(50):
        path = bench.path(f"p{number}")
        assert bench.tree.perform([Step("create", path)])[0].error is None
    bench.runtime.begin()
    launch = ProcessSpec("app", "regular", ("sleep", "600"), ENV, "/", ROOT, "Never")
    begun = time.monotonic()
    for number in range(50):
        uid = f"p{number}"
        spec = PodSpec(uid, f"default/{uid}", (launch,), 5.0, ())
        bench.runtime.start(spec, {"app": bench.path(uid)})
    asked = time.monotonic() - begun
    bench.until(lambda s: len(s) == 50 and running(s))
    ran = time.monotonic() - begun
    record_property("seconds", f"asked {asked:.3f}, all ran {ran:.3f}")
    assert asked < PATIENCE / 10
    for number in range(50):
        bench.runtime.stop(f"p{number}", 5.0)
    bench.until(lambda s: not any(one.running for one in s.values()))
    status = Path(f"/proc/{bench.runtime.pid}/status").read_text()
    memory = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    record_property("keeper", memory)
    assert int(memory.split()[1]) < 24_000, memory
