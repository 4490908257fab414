"""A guest writes what its policy names, beside a kubelet that does not, and gives it all back."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.agent.guest.policy_files import SETTLE_SECONDS
from qoslet.core.guest.policy import GuestPolicy
from qoslet.core.guest.status import GuestSync
from tests.agent.guest.beside import (
    KUBEPODS,
    MIB,
    Beside,
    Kubelet,
    Source,
    kubelet_pod,
    planned,
    policy,
    texts,
)
from tests.agent.world import World

PODS = (
    kubelet_pod("a"),
    kubelet_pod("b", "memory=32Mi", ""),
    kubelet_pod("c", "", ""),
    kubelet_pod("g", "cpu=1 memory=16Mi", "cpu=1 memory=16Mi"),
)


@pytest.fixture
def world() -> World:
    made = World("v2")
    Kubelet(made).run(*PODS)
    return made


def changed(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> set[str]:
    return {
        file
        for path, files in after.items()
        for file, value in files.items()
        if before[path][file] != value
    }


def test_a_node_where_nothing_is_enabled_is_only_watched(world: World, tmp_path: Path) -> None:
    before = texts(world)
    writes: list[str] = []
    world.on = writes.append
    beside = Beside(world, tmp_path, Source(PODS))
    beside.source.policy = GuestPolicy()
    beside.settle()
    assert texts(world) == before
    assert set(writes) == {"sync"}
    assert beside.status.held == ()
    assert not beside.file.exists()


def test_it_writes_memory_qos_and_nothing_else(world: World, tmp_path: Path) -> None:
    before = texts(world)
    beside = Beside(world, tmp_path, Source(PODS))
    done = beside.sync()
    after = texts(world)
    assert changed(before, after) == {"memory.min", "memory.low", "memory.high"}
    app = f"{KUBEPODS}/burstable/poda/aapp"
    assert after[app]["memory.low"] == str(64 * MIB)
    assert after[KUBEPODS]["memory.low"] == str(112 * MIB)
    assert done.written[app, "memory.high"] == after[app]["memory.high"]
    held = {(one.path, one.file): one.before for one in beside.status.held}
    assert held[app, "memory.high"] == "max"
    assert held.keys() == done.written.keys()
    again = beside.sync(70.0)
    assert again == GuestSync(again.summary), "there is nothing to tell"


def test_values_go_with_the_policy_and_with_their_pods(world: World, tmp_path: Path) -> None:
    before = texts(world)
    beside = Beside(world, tmp_path, Source(PODS))
    beside.settle()
    policy(beside.source, files=frozenset({"memory.low"}))
    beside.settle()
    assert changed(before, texts(world)) == {"memory.low"}
    policy(beside.source, mode="watch")
    done = beside.sync()
    assert done.restored
    assert texts(world) == before
    assert beside.status.held == ()


def test_a_pod_that_the_reading_may_lack_keeps_its_values(world: World, tmp_path: Path) -> None:
    from msgspec.structs import replace

    beside = Beside(world, tmp_path, Source(PODS))
    beside.settle()
    app, whole = f"{KUBEPODS}/burstable/poda/aapp", f"{KUBEPODS}/burstable"
    protected = int(texts(world)[whole]["memory.low"])
    beside.source.status = replace(beside.source.status, complete=False)
    beside.source.want(*PODS[1:])
    beside.settle()
    assert texts(world)[app]["memory.low"] == str(64 * MIB)
    assert int(texts(world)[whole]["memory.low"]) == protected, "it protects that pod, too"
    beside.source.status = replace(beside.source.status, complete=True)
    beside.sync(70.0)
    assert texts(world)[app]["memory.low"] == "0"
    assert int(texts(world)[whole]["memory.low"]) == protected - 64 * MIB


def test_a_pod_that_ended_leaves_nothing_in_the_journal(world: World, tmp_path: Path) -> None:
    beside = Beside(world, tmp_path, Source(PODS))
    beside.settle()
    for path in (f"{KUBEPODS}/burstable/poda/aapp", f"{KUBEPODS}/burstable/poda"):
        world.kernel.rmdir(path)
    beside.source.want(*PODS[1:])
    beside.settle()
    assert not any("/poda" in path for path, _ in beside.journal.ledger.files)
    assert not any("/poda" in path for path in beside.journal.ledger.adopted)


def test_a_new_pod_gets_its_values(world: World, tmp_path: Path) -> None:
    beside = Beside(world, tmp_path, Source(PODS))
    beside.settle()
    new = kubelet_pod("new", "memory=100Mi")
    Kubelet(world).run(*PODS, new)
    beside.source.want(*PODS, new)
    beside.sync(1.0)
    assert world.kernel.read(f"{KUBEPODS}/burstable/podnew/newapp", "memory.low") == str(100 * MIB)
    beside.sync(SETTLE_SECONDS)
    assert world.kernel.read(KUBEPODS, "memory.low") == str(212 * MIB)


def test_a_source_that_fails_changes_nothing(world: World, tmp_path: Path) -> None:
    beside = Beside(world, tmp_path, Source(PODS))
    beside.settle()
    held = texts(world)
    beside.source.wrong = "the kubelet does not answer"
    for _ in range(3):
        beside.sync(70.0)
    assert texts(world) == held
    assert beside.said.count("the kubelet does not answer") == 1
    assert beside.status.errors == ("the kubelet does not answer",)


def test_a_pod_that_goes_while_it_is_written_is_no_fault(world: World, tmp_path: Path) -> None:
    gone = f"{KUBEPODS}/burstable/poda/aapp"

    def remove(what: str) -> None:
        if what == f"write {gone} memory.high" and gone in world.kernel.groups:
            world.kernel.rmdir(gone)

    world.on = remove
    beside = Beside(world, tmp_path, Source(PODS))
    done = beside.sync()
    assert gone not in world.kernel.groups
    assert done.errors == ()
    beside.sync(70.0)
    assert not any(path == gone for path, _ in beside.journal.ledger.files)
    assert beside.status.failures == 0
    assert world.kernel.read(f"{KUBEPODS}/burstable/podb/bapp", "memory.low") == str(32 * MIB)


def test_what_the_kernel_refuses_stays_said_until_it_works(world: World, tmp_path: Path) -> None:
    app = f"{KUBEPODS}/burstable/poda/aapp"

    def refuse(what: str) -> None:
        if what == f"write {app} memory.high":
            raise OSError(22, "Invalid argument")

    world.on = refuse
    beside = Beside(world, tmp_path, Source(PODS))
    [error] = beside.sync().errors
    assert error.startswith(f"{app}/memory.high: ")
    assert not beside.sync(5.0).errors, "it is said once"
    assert list(beside.status.errors) == [error]
    world.on = lambda what: None
    beside.sync(70.0)
    beside.sync(70.0)
    assert list(beside.status.errors) == []
    assert world.kernel.read(app, "memory.high") != "max"


SHARES = GuestPolicy("protect", frozenset({"cpu.weight"}))


def test_a_resize_of_the_kubelet_is_no_reset_and_is_not_undone(
    world: World, tmp_path: Path
) -> None:
    beside = Beside(world, tmp_path, Source(PODS))
    beside.source.policy = SHARES
    pod = f"{KUBEPODS}/podg"
    share = world.kernel.read(pod, "cpu.weight")
    world.kernel.write(pod, "cpu.weight", "77")
    beside.settle()
    assert world.kernel.read(pod, "cpu.weight") == share
    # the kubelet resizes it, of which the agent knows once it asks
    world.kernel.write(pod, "cpu.weight", "17")
    larger = kubelet_pod("g", "cpu=416m memory=16Mi", "cpu=416m memory=16Mi")
    beside.source.status = replace(beside.source.status, age_seconds=9.0)
    beside.sync(70.0)
    assert world.kernel.read(pod, "cpu.weight") == "17", "its pods may be old"
    beside.source.latest = [*PODS[:-1], larger]
    beside.source.status = replace(beside.source.status, age_seconds=0.0)
    beside.sync(SETTLE_SECONDS)
    assert beside.source.refreshes
    assert world.kernel.read(pod, "cpu.weight") == "17"
    assert beside.status.contested == ()
    assert (pod, "cpu.weight") not in {(one.path, one.file) for one in beside.status.held}
    world.kernel.write(pod, "cpu.weight", share)
    beside.source.latest = list(PODS)
    beside.sync(70.0)
    beside.agent.release()
    assert world.kernel.read(pod, "cpu.weight") == share, "what the kubelet wrote last"


def test_a_resize_that_the_kubelet_has_not_allowed_is_not_made(
    world: World, tmp_path: Path
) -> None:
    beside = Beside(world, tmp_path, Source(PODS))
    beside.source.policy = SHARES
    before = texts(world)
    asked = kubelet_pod("g", "cpu=3 memory=16Mi", "cpu=3 memory=16Mi")
    beside.source.want(*PODS[:-1], asked)
    beside.source.allocated = planned(PODS, beside.source.variant)
    beside.settle()
    assert texts(world) == before


def test_sums_of_cpu_shares_are_left_to_the_kubelet(world: World, tmp_path: Path) -> None:
    beside = Beside(world, tmp_path, Source(PODS))
    beside.source.policy = SHARES
    qos = f"{KUBEPODS}/burstable"
    world.kernel.write(qos, "cpu.weight", "55")
    beside.settle()
    assert world.kernel.read(qos, "cpu.weight") == "55"


def test_a_sum_that_was_reset_waits_for_pods_that_are_read_after_it(
    world: World, tmp_path: Path
) -> None:
    beside = Beside(world, tmp_path, Source(PODS))
    beside.settle()
    new = kubelet_pod("new", "memory=100Mi")
    world.kernel.write(KUBEPODS, "memory.low", str(212 * MIB))
    beside.source.status = replace(beside.source.status, age_seconds=30.0)
    beside.sync(70.0)
    assert beside.source.refreshes == 0
    for _ in range(5):
        beside.sync(SETTLE_SECONDS)
    assert beside.source.refreshes == 5
    assert world.kernel.read(KUBEPODS, "memory.low") == str(212 * MIB)
    beside.source.latest = [*PODS, new]
    beside.source.status = replace(beside.source.status, age_seconds=0.0)
    beside.sync(SETTLE_SECONDS)
    assert world.kernel.read(KUBEPODS, "memory.low") == str(212 * MIB), "the kubelet was right"
    assert beside.files.rewrites.resets == 0


def test_a_sum_that_is_off_all_the_same_is_written_again(world: World, tmp_path: Path) -> None:
    beside = Beside(world, tmp_path, Source(PODS))
    beside.settle()
    world.kernel.write(KUBEPODS, "memory.low", "0")
    beside.sync(70.0)
    assert world.kernel.read(KUBEPODS, "memory.low") == "0"
    beside.sync(SETTLE_SECONDS)
    assert world.kernel.read(KUBEPODS, "memory.low") == str(112 * MIB)
    assert beside.files.rewrites.resets == 1


def test_a_value_that_the_agent_wrote_before_is_another_s_once_it_wrote_the_next(
    world: World, tmp_path: Path
) -> None:
    beside = Beside(world, tmp_path, Source(PODS))
    beside.source.policy = SHARES
    pod = f"{KUBEPODS}/podg"
    share = world.kernel.read(pod, "cpu.weight")
    world.kernel.write(pod, "cpu.weight", "77")
    beside.settle()
    larger = kubelet_pod("g", "cpu=416m memory=16Mi", "cpu=416m memory=16Mi")
    beside.source.want(*PODS[:-1], larger)
    beside.settle()
    assert world.kernel.read(pod, "cpu.weight") == "17", "no kubelet did it"
    world.kernel.write(pod, "cpu.weight", share)
    beside.source.want(*PODS)
    beside.sync(70.0)
    beside.agent.release()
    assert world.kernel.read(pod, "cpu.weight") == share, "what another wrote last"
