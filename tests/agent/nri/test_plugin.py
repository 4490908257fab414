"""The plugin's decisions between a runtime and a plan: what is set, what is waited for, what is given
back, and that all of it is in the journal first."""

from __future__ import annotations

import threading
import time

import pytest
from msgspec.structs import replace

from qoslet.agent.nri.planned_values import PlannedValues
from qoslet.core.guest.nri_values import PlannedContainers
from qoslet.core.guest.policy import GuestPolicy
from qoslet.errors import CannotDo
from tests.agent.guest.beside import MIB, PROTECT, kubelet_pod, policy
from tests.agent.nri.world import BEGINS, VALUES, Once, World


def test_a_new_container_gets_its_values_after_they_are_written_down() -> None:
    world = World("a")
    world.loop.sync()
    assert world.plugin.created(world.container("a")) == VALUES
    assert world.files() == {("a0", file): value for file, value in VALUES.items()}
    world.journal.wrong = True
    with pytest.raises(CannotDo):
        world.plugin.created(world.container("a", 1))
    world.journal.wrong = False
    world.plugin.removed("a0")
    world.plugin.removed("unknown")
    assert world.files() == {}
    assert world.surface.summary.startswith("registered; 1 pods planned; values set in 0 of 0")


def test_a_pod_that_is_not_known_yet_is_waited_for_a_short_while() -> None:
    world = World("a")
    world.loop.sync()
    world.planned = world.plugin._planned = PlannedValues(lambda: None, 5.0)
    world.planned.publish({}, PROTECT, 0)
    found: list[object] = []
    thread = threading.Thread(
        target=lambda: found.append(world.plugin.created(world.container("a")))
    )
    thread.start()
    while not world.planned.is_asked():
        time.sleep(0.001)
    asked = world.planned.asked()
    world.planned.publish(PlannedContainers().of(world.source.plan, PROTECT), PROTECT, asked)
    thread.join(5)
    assert found == [VALUES]


def test_a_plan_that_is_under_way_is_enough() -> None:
    world = World("a")
    world.loop.sync()
    planned = world.plugin._planned = PlannedValues(lambda: None, 5.0)
    planned.publish({}, PROTECT, 0)
    begun = planned.asked()
    found: list[object] = []
    thread = threading.Thread(
        target=lambda: found.append(world.plugin.created(world.container("a")))
    )
    thread.start()
    while not planned.is_asked():
        time.sleep(0.001)
    planned.publish(PlannedContainers().of(world.source.plan, PROTECT), PROTECT, begun)
    thread.join(5)
    assert found == [VALUES], "the question was put while these pods were read"


def test_what_no_plan_has_is_created_without_values() -> None:
    world = World("a")
    world.loop.sync()
    begun = time.monotonic()
    assert world.plugin.created(world.container("stranger")) == {}
    assert 0.04 < time.monotonic() - begun < 1.0
    assert "nothing is set in container app of d/stranger" in world.surface.lines[-1]
    other = replace(world.container("a"), memory_limit=128 * MIB)
    assert world.plugin.created(other) == {}, "the plan is of other resources"
    assert world.plugin.created(replace(world.container("a"), handler="kata")) == {}
    assert world.files() == {}


def test_the_loop_reads_the_pods_again_when_an_answer_waits() -> None:
    world = World("a")
    world.loop.sync()
    assert world.source.refreshes == 0
    world.plugin.pod_started()
    world.source.latest = [kubelet_pod("a"), kubelet_pod("b")]
    world.loop.sync()
    assert world.source.refreshes == 1
    assert world.plugin.created(world.container("b")) == VALUES
    world.loop.sync()
    assert world.source.refreshes == 1


def test_a_resize_is_answered_with_the_new_values() -> None:
    world = World("a")
    world.loop.sync()
    one = world.container("a")
    world.plugin.created(one)
    world.source.want(kubelet_pod("a", "memory=32Mi", "memory=512Mi"))
    world.loop.sync()
    new = replace(one, unified=VALUES, memory_limit=512 * MIB)
    found = world.plugin.updated(new, {})
    assert found.keys() == VALUES.keys(), "the runtime writes all of the spec again"
    assert found["memory.low"] == str(32 * MIB)
    assert world.files()["a0", "memory.low"] == str(32 * MIB)
    assert world.plugin.updated(new, {"memory.low": "5"}).keys() == {"memory.min", "memory.high"}
    assert world.plugin.updated(replace(new, memory_limit=300 * MIB), {}) == {}


def test_a_resize_that_no_status_tells_yet_is_answered_at_once_and_stays() -> None:
    world = World("a")
    world.loop.sync()
    one = world.create("a")
    world.source.allocated = world.source.plan
    world.source.want(kubelet_pod("a", "memory=32Mi", "memory=512Mi"))
    world.loop.sync()
    assert world.written == [], "the kubelet has not resized it"
    begun = time.monotonic()
    new = replace(one, memory_limit=512 * MIB)
    found = world.plugin.updated(new, {})
    assert time.monotonic() - begun < 0.04, "nothing is waited for"
    assert found["memory.low"] == str(32 * MIB)
    world.holds[one.path or ""] |= found
    world.loop.sync()
    assert world.written == [], "the values of before do not come back"
    world.source.allocated = None
    world.loop.sync()
    assert world.written == []


def test_with_swap_a_resize_is_followed_and_not_answered() -> None:
    world = World("a")
    world.loop.sync()
    one = world.container("a")
    world.plugin.created(one)
    world.planned.answers_updates = False
    assert world.plugin.updated(replace(one, memory_limit=512 * MIB), {}) == {}
    assert world.planned.is_asked(), "the loop goes on at once"


def test_a_resize_that_no_plan_has_in_time_is_written_after_the_runtime_has_written() -> None:
    world = World("a")
    world.loop.sync()
    one = world.create("a")
    path = one.path or ""
    assert world.plugin.updated(replace(one, memory_limit=512 * MIB), {}) == {}
    world.source.want(kubelet_pod("a", "memory=32Mi", "memory=512Mi"))
    world.loop.sync()
    assert world.values("a0")["memory.low"] == str(32 * MIB)
    world.holds[path] |= world.specs.kept["a0"]
    wakes = world.wakes
    world.plugin.written("a0")
    world.plugin.written("unknown")
    assert world.wakes == wakes + 1
    world.loop.sync()
    assert world.holds[path]["memory.low"] == str(32 * MIB), "not what the runtime keeps"
    count = len(world.written)
    world.loop.sync()
    assert len(world.written) == count


def test_what_the_runtime_writes_while_the_loop_writes_is_seen() -> None:
    world = World("a")
    world.loop.sync()
    one = world.create("a")
    path = one.path or ""
    world.plugin.updated(replace(one, memory_limit=512 * MIB), {})
    world.source.want(kubelet_pod("a", "memory=32Mi", "memory=512Mi"))

    def written(path: str) -> None:
        world.holds[path] |= world.specs.kept["a0"]
        world.plugin.written("a0")

    world.after_write = written
    world.loop.sync()
    world.after_write = lambda path: None
    world.loop.sync()
    assert world.holds[path]["memory.low"] == str(32 * MIB)


def test_containers_that_exist_are_changed() -> None:
    world = World("a")
    for number in range(11):
        world.container("a", number)
    world.fails = {"a3": PermissionError(13, "Permission denied"), "a7": FileNotFoundError()}
    world.loop.sync()
    assert world.wakes == 1, "the loop goes on at once"
    world.loop.sync()
    right = world.containers.keys() - {"a3", "a7"}
    assert {name: world.values(name) for name in right} == dict.fromkeys(right, VALUES)
    wrong = [line for line in world.surface.lines if "cannot be written" in line]
    assert len(wrong) == 3, "of a3; what has ended is told by the runtime"
    assert "memory.high cannot be written: Permission denied" in wrong[-1]
    count = len(world.written)
    world.loop.sync()
    assert len(world.written) == count, "what is right or refused is not changed again"
    assert len([line for line in world.surface.lines if "cannot be written" in line]) == 3


def test_with_the_systemd_driver_containers_that_exist_are_the_agents() -> None:
    world = World("a", writes=False)
    world.container("a")
    world.loop.sync()
    world.loop.sync()
    assert world.written == []
    assert world.files() == {}
    assert world.plugin.created(world.container("a", 1)) == VALUES


def test_what_is_right_is_left_and_what_was_there_is_given_back() -> None:
    world = World("a", "b")
    right, theirs = world.container("a"), world.container("b")
    world.holds[right.path or ""] = dict(VALUES)
    world.holds[theirs.path or ""] = {"memory.min": "0", "memory.low": "4096", "memory.high": "max"}
    world.loop.sync()
    assert world.values("a0") == {}
    assert world.values("b0").keys() == {"memory.low", "memory.high"}
    assert {name for name, _ in world.files()} == {"b0"}, "what was right is nobody's"
    policy(world.source, mode="watch")
    world.loop.sync()
    assert world.values("b0") == {"memory.low": "4096", "memory.high": "max"}
    assert world.files() == {}


def test_nothing_is_set_where_the_kubelet_sets_memory_qos_itself() -> None:
    world = World("a")
    node = world.source.plan.node
    kubelet = replace(node.kubelet, feature_gates={"MemoryQoS": True})
    world.source.plan = replace(world.source.plan, node=replace(node, kubelet=kubelet))
    world.loop.sync()
    assert world.plugin.created(world.container("a")) == {}
    assert "the kubelet's own Memory QoS is on" in world.surface.lines[0]
    world.loop.sync()
    assert len(world.surface.lines) == 2, "said once, beside the registration"


def test_a_limit_below_usage_is_left_to_the_agent() -> None:
    world = World("a")
    one = world.container("a")
    world.usage[one.path or ""] = 250 * MIB
    world.loop.sync()
    assert world.values("a0") == {"memory.min": "0", "memory.low": VALUES["memory.low"]}


def test_a_policy_that_names_nothing_gives_everything_back() -> None:
    world = World("a")
    world.container("a")
    world.loop.sync()
    policy(world.source, mode="watch")
    world.loop.sync()
    assert world.values("a0") == BEGINS
    assert world.files() == {}
    assert world.plugin.created(world.container("a", 1)) == {}


def test_the_loop_goes_before_others_while_a_runtime_may_wait_for_it() -> None:
    world = World("a")
    world.loop.sync()
    assert world.hurries == [True]
    world.link.is_connected = world.link.is_there = False
    world.loop.sync()
    assert world.hurries == [True, False]
    world.link.is_there = True
    world.loop.run(Once(1))
    assert world.hurries[2:] == [True, False], "what is given back then keeps nobody waiting"


@pytest.mark.parametrize("keep", [False, True])
def test_the_end_gives_values_back_unless_they_are_kept(keep: bool) -> None:
    world = World("a")
    for number in range(6):
        world.container("a", number)
    world.loop.run(Once(4), keep=keep)
    given = [name for name, file, value in world.written if (file, value) == ("memory.high", "max")]
    assert len(given) == (0 if keep else 6)
    assert len(world.files()) == (18 if keep else 0)
    assert not world.link.is_connected


def test_what_cannot_be_given_back_is_said_and_kept_in_the_journal() -> None:
    world = World("a")
    world.container("a")
    world.loop.sync()
    world.fails = {"a0": PermissionError(1, "Operation not permitted")}
    world.loop.run(Once(0))
    assert world.files().keys() == {("a0", "memory.low"), ("a0", "memory.high")}
    assert "qoslet release restores them" in world.surface.lines[-1]


def test_a_synchronization_forgets_what_is_gone() -> None:
    world = World("a", "b")
    world.loop.sync()
    world.plugin.created(world.container("a"))
    world.plugin.created(world.container("b"))
    world.gone.add(world.containers["a0"].path or "")
    world.plugin.synchronized([replace(world.containers["b0"], unified=VALUES)])
    assert {name for name, _ in world.files()} == {"a0", "b0"}, "the runtime waits for no file"
    world.plugin.write_changes()
    assert {name for name, _ in world.files()} == {"b0"}


def test_a_runtime_that_does_not_know_them_makes_no_container_forgotten() -> None:
    world = World("a")
    world.loop.sync()
    world.plugin.created(world.container("a"))
    world.plugin.synchronized([])
    assert {name for name, _ in world.files()} == {"a0"}, "its cgroup is there"


def test_a_source_that_fails_leaves_the_plan_as_it_was() -> None:
    world = World("a")
    world.loop.sync()
    world.source.wrong = "no kubelet"
    world.loop.sync()
    world.loop.sync()
    assert world.surface.lines.count("no kubelet") == 1
    assert world.plugin.created(world.container("a")) == VALUES


def test_a_policy_of_v1_or_watch_carries_nothing() -> None:
    world = World("a")
    world.source.policy = GuestPolicy()
    world.loop.sync()
    assert world.plugin.created(world.container("a")) == {}
    assert world.plugin.created(world.container("stranger")) == {}
    assert not world.planned.is_asked(), "nothing is waited for"
    assert world.files() == {}
    policy(world.source, mode="protect")
    world.loop.sync()
    assert world.values("a0") == VALUES, "what came meanwhile is set now"
