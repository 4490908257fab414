"""The process runtime with real processes; their groups are sessions here, not cgroups."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import Backoff
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.core.workload.security.context import DEFAULT_CAPABILITIES, Credentials
from qoslet.host.containers.log_files import ContainerLogs, LogLimits
from qoslet.host.containers.records import ProcessRecords
from qoslet.host.keeper.process_runtime import ProcessRuntime
from tests.host.containers.started import started
from tests.host.keeper.sessions import Sessions

ME = Credentials(os.getuid(), os.getgid(), (), DEFAULT_CAPABILITIES, os.getuid() != 0)
ENV = (("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/"))
QUICK = Backoff(first=0.05, longest=0.2, reset_after=60)


def launch(name: str, *argv: str, role: str = "regular", restart: str = "Never") -> ProcessSpec:
    """A container that runs ``argv``; its environment names its group."""
    env = (*ENV, ("GROUP", f"/g/{os.getpid()}/{name}"))
    return ProcessSpec(name, role, argv, env, "/", ME, restart)  # type: ignore[arg-type]


def shell(name: str, text: str, **options: str) -> ProcessSpec:
    """A container that runs a shell line."""
    return launch(name, "sh", "-c", text, **options)


class Bench:
    """One pod in a runtime of its own."""

    def __init__(
        self,
        folder: Path,
        *launches: ProcessSpec,
        grace: float = 5.0,
        groups: Sessions | None = None,
        **how: int,
    ) -> None:
        self.groups = groups or Sessions()
        self.folder = folder / "logs"
        self.spec = PodSpec("u", "default/p", launches, grace, ())
        self.runtime = ProcessRuntime(
            self.groups,
            ContainerLogs(str(self.folder), LogLimits(**how)),
            ProcessRecords(str(folder / "keeper"), "boot"),
            backoff=QUICK,
        )
        self.paths = {one.name: f"/g/{os.getpid()}/{one.name}" for one in launches}

    def start(self) -> None:
        self.runtime.start(self.spec, self.paths)

    def states(self) -> dict[str, ContainerState]:
        return {state.name: state for state in self.runtime.poll()}

    def until(
        self, ready: Callable[[dict[str, ContainerState]], bool]
    ) -> dict[str, ContainerState]:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            states = self.states()
            if ready(states):
                return states
            time.sleep(0.01)
        raise AssertionError(f"not reached: {states}")

    def log(self, name: str, run: int | None = None) -> str:
        """What a container printed, over all its runs unless one is named."""
        folder = self.folder / "default_p_u" / name
        paths = sorted(folder.glob("*.log") if run is None else folder.glob(f"{run}.log"))
        lines = [line for path in paths for line in path.read_text().splitlines()]
        return "".join(line.split(" ", 3)[3] + "\n" for line in lines)

    def end(self) -> None:
        self.runtime.stop("u", 0)
        self.until(lambda states: not any(state.running for state in states.values()))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(*launches: ProcessSpec, grace: float = 5.0, **how: Any) -> Bench:
        made.append(Bench(tmp_path, *launches, grace=grace, **how))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.end()


def ended(states: dict[str, ContainerState]) -> bool:
    """Whether nothing runs any more."""
    return all(not s.running and s.exit_code is not None for s in states.values())


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -9 $$"), 137),
        (("sh", "-c", "kill -TERM $$"), 143),
        (("no-such-program",), 127),
        (("/no/such/program",), 127),
        (("/etc/passwd",), 126),
        (("/",), 126),
        (("sh", "-c", "a\0b"), 126),
    ],
)
def test_exit_codes_are_those_of_runtimes(
    bench: Callable[..., Bench], argv: tuple[str, ...], code: int
) -> None:
    states = bench(launch("app", *argv)).until(ended)
    assert states["app"].exit_code == code


def test_the_container_inherits_nothing(bench: Callable[..., Bench], monkeypatch) -> None:
    monkeypatch.setenv("OURS", "secret")
    leaked = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    try:
        one = bench(
            shell(
                "app",
                "env | cut -d= -f1 | sort | tr '\\n' ' '; ls /proc/self/fd | tr '\\n' ' ';"
                " umask; pwd; cut -d' ' -f6 /proc/$$/stat; echo $$; grep SigIgn /proc/self/status",
            )
        )
        one.until(ended)
    finally:
        os.close(leaked)
    lines = one.log("app").splitlines()
    assert lines[0].startswith("GROUP HOME PATH PWD")
    assert "OURS" not in lines[0]
    assert lines[0].split()[-5:-1] == ["0", "1", "2", "3"], "3 is the listing itself"
    assert lines[0].split()[-1] == "0022"
    assert lines[1] == "/"
    assert lines[2] == lines[3], "it leads a session of its own"
    # 32 and 33 are the C library's own: it lets no program set or reset them.
    assert int(lines[4].split()[1], 16) & ~(0b11 << 31) == 0


def test_init_containers_come_one_by_one_and_sidecars_stay(bench: Callable[..., Bench]) -> None:
    one = bench(
        shell("first", "sleep 0.1; date +%s%N", role="init"),
        shell("side", "date +%s%N; exec sleep 60", role="sidecar", restart="Always"),
        shell("second", "date +%s%N", role="init"),
        shell("app", "date +%s%N; exec sleep 60"),
    )
    states = one.until(lambda s: s["app"].running and bool(one.log("app")))
    assert states["side"].running
    times = {name: int(one.log(name)) for name in ("first", "side", "second", "app")}
    # A sidecar has started once its process runs, which is before its shell says so.
    assert times["first"] < times["side"]
    assert times["first"] < times["second"] < times["app"]
    assert states["first"].exit_code == states["second"].exit_code == 0


def test_a_failing_init_container_is_tried_again_and_holds_up_the_rest(
    bench: Callable[..., Bench], tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    line = f"test -e {flag} || {{ touch {flag}; exit 3; }}"
    one = bench(shell("i", line, role="init", restart="OnFailure"), shell("app", "true"))
    states = one.until(ended)
    assert states["i"].restarts == 1
    assert states["app"].exit_code == 0


def test_a_failing_init_container_ends_a_pod_that_never_restarts(
    bench: Callable[..., Bench],
) -> None:
    one = bench(shell("i", "exit 3", role="init"), shell("app", "true"))
    states = one.until(lambda s: s["i"].exit_code == 3)
    assert states["app"].exit_code is None
    assert not states["app"].running


@pytest.mark.parametrize(
    ("restart", "line", "again"),
    [
        ("Always", "true", True),
        ("OnFailure", "exit 1", True),
        ("OnFailure", "true", False),
        ("Never", "exit 1", False),
    ],
)
def test_restart_policy(bench: Callable[..., Bench], restart: str, line: str, again: bool) -> None:
    one = bench(shell("app", line, restart=restart))
    if again:
        one.until(lambda s: s["app"].restarts >= 2)
    else:
        one.until(ended)
        time.sleep(0.15)
        assert one.states()["app"].restarts == 0


def test_sidecars_end_after_the_work_in_reverse_order(bench: Callable[..., Bench]) -> None:
    trap = "trap 'date +%s%N; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    one = bench(
        shell("s1", trap, role="sidecar", restart="Always"),
        shell("s2", trap, role="sidecar", restart="Always"),
        shell("app", trap),
    )
    one.until(lambda s: s["app"].running and all("up" in one.log(name) for name in s))
    one.runtime.stop("u", 5)
    one.until(ended)
    times = [int(one.log(name).split()[-1]) for name in ("app", "s2", "s1")]
    assert times == sorted(times)


def test_what_ignores_sigterm_is_killed_after_the_grace_period(
    bench: Callable[..., Bench],
) -> None:
    one = bench(shell("app", "trap '' TERM; sleep 60 & echo up; while :; do sleep 0.02; done"))
    one.until(lambda s: s["app"].running and "up" in one.log("app"))
    begun = time.monotonic()
    one.runtime.stop("u", 0.3)
    states = one.until(ended)
    assert 0.25 < time.monotonic() - begun < 3
    assert states["app"].exit_code == 137
    assert not one.groups.members(one.paths["app"]), "its background process is gone too"


def test_a_second_stop_hurries(bench: Callable[..., Bench]) -> None:
    one = bench(shell("app", "trap '' TERM; echo up; while :; do sleep 0.02; done"))
    one.until(lambda s: s["app"].running and "up" in one.log("app"))
    one.runtime.stop("u", 60)
    one.runtime.stop("u", 0)
    one.until(ended)


def test_the_rest_of_a_container_ends_with_its_main_process(bench: Callable[..., Bench]) -> None:
    one = bench(shell("app", "sleep 60 & exit 4"))
    states = one.until(ended)
    assert states["app"].exit_code == 4
    assert not one.groups.members(one.paths["app"])


def test_a_working_directory_that_is_not_there(bench: Callable[..., Bench]) -> None:
    one = launch("app", "true")
    bad = ProcessSpec(one.name, one.role, one.argv, one.env, "/no/such", ME, "Never")
    made = bench(bad)
    state = made.until(ended)["app"]
    assert state.exit_code == 126
    assert "workingDir /no/such" in state.reason
    assert made.runtime.notes == [], "who reads the state would read it twice"


def test_logs_of_a_running_pod_are_kept_within_bounds(bench, tmp_path: Path) -> None:
    text = "i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done; echo end >&2; sleep 60"
    one = bench(shell("app", text), size=10_000, files=3)
    one.until(lambda states: "end" in one.log("app"))
    folder = tmp_path / "logs" / "default_p_u" / "app"
    assert (tmp_path / "logs").stat().st_mode & 0o777 == 0o700
    parts = sorted(path.name for path in folder.iterdir())
    assert parts[0] == "0.log"
    assert len(parts) == 3, "the oldest ones are gone"
    assert all(part.startswith("0.log.20") for part in parts[1:])
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert all(path.stat().st_size <= 10_000 for path in folder.iterdir())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_identity_is_taken_before_the_command_runs(tmp_path: Path) -> None:
    log = tmp_path / "log"
    identity = Credentials(1234, 2345, (7, 8), frozenset({0, 5}), True)
    command = (
        "sh",
        "-c",
        "id -u; id -g; id -G; grep -E 'CapBnd|CapEff|NoNewPrivs' /proc/self/status",
    )
    one = ProcessSpec("app", "regular", command, ENV, "/", identity, "Never", oom_score_adj=123)
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    process = started(one, [], output)
    os.close(output)
    os.waitpid(process.pid, 0)
    os.close(process.pidfd)
    lines = log.read_text().split()
    assert lines[:3] == ["1234", "2345", "2345"]
    assert lines[3:5] == ["7", "8"]
    text = " ".join(lines)
    assert "CapEff: 0000000000000000" in text
    assert "CapBnd: 0000000000000021" in text
    assert "NoNewPrivs: 1" in text


@pytest.mark.skipif(os.getuid() != 0, reason="only root has capabilities to lose")
def test_root_keeps_only_what_the_bounds_allow(tmp_path: Path) -> None:
    log = tmp_path / "log"
    identity = Credentials(0, 0, (), frozenset({0}), False)
    one = ProcessSpec(
        "a", "regular", ("grep", "Cap", "/proc/self/status"), ENV, "/", identity, "Never"
    )
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    process = started(one, [], output)
    os.close(output)
    os.waitpid(process.pid, 0)
    os.close(process.pidfd)
    values = dict(line.split(":\t") for line in log.read_text().splitlines())
    assert values["CapEff"] == values["CapPrm"] == values["CapBnd"] == "0000000000000001"
    assert values["CapInh"] == values["CapAmb"] == "0000000000000000"
