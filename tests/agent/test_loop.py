"""The loop around the wheel: when it turns, how it ends, what it keeps, what it reads again."""

from __future__ import annotations

import errno
import os

import pytest

from qoslet.agent.config import Config
from qoslet.agent.loop import run
from qoslet.agent.ports import DesiredState
from qoslet.agent.snapshots import SyncResult
from qoslet.core.reconcile.steps import Step
from qoslet.core.status.run_outcome import EndCause
from qoslet.core.status.snapshot import Snapshot
from qoslet.errors import CannotDo
from tests.agent.fixtures import ROOT, Bench, Manifests


class Asked:
    """Somebody who asks the loop to end, or to read again."""

    def __init__(self) -> None:
        self.times = 0
        self.again = False

    def requested(self) -> int:
        return self.times

    def reload(self) -> bool:
        again, self.again = self.again, False
        return again


class Screen:
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.turns: list[SyncResult] = []
        self.snapshots: list[Snapshot] = []
        self.lines: list[str] = []

    def synced(self, turn: SyncResult) -> None:
        self.turns.append(turn)

    def publish(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    def log(self, line: str) -> None:
        self.lines.append(line)


def looped(
    bench: Bench,
    asked: Asked | None = None,
    source: Manifests | None = None,
    screen: Screen | None = None,
    **more: object,
) -> Screen:
    screen = screen or Screen()
    run(
        bench.config,
        bench.reconciler,
        source or bench.source,
        bench.clock,
        asked or Asked(),
        screen,
        **more,  # type: ignore[arg-type]
    )
    return screen


def timed(lasts: float | None = 5.0, **more: object) -> Bench:
    return Bench(config=Config(root=ROOT, duration_seconds=lasts, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_machine_that_is_short_of_something_ends_no_pod(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    bench = timed(5.0)
    bench.put("a")
    sync, times = bench.reconciler.sync, iter(range(100))

    def short(desired: DesiredState, *, whole: bool = False) -> SyncResult:
        if next(times) in (1, 2):
            raise OSError(number, "short")
        return sync(desired, whole=whole)

    monkeypatch.setattr(bench.reconciler, "sync", short)
    screen = looped(bench)
    assert len(screen.turns) == 4
    assert "a sync was postponed: short" in screen.turns[1].notes
    monkeypatch.setattr(bench.reconciler, "sync", lambda *_, **__: os.stat("/nowhere/at/all"))
    with pytest.raises(FileNotFoundError):
        looped(bench)


def test_a_machine_that_stays_short_of_something_ends_the_run_when_it_should(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = timed(5.0)
    bench.put("a")
    began = bench.clock.monotonic()

    def short(*_: object, **__: object) -> SyncResult:
        raise OSError(errno.EMFILE, "short")

    monkeypatch.setattr(bench.reconciler, "sync", short)
    looped(bench)
    assert 5.0 <= bench.clock.monotonic() - began < 6.5


def test_it_ends_by_itself_and_leaves_nothing() -> None:
    bench = timed(5.0)
    bench.put("a")
    screen = looped(bench)
    assert [snapshot.cycle for snapshot in screen.snapshots] == [1, 2, 3, 4, 5, 6]
    assert bench.groups() == []
    assert ("stop", "a", 5.0) in bench.keeper.calls
    assert bench.keeper.kept == {}
    assert screen.lines == ["stopping 1 pod; press Ctrl-C again to kill them"]


@pytest.mark.parametrize(
    ("how", "left", "lines", "least"),
    [
        ("stuck", "d/a: its processes do not die", 1, 35.0),
        ("deaf", "stopping d/a: the keeper cannot be reached", 2, 10.0),
    ],
)
def test_a_pod_that_never_ends_is_reported_and_ends_the_run(
    how: str, left: str, lines: int, least: float
) -> None:
    """A process in uninterruptible sleep, a frozen one, a keeper that refuses."""
    bench = timed(5.0)
    bench.put("a")
    bench.put("b")
    getattr(bench.keeper, how).add("a")
    screen = Screen()
    with pytest.raises(CannotDo, match=rf"left: {left} "):
        looped(bench, screen=screen)
    assert bench.keeper.running == {"a"}
    assert len(screen.lines) == lines
    # its grace of 5 s, 30 s to die, 10 s for the cgroups
    assert least <= bench.clock.now - 5.0 <= 50.0
    assert "/q/kubepods/burstable/poda" in bench.groups()


def test_a_second_signal_shortens_the_time_to_die() -> None:
    bench = timed(None)
    bench.put("a")
    bench.keeper.stuck.add("a")
    asked = Asked()

    def later(now: float) -> None:
        asked.times = int(now >= 2.0) + int(now >= 3.0)

    bench.clock.at_sleep = later
    with pytest.raises(CannotDo, match="d/a: its processes do not die"):
        looped(bench, asked)
    assert ("stop", "a", 0.0) in bench.keeper.calls
    assert bench.clock.now <= 3.0 + 30.0 + 11.0


def test_nobody_watches_so_it_turns_when_something_is_due_only() -> None:
    bench = timed(100.0, interval_seconds=None)
    bench.put("a")
    screen = looped(bench)
    assert screen.snapshots == []
    assert [turn.at for turn in screen.turns] == [0.0, 10.0, 30.0, 70.0, 100.0]


def test_an_error_ends_the_loop_and_leaves_nothing() -> None:
    class Broken(Manifests):
        def current(self) -> DesiredState:
            if bench.clock.now >= 2:
                raise OSError("the disk is gone")
            return super().current()

    bench = timed(None)
    source = Broken(bench.source.live.node)
    bench.source = source
    bench.put("a")
    with pytest.raises(OSError, match="the disk is gone"):
        looped(bench, source=source)
    assert bench.groups() == []
    assert not bench.keeper.running


def test_asked_before_the_first_turn_it_does_nothing() -> None:
    bench = timed(None)
    asked = Asked()
    asked.times = 1
    looped(bench, asked)
    assert bench.driver.steps == []


def test_a_second_request_hurries() -> None:
    bench = timed(None)
    asked = Asked()
    bench.put("a")
    bench.keeper.slow.add("a")

    def ask(now: float) -> None:
        asked.times = 1 if now < 3 else 2

    bench.clock.at_sleep = ask
    looped(bench, asked)
    assert [call for call in bench.keeper.calls if call[0] == "stop"] == [
        ("stop", "a", 5.0),
        ("stop", "a", 0.0),
    ]
    assert bench.groups() == []


def test_what_is_kept_stays_and_the_next_run_takes_it_up() -> None:
    bench = timed(3.0, interval_seconds=None, keep_pods=True)
    bench.put("a")
    screen = looped(bench)
    assert screen.lines == ["1 pod kept running for the next run"]
    assert bench.keeper.running == {"a"}
    done = len(bench.driver.steps)
    bench.begin()
    bench.source.again(bench.source.live.node)
    looped(bench)
    assert len(bench.driver.steps) == done
    assert [call for call in bench.keeper.calls if call[0] != "update"] == [("start", "a")]


def test_a_pod_that_is_still_stopping_is_not_told_as_kept() -> None:
    bench = timed(3.0, interval_seconds=None, keep_pods=True)
    bench.put("a")
    bench.put("b")
    bench.turn()
    bench.keeper.slow.add("a")
    bench.source.drop("a")
    screen = looped(bench)
    assert screen.lines == [
        "1 pod kept running for the next run",
        "1 pod still stopping; the next run or release goes on",
    ]


def test_what_cannot_be_removed_is_said() -> None:
    bench = timed(1.0, removal_seconds=1.0)
    bench.put("a")
    bench.turn()
    bench.kernel.perform([Step("create", f"{ROOT}/kubepods/burstable/poda/theirs")])
    bench.kernel.spawn(f"{ROOT}/kubepods")
    with pytest.raises(CannotDo, match=r"cleanup incomplete, \d+ left: remove /q/kubepods"):
        looped(bench)
    assert not bench.groups("a"), "what lies in a group of ours goes with it"


def test_what_others_had_is_given_back_at_the_end() -> None:
    bench = timed(1.0)
    bench.put("a")
    with pytest.raises(CannotDo, match="cleanup incomplete, 1 left: another process wrote"):
        looped(bench, undo=lambda: ["another process wrote /sys/x"])
    assert bench.groups() == []


def test_it_reads_its_configuration_again_when_asked() -> None:
    bench = timed(5.0)
    asked = Asked()
    read = []

    def ask(now: float) -> None:
        asked.again = now == 2.0

    bench.clock.at_sleep = ask
    looped(bench, asked, reload=lambda: read.append(bench.clock.now))
    assert read == [2.0]


def test_a_surface_that_fails_ends_the_pods() -> None:
    class Broken(Screen):
        def publish(self, snapshot: Snapshot) -> None:
            raise BrokenPipeError

        def log(self, line: str) -> None:
            raise OSError("the terminal is gone")

    bench = timed(None)
    bench.put("a")
    with pytest.raises(OSError, match="the terminal is gone"):
        looped(bench, screen=Broken())
    assert bench.groups() == []
    assert not bench.keeper.running


@pytest.mark.parametrize("code", [0, 3])
def test_pods_that_all_ended_end_the_run(code: int) -> None:
    bench = timed(None)
    bench.put("a", restart="Never")
    bench.put("b", restart="Never")
    bench.clock.at_sleep = lambda now: bench.keeper.end("a" if now < 2 else "b", code=code)
    ended = run(bench.config, bench.reconciler, bench.source, bench.clock, Asked(), Screen())
    assert bench.clock.now == 2
    assert ended.cause is EndCause.PODS_ENDED
    assert [(row.uid, row.phase) for row in ended.pods] == [
        ("a", "Failed" if code else "Succeeded"),
        ("b", "Failed" if code else "Succeeded"),
    ]
    assert bench.groups() == []


def test_a_service_waits_for_further_pods() -> None:
    bench = timed(5.0, keep_pods=True)
    bench.put("a", restart="Never")
    bench.clock.at_sleep = lambda now: bench.keeper.end("a")
    assert len(looped(bench).turns) > 3


def test_ends_that_come_one_after_the_other_are_waited_for() -> None:
    """As of a runtime that has many containers to end, and needs longer than the grace period."""
    bench = timed(1.0)
    due = {"a": 25.0, "b": 50.0, "c": 75.0}
    for uid in due:
        bench.put(uid)
    bench.keeper.stuck = set(due)

    def end(now: float) -> None:
        for uid in bench.keeper.running:
            if now >= due[uid]:
                bench.keeper.end(uid)

    bench.clock.at_sleep = end
    looped(bench)
    assert bench.groups() == []
    assert 75.0 <= bench.clock.now < 80.0
