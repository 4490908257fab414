"""What metrics read of cgroups on this machine's kernel, while cgroups are made again."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from itertools import pairwise

import pytest
from msgspec.structs import replace

from qoslet.core.cgroup.observed import Observed
from qoslet.core.cgroup.usage.rates import between
from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.observe.usage_observer import UsageObserver
from tests.live.kernel.cgroupfs import driver as driver
from tests.live.kernel.cgroupfs import eyes, good, inside, v1_mounts, v2_point
from tests.live.kernel.cgroupfs import root as root
from tests.live.kernel.cgroupfs import v1 as v1
from tests.live.kernel.cgroupfs import v2 as v2

pytestmark = pytest.mark.live

BUSY = "sum(n * n for n in range(300_000)); print(flush=True)\nimport time; time.sleep(100)"
LOOKS, TRIES = 400, 50
PATIENCE = 30.0


def usage_of(driver: Cgroupfs) -> UsageObserver:
    where = v1_mounts() if driver.hierarchy == "v1" else v2_point()
    return UsageObserver(driver.hierarchy, where)


def test_it_reads_what_the_observer_of_everything_reads(driver: Cgroupfs) -> None:
    app = f"{driver.root}/pod/app"
    good(driver, Step("create", driver.root), Step("create", f"{driver.root}/pod"))
    good(driver, Step("create", app))
    inside(driver, app, BUSY)
    with closing(usage_of(driver)) as usage, closing(eyes(driver)) as every:
        # the kernel gives back what it charged ahead when it likes
        for _ in range(TRIES):
            whole = every.observe(driver.root)
            found = usage.observe([*whole.cgroups, f"{driver.root}/absent"])
            expected = {
                path: replace(one, values={}, pids=(), memory_swap=None, missing=())
                for path, one in whole.cgroups.items()
            }
            if found.cgroups == expected:
                break
            time.sleep(0.1)
    assert found.cgroups == expected
    assert len(expected) == 3
    assert whole.cgroups[app].usage_usec


def test_what_stays_open_tells_of_the_cgroup_that_is_there(driver: Cgroupfs) -> None:
    path = f"{driver.root}/pod"
    good(driver, Step("create", driver.root), Step("create", path))
    with closing(usage_of(driver)) as usage:
        first = usage.observe([path])
        assert usage.observe([path]).cgroups == first.cgroups
        held = os.listdir("/proc/self/fd")
        good(driver, Step("remove", path), Step("create", path))
        second = usage.observe([path]).cgroups[path]
        assert second.identity != first.cgroups[path].identity
        assert second.usage_usec == 0
        assert len(os.listdir("/proc/self/fd")) == len(held)
        good(driver, Step("remove", path))
        assert usage.observe([path]).cgroups == {}
        assert len(os.listdir("/proc/self/fd")) < len(held)


def seen(path: str, looks: list[Observed]) -> set[object]:
    """The cgroups that looks found under a path."""
    return {one.cgroups[path].identity for one in looks if path in one.cgroups}


def test_a_cgroup_that_is_made_again_gives_no_negative_rate(driver: Cgroupfs) -> None:
    path, over = f"{driver.root}/pod", threading.Event()
    good(driver, Step("create", driver.root))
    recreated = 0

    def make_again() -> None:
        nonlocal recreated
        while not over.is_set():
            good(driver, Step("create", path))
            good(driver, Step("remove", path))
            recreated += 1

    making = threading.Thread(target=make_again)
    making.start()
    try:
        with closing(usage_of(driver)) as usage:
            looks = [usage.observe([path, driver.root]) for _ in range(LOOKS)]
            deadline = time.monotonic() + PATIENCE
            while len(seen(path, looks)) < 2 and time.monotonic() < deadline:
                looks.append(usage.observe([path, driver.root]))
    finally:
        over.set()
        making.join()
    assert recreated > 1
    assert len(seen(path, looks)) > 1
    for before, after in pairwise(looks):
        for rate in between(before, after).values():
            assert rate.cpu is None or rate.cpu >= 0
            assert rate.throttled is None or rate.throttled >= 0
