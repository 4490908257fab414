"""The plugin's decisions between a runtime and a plan: what is set, what is waited for, what is given
back, and that all of it is in the journal first."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

import pytest
from msgspec.structs import replace

from qoslet.agent.nri.planned_values import PlannedValues
from qoslet.agent.nri.plugin import NriPlugin
from qoslet.agent.nri.plugin_loop import PluginParts, PluginReconciler
from qoslet.core.guest.nri_container import NriContainer
from qoslet.core.guest.nri_values import planned_containers
from qoslet.core.guest.policy import GuestPolicy
from qoslet.core.reconcile.journal import Entry, JournalState
from qoslet.errors import CannotDo
from tests.agent.guest.beside import KUBEPODS, MIB, PROTECT, Source, kubelet_pod, policy

BEGINS = {"memory.min": "0", "memory.low": "0", "memory.high": "max"}
VALUES = {"memory.min": "0", "memory.low": str(64 * MIB), "memory.high": "248299520"}


class Journal:
    """The journal in memory; ``wrong``: it cannot be written."""

    def __init__(self) -> None:
        self.state = JournalState()
        self.wrong = False

    def paths(self) -> Sequence[str]:
        return list(self.state.names)

    def values_of(self, path: str) -> dict[str, str | None]:
        return {file: self.state.files[path, file][0] for file in self.state.names.get(path, ())}

    def record(self, entries: Sequence[Entry]) -> None:
        if self.wrong:
            raise CannotDo("no room")
        self.state.add(entries)


class Link:
    """A runtime that tells what it has."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_connected = False

    def connect(self) -> str:
        if self.is_connected:
            return ""
        self.is_connected = True
        self.world.plugin.synchronized(list(self.world.containers.values()))
        return "registered"

    def next_at(self) -> float | None:
        return None

    def close(self) -> None:
        self.is_connected = False


class Surface:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.summary = ""

    def synced(self, summary: str) -> None:
        self.summary = summary

    def log(self, line: str, *, wrong: bool = False) -> None:
        self.lines.append(line)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> bool:
        self.now += seconds
        return True


class Once:
    """Asks to end after so many turns."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def requested(self) -> int:
        self.turns -= 1
        return int(self.turns < 0)

    def reload(self) -> bool:
        return False


class World:
    """A plugin over a source of pods, a runtime and the files of its cgroups; those of ``fails`` cannot
    be written."""

    def __init__(self, *pods: str, writes: bool = True) -> None:
        self.written: list[tuple[str, str, str]] = []
        self.fails: dict[str, OSError] = {}
        self.source = Source([kubelet_pod(name) for name in pods])
        self.journal, self.surface, self.link = Journal(), Surface(), Link(self)
        self.usage: dict[str, int] = {}
        self.holds: dict[str, dict[str, str]] = {}
        self.containers: dict[str, NriContainer] = {}
        self.wakes = 0
        self.planned = PlannedValues(self.wake, 0.05)
        self.plugin = NriPlugin(self.planned, self.journal, self, self.surface.log, writes=writes)
        parts = PluginParts(
            self.plugin, self.planned, self.source, self.link, Clock(), self.surface
        )
        self.loop = PluginReconciler(parts)

    def read(self, path: str, files: Iterable[str]) -> dict[str, str]:
        found = {"memory.current": str(self.usage.get(path, 0)), **self.holds.get(path, {})}
        return {file: found[file] for file in files if file in found}

    def write(self, path: str, file: str, value: str) -> None:
        name = path.rpartition("/")[2]
        if name in self.fails:
            raise self.fails[name]
        assert self.journal.values_of(path).keys() >= {file}, "written down first"
        self.written.append((name, file, value))

    def values(self, name: str) -> dict[str, str]:
        """What was written last."""
        return {file: value for one, file, value in self.written if one == name}

    def wake(self) -> None:
        self.wakes += 1

    def container(self, pod: str, number: int = 0, **unified: str) -> NriContainer:
        id = f"{pod}{number}"
        path = f"{KUBEPODS}/burstable/pod{pod}/{id}"
        values = {file.replace("_", "."): value for file, value in unified.items()}
        made = NriContainer(id, pod, "app", f"d/{pod}", path, "", 256 * MIB, values)
        self.containers[id] = made
        return made

    def files(self) -> dict[tuple[str, str], str]:
        return {
            (path.rpartition("/")[2], file): value
            for (path, file), (_, value) in self.journal.state.files.items()
        }


def test_a_new_container_gets_its_values_after_they_are_written_down() -> None:
    world = World("a")
    world.loop.turn()
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
    world.loop.turn()
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
    world.planned.publish(planned_containers(world.source.plan, PROTECT), PROTECT, asked)
    thread.join(5)
    assert found == [VALUES]


def test_what_no_plan_has_is_created_without_values() -> None:
    world = World("a")
    world.loop.turn()
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
    world.loop.turn()
    assert world.source.refreshes == 0
    world.plugin.pod_started()
    world.source.latest = [kubelet_pod("a"), kubelet_pod("b")]
    world.loop.turn()
    assert world.source.refreshes == 1
    assert world.plugin.created(world.container("b")) == VALUES
    world.loop.turn()
    assert world.source.refreshes == 1


def test_a_resize_is_answered_with_the_new_values() -> None:
    world = World("a")
    world.loop.turn()
    one = world.container("a")
    world.plugin.created(one)
    world.source.want(kubelet_pod("a", "memory=32Mi", "memory=512Mi"))
    world.loop.turn()
    new = replace(one, unified=VALUES, memory_limit=512 * MIB)
    found = world.plugin.updated(new, {})
    assert found.keys() == VALUES.keys(), "the runtime writes all of the spec again"
    assert found["memory.low"] == str(32 * MIB)
    assert world.files()["a0", "memory.low"] == str(32 * MIB)
    assert world.plugin.updated(new, {"memory.low": "5"}).keys() == {"memory.min", "memory.high"}
    assert world.plugin.updated(replace(new, memory_limit=300 * MIB), {}) == {}


def test_with_swap_a_resize_is_followed_and_not_answered() -> None:
    world = World("a")
    world.loop.turn()
    one = world.container("a")
    world.plugin.created(one)
    world.planned.answers_updates = False
    assert world.plugin.updated(replace(one, memory_limit=512 * MIB), {}) == {}
    assert world.planned.is_asked(), "the loop goes on at once"


def test_containers_that_exist_are_changed() -> None:
    world = World("a")
    for number in range(11):
        world.container("a", number)
    world.fails = {"a3": PermissionError(13, "Permission denied"), "a7": FileNotFoundError()}
    world.loop.turn()
    assert world.wakes == 1, "the loop goes on at once"
    world.loop.turn()
    right = world.containers.keys() - {"a3", "a7"}
    assert {name: world.values(name) for name in right} == dict.fromkeys(right, VALUES)
    wrong = [line for line in world.surface.lines if "cannot be written" in line]
    assert len(wrong) == 3, "of a3; what has ended is told by the runtime"
    assert "memory.high cannot be written: Permission denied" in wrong[-1]
    count = len(world.written)
    world.loop.turn()
    assert len(world.written) == count, "what is right or refused is not changed again"
    assert len([line for line in world.surface.lines if "cannot be written" in line]) == 3


def test_with_the_systemd_driver_containers_that_exist_are_the_agents() -> None:
    world = World("a", writes=False)
    world.container("a")
    world.loop.turn()
    world.loop.turn()
    assert world.written == []
    assert world.files() == {}
    assert world.plugin.created(world.container("a", 1)) == VALUES


def test_what_is_right_is_left_and_what_was_there_is_given_back() -> None:
    world = World("a", "b")
    right, theirs = world.container("a"), world.container("b")
    world.holds[right.path or ""] = dict(VALUES)
    world.holds[theirs.path or ""] = {"memory.min": "0", "memory.low": "4096", "memory.high": "max"}
    world.loop.turn()
    assert world.values("a0") == {}
    assert world.values("b0").keys() == {"memory.low", "memory.high"}
    assert {name for name, _ in world.files()} == {"b0"}, "what was right is nobody's"
    policy(world.source, mode="watch")
    world.loop.turn()
    assert world.values("b0") == {"memory.low": "4096", "memory.high": "max"}
    assert world.files() == {}


def test_nothing_is_set_where_the_kubelet_sets_memory_qos_itself() -> None:
    world = World("a")
    node = world.source.plan.node
    kubelet = replace(node.kubelet, feature_gates={"MemoryQoS": True})
    world.source.plan = replace(world.source.plan, node=replace(node, kubelet=kubelet))
    world.loop.turn()
    assert world.plugin.created(world.container("a")) == {}
    assert "the kubelet's own Memory QoS is on" in world.surface.lines[0]
    world.loop.turn()
    assert len(world.surface.lines) == 2, "said once, beside the registration"


def test_a_limit_below_usage_is_left_to_the_agent() -> None:
    world = World("a")
    one = world.container("a")
    world.usage[one.path or ""] = 250 * MIB
    world.loop.turn()
    assert world.values("a0") == {"memory.min": "0", "memory.low": VALUES["memory.low"]}


def test_a_policy_that_names_nothing_gives_everything_back() -> None:
    world = World("a")
    world.container("a")
    world.loop.turn()
    policy(world.source, mode="watch")
    world.loop.turn()
    assert world.values("a0") == BEGINS
    assert world.files() == {}
    assert world.plugin.created(world.container("a", 1)) == {}


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
    world.loop.turn()
    world.fails = {"a0": PermissionError(1, "Operation not permitted")}
    world.loop.run(Once(0))
    assert len(world.files()) == 3
    assert "qoslet release restores them" in world.surface.lines[-1]


def test_a_synchronization_forgets_what_is_gone() -> None:
    world = World("a", "b")
    world.loop.turn()
    world.plugin.created(world.container("a"))
    world.plugin.created(world.container("b"))
    world.plugin.synchronized([replace(world.containers["b0"], unified=VALUES)])
    assert {name for name, _ in world.files()} == {"b0"}


def test_a_source_that_fails_leaves_the_plan_as_it_was() -> None:
    world = World("a")
    world.loop.turn()
    world.source.wrong = "no kubelet"
    world.loop.turn()
    world.loop.turn()
    assert world.surface.lines.count("no kubelet") == 1
    assert world.plugin.created(world.container("a")) == VALUES


def test_a_policy_of_v1_or_watch_carries_nothing() -> None:
    world = World("a")
    world.source.policy = GuestPolicy()
    world.loop.turn()
    assert world.plugin.created(world.container("a")) == {}
    assert world.plugin.created(world.container("stranger")) == {}
    assert not world.planned.is_asked(), "nothing is waited for"
    assert world.files() == {}
    policy(world.source, mode="protect")
    world.loop.turn()
    assert world.values("a0") == VALUES, "what came meanwhile is set now"
