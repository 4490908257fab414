"""Which run of a container the kernel's counters of OOM kills speak of."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from qoslet.host.containers.log_files import ContainerLogs, LogLimits
from qoslet.host.keeper.container_process import ContainerProcess
from tests.host.keeper.sessions import Sessions
from tests.host.keeper.test_process_runtime import Bench, ended, launch


class Counting(Sessions):
    """Groups whose counters of OOM kills are a test's. ``asked`` are the groups that were read."""

    def __init__(self) -> None:
        self.kills: dict[str, int] = {}
        self.inodes: dict[str, int] = {}
        self.asked: list[str] = []

    def identity(self, path: str) -> int | None:
        return self.inodes.get(path)

    def oom_kills(self, path: str) -> int | None:
        self.asked.append(path)
        return self.kills.get(path)


def test_oom_kills_of_a_plain_process_are_read_before_it_and_after_it(tmp_path: Path) -> None:
    groups = Counting()
    one = Bench(tmp_path, launch("app", "true"), groups=groups)
    one.start()
    one.until(ended)
    assert groups.asked == [one.paths["app"]] * 2


def test_an_oom_kill_counted_above_is_of_one_run(tmp_path: Path) -> None:
    groups, logs = Counting(), ContainerLogs(str(tmp_path), LogLimits())

    def run(name: str) -> ContainerProcess:
        log = logs.file(logs.path("default/p", "u", name, 0), print)
        made = ContainerProcess(f"{tmp_path}/{name}", log)
        made.count_before(groups, f"/pod/{name}", new=True)
        return made

    def killed(name: str) -> bool:
        one = runs[name]
        one.over, one.code = True, 137
        one.see_oom(groups, f"/pod/{name}", runs.values())
        return one.oom_killed

    groups.kills = {"/pod": 3}
    runs = {name: run(name) for name in ("seen", "beside", "at-once", "later")}
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        runs["at-once"].pidfd = os.pidfd_open(process.pid)
        groups.kills = {"/pod": 5, "/pod/seen": 1}
        assert killed("seen")
        assert killed("at-once"), "it had ended when the first kill was seen"
    assert not killed("beside"), "the kill was another's"
    groups.kills = {"/pod": 6}
    assert killed("later"), "one has come since"
    assert not killed("beside"), "nor is it where it is looked at again"
    os.close(runs["at-once"].pidfd)


@pytest.mark.parametrize(
    ("code", "sent", "told"),
    [
        (137, 0, True),
        (143, 0, True),
        (143, 15, False),
        (137, 15, True),
        (0, 0, False),
        (1, 0, False),
        (139, 0, False),
    ],
)
def test_a_scope_that_systemd_ended_for_an_oom_kill_may_have_had_a_sigterm(
    tmp_path: Path, code: int, sent: int, told: bool
) -> None:
    groups, path = Counting(), "/pod/app.scope"
    groups.kills, groups.inodes = {"/pod": 0, path: 0}, {path: 7}
    logs = ContainerLogs(str(tmp_path), LogLimits())
    one = ContainerProcess(
        f"{tmp_path}/app", logs.file(logs.path("default/p", "u", "app", 0), print)
    )
    one.count_before(groups, path, new=False)
    groups.kills, groups.inodes = {"/pod": 1}, {}
    one.send(sent)
    one.over, one.code = True, code
    one.see_oom(groups, path, [one])
    assert one.oom_killed is told


@pytest.mark.parametrize(
    ("name", "after", "inode", "told"),
    [
        ("app.scope", {"/pod": 1}, None, True),
        ("app.scope", {"/pod": 1, "/pod/app.scope": 0}, 8, True),
        ("app.scope", {"/pod": 1, "/pod/app.scope": 0}, 7, False),
        ("app.scope", {"/pod": 0, "/pod/app.scope": 0}, 8, False),
        ("app", {"/pod": 1}, None, False),
    ],
)
def test_an_oom_kill_that_ended_its_scope_is_told_by_the_pods_count(
    tmp_path: Path, name: str, after: dict[str, int], inode: int | None, told: bool
) -> None:
    groups, path = Counting(), f"/pod/{name}"
    groups.kills, groups.inodes = {"/pod": 0, path: 0}, {path: 7}
    logs = ContainerLogs(str(tmp_path), LogLimits())
    one = ContainerProcess(
        f"{tmp_path}/app", logs.file(logs.path("default/p", "u", "app", 0), print)
    )
    one.count_before(groups, path, new=False)
    groups.kills, groups.inodes = after, {} if inode is None else {path: inode}
    one.over, one.code = True, 137
    one.see_oom(groups, path, [one])
    assert one.oom_killed is told
