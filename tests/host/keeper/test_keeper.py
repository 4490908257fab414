"""The keeper with real processes: what it is told, what survives whom, and hostile neighbours."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.core.problem import Problem
from qoslet.core.workload.lifecycle import Backoff, ContainerState
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.core.workload.security.context import DEFAULT_CAPABILITIES, Credentials
from qoslet.errors import CannotDo
from qoslet.host.keeper.client import KeeperRuntime
from qoslet.host.keeper.launch import BOOT, Starter
from qoslet.host.keeper.protocol import LARGEST, VERSION, KeeperSettings, StopPod, encode
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
        for other in self.clients:
            other.close(5)
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


def test_restart_and_update(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "echo one; sleep 600"), ("b", "sleep 600")))
    before = until(one, running)
    wait(lambda: bench.printed("u1") == ["one"])
    spec = pod("u1", ("app", "echo two; sleep 600"), ("b", "sleep 600"))
    one.update(spec)
    one.restart("u1", "app")
    after = until(one, lambda s: s["u1", "app"].restarts == 1 and running(s))
    wait(lambda: bench.printed("u1", run=1) == ["two"])
    assert after["u1", "b"].pid == before["u1", "b"].pid
    assert bench.printed("u1") == ["one"]
    assert one.list_pods()["u1"].spec_digest != spec.digest(), "what was begun was another"


def test_two_clients_see_the_same(bench: Bench) -> None:
    one, two = bench.client(), bench.client()
    bench.begin(one, pod("u1", ("app", "sleep 600")))
    first = until(one, running)
    assert two.list_pods() == {} or [*two.list_pods()] == ["u1"]
    three = bench.client()
    assert [*three.list_pods()] == ["u1"]
    assert until(three, running) == first
    three.stop("u1", 0)
    until(one, lambda s: one.list_pods()["u1"].ended)
    three.close()


def test_a_start_of_what_is_kept_already_is_answered_with_how_it_is(bench: Bench) -> None:
    one, late = bench.client(), bench.client()
    late.begin()
    spec = pod("u1", ("app", "sleep 600"))
    bench.begin(one, spec)
    first = until(one, running)
    bench.begin(late, spec)
    assert until(late, running) == first


def test_a_hundred_containers_and_nothing_leaks(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u", ("app", "sleep 600")))
    until(one, running)
    descriptors = Path(f"/proc/{bench.keeper(one)}/fd")

    def crowd(first: int, line: str) -> None:
        specs = [pod(f"p{n}", ("app", line)) for n in range(first, first + 100)]
        begun = time.monotonic()
        for spec in specs:
            bench.begin(one, spec)
        assert time.monotonic() - begun < 5, "nobody waits for a start"
        until(one, lambda s: all(s[spec.uid, "app"].exit_code == 7 for spec in specs))
        assert all(bench.printed(spec.uid) == ["hello"] for spec in specs)
        for spec in specs:
            one.remove_pod(spec.uid)
        until(one, lambda s: [*one.list_pods()] == ["u"])

    crowd(0, "echo hello; exit 7")
    wait(lambda: len(os.listdir(bench.folder / "keeper")) == 1)
    before = len(os.listdir(descriptors))
    crowd(100, "echo hello; exit 7")
    wait(lambda: len(os.listdir(bench.folder / "keeper")) == 1)
    wait(lambda: len(os.listdir(descriptors)) <= before)
    # the last pod's log goes right after its record
    wait(lambda: len(os.listdir(bench.folder / "logs")) == 1)
    assert os.listdir(bench.folder / "logs") == ["default_u_u"]


def test_who_prints_without_end_holds_up_nobody(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("loud", ("a", "yes"), ("b", "yes"), ("c", "exec yes >&2")))
    until(one, running)
    for number in range(5):
        begun = time.monotonic()
        bench.begin(one, pod(f"p{number}", ("app", "echo hello")))
        until(one, lambda s: s[f"p{number}", "app"].exit_code == 0)  # noqa: B023
        assert time.monotonic() - begun < 5
        assert bench.printed(f"p{number}") == ["hello"]
    folder = bench.folder / "logs" / "default_loud_loud"
    for name in "abc":
        wait(lambda: len(list((folder / name).glob("0.log.*"))) == 2)  # noqa: B023
        assert sum(path.stat().st_size for path in (folder / name).iterdir()) < 8 << 20


def frame(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (frame(b"nonsense"), b"request rejected"),
        (frame(b"{}"), b"request rejected"),
        (frame(b'{"do":"stop","id":1,"uid":"u","grace":"x"}'), b"request rejected"),
        (frame(encode(StopPod(1, "u1", 0.0))), b"no hello before"),
        (frame(b"[" * 100_000), b"request rejected"),
        (struct.pack(">I", LARGEST + 1), b"too long"),
        (frame(b'{"do":"hello","version":999,"root":"/g"}'), b"has protocol version"),
        (frame(b'{"do":"hello","version":%d,"root":"/other"}' % VERSION), b"keeper of /g"),
        (b"\0", b""),
        (b"", b""),
    ],
)
def test_bad_messages_are_answered_in_a_line_and_end_nobody(
    bench: Bench, sent: bytes, said: bytes
) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "sleep 600")))
    before = until(one, running)
    pid = bench.keeper(one)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(bench.folder / "keeper.sock"))
        stranger.settimeout(PATIENCE)
        stranger.sendall(sent)
        answer = stranger.recv(4096) if said else b""
    assert said in answer
    assert answer.count(b"\n") == 0
    one.restart("u1", "app")
    after = until(one, lambda s: s["u1", "app"].restarts == 1 and running(s))
    assert (bench.keeper(one), after != before) == (pid, True)


def test_a_client_of_another_version_is_told_what_to_do(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "sleep 600")))
    until(one, running)
    setting = replace(bench.setting, root="/x")
    other = KeeperRuntime(setting, Starter(setting, BOOT_HERE))
    with pytest.raises(CannotDo, match=rf"process {one.pid}.*kill {one.pid}"):
        other.list_pods()
    other.close()


def test_many_connections_and_one_that_never_reads(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "sleep 600")))
    until(one, running)
    strangers = []
    for _ in range(40):
        stranger = socket.socket(socket.AF_UNIX)
        stranger.connect(str(bench.folder / "keeper.sock"))
        strangers.append(stranger)
    one.restart("u1", "app")
    until(one, lambda s: s["u1", "app"].restarts == 1 and running(s))
    for stranger in strangers:
        stranger.close()


def test_a_state_folder_that_is_open_to_others_is_refused(tmp_path: Path) -> None:
    made = Bench(tmp_path)
    made.folder.chmod(0o755)
    with pytest.raises(CannotDo, match="other users can access"):
        made.client().begin()
    made.folder.chmod(0o700)


def test_the_socket_and_all_files_are_private(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "echo x; sleep 600")))
    until(one, running)
    wait(lambda: bench.printed("u1") == ["x"])
    for path in [*bench.folder.rglob("*")]:
        mode = path.lstat().st_mode & 0o777
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_the_keeper_is_on_its_own_and_light(bench: Bench, monkeypatch) -> None:
    monkeypatch.setenv("OURS", "secret")
    leaked = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "ulimit -n; sleep 600")))
    until(one, running)
    os.close(leaked)
    pid = bench.keeper(one)
    proc = Path(f"/proc/{pid}")
    assert b"OURS" not in (proc / "environ").read_bytes()
    assert os.readlink(proc / "cwd") == "/"
    assert os.getsid(pid) == pid
    assert not [fd for fd in (proc / "fd").iterdir() if os.readlink(fd) == "/etc/hostname"]
    wait(lambda: bench.printed("u1") != [])
    soft = subprocess.run(["sh", "-c", "ulimit -n"], capture_output=True, text=True, check=True)
    assert bench.printed("u1") == [soft.stdout.strip()]
    memory = next(x for x in (proc / "status").read_text().splitlines() if x.startswith("VmRSS"))
    assert int(memory.split()[1]) < 26_000, memory


def test_a_restart_of_the_boot_forgets_what_was_kept(bench: Bench) -> None:
    place = bench.folder / "keeper" / "u9"
    place.mkdir(mode=0o700, parents=True)
    (place / "pod.json").write_text("{}")
    one = bench.client()
    assert one.list_pods() == {}
    assert any("unusable record" in note for note in one.notes)
    assert not place.exists()


def test_a_keeper_that_cannot_start_says_why(tmp_path: Path) -> None:
    made = Bench(tmp_path)
    one = KeeperRuntime(made.setting, Starter(made.setting, "import sys; sys.exit('no luck')"))
    made.begin(one, pod("u1", ("app", "true")))
    deadline = time.monotonic() + PATIENCE
    while not any("no luck" in note for note in one.notes):
        one.poll()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(one.notes) == 1
    one.close()


def test_what_an_agent_says_last_is_heard(bench: Bench) -> None:
    for number in range(3):
        one = bench.client()
        uids = [f"u{number}-{n}" for n in range(5)]
        for uid in uids:
            bench.begin(one, pod(uid, ("app", "true")))
        until(one, ended)
        for uid in uids:
            one.stop(uid, 0)
            one.remove_pod(uid)
        one.close(PATIENCE)
        assert not Starter(bench.setting).running()
