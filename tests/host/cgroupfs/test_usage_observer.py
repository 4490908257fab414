"""What metrics read of cgroups: as the observer of everything has it, each file once."""

from __future__ import annotations

import os
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.cgroup.observed import Observed
from qoslet.core.cgroup.usage.rates import between
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from qoslet.host.cgroupfs.observe.usage_observer import UsageObserver
from qoslet.host.linux.openat import give_up_kept

V2 = {
    "cgroup.procs": "7\n",
    "cpu.stat": "usage_usec 5000001\nuser_usec 4000000\nnr_throttled 3\nthrottled_usec 1500\n",
    "cpu.max": "10000 100000\n",
    "memory.current": "4096\n",
    "memory.peak": "8192\n",
    "memory.events": "low 0\nhigh 9\nmax 1\noom 1\noom_kill 2\noom_group_kill 1\n",
    "memory.max": "max\n",
}
V1 = {
    "cpuacct": {"cgroup.procs": "7\n", "cpuacct.usage": "5000001999\n"},
    "cpu": {
        "cgroup.procs": "7\n",
        "cpu.stat": "nr_periods 8\nnr_throttled 3\nthrottled_time 1500999\n",
        "cpu.shares": "1024\n",
    },
    "memory": {
        "cgroup.procs": "7\n",
        "memory.usage_in_bytes": "4096\n",
        "memory.max_usage_in_bytes": "8192\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        "memory.limit_in_bytes": "9223372036854771712\n",
    },
}
PATHS = ("/p", "/p/app", "/absent")


def filled(directory: Path, files: dict[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text)


@pytest.fixture(params=["v1", "v2"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Any]:
    """A hierarchy and its mounts, with ``/p/app``."""
    if request.param == "v2":
        for path in PATHS[:2]:
            filled(tmp_path / path[1:], V2)
        return "v2", str(tmp_path)
    for controller, files in V1.items():
        for path in PATHS[:2]:
            filled(tmp_path / controller / path[1:], files)
    return "v1", {name: str(tmp_path / name) for name in V1}


@pytest.fixture
def usage(place: tuple[str, Any]) -> Iterator[UsageObserver]:
    observer = UsageObserver(*place, clock=lambda: 5.0)
    yield observer
    observer.close()


def test_it_reads_what_the_observer_of_everything_reads(
    place: tuple[str, Any], usage: UsageObserver
) -> None:
    every = CgroupObserver(*place, clock=lambda: 5.0)
    whole = every.observe("/p")
    every.close()
    assert whole.cgroups["/p/app"].pids == (7,)
    assert usage.observe(PATHS) == Observed(
        5.0,
        {path: replace(one, values={}, pids=()) for path, one in whole.cgroups.items()},
    )
    app = whole.cgroups["/p/app"]
    assert (app.usage_usec, app.throttled_usec) == (5_000_001, 1500)
    assert (app.memory, app.memory_peak, app.oom_kills) == (4096, 8192, 2)


def test_each_file_is_opened_once_and_no_other(usage: UsageObserver) -> None:
    opened: Counter[str] = Counter()
    listening = True

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if listening and event == "open" and "p/app/" in str(arguments[0]):
            opened[str(arguments[0])] += 1

    sys.addaudithook(heard)
    usage.observe(["/p/app"])
    listening = False
    names = {place.rpartition("/")[2] for place in opened}
    assert len(opened) in (4, 5), opened
    assert set(opened.values()) == {1}
    assert not names & {"cgroup.procs", "cpu.max", "cpu.shares", "memory.max"}


def test_a_file_that_is_absent_or_strange_is_unknown(
    place: tuple[str, Any], usage: UsageObserver, tmp_path: Path
) -> None:
    for file in tmp_path.rglob("memory.*"):
        if file.parent.name == "app":
            file.write_text("none of it\n" if "usage" in file.name else "")
    for file in tmp_path.rglob("cpu.stat"):
        file.unlink()
    app = usage.observe(["/p/app"]).cgroups["/p/app"]
    assert (app.memory, app.memory_peak, app.oom_kills, app.throttled_usec) == (None,) * 4
    assert (app.usage_usec is None) == (place[0] == "v2")


def test_a_cgroup_that_is_recreated_gives_no_negative_rate(
    place: tuple[str, Any], usage: UsageObserver, tmp_path: Path
) -> None:
    before = usage.observe(["/p/app"])
    for file in [*tmp_path.rglob("app/cpu.stat"), *tmp_path.rglob("app/cpuacct.usage")]:
        file.write_text(file.read_text().replace("5000", "2000"))
    # the same inode: the counters went back
    after = replace(usage.observe(["/p/app"]), at=6.0)
    assert between(before, after)["/p/app"].cpu is None
    for app in list(tmp_path.rglob("p/app")):
        app.rename(app.with_name("old"))
        filled(app, V2 if place[0] == "v2" else V1[app.parts[-3]])
    recreated = replace(usage.observe(["/p/app"]), at=7.0)
    assert recreated.cgroups["/p/app"].identity != before.cgroups["/p/app"].identity
    assert between(after, recreated) == {}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_only_the_first_look_opens_files(usage: UsageObserver) -> None:
    count, opened, listening = descriptors(), list[str](), True

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if listening and event == "open" and "p/" in str(arguments[0]):
            opened.append(str(arguments[0]))

    first = usage.observe(PATHS)
    kept = descriptors()
    assert kept - count in (8, 10)
    sys.addaudithook(heard)
    assert usage.observe(PATHS) == first
    listening = False
    assert (opened, descriptors()) == ([], kept)
    # a cgroup that nobody asks for any more is let go
    assert usage.observe(PATHS[:1]).cgroups.keys() == {"/p"}
    assert descriptors() - count in (4, 5)


def test_files_that_appear_or_are_too_many_are_read_all_the_same(
    place: tuple[str, Any], usage: UsageObserver, tmp_path: Path
) -> None:
    whole, count = usage.observe(PATHS), descriptors()
    few = UsageObserver(*place, most=3, clock=lambda: 5.0)
    assert [few.observe(PATHS) for _ in range(3)] == [whole] * 3
    few.close()
    assert descriptors() == count
    late = UsageObserver(*place, clock=lambda: 5.0)
    hidden = [(one, one.read_text()) for one in tmp_path.rglob("p/app/memory.*") if one.is_file()]
    for file, _ in hidden:
        file.unlink()
    assert late.observe(PATHS).cgroups["/p/app"].memory is None
    for file, text in hidden:
        file.write_text(text)
    assert late.observe(PATHS) == late.observe(PATHS) == whole
    late.close()


def test_without_descriptors_it_lets_its_own_go(place: tuple[str, Any]) -> None:
    usage = UsageObserver(*place, clock=lambda: 5.0)
    whole = usage.observe(PATHS)
    usage.give_up()
    usual, count = resource.getrlimit(resource.RLIMIT_NOFILE), descriptors()
    usage.observe(PATHS[:1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 4, usual[1]))
    try:
        assert usage.observe(PATHS) == whole
        give_up_kept()
        assert descriptors() <= count
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
        usage.close()
