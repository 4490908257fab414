"""When a guest looks, what it says, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.agent.guest.guest_loop import run
from qoslet.agent.guest.node_auditor import AGAIN_SECONDS
from qoslet.agent.guest.ports import NodeView
from qoslet.core.audit.finding import AuditReport, Finding
from qoslet.core.guest.policy import GuestPolicy
from qoslet.core.guest.status import GuestSync
from qoslet.core.node.running_kubelet.work import KubeletWork
from qoslet.errors import CannotDo
from tests.agent.guest.beside import Beside, Kubelet, Source, kubelet_pod, texts
from tests.agent.world import World

PODS = (kubelet_pod("a"), kubelet_pod("b"))
DRIFT = Finding(
    verdict="drift",
    name="/q/kubepods",
    path="/q/kubepods",
    file="cpu.weight",
    expected="4",
    found="100",
    message="is 100, must be 4",
)


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    world = World("v2")
    Kubelet(world).run(*PODS)
    return Beside(world, tmp_path, Source(PODS))


def found(*findings: Finding) -> AuditReport:
    return AuditReport(7, 7, findings, ())


def test_a_finding_is_told_once_it_stands(beside: Beside) -> None:
    beside.auditor.report = found(DRIFT)
    assert beside.sync().events == ()
    assert 0 < beside.agent.wait_seconds() <= AGAIN_SECONDS
    [event] = beside.sync(AGAIN_SECONDS).events
    assert (event.kind, event.finding) == ("appeared", DRIFT)
    assert beside.status.findings == (DRIFT,)
    assert beside.status.compared == 7
    beside.auditor.report = found()
    assert beside.sync(5.0).events == (), "it is not due"
    beside.auditor.woken = True
    [event] = beside.sync(1.0).events
    assert event.kind == "gone"


def test_what_changes_while_it_is_read_is_no_finding(beside: Beside) -> None:
    beside.auditor.report = found(DRIFT)
    beside.sync()
    beside.auditor.report = found()
    assert beside.sync(AGAIN_SECONDS).events == ()
    assert beside.status.findings == ()


def test_pods_are_asked_for_again_before_anything_is_a_finding(beside: Beside) -> None:
    beside.auditor.report = found(DRIFT)
    beside.sync()
    assert beside.source.refreshes == 0
    beside.source.latest = (*PODS, kubelet_pod("new"))
    beside.sync(AGAIN_SECONDS)
    assert beside.source.refreshes == 1
    first, second = beside.auditor.plans
    assert (len(first.pods), len(second.pods)) == (2, 3)


def test_a_look_that_falls_due_while_the_node_is_read_waits_for_the_pods(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen beside a kubelet at load 16: a resized pod was told as drift of its plan of before."""
    beside.auditor.report = found(DRIFT)
    beside.sync()
    read = beside.source.current

    def slowly(*, asks: bool = True) -> NodeView:
        beside.world.clock.now += 0.2
        return read(asks=asks)

    monkeypatch.setattr(beside.source, "current", slowly)
    assert beside.sync(AGAIN_SECONDS - 0.1).events == ()
    assert (len(beside.auditor.plans), beside.source.refreshes) == (1, 0)
    assert beside.agent.wait_seconds() == 0
    assert len(beside.sync().events) == 1
    assert (len(beside.auditor.plans), beside.source.refreshes) == (2, 1)


def test_what_a_kubelet_is_about_to_do_is_no_finding(beside: Beside) -> None:
    orphan = Finding(verdict="orphan", name="/q/podx", path="/q/podx", message="no pod")
    beside.auditor.report = found(orphan)
    beside.auditor.work = KubeletWork(frozenset(["x"]))
    beside.sync()
    assert beside.sync(AGAIN_SECONDS).events == ()
    assert [one.verdict for one in beside.status.findings] == ["pending"]
    beside.auditor.work = KubeletWork()
    beside.sync(20.0)
    [event] = beside.sync(AGAIN_SECONDS).events
    assert event.finding == orphan


def test_the_audit_takes_what_the_guest_writes_as_planned(beside: Beside) -> None:
    beside.sync()
    [plan] = beside.auditor.plans
    values = {row.file: row.value for row in plan.cgroups[0].settings}
    assert values["memory.low"] == beside.world.kernel.read("/q/kubepods", "memory.low")


def test_looks_are_rare_while_nothing_happens(beside: Beside) -> None:
    beside.sync()
    looks, clock = 0, beside.world.clock
    end = clock.now + 3600
    while clock.now < end:
        before = beside.agent._due_at
        beside.sync(max(0.001, beside.agent.wait_seconds()))
        looks += beside.agent._due_at != before
    assert 55 <= looks <= 70
    assert len(beside.auditor.plans) <= 400


class Surface:
    """Keeps what it is shown, and asks for the end after so many syncs."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.done: list[GuestSync] = []
        self.lines: list[str] = []

    def synced(self, done: GuestSync) -> None:
        self.done.append(done)

    def warn(self, line: str) -> None:
        self.lines.append(line)

    def log(self, line: str) -> None:
        self.lines.append(line)

    def requested(self) -> int:
        return int(len(self.done) >= self.most)

    def reload(self) -> bool:
        return False


def test_at_the_end_everything_is_as_it_was(beside: Beside) -> None:
    before = texts(beside.world)
    surface = Surface(3)
    run(beside.agent, beside.world.clock, surface, surface)
    assert texts(beside.world) == before
    assert surface.done[0].written
    assert surface.lines == [
        f"restoring {len(surface.done[0].written)} values",
        "no value of the agent is left",
    ]


def test_values_are_kept_where_that_is_asked(beside: Beside) -> None:
    surface = Surface(2)
    run(beside.agent, beside.world.clock, surface, surface, keep=True)
    assert len(beside.journal.ledger.files) == len(surface.done[0].written)
    assert "kept for the next agent" in surface.lines[0]


def test_a_node_that_is_never_known_ends_the_loop(beside: Beside) -> None:
    beside.source.wrong = "no kubelet runs on this machine"
    surface = Surface(3)
    with pytest.raises(CannotDo):
        run(beside.agent, beside.world.clock, surface, surface)
    assert surface.done == []


def test_what_cannot_be_restored_is_named_with_what_helps(beside: Beside) -> None:
    beside.sync()

    def refuse(what: str) -> None:
        if what.startswith("write"):
            raise OSError(5, "Input/output error")

    beside.world.on = refuse
    with pytest.raises(CannotDo) as caught:
        beside.agent.release(0.0)
    assert "qoslet release --cgroup-root /q/kubepods" in caught.value.hint
    beside.world.on = lambda what: None
    beside.world.clock.now += 61.0
    assert beside.agent.release() == []


def test_a_full_journal_stops_writes(beside: Beside) -> None:
    def full(what: str) -> None:
        if what == "record":
            raise CannotDo("the journal's file system is full")

    beside.world.on = full
    before = texts(beside.world)
    done = beside.sync()
    assert texts(beside.world) == before
    assert any("the journal" in error for error in done.errors)
    beside.world.on = lambda what: None
    beside.sync(70.0)
    assert texts(beside.world) != before


def test_a_policy_that_is_not_taken_is_an_error_once(beside: Beside) -> None:
    beside.source.fault = "the policy stays as it was: p: mode"
    assert beside.source.fault in beside.sync().errors
    assert beside.source.fault not in beside.sync().errors
    assert beside.source.fault in beside.status.errors
    beside.source.fault = ""
    beside.sync()
    assert beside.status.errors == ()


def test_a_policy_of_nothing_has_no_mode_to_write(beside: Beside) -> None:
    beside.source.policy = GuestPolicy("protect", frozenset())
    beside.settle()
    assert beside.status.held == ()
