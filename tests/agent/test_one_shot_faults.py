"""``apply`` and ``release`` that are killed, refused or disturbed."""

from __future__ import annotations

from contextlib import nullcontext
from errno import EBUSY, EINVAL

import pytest

from qoslet.agent.one_shot import (
    without_missing_controllers,
)
from qoslet.core.reconcile.journal import (
    Adopted,
)
from qoslet.core.reconcile.steps import Step
from qoslet.sim.kernel import Fault
from tests.agent.test_one_shot import ROOT, SYSTEM, TREE, Killed, Machine
from tests.core.reconcile.trees import plan_of


@pytest.mark.parametrize("kill_after", range(13))
def test_killed_between_any_two_steps_the_next_apply_converges_and_release_restores(
    kill_after: int,
) -> None:
    for then in ("apply", "release"):
        machine = Machine()
        machine.kernel.perform([Step("create", "/system")])
        machine.driver.kill_after = kill_after
        with pytest.raises(Killed) if kill_after < 9 else nullcontext():
            machine.apply({**TREE, **SYSTEM})
        machine.driver.kill_after = None
        if then == "apply":
            assert machine.apply({**TREE, **SYSTEM}).remaining == ()
        assert machine.release() == []
        assert not machine.kernel.observe(ROOT).cgroups
        assert machine.value("/system", "cpu.shares") == "1024"


@pytest.mark.parametrize("kill_after", range(6))
def test_a_release_that_was_killed_is_finished_by_the_next(kill_after: int) -> None:
    machine = Machine()
    machine.kernel.perform([Step("create", "/system")])
    machine.apply({**TREE, **SYSTEM})
    machine.driver.kill_after = kill_after
    with pytest.raises(Killed) if kill_after < 5 else nullcontext():
        machine.release()
    machine.driver.kill_after = None
    assert machine.release() == []
    assert not machine.kernel.observe(ROOT).cgroups
    assert machine.value("/system", "cpu.shares") == "1024"


@pytest.mark.parametrize("index", range(8))
@pytest.mark.parametrize("mode", ["once", "always"])
def test_a_step_that_fails_is_named_and_the_next_pass_converges(index: int, mode: str) -> None:
    fault = Fault(index, EBUSY, "once" if mode == "once" else "always")
    machine = Machine(faults=[fault])
    done = machine.apply()
    assert len(done.failures) == 1
    assert done.failures[0].errno_name == "EBUSY"
    assert done.remaining
    again = machine.apply()
    assert (not again.remaining) is (mode == "once")
    assert machine.release() == []
    assert not machine.kernel.observe(ROOT).cgroups


def test_a_file_that_is_always_refused_is_not_tried_for_each_pod() -> None:
    pods = {f"/q/kubepods/pod{n}": {"cpu.shares": str(100 + n)} for n in range(40)}
    machine = Machine(faults=[Fault(index, EINVAL) for index in range(41, 90)])
    done = machine.apply({"/q/kubepods": {}, **pods})
    assert len(done.failures) == 3
    assert len(done.remaining) == 40
    assert machine.apply({"/q/kubepods": {}, **pods}).remaining


def test_a_group_removed_by_somebody_meanwhile_is_named_and_made_again() -> None:
    machine = Machine()
    machine.apply()
    machine.kernel.write("/q/kubepods/podb", "cpu.shares", "9")
    machine.driver.meanwhile = lambda: machine.kernel.rmdir("/q/kubepods/podb")
    done = machine.apply()
    assert [one.step.path for one in done.failures] == ["/q/kubepods/podb"]
    assert {row.path for row in done.remaining} == {"/q/kubepods/podb"}
    machine.driver.meanwhile = lambda: None
    assert machine.apply().remaining == ()
    assert machine.release() == []


def test_a_group_filled_with_a_process_meanwhile_is_named_and_stays() -> None:
    machine = Machine()
    machine.apply()

    def fill() -> None:
        machine.kernel.spawn("/q/kubepods/podb")

    machine.driver.meanwhile = fill
    done = machine.apply({path: files for path, files in TREE.items() if not path.endswith("b")})
    assert [one.errno_name for one in done.failures] == ["EBUSY"]
    (refusal,) = machine.release()
    assert refusal.startswith("/q/kubepods/podb: has processes")


def test_values_of_controllers_that_are_missing_are_taken_out_and_listed() -> None:
    plan, lost = without_missing_controllers(plan_of("v1", TREE), ["memory"])
    assert plan.files == {"pids.max", "cpu.shares"}
    assert [(row.path, row.wanted) for row in lost] == [
        ("/q/kubepods", "104857600"),
        ("/q/kubepods/poda", "8388608"),
    ]
    assert without_missing_controllers(plan, ["io"]) == (plan, ())


def test_what_a_pass_no_longer_plans_in_groups_of_others_is_given_back() -> None:
    machine = Machine("v2")
    machine.kernel.perform(
        [Step("create", "/system"), Step("set", "/system", "memory.low", "4096")]
    )
    tree = {"/q/kubepods": {"memory.min": "8192"}}
    on = {**tree, "/system": {"memory.min": "8192", "memory.low": "12288", "cpu.weight": "7"}}
    first = machine.apply(on)
    assert first.remaining == ()
    machine.kernel.write("/system", "pids.max", "77")
    for groups in ({**tree, "/system": {"cpu.weight": "7"}}, on, tree):
        assert machine.apply(groups).remaining == ()
        assert machine.apply(groups).outcomes == ()
        wanted = groups.get("/system", {})
        assert machine.value("/system", "memory.min") == wanted.get("memory.min", "0")
        assert machine.value("/system", "memory.low") == wanted.get("memory.low", "4096")
        assert machine.value("/system", "cpu.weight") == wanted.get("cpu.weight", "100")
        assert machine.value("/system", "pids.max") == "77"
    assert not [key for key in machine.book.ledger.files if key[0] == "/system"]
    assert machine.release() == []


def test_what_somebody_has_written_where_nothing_is_planned_any_more_stays() -> None:
    machine = Machine("v2")
    machine.kernel.perform([Step("create", "/system")])
    machine.apply({"/q/kubepods": {}, "/system": {"memory.min": "8192"}})
    machine.kernel.write("/system", "memory.min", "16384")
    done = machine.apply({"/q/kubepods": {}})
    assert (done.remaining, done.outcomes) == ((), ())
    assert "another process changed '8192' to '16384'" in done.before.notes[0]
    assert machine.apply({"/q/kubepods": {}}).before.notes == ()
    assert machine.value("/system", "memory.min") == "16384"


def test_values_of_the_root_go_with_their_plan() -> None:
    machine = Machine("v2")
    on = {"/q": {"memory.low": "8192"}, "/q/kubepods": {"memory.low": "8192"}}
    assert machine.apply(on).remaining == ()
    machine.kernel.write("/q", "pids.max", "77")
    assert machine.apply({"/q/kubepods": {}}).remaining == ()
    assert machine.value("/q", "memory.low") == machine.value("/q/kubepods", "memory.low") == "0"
    assert machine.value("/q", "pids.max") == "77"
    assert machine.apply({"/q/kubepods": {}}).outcomes == ()
    assert machine.release() == []


@pytest.mark.parametrize("kill_after", range(6))
def test_a_pass_killed_while_it_gives_back_is_finished_by_the_next(kill_after: int) -> None:
    machine = Machine("v2")
    machine.kernel.perform(
        [Step("create", "/system"), Step("set", "/system", "memory.low", "4096")]
    )
    on = {
        "/q": {"memory.low": "8192"},
        "/q/kubepods": {"memory.low": "8192", "memory.min": "4096"},
        "/system": {"memory.min": "8192", "memory.low": "12288"},
    }
    machine.apply(on)
    machine.driver.kill_after = kill_after
    with nullcontext() if kill_after == 5 else pytest.raises(Killed):
        machine.apply({"/q/kubepods": {}})
    machine.driver.kill_after = None
    machine.apply({"/q/kubepods": {}})
    for path in ("/q", "/q/kubepods", "/system"):
        theirs = "4096" if path == "/system" else "0"
        assert (machine.value(path, "memory.min"), machine.value(path, "memory.low")) == (
            "0",
            theirs,
        )


def test_a_root_that_was_handed_to_us_gets_what_is_planned_and_its_own_values_back() -> None:
    machine = Machine("v2")
    machine.kernel.perform(
        [
            Step("create", "/q"),
            Step("set", "/q", "memory.low", "4096"),
            Step("set", "/q", "pids.max", "77"),
        ]
    )
    machine.book.record([Adopted("/q", machine.kernel.observe("/q").cgroups["/q"].identity)])
    on = {"/q": {"memory.low": "8192"}, "/q/kubepods": {"memory.low": "8192"}}
    off: dict[str, dict[str, str]] = {"/q/kubepods": {}}
    for groups in (on, off, on, off):
        assert machine.apply(groups).remaining == ()
        assert machine.apply(groups).outcomes == ()
        wanted = groups.get("/q", {})
        assert machine.value("/q", "memory.low") == wanted.get("memory.low", "4096")
        assert machine.value("/q", "pids.max") == "77"
