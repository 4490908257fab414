"""Damaged, torn and missing state under an agent: pods go on, nothing runs twice, nothing is left."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from qoslet.app.tree_driver import driver_of
from qoslet.core.cgroup.names import root_path
from qoslet.core.reconcile.journal import damaged_lines
from qoslet.host.cgroupfs.mounted import required_mounts
from qoslet.host.state.folder import AGENT_SOCKET, RESERVE
from qoslet.host.state.keepers import keepers_of
from tests.live.agent.agents import Agent, _command, identities
from tests.live.agent.agents import agent as agent
from tests.live.agent.test_run import ENVIRONMENT, PATIENCE, ended, pod

pytestmark = [pytest.mark.live, pytest.mark.timeout(2 * PATIENCE + 10)]


def flipped(number: int) -> Callable[[Path], None]:
    """A bit of a line."""

    def damage(journal: Path) -> None:
        lines = journal.read_bytes().split(b"\n")
        one = bytearray(lines[number])
        one[len(one) // 2] ^= 1
        lines[number] = bytes(one)
        journal.write_bytes(b"\n".join(lines))
        assert damaged_lines(journal.read_bytes())

    return damage


def both_headers(journal: Path) -> None:
    flipped(0)(journal)
    flipped(1)(journal)


def lines_of_the_tier(journal: Path) -> None:
    """Every line that says how the QoS cgroup came to be."""
    lines = journal.read_bytes().split(b"\n")
    hit = [n for n, line in enumerate(lines) if b'"made"' in line or b'"making"' in line]
    hit = [n for n in hit if lines[n].count(b"/") == 3 and b"burstable" in lines[n]]
    assert hit
    for number in hit:
        flipped(number)(journal)


def torn(journal: Path) -> None:
    journal.write_bytes(journal.read_bytes()[:-7])


def zeroed(journal: Path) -> None:
    journal.write_bytes(bytes(journal.stat().st_size))


def emptied(journal: Path) -> None:
    journal.write_bytes(b"")


def put_aside(journal: Path) -> None:
    """What an earlier version did with a journal that it could not read."""
    flipped(0)(journal)
    journal.rename(journal.with_name("journal.unreadable"))


DAMAGE = [
    flipped(0), flipped(1), flipped(2), both_headers, lines_of_the_tier, torn, zeroed, emptied,
    Path.unlink, put_aside,
]  # fmt: skip
NAMES = [
    "first",
    "second",
    "third",
    "headers",
    "tier",
    "torn",
    "zeroed",
    "emptied",
    "gone",
    "aside",
]


def running(agent: Agent, *options: str) -> set[int]:
    """Two pods whose agent was killed; their processes."""
    for name in "ab":
        agent.write(name, pod(name, "exec sleep 1000"))
    run = agent.service(*options)
    agent.until(lambda: len(agent.pids()) == 2)
    agent.until(agent.answers)
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=PATIENCE)
    return agent.pids()


@pytest.mark.parametrize("damage", DAMAGE, ids=NAMES)
def test_the_next_agent_goes_on(agent: Agent, damage: Callable[[Path], None]) -> None:
    pids = running(agent)
    groups = identities(agent)
    damage(agent.folder / "journal")
    run = agent.service()
    agent.until(agent.answers)
    assert agent.pids() == pids
    assert identities(agent) == groups
    out = agent.stop(run)
    assert "2 pods, 2 of 2 containers running; the tree is as planned" in out
    assert "another process" not in out
    if damage is not put_aside:
        assert "journal" in out
    said = agent.release()
    assert said.count(": stopped") == 2
    assert not agent.groups()
    assert not agent.folder.exists(), list(agent.folder.iterdir())


@pytest.mark.parametrize("damage", DAMAGE, ids=NAMES)
def test_release_undoes_it(agent: Agent, damage: Callable[[Path], None]) -> None:
    running(agent)
    damage(agent.folder / "journal")
    said = agent.release("--dry-run")
    assert "would be stopped first" in said
    said = agent.release()
    assert said.count(": stopped") == 2
    assert not agent.groups()
    assert not agent.folder.exists(), list(agent.folder.iterdir())


@pytest.mark.parametrize("spaces", ["--pid", "--time"])
def test_in_other_namespaces_no_pod_is_started_twice_or_taken_for_dead(
    agent: Agent, spaces: str
) -> None:
    """Process IDs mean others there, and start times other moments: no state says what runs."""
    pids = running(agent)
    os.kill(*(keepers_of(str(agent.folder))[0], signal.SIGKILL))
    shift = ["--boottime", "100000", "--monotonic", "100000"] if spaces == "--time" else []
    place = ["unshare", spaces, *shift, "--fork", *(["--mount-proc"] if not shift else [])]
    for words in (["run", str(agent.manifests), "--keep"], ["release"]):
        done = subprocess.run(
            [*place, *agent.verb(*words)],
            env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 3, (done.stdout, done.stderr)
        assert "runs in another PID or time namespace" in done.stderr
        assert agent.pids() == pids
    run = agent.service()
    agent.until(agent.answers)
    assert agent.pids() == pids
    agent.stop(run)


@pytest.mark.skipif(
    shutil.which("runc") is None, reason="runc is not installed: apt-get install runc"
)
def test_pods_of_another_runtime_are_not_ended(agent: Agent) -> None:
    """They would be restarted, and those with restartPolicy Never would have failed."""
    pids = running(agent)
    said = "".join(ended(agent.service("--with", "runc", "--rootfs", "x=/"), 3))
    assert "runs --with process, not --with runc" in said
    assert agent.pids() == pids
    run = agent.service()
    agent.until(agent.answers)
    assert agent.pids() == pids
    agent.stop(run)


def test_without_journal_and_records_it_names_the_safe_step(agent: Agent) -> None:
    pids = running(agent)
    keepers = {
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and agent.root in _command(entry) and "keeper" in _command(entry)
    }
    for pid in keepers:
        os.kill(pid, signal.SIGKILL)
    (agent.folder / "journal").unlink()
    for record in agent.folder.glob("keeper/*/pod.*"):
        record.unlink()
    before = {path.name for path in agent.folder.iterdir()} - {"lock", RESERVE, AGENT_SOCKET}
    for _ in range(2):
        _, err = ended(agent.service(), 3)
        assert "damaged or missing" in err
        assert "start them nowhere else" in err
        assert "another --cgroup-root" not in err
        agent.runs.pop()
        assert agent.pids() == pids
        assert before <= {path.name for path in agent.folder.iterdir()}
    said = agent.release(code=3)
    assert "another --cgroup-root" not in said
    agent.tree.kill(agent.root)


def test_without_its_whole_state_a_tree_with_our_logs_is_known_as_ours(agent: Agent) -> None:
    pids = running(agent)
    for pid in keepers_of(str(agent.folder)):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(agent.folder)
    _, err = ended(agent.service(), 3)
    agent.runs.pop()
    for text in (err, agent.release(code=3)):
        assert "damaged or missing" in text
        assert "start them nowhere else" in text
        assert "another --cgroup-root" not in text
    assert agent.pids() == pids
    agent.tree.kill(agent.root)


def test_release_removes_logs_whose_link_went_with_the_state(agent: Agent) -> None:
    running(agent)
    link = agent.folder / "logs"
    logs = link.readlink()
    link.unlink()
    agent.release()
    assert not logs.exists()


def test_a_second_agent_is_not_sent_to_another_root(agent: Agent) -> None:
    for name in "ab":
        agent.write(name, pod(name, "exec sleep 1000"))
    run = agent.service()
    agent.until(lambda: len(agent.pids()) == 2)
    _, err = ended(agent.begin(), 3)
    agent.runs.pop()
    assert f"another qoslet runs here (process {run.pid})" in err
    assert "another --cgroup-root" not in err


def test_a_root_whose_state_is_removed_live_has_one_agent_and_one_keeper(agent: Agent) -> None:
    """Lock, journal, sockets and records come again; nobody else gets in meanwhile."""
    agent.write("a", pod("a", "exec sleep 1000"))
    first = agent.service()
    agent.until(lambda: len(agent.pids()) == 1 and agent.answers())
    pids, names = agent.pids(), set(os.listdir(agent.folder))

    for harm in (
        ["lock"],
        ["journal", "agent.sock"],
        ["keeper.lock", "keeper.sock"],
        sorted(names),
    ):
        for name in harm:
            path = agent.folder / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.is_symlink() or path.exists():
                path.unlink()
        _, err = ended(agent.begin(), 3)
        agent.runs.pop()
        assert "another --cgroup-root" not in err
        agent.until(lambda: names - {"keeper.err"} <= set(os.listdir(agent.folder)))
        agent.until(agent.answers)
    first.kill()
    first.communicate()
    (agent.folder / "keeper.lock").unlink()
    second = agent.service()
    agent.until(agent.answers)
    assert agent.pids() == pids
    (keeper,) = keepers_of(str(agent.folder))
    agent.stop(second)
    os.kill(keeper, signal.SIGSTOP)
    assert "a: stopped" in agent.release()
    assert not agent.groups()
    assert keepers_of(str(agent.folder)) == []


def test_a_slice_whose_state_is_lost_is_not_taken_for_nothing() -> None:
    root = f"/qoslettest{secrets.token_hex(4)}"
    point = Path(next(iter(required_mounts()[1].values())))
    cgroup = point / root_path(root, "systemd").strip("/")
    assert driver_of(root) == "cgroupfs"
    cgroup.mkdir()
    try:
        assert driver_of(root) == "systemd"
        done = subprocess.run(
            [sys.executable, "-m", "qoslet", "release", "--cgroup-root", root],
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
        )
    finally:
        cgroup.rmdir()
    assert done.returncode == 3, done.stdout
    assert "nothing to undo" not in done.stdout
