"""What this machine's kernel tells of memory: kills, throttling, pressure; who is woken by it."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from qoslet.core.memory.counters import event
from qoslet.core.memory.events import OomKill, ProtectedBytes, change_between
from qoslet.core.memory.oom_kills import LOG_DELAY_SECONDS, OomKillTracker, inside
from qoslet.core.memory.rows import TrackedCgroup
from qoslet.core.memory.sample import MemorySample
from qoslet.host.memory.event_watch import KernelWatch
from qoslet.host.memory.oom_log import KernelLog
from qoslet.host.memory.reader import MemoryFiles
from tests.cli.fixtures import answer
from tests.contract.drivers import mounts_of
from tests.live.agent.agents import Agent, agent
from tests.live.agent.test_run import PATIENCE, pod
from tests.live.memory.cgroups import MIB, Ground, ground

__all__ = ["agent", "ground"]
pytestmark = [pytest.mark.live, pytest.mark.timeout(2 * PATIENCE + 10)]

NOBODY = ProtectedBytes()
HOLDS = (
    "import mmap,time; m=mmap.mmap(-1,{mib}<<20); m.madvise(15); "
    "[m.__setitem__(at,1) for at in range(0,{mib}<<20,4096)]; time.sleep({seconds})"
)
READS = (
    "import os,time\n"
    "f=os.open('{path}',os.O_RDWR|os.O_CREAT)\n"
    "[os.write(f,bytes(1<<20)) for _ in range({mib})]\n"
    "os.fsync(f)\n"
    "end=time.time()+{seconds}\n"
    "while time.time()<end:\n"
    "    os.lseek(f,0,0)\n"
    "    while os.read(f,1<<20): pass\n"
)


def program(text: str, **numbers: object) -> str:
    """A Python program as a shell line whose process is the program itself."""
    body = text.format(**numbers).replace('"', '\\"')
    return f'exec "{sys.executable}" -c "{body}"'


class Told:
    """The real parts on a root of one's own."""

    def __init__(self, ground: Ground) -> None:
        ground.need_memory()
        self.ground = ground
        mounts = mounts_of(ground.hierarchy)
        self.reader = MemoryFiles(ground.hierarchy, mounts)
        self.watch = KernelWatch(ground.hierarchy, mounts)
        self.log = KernelLog()
        self.woken: set[str] = set()
        self.kills: list[OomKill] = []

    def sample(self, path: str) -> MemorySample:
        found = self.reader.sample(path)
        assert found is not None, path
        return found

    def until(self, ready: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Wait for the kernel alone: nothing is looked at before it wakes us."""
        end = time.monotonic() + seconds
        while not ready():
            poller = select.poll()
            for descriptor in self.watch.descriptors():
                poller.register(descriptor, select.POLLIN)
            left = end - time.monotonic()
            assert left > 0, f"not told: {what}; woken by {self.woken}, {self.watch.how}"
            poller.poll(left * 1000)
            self.woken |= self.watch.woken()

    def quiet(self, seconds: float) -> bool:
        """Whether nothing wakes us for so long."""
        poller = select.poll()
        for descriptor in self.watch.descriptors():
            poller.register(descriptor, select.POLLIN)
        return not poller.poll(seconds * 1000)

    def write(self, path: str, file: str, value: str) -> None:
        tree = self.ground.groups.layout.tree_of("memory")
        assert tree is not None
        tree.write(path, file, value)


@pytest.fixture
def v2(ground: Ground) -> None:
    if ground.hierarchy != "v2":
        pytest.skip("this machine has cgroup v1")


@pytest.fixture
def told(ground: Ground) -> Iterator[Told]:
    made = Told(ground)
    with closing(made.watch), closing(made.log):
        yield made


def test_a_kill_wakes_us_and_its_process_is_named(
    told: Told, record_property: Callable[[str, object], None]
) -> None:
    ground = told.ground
    path = ground.make("pod/app", 24 * MIB)
    others = [ground.root, f"{ground.root}/pod"]
    told.watch.follow([*others, path])
    before = told.sample(path)
    one = ground.begin(path, program(HOLDS, mib=64, seconds=60))
    pid = one.pid
    told.until(lambda: path in told.woken or "" in told.woken, "the kill")
    assert ground.ended(one) == 128 + 9
    after = told.sample(path)
    assert change_between(before, after, 0, NOBODY).events["oom_kill"] == 1
    if ground.hierarchy == "v2":
        assert told.woken >= {path, *others}
        for above in others:
            assert told.sample(above).events["oom_kill"] >= 1
            assert told.sample(above).local.get("oom_kill", 0) == 0
    assert told.log.readable
    end = time.monotonic() + PATIENCE
    while not told.kills and time.monotonic() < end:
        told.kills += [kill for kill in told.log.kills() if inside(kill.group, path)]
    [kill] = told.kills
    assert (kill.pid, kill.name[:6]) == (pid, "python")
    assert inside(kill.limit, path)
    record_property("compared", 4)


def test_v2_who_dies_with_a_whole_group_is_named_once(
    told: Told, record_property: Callable[[str, object], None], v2: None
) -> None:
    ground = told.ground
    path = ground.make("app", 24 * MIB)
    told.write(path, "memory.oom.group", "1")
    told.watch.follow([path])
    one = ground.begin(path, "sleep 100 & sleep 100 & " + program(HOLDS, mib=64, seconds=60))
    told.until(lambda: path in told.woken, "the kill")
    assert ground.ended(one) == 128 + 9
    counters = told.sample(path).local
    record_property("counters", dict(counters))
    assert counters["oom_group_kill"] == 1
    group = TrackedCgroup(path, "container", "app", "u", "d/u", "app")
    kills, named = OomKillTracker(), []
    kills.add_count(
        event(group, "oom_kill", counters["oom_kill"], 0.0), group.key, 0.0, True, whole=True
    )
    for moment in (0.0, 0.1, LOG_DELAY_SECONDS):
        time.sleep(0.5)
        kills.add_records(told.log.kills(), moment)
        named += [settled.event for settled in kills.resolve(moment, {})]
    assert sorted(kill.process[:5] for kill in named) == ["pytho", "sleep", "sleep"], (
        counters,
        named,
    )
    assert len({kill.pid for kill in named}) == 3
    record_property("compared", 4)


def test_an_idle_group_wakes_nobody(told: Told) -> None:
    ground = told.ground
    path = ground.make("app", 64 * MIB)
    told.watch.follow([path])
    told.watch.woken()
    one = ground.begin(path, "sleep 60")
    for descriptor in told.watch.descriptors():
        assert descriptor >= 0
    # the machine itself may be under pressure: that is another matter
    told.until(lambda: True, "")
    assert told.quiet(0.5) or told.watch.woken() <= {""}
    ground.kill(one)


def test_v2_page_cache_at_memory_high_is_throttled_and_taken_above_high(
    told: Told, record_property: Callable[[str, object], None], v2: None
) -> None:
    ground = told.ground
    path = ground.make("app")
    told.write(path, "memory.high", str(32 * MIB))
    told.watch.follow([path])
    before = told.sample(path)
    assert (before.high, before.events.get("high")) == (32 * MIB, 0)
    file = "/var/tmp/qoslet-test-events"
    one = ground.begin(path, program(READS, path=file, mib=80, seconds=20))
    try:
        told.until(lambda: path in told.woken, "throttling")
        told.until(lambda: told.sample(path).stat.get("pgsteal", 0) > 1000, "reclaim")
        after = told.sample(path)
        found = change_between(before, after, 16 * MIB, NOBODY)
        assert found.events["high"] > 0
        assert found.zone == "above_high"
        assert found.reclaimed.taken > 1000
        assert found.reclaimed.scanned >= found.reclaimed.taken
        assert "oom_kill" not in found.events
    finally:
        ground.kill(one)
        os.unlink(file)
    record_property("compared", 5)


def test_v2_a_group_made_anew_under_its_name_is_followed_anew(told: Told, v2: None) -> None:
    ground = told.ground
    path = ground.make("pod/app", 24 * MIB)
    told.watch.follow([path])
    first = told.sample(path)
    for _ in range(2):
        assert ground.remove(path) == []
        told.watch.follow([path])
        assert told.reader.sample(path) is None
        ground.make("pod/app", 24 * MIB)
        told.watch.follow([path])
        told.watch.woken()
        told.woken.clear()
        one = ground.begin(path, program(HOLDS, mib=64, seconds=60))
        told.until(lambda: path in told.woken, "the kill in the new group")
        ground.ended(one)
        again = told.sample(path)
        assert again.identity != first.identity
        assert change_between(first, again, 0, NOBODY).events["oom_kill"] == 1
        first = again


def test_v2_waiting_for_memory_wakes_us_where_the_kernel_has_psi(told: Told, v2: None) -> None:
    ground = told.ground
    if not os.path.exists("/proc/pressure/memory"):
        assert "does not wake" in told.watch.how[-1]
        pytest.skip("this kernel has no PSI")
    app = ground.make("app")
    told.write(app, "memory.high", str(24 * MIB))
    told.write(app, "memory.swap.max", "0")
    # no group is followed: what comes is the trigger's
    one = ground.begin(app, program(HOLDS, mib=64, seconds=PATIENCE))
    try:
        told.until(lambda: "" in told.woken, "pressure")
        assert told.sample(app).pressure is not None
    finally:
        ground.kill(one)


OOMS = pod("a", "sleep 1; exec tail /dev/zero", "Never")


def asked(agent: Agent, *words: str) -> str:
    return answer("ps", "--cgroup-root", agent.root, *words).stdout


def memory(agent: Agent) -> dict[str, Any]:
    """What the agent tells of memory; nothing where it does not answer."""
    text = asked(agent, "-o", "json")
    found: dict[str, Any] = json.loads(text)["memory"] if text else {}
    return found


def kills(found: Mapping[str, Any]) -> dict[str, int]:
    """OOM kills by what the kernel counted them for."""
    return {
        row["container"] or row["pod"] or row["cgroup"].rpartition("/")[2]: count
        for row in found.get("groups", ())
        if (count := row["events"].get("oom_kill"))
    }


def test_an_agent_tells_who_died_and_so_does_the_next_one(
    agent: Agent, record_property: Callable[[str, object], None]
) -> None:
    if agent.tree.layout.tree_of("memory") is None:
        pytest.skip("no memory controller: Debian's kernels from 13 on have none for v1")
    agent.write("a", OOMS)
    first = agent.service("--log-format", "text")
    agent.until(agent.answers)
    levels = {"app", "default/a", "burstable", "kubepods"}
    agent.until(lambda: kills(memory(agent)).keys() == levels)
    expected = kills(memory(agent))
    # a group that is killed as one has its first victim counted twice by the kernel
    assert len({*expected.values()}) == 1, expected
    assert expected["app"] in ((1, 2) if agent.v2 else (1,))
    agent.until(lambda: any(one["event"] == "oom_kill" for one in memory(agent)["events"]))
    found = memory(agent)
    [killed] = [one for one in found["events"] if one["event"] == "oom_kill"]
    assert (killed["process"], killed["pod"], killed["container"], killed["count"]) == (
        ("tail", "default/a", "app", 1)
    )
    assert killed["pid"] > 1
    assert f"{expected['app']} OOM kill" in asked(agent)
    said = agent.stop(first)
    assert said.count("default/a/app: the kernel OOM-killed process") == 1, said
    assert f"{killed['pid']} (tail)" in said
    agent.service()
    agent.until(agent.answers)
    assert kills(memory(agent)) == expected
    (agent.manifests / "a.yaml").unlink()
    agent.until(lambda: not agent.apps())
    found = memory(agent)
    assert kills(found)["app"] == expected["app"]
    assert [row["gone"] for row in found["groups"] if row["container"] == "app"] == [True]
    record_property("compared", 2 * len(expected) + 6)
