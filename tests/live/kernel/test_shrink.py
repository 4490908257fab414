"""A limit below what a real process holds: it converges, nothing is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from qoslet.core.reconcile.drift import compare
from qoslet.core.reconcile.limit_shrink import LIMIT, Shrink, eased, near, with_cache
from qoslet.core.reconcile.step_order import ordered
from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.async_writes import AsyncWrites
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from tests.contract.drivers import Bench, real
from tests.core.reconcile.trees import MiB, plan_of

pytestmark = pytest.mark.live

HOLDS = """
import mmap, sys
sys.stdin.readline()
held = mmap.mmap(-1, 48 << 20)
for at in range(0, len(held), 4096):
    held[at] = 1
print("holds", flush=True)
sys.stdin.readline()
held.close()
print("freed", flush=True)
sys.stdin.readline()
"""


CACHES = """
import os, sys
sys.stdin.readline()
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
for _ in range(96):
    os.write(file, b"x" * (1 << 20))
os.fsync(file)
held = bytearray(os.urandom(16 << 20))
print("caches", flush=True)
sys.stdin.readline()
print(len(held), flush=True)
sys.stdin.readline()
"""


def turn(bench: Bench, limit: int, shrink: Shrink) -> list[str | None]:
    path = f"{bench.root}/a"
    file = LIMIT if bench.hierarchy == "v1" else "memory.max"
    wanted = plan_of(bench.hierarchy, {bench.root: {}, path: {file: str(limit)}})
    seen = bench.observer.observe(bench.root)
    differences = compare(wanted, seen)
    assert isinstance(bench.observer, CgroupObserver)
    if shrink == "converge":
        seen = with_cache(differences, seen, bench.observer.reclaimable_cache)
    outcomes = bench.driver.perform(ordered(differences, seen, shrink))
    waits = eased(differences, seen, shrink)[1]
    return [one.errno_name or one.error for one in outcomes] + ["waits"] * len(waits)


@pytest.fixture
def bench_file() -> Iterator[Path]:
    """A file on a disk: what lies in memory only is no page cache that can be given back."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder, "pages")


def say(child: subprocess.Popen[str], answer: str) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline().strip() == answer


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_limit_converges_while_a_process_holds_memory(hierarchy) -> None:
    file = LIMIT if hierarchy == "v1" else "memory.max"
    with real(hierarchy) as bench:
        assert isinstance(bench.driver, Cgroupfs)
        bench.driver.slow = AsyncWrites()
        path = f"{bench.root}/a"
        child = subprocess.Popen(
            [sys.executable, "-c", HOLDS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            made = [Step("create", path), Step("attach", path, pid=child.pid)]
            assert not any(one.error for one in bench.driver.perform(made))
            say(child, "holds")

            def limit() -> int:
                return int(bench.observer.observe(bench.root).cgroups[path].values[file])

            assert turn(bench, 8 * MiB, "refuse")[-1] == "waits"
            before = bench.observer.observe(bench.root).cgroups[path]
            assert before.memory is not None
            assert before.memory >= 48 * MiB
            turn(bench, 8 * MiB, "converge")
            assert 48 * MiB < limit() <= near(before.memory) + MiB
            assert child.poll() is None, "it lives"
            say(child, "freed")
            assert turn(bench, 8 * MiB, "converge") == [None], "now it fits"
            assert limit() == 8 * MiB
            assert child.poll() is None
        finally:
            child.kill()
            child.communicate()


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_force_is_what_it_says(hierarchy) -> None:
    with real(hierarchy) as bench:
        assert isinstance(bench.driver, Cgroupfs)
        path = f"{bench.root}/a"
        assert not bench.driver.perform([Step("create", path)])[0].error
        pid = bench.processes.start(path, 48 * MiB)
        try:
            found = turn(bench, 8 * MiB, "force")
            group = bench.observer.observe(bench.root).cgroups[path]
            if hierarchy == "v1":
                assert "EBUSY" in found
                assert group.pids
            else:
                assert group.oom_kills == 1
        finally:
            bench.processes.end(pid)


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_limit_below_the_page_cache_is_reached_and_nobody_is_killed(
    hierarchy, record_property, bench_file
) -> None:
    """96 MiB of a file's pages and 16 MiB of its own: 40 MiB are enough, 8 are not."""
    file = LIMIT if hierarchy == "v1" else "memory.max"
    compared = 0
    with real(hierarchy) as bench:
        assert isinstance(bench.driver, Cgroupfs)
        assert isinstance(bench.observer, CgroupObserver)
        path = f"{bench.root}/a"
        child = subprocess.Popen(
            [sys.executable, "-c", CACHES, str(bench_file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            made = [Step("create", path), Step("attach", path, pid=child.pid)]
            assert not any(one.error for one in bench.driver.perform(made))
            say(child, "caches")
            for slow, wanted in ((None, 40), (AsyncWrites(grace=30.0), 8)):
                bench.driver.slow = slow
                seen = bench.observer.observe(bench.root).cgroups[path]
                assert seen.memory is not None
                assert seen.memory > wanted * MiB, "or nothing is shown"
                for _ in range(2):
                    turn(bench, wanted * MiB, "converge")
                now = bench.observer.observe(bench.root).cgroups[path]
                assert now.memory is not None
                limit = int(now.values[file])
                if wanted == 40:
                    assert bench.observer.reclaimable_cache(path) < 60 * MiB
                    assert limit == 40 * MiB
                else:
                    assert 16 * MiB < limit < 40 * MiB, "what the process holds stays"
                assert now.memory <= limit
                assert now.oom_kills == 0
                assert child.poll() is None
                compared += 1
            say(child, str(16 << 20))
        finally:
            child.kill()
            child.communicate()
    record_property("compared", compared)
