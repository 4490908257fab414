"""The keeper with real processes: what it is told, what survives whom, and hostile neighbours."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.core.problem import Problem
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import Backoff
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.core.workload.security.context import DEFAULT_CAPABILITIES, Credentials
from qoslet.errors import CannotDo
from qoslet.host.keeper.client import KeeperRuntime
from qoslet.host.keeper.launch import BOOT, Starter
from qoslet.host.keeper.protocol import KeeperSettings
from tests.host.keeper.sessions import Sessions
from tests.paths import REPO as ROOT

ME = Credentials(os.getuid(), os.getgid(), (), DEFAULT_CAPABILITIES, os.getuid() != 0)
QUICK = Backoff(first=0.05, longest=0.2, reset_after=60)
PATIENCE = 60.0
BOOT_HERE = BOOT.replace(
    "from qoslet.host.keeper.server import main; main()",
    f"sys.path.append({str(ROOT)!r}); from tests.host.keeper.sessions import keep; keep()",
)


def group(uid: str, name: str) -> str:
    return f"/g/{os.getpid()}/{uid}/{name}"


def pod(uid: str, *containers: tuple[str, str], grace: float = 5.0, **how: str) -> PodSpec:
    """A pod of shell lines by container name."""
    launches = []
    for name, line in containers:
        env = (("PATH", "/usr/local/bin:/usr/bin:/bin"), ("GROUP", group(uid, name)))
        argv = ("sh", "-c", line)
        restart = how.get("restart", "Never")
        launches.append(ProcessSpec(name, "regular", argv, env, "/", ME, restart))  # type: ignore[arg-type]
    return PodSpec(uid, f"default/{uid}", tuple(launches), grace, ())


def paths(spec: PodSpec) -> dict[str, str]:
    return {launch.name: group(spec.uid, launch.name) for launch in spec.launches}


class Bench:
    """A state folder with its keepers and clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "state"
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.setting = KeeperSettings(
            root="/g",
            folder=str(self.folder),
            logs=str(self.folder / "logs"),
            hierarchy="v1",
            mounts={},
            size=1 << 20,
            files=3,
            rate=1 << 25,
            backoff=QUICK,
        )
        self.clients: list[KeeperRuntime] = []
        self.groups = Sessions()

    def client(self) -> KeeperRuntime:
        made = KeeperRuntime(self.setting, Starter(self.setting, BOOT_HERE))
        self.clients.append(made)
        return made

    def begin(self, client: KeeperRuntime, spec: PodSpec) -> None:
        client.start(spec, paths(spec))

    def log(self, uid: str, name: str = "app", run: int = 0) -> list[list[str]]:
        path = self.folder / "logs" / f"default_{uid}_{uid}" / name / f"{run}.log"
        try:
            return [line.split(" ", 3) for line in path.read_text().splitlines()]
        except FileNotFoundError:
            return []

    def printed(self, uid: str, name: str = "app", run: int = 0) -> list[str]:
        return [entry[3] for entry in self.log(uid, name, run)]

    def keeper(self, client: KeeperRuntime) -> int:
        until(client, lambda _: client.pid != 0)
        return client.pid

    def kill_keeper(self, client: KeeperRuntime, number: int = signal.SIGKILL) -> int:
        pid = self.keeper(client)
        os.kill(pid, number)
        wait(lambda: not Starter(self.setting).running())
        return pid

    def end(self) -> None:
        client = self.clients[-1] if self.clients else self.client()
        for uid in client.list_pods():
            client.stop(uid, 0)
        until(client, lambda states: not any(one.running for one in states.values()))
        for uid in client.list_pods():
            client.remove_pod(uid)
        # a keeper with a client stays: all go before one waits for its end
        for other in self.clients:
            other.close()
        client.close(5)
        assert not Starter(self.setting).running(), "the keeper stays with nothing to keep"
        assert sorted(os.listdir(self.folder)) in (
            ["keeper.err", "keeper.lock", "logs"],
            ["keeper.err", "keeper.lock"],
            ["keeper.lock"],
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.end()


def wait(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < deadline, "not reached"
        time.sleep(0.01)


States = dict[tuple[str, str], ContainerState]


def until(client: KeeperRuntime, ready: Callable[[States], bool]) -> States:
    deadline = time.monotonic() + PATIENCE
    while True:
        states = {(one.pod_uid, one.name): one for one in client.poll()}
        if ready(states):
            return states
        assert time.monotonic() < deadline, (states, client.notes)
        time.sleep(0.01)


def running(states: States) -> bool:
    started = [one.running and one.pid and not one.starting for one in states.values()]
    return bool(started) and all(started)


def ended(states: States) -> bool:
    return all(not one.running and one.exit_code is not None for one in states.values())


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_pod_is_begun_told_and_forgotten(bench: Bench) -> None:
    one = bench.client()
    assert one.list_pods() == {}
    spec = pod("u1", ("app", "echo out; echo err >&2; exit 3"), ("b", "sleep 600"))
    bench.begin(one, spec)
    held = one.list_pods()["u1"]
    assert (held.key, held.spec_digest, held.grace_seconds) == ("default/u1", spec.digest(), 5.0)
    assert (dict(held.container_cgroups), held.ended) == (paths(spec), False)
    states = until(one, lambda s: s["u1", "app"].exit_code == 3 and s["u1", "b"].running)
    app = states["u1", "app"]
    assert (app.running, app.reason, app.cgroup) == (False, "Error", group("u1", "app"))
    assert app.started_at is not None
    assert app.finished_at is not None
    assert 0 <= app.finished_at - app.started_at < PATIENCE
    assert app.log == str(bench.folder / "logs/default_u1_u1/app/0.log")
    entries = sorted(bench.log("u1"), key=lambda entry: entry[1])
    assert [entry[1:] for entry in entries] == [["stderr", "F", "err"], ["stdout", "F", "out"]]
    with pytest.raises(CannotDo, match="still running"):
        one.remove_pod("u1")
    one.stop("u1", 5)
    until(one, lambda s: one.list_pods()["u1"].ended)
    one.remove_pod("u1")
    assert one.list_pods() == {}
    wait(lambda: not (bench.folder / "logs/default_u1_u1").exists())
    one.stop("u1", 5)
    one.remove_pod("u1")


def test_who_waits_for_news_only_has_a_large_pod_sent_at_once(bench: Bench) -> None:
    """It is sent piece by piece, as the keeper takes it; the pods behind it do not wait."""
    one = bench.client()
    spec = pod("u1", ("app", "sleep 600"))
    large = tuple((f"X{number}", "x" * 9000) for number in range(300))
    launch = replace(spec.launches[0], env=spec.launches[0].env + large)
    bench.begin(one, replace(spec, launches=(launch,)))
    bench.begin(one, pod("u2", ("app", "sleep 600")))
    started: set[str] = set()
    while "u2" not in started:
        poller = select.poll()
        for descriptor in one.descriptors():
            poller.register(descriptor, select.POLLIN)
        assert poller.poll(5000), "nothing tells that it can go on"
        started = {state.pod_uid for state in one.poll() if state.running}


def test_what_may_not_run_is_refused_at_once(bench: Bench) -> None:
    one = bench.client()
    bad = pod("u1", ("app", "true"))
    wrong = PodSpec("u1", "d/p", bad.launches, 5.0, (Problem("error", "x", "y", ""),))
    for spec in (wrong, PodSpec("../u", "d/p", bad.launches, 5.0, ())):
        with pytest.raises(CannotDo):
            one.start(spec, paths(bad))
    with pytest.raises(CannotDo, match="one cgroup per"):
        one.start(bad, {})
    assert one.list_pods() == {}


def test_an_agent_that_is_killed_leaves_its_containers_and_their_logs(
    bench: Bench, tmp_path: Path
) -> None:
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        stdout=subprocess.PIPE,
    )
    with agent:
        assert agent.stdout is not None
        pid = int(agent.stdout.readline())
        agent.send_signal(signal.SIGKILL)
    seen = len(bench.printed("u1"))
    wait(lambda: len(bench.printed("u1")) > seen + 20)
    assert alive(pid)
    two = bench.client()
    assert [*two.list_pods()] == ["u1"], "who comes next waits for what is kept"
    (state,) = two.poll()
    assert (state.running, state.pid, state.restarts) == (True, pid, 0)
    printed = bench.printed("u1")
    assert printed == [str(number) for number in range(len(printed))]


AGENT = """
import sys, time
from pathlib import Path
from tests.host.keeper import test_keeper as t

bench = t.Bench(Path(sys.argv[1]))
one = bench.client()
spec = t.pod("u1", ("app", "i=0; while :; do echo $i; i=$((i+1)); sleep 0.01; done"))
one.start(spec, {"app": "/g/x"})
(state,) = t.until(one, t.running).values()
print(state.pid, flush=True)
time.sleep(600)
"""


def test_a_keeper_that_is_killed_is_replaced_and_nothing_restarts(bench: Bench) -> None:
    one = bench.client()
    count = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.005; done"
    specs = [pod("u1", ("app", count)), pod("u2", ("app", "sleep 600"), ("b", "exit 0"))]
    for spec in specs:
        bench.begin(one, spec)
    before = until(one, lambda s: s["u1", "app"].running and s["u2", "b"].exit_code == 0)
    wait(lambda: len(bench.printed("u1")) > 5)
    old = bench.kill_keeper(one)
    seen = len(bench.printed("u1"))
    until(one, lambda s: one.pid != old)
    after = until(one, lambda s: len(bench.printed("u1")) > seen + 20)
    for key in [("u1", "app"), ("u2", "app")]:
        assert after[key].pid == before[key].pid
        assert (after[key].running, after[key].restarts) == (True, 0)
    assert after["u2", "b"] == before["u2", "b"]
    printed = [-1, *map(int, bench.printed("u1"))]
    steps = [later - earlier for earlier, later in pairwise(printed)]
    assert min(steps) == 1, "no line comes twice"
    assert sum(step > 1 for step in steps) <= 1, "but for what it had in its hands, none is lost"
    assert any("starting another" in note for note in one.notes)
    assert one.list_pods()["u1"].spec_digest == specs[0].digest()


def test_a_keeper_that_is_lost_before_it_told_who_it_is_has_no_number(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "sleep 600")))
    until(one, lambda s: s["u1", "app"].running)
    old = bench.kill_keeper(one)
    one.pid = 0
    until(one, lambda s: one.pid not in (0, old))
    assert "the keeper exited; starting another" in one.notes


def test_the_exit_code_of_what_another_began_is_unknown(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "sleep 600")))
    bench.begin(one, pod("u2", ("app", "sleep 600"), restart="Always"))
    pids = {key: one.pid for key, one in until(one, running).items()}
    old = bench.kill_keeper(one)
    os.kill(pids["u1", "app"] or 0, signal.SIGKILL)
    until(one, lambda s: one.pid != old)
    os.kill(pids["u2", "app"] or 0, signal.SIGKILL)
    states = until(one, lambda s: s["u2", "app"].restarts == 1 and not s["u1", "app"].running)
    lost = states["u1", "app"]
    assert (lost.exit_code, lost.reason) == (137, "ContainerStatusUnknown")
    assert states["u2", "app"].exit_code == 137


def test_a_keeper_that_is_asked_to_end_leaves_the_containers(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "sleep 600")))
    before = until(one, running)
    one.close()
    bench.kill_keeper(one, signal.SIGTERM)
    two = bench.client()
    assert [*two.list_pods()] == ["u1"]
    until(two, lambda s: s == before)


def test_requests_that_a_killed_keeper_did_not_answer_are_asked_again(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u0", ("app", "sleep 600")))
    until(one, running)
    for number in range(1, 6):
        pid = bench.keeper(one)
        os.kill(pid, signal.SIGSTOP)
        bench.begin(one, pod(f"u{number}", ("app", "echo $$; sleep 600")))
        os.kill(pid, signal.SIGKILL)
        until(one, lambda s: running(s) and len(s) == number + 1)  # noqa: B023
    states = until(one, running)
    for (uid, name), state in states.items():
        assert bench.groups.members(group(uid, name)) >= {state.pid}
        assert state.restarts == 0
    for number in range(1, 6):
        pid_of = str(states[f"u{number}", "app"].pid)
        wait(lambda: bench.printed(f"u{number}") == [pid_of])  # noqa: B023
