"""A keeper whose files are removed, or that is stopped: it stays the only one of its root."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from qoslet.host.keeper import keeper_files
from qoslet.host.keeper.client import KeeperRuntime
from qoslet.host.keeper.keeper_files import KeeperFiles
from qoslet.host.keeper.launch import Starter
from qoslet.host.state.keepers import end, keepers_of, wake
from qoslet.host.state.own_files import open_lock
from tests.host.keeper.test_keeper import BOOT_HERE, Bench, pod, running, until
from tests.host.keeper.test_keeper import bench as bench

FOREVER = ("app", "exec sleep 600")


def killed_agent(client: KeeperRuntime) -> None:
    """Its connection ends, and it says nothing more."""
    client.close()


def remove(*names: str) -> Callable[[Path], None]:
    def doing(folder: Path) -> None:
        for name in names:
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return doing


def replaced(*names: str) -> Callable[[Path], None]:
    """By directories."""

    def doing(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()
            (folder / name).mkdir()

    return doing


def all_of_it(folder: Path) -> None:
    shutil.rmtree(folder)


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("away"))


HARM = {
    "lock": remove("keeper.lock"),
    "socket": remove("keeper.sock"),
    "both": remove("keeper.lock", "keeper.sock"),
    "records": remove("keeper"),
    "three": remove("keeper.lock", "keeper.sock", "keeper"),
    "folder": all_of_it,
    "moved": moved,
    "directories": replaced("keeper.lock", "keeper.sock"),
}


@pytest.mark.parametrize("harm", HARM)
def test_what_is_removed_comes_again_and_the_next_agent_finds_it(bench: Bench, harm: str) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", FOREVER, restart="Always"))
    before = until(one, running)
    pid = one.pid
    HARM[harm](bench.folder)
    until(one, lambda _: Path(bench.folder, "keeper", "u1", "pod.json").exists())
    wanted = {"keeper.lock", "keeper.sock"}
    until(one, lambda _: wanted <= set(os.listdir(bench.folder)))
    if harm in ("records", "three", "folder"):
        line = f"{bench.folder}: records of pods (1) were removed: they are written again"
        until(one, lambda _: line in one.notes)
    killed_agent(one)
    two = bench.client()
    assert [*two.list_pods()] == ["u1"]
    assert until(two, lambda _: two.pid != 0) == before
    assert two.pid == pid
    assert keepers_of(str(bench.folder)) == [pid]


@pytest.mark.parametrize("stopped", [False, True])
def test_an_agent_that_comes_at_once_waits_for_the_keeper_without_its_lock(
    bench: Bench, stopped: bool
) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", FOREVER, restart="Always"))
    before = until(one, running)
    pid = one.pid
    killed_agent(one)
    if stopped:
        os.kill(pid, signal.SIGSTOP)
    HARM["both"](bench.folder)
    two = bench.client()
    assert [*two.list_pods()] == ["u1"]
    assert two.poll() == tuple(before.values())
    assert keepers_of(str(bench.folder)) == [two.pid] == [pid]


def test_a_keeper_that_does_not_take_its_lock_again_is_replaced(bench: Bench) -> None:
    """One of an earlier version."""
    one = bench.client()
    bench.begin(one, pod("u1", FOREVER, restart="Always"))
    before = until(one, running)
    pid = one.pid
    killed_agent(one)
    time.sleep(0.1)
    HARM["both"](bench.folder)
    two = KeeperRuntime(bench.setting, Starter(bench.setting, BOOT_HERE, patience=0.0))
    bench.clients.append(two)
    assert [*two.list_pods()] == ["u1"]
    after = until(two, lambda s: s["u1", "app"].pid == before["u1", "app"].pid)
    assert after["u1", "app"].restarts == 0
    assert two.pid != pid
    assert keepers_of(str(bench.folder)) == [two.pid]


def test_of_two_keepers_the_one_without_the_lock_leaves(bench: Bench) -> None:
    """Its containers are the other one's."""
    one = bench.client()
    bench.begin(one, pod("u1", FOREVER))
    before = until(one, running)
    pid = one.pid
    os.kill(pid, signal.SIGSTOP)
    HARM["both"](bench.folder)
    starter = Starter(bench.setting, BOOT_HERE)
    lock = starter._lock()
    assert lock is not None
    folder = starter._folder()
    starter._start(folder, lock)
    os.close(folder)
    os.kill(pid, signal.SIGCONT)
    deadline = time.monotonic() + 20
    while pid in keepers_of(str(bench.folder)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    until(one, lambda s: one.pid != pid and s["u1", "app"] == before["u1", "app"])


@pytest.mark.parametrize("seconds", [0.2, 60.0])
def test_an_agent_that_looks_for_keepers_is_no_other_keeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """It has the lock that it made for a moment."""
    monkeypatch.setattr(keeper_files, "TAKING_SECONDS", 1.0 if seconds < 1 else 0.1)
    path = tmp_path / "keeper.lock"
    lock = open_lock(str(path))
    files = KeeperFiles(str(tmp_path), lock, lock, lambda: 0, lambda _: None, 0.0)
    path.unlink()
    agents = open_lock(str(path))
    fcntl.flock(agents, fcntl.LOCK_EX)
    ending = threading.Timer(seconds, os.close, [agents])
    ending.start()
    assert files.check() == (seconds < 1)
    ending.cancel()
    if seconds > 1:
        os.close(agents)


def test_a_stopped_keeper_is_let_go_on_and_one_is_killed(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", FOREVER))
    until(one, running)
    folder, pid = str(bench.folder), one.pid
    assert wake([pid]) == []
    os.kill(pid, signal.SIGSTOP)
    until(one, lambda _: " T " in Path(f"/proc/{pid}/stat").read_text())
    assert wake(keepers_of(folder)) == [pid]
    assert end(folder, [pid, os.getpid()]) == [pid]
    assert keepers_of(folder) == []
    until(one, lambda s: one.pid != pid and running(s))


def test_who_has_a_file_of_that_path_on_a_mount_of_its_own_is_no_keeper(tmp_path: Path) -> None:
    """Anybody can have one, in a user namespace or a pod."""
    made = (
        f"mount -t tmpfs none {tmp_path} && mkdir {tmp_path}/q && exec 3>{tmp_path}/q/keeper.lock"
    )
    command = ["unshare", "-Urm", "sh", "-c", f"{made} && echo made && exec sleep 600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as other:
        assert other.stdout is not None
        if other.stdout.readline() != b"made\n":
            pytest.skip("this machine makes no user namespace")
        try:
            assert os.readlink(f"/proc/{other.pid}/fd/3") == f"{tmp_path}/q/keeper.lock"
            assert keepers_of(f"{tmp_path}/q") == []
        finally:
            other.kill()


def test_a_keeper_that_does_not_answer_is_noted(bench: Bench) -> None:
    one = KeeperRuntime(bench.setting, Starter(bench.setting, BOOT_HERE), answer_seconds=0.5)
    bench.clients.append(one)
    bench.begin(one, pod("u1", FOREVER))
    until(one, running)
    one.notes.clear()
    time.sleep(0.6)
    one.poll()
    assert not any("does not answer" in note for note in one.notes), "nothing was asked"
    os.kill(one.pid, signal.SIGSTOP)
    bench.begin(one, pod("u2", FOREVER))
    until(one, lambda _: any("does not answer" in note for note in one.notes))
    os.kill(one.pid, signal.SIGCONT)
    until(one, lambda states: ("u2", "app") in states and running(states))
