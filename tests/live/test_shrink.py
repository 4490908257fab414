"""A limit below what a real process holds: it converges, nothing is killed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from qoslet.core.drift import compare
from qoslet.core.shrink import LIMIT, Shrink, eased, near
from qoslet.core.steps import Step, ordered
from qoslet.host.cgroupfs import Cgroupfs
from qoslet.host.slow import SlowWrites
from tests.contract.benches import Bench, real
from tests.core.trees import MiB, plan_of

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


def turn(bench: Bench, limit: int, shrink: Shrink) -> list[str | None]:
    path = f"{bench.root}/a"
    file = LIMIT if bench.hierarchy == "v1" else "memory.max"
    wanted = plan_of(bench.hierarchy, {bench.root: {}, path: {file: str(limit)}})
    seen = bench.observer.observe(bench.root)
    differences = compare(wanted, seen)
    outcomes = bench.driver.perform(ordered(differences, seen, shrink))
    waits = eased(differences, seen, shrink)[1]
    return [one.errno_name or one.error for one in outcomes] + ["waits"] * len(waits)


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
        bench.driver.slow = SlowWrites()
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
