"""No process is started in a scope that systemd ends after an OOM kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.core.status.pod_reason import pod_reason
from qoslet.host.keeper.ending_scopes import ENDING_SECONDS, OomKillState, PendingCgroup
from tests.host.keeper.sessions import Sessions
from tests.host.keeper.test_process_runtime import Bench, shell


class Scopes(Sessions):
    """One scope, with an OOM kill in each run. ``ends``: systemd ends it then."""

    def __init__(self, *, ends: bool) -> None:
        self.ends = ends
        self.inode: int | None = 7
        self.kills = 0

    def identity(self, path: str) -> int | None:
        return self.inode

    def ends_with_oom_kill(self, path: str) -> bool:
        return self.ends

    def oom_kills(self, path: str) -> int | None:
        self.kills += 1
        return self.kills


HUNGRY = shell("app", "exit 137", restart="Always")


def test_a_restart_waits_until_systemd_has_ended_the_scope(tmp_path: Path) -> None:
    groups = Scopes(ends=True)
    one = Bench(tmp_path, HUNGRY, groups=groups)
    one.start()
    state = one.until(lambda states: states["app"].awaits_cgroup)["app"]
    assert (state.restarts, state.exit_code, state.oom_killed) == (0, 137, True)
    assert state.reason == "waiting for systemd to end the scope after the OOM kill"
    assert pod_reason("Running", [state], {}) == "ContainerCreating"
    groups.inode = 8
    state = one.until(lambda states: states["app"].restarts > 0)["app"]
    assert not state.awaits_cgroup
    one.end()


def test_a_restart_waits_for_no_scope_that_stays(tmp_path: Path) -> None:
    one = Bench(tmp_path, HUNGRY, groups=Scopes(ends=False))
    one.start()
    one.until(lambda states: states["app"].restarts > 0)
    assert not any("systemd" in note for note in one.runtime.notes)
    one.end()


@pytest.mark.parametrize(
    ("inode", "after", "waits"),
    [
        (7, 0.0, True),
        (7, ENDING_SECONDS - 1, True),
        (7, ENDING_SECONDS + 1, False),
        (8, 0.0, False),
        (None, 0.0, False),
    ],
)
def test_the_wait_is_bounded(inode: int | None, after: float, waits: bool) -> None:
    groups, scopes = Scopes(ends=True), OomKillState()
    scopes.saw_oom_kill(groups, "app", "/p/app.scope", 7, 100.0)
    groups.inode = inode
    if not waits:
        scopes.check(groups, "app", "/p/app.scope", 100.0 + after)
        return
    with pytest.raises(PendingCgroup):
        scopes.check(groups, "app", "/p/app.scope", 100.0 + after)


def test_a_scope_that_was_replaced_while_the_container_ended_is_no_such() -> None:
    groups, scopes = Scopes(ends=True), OomKillState()
    scopes.saw_oom_kill(groups, "app", "/p/app.scope", 6, 100.0)
    scopes.check(groups, "app", "/p/app.scope", 100.0)
