"""``qoslet run`` ends its pods whatever happens to its output, and its exit code tells of them."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from qoslet.host.state.folder import folder_of
from tests.live.agent.test_run import ENVIRONMENT, PATIENCE, STARTED, Live, ended, pod

pytestmark = [pytest.mark.live, pytest.mark.timeout(2 * PATIENCE + 10)]

MODES = ((), ("--plain", "-v"), ("-o", "json"), ("--logs",))


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    assert os.getuid() == 0, "live tests write to this machine's kernel: run them as root"
    made = Live(tmp_path)
    made.write("a", pod("a", "exec sleep 1000"))
    try:
        yield made
    finally:
        made.clean()


class Session:
    """A run as the leader of a session with a terminal, as under ssh or tmux."""

    def __init__(self, live: Live, options: Sequence[str], output: str = "") -> None:
        self.live = live
        command = live.verb("run", str(live.manifests), "--interval", "0.2", *options)
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            # whoever runs the tests may have ignored it (nohup)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            if output:
                file = os.open(output, os.O_WRONLY | os.O_CREAT, 0o600)
                os.dup2(file, 1)
                os.dup2(file, 2)
            os.execve(command[0], command, ENVIRONMENT)
        os.set_blocking(self.terminal, False)

    def until_running(self, *, reads: bool = True) -> set[int]:
        """The processes of the pods, once there are some and the run has shown them."""
        deadline = time.monotonic() + PATIENCE
        while not self.live.pids():
            assert time.monotonic() < deadline
            self.read() if reads else None
            time.sleep(0.05)
        time.sleep(0.5)
        return self.live.pids()

    def read(self) -> bytes:
        """What the terminal got."""
        try:
            return os.read(self.terminal, 1 << 16)
        except OSError:
            return b""

    def code(self) -> int:
        """The exit code, once it has ended."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.05)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("the run goes on")


def nothing_left(live: Live, pids: set[int]) -> None:
    assert pids
    assert not live.groups()
    assert not live.alive(pids)


@pytest.mark.parametrize("options", MODES)
def test_a_terminal_that_closes_ends_the_pods(live: Live, options: tuple[str, ...]) -> None:
    session = Session(live, options)
    pids = session.until_running()
    os.close(session.terminal)
    assert session.code() == 0
    nothing_left(live, pids)


def test_a_terminal_that_closes_ends_a_run_that_writes_elsewhere(
    live: Live, tmp_path: Path
) -> None:
    session = Session(live, (), str(tmp_path / "out"))
    pids = session.until_running()
    os.close(session.terminal)
    assert session.code() == 0
    nothing_left(live, pids)


def test_a_terminal_that_nobody_reads_holds_up_no_end(live: Live) -> None:
    session = Session(live, ("--interval", "0.05"))
    pids = session.until_running(reads=False)
    time.sleep(2)
    os.kill(session.pid, signal.SIGTERM)
    assert session.code() == 0
    nothing_left(live, pids)
    os.close(session.terminal)


@pytest.mark.parametrize("options", MODES)
def test_a_reader_that_exits_ends_the_pods(live: Live, options: tuple[str, ...]) -> None:
    run = live.begin(*options)
    live.until(lambda: bool(live.pids()))
    pids = live.pids()
    assert run.stdout is not None
    run.stdout.close()
    assert run.wait(PATIENCE) == 141
    nothing_left(live, pids)


def test_the_shell_s_way_of_it(live: Live) -> None:
    line = " ".join([*live.verb("run", str(live.manifests), "--for", "600"), "| head -1"])
    command = ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"]
    done = subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, len(done.stdout.splitlines())) == (141, 1), done
    assert "Error" not in done.stderr
    assert not live.groups()


def test_without_standard_error_it_goes_on(live: Live) -> None:
    run = live.begin("--for", STARTED)
    assert run.stderr is not None
    run.stderr.close()
    live.until(lambda: bool(live.pids()))
    pids = live.pids()
    assert run.stdout is not None
    assert "1 pod, 1 of 1 containers running" in run.stdout.read()
    assert run.wait(PATIENCE) == 0
    nothing_left(live, pids)


@pytest.mark.parametrize("options", MODES)
def test_an_output_that_is_full_is_said(live: Live, options: tuple[str, ...]) -> None:
    command = live.verb("run", str(live.manifests), "--for", "3", *options)
    with open("/dev/full", "w") as full:
        run = subprocess.Popen(
            command, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True
        )
    live.runs.append(run)
    _, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 3, err
    assert "standard output: cannot be written: No space left on device" in err
    assert not live.groups()


def test_a_closed_output_starts_nothing(live: Live) -> None:
    line = f"{' '.join(live.verb('run', str(live.manifests), '--for', '3'))} >&-"
    done = subprocess.run(
        ["bash", "-c", line],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "standard output: closed" in done.stderr
    assert not live.groups()


def test_sigquit_ends_the_pods(live: Live) -> None:
    run = live.begin()
    live.until(lambda: bool(live.pids()))
    pids = live.pids()
    run.send_signal(signal.SIGQUIT)
    ended(run)
    nothing_left(live, pids)


@pytest.mark.parametrize(
    ("command", "policy", "code", "result"),
    [
        ("exit 3", "Never", 1, "failed"),
        ("exit 0", "Never", 0, "succeeded"),
        ("sleep 1; exit 0", "OnFailure", 0, "succeeded"),
        ("exec sleep 1000", "Always", 0, "running"),
        ("exit 7", "Always", 1, "failed"),
        ("exec /nosuchcommand", "OnFailure", 1, "failed"),
    ],
)
def test_the_exit_code_tells_of_the_pods(
    live: Live, command: str, policy: str, code: int, result: str
) -> None:
    live.write("a", pod("a", command, policy))
    begun = time.monotonic()
    ends = policy == "Never" or command.startswith("sleep")
    run = live.begin("-o", "json", "--for", str(PATIENCE / 2) if ends else STARTED)
    out, err = ended(run, code)
    document = json.loads(out)
    assert document["exitCode"] == code
    assert [(one["name"], one["result"]) for one in document["pods"]] == [("a", result)]
    assert ("default/a: container app exited with" in err) == bool(code)
    assert document["stoppedBy"] == ("podsEnded" if ends else "time")
    if ends:
        assert time.monotonic() - begun < PATIENCE / 2
    assert not live.groups()


def test_a_root_whose_parent_is_missing_makes_nothing(live: Live) -> None:
    command = live.verb("run", str(live.manifests), "--for", "2", "-o", "json")
    done = subprocess.run(
        [*command, "--cgroup-root", f"{live.root}/below"],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert not Path(folder_of(f"{live.root}/below")).exists()
    [one] = json.loads(done.stdout)["pods"]
    assert one["result"] == "notStarted"
    assert "parent cgroup" in one["why"]
