"""Slices of the tests' own on a real systemd, and what tests do with them."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from qoslet.core.cgroup.names import root_path
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.host.cgroupfs.mounted import required_mounts
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from qoslet.host.systemd.driver import Systemd
from qoslet.host.systemd.scope_holders import ScopeFilter
from qoslet.host.systemd.select_driver import systemd_driver

MIB = 1 << 20


def need_systemd() -> None:
    """Skip where PID 1 is another; fail where this machine was promised to have it."""
    first = Path("/proc/1/comm").read_text().strip()
    if first == "systemd" and os.geteuid() == 0:
        return
    why = f"needs root and systemd as PID 1; this is user {os.geteuid()}, PID 1 is {first}"
    if os.environ.get("QOSLET_EXPECT"):
        pytest.fail(f"QOSLET_EXPECT={os.environ['QOSLET_EXPECT']}: {why}")
    pytest.skip(why)


def need_guest() -> None:
    """Skip where a test would disturb others: it is done in guests only."""
    if not os.environ.get("QOSLET_EXPECT"):
        pytest.skip("disturbs the whole machine: make vm-run runs it in a guest")


class Live:
    """A driver with its root; ``stem`` begins the names of all units."""

    def __init__(self) -> None:
        need_systemd()
        self.hierarchy, self.where = required_mounts()
        self.name = f"/qoslet-test-{secrets.token_hex(4)}"
        self.root = root_path(self.name, "systemd")
        self.stem = self.root[1:].removesuffix(".slice")
        self.made: list[Systemd] = []
        self.begin()

    def begin(self) -> None:
        """Another driver for the same root."""
        self.made.append(systemd_driver(self.hierarchy, self.where, self.root))

    @property
    def driver(self) -> Systemd:
        return self.made[-1]

    def observer(self) -> ScopeFilter:
        """What sees the cgroups of the first driver."""
        return ScopeFilter(CgroupObserver(self.hierarchy, self.where), self.made[0].holders)

    @property
    def pod(self) -> str:
        return f"{self.root}/{self.stem}-pod1.slice"

    @property
    def app(self) -> str:
        return f"{self.pod}/{self.stem}-pod1-app.scope"

    def has(self, controller: str) -> bool:
        return self.driver.layout.tree_of(controller) is not None

    def text(self, path: str, file: str) -> str:
        tree = self.driver.layout.tree_of(file.split(".", maxsplit=1)[0])
        assert tree is not None
        return tree.read(path, file)

    def limits(self, size: int) -> list[tuple[str, str]]:
        """Files of this hierarchy that properties carry, with values."""
        if self.hierarchy == "v1":
            values = [
                ("memory.limit_in_bytes", str(size)),
                ("cpu.shares", "102" if size > 32 * MIB else "204"),
                ("cpu.cfs_period_us", "100000"),
                ("cpu.cfs_quota_us", "23000"),
                ("pids.max", "99"),
            ]
            # Debian's kernels from 13 on have no v1 memory controller.
            return values if self.has("memory") else values[1:]
        return [
            ("memory.max", str(size)),
            ("memory.low", str(MIB)),
            ("memory.min", str(MIB)),
            ("memory.high", str(size // 2)),
            ("cpu.weight", "39"),
            ("cpu.max", "23000 100000"),
            ("pids.max", "99"),
        ]

    def stands(self, path: str, values: list[tuple[str, str]]) -> None:
        assert {file: self.text(path, file) for file, _ in values} == dict(values)

    def clear(self) -> None:
        """End all that runs and remove the root with everything below."""
        driver = self.driver
        driver.journal = None
        for path in driver.below(self.root):
            driver.kill(path)
        driver.holders.close()
        good(driver.perform([Step("remove", path) for path in driver.below(self.root)]))
        assert driver.below(self.root) == []

    def close(self) -> None:
        try:
            self.clear()
        finally:
            for one in self.made:
                one.close()
        listed = run("systemctl", "list-units", "--all", "--no-legend", f"{self.stem}*")
        assert listed == "", "units are left"
        for folder in ("transient", "system.control"):
            kept = Path("/run/systemd", folder)
            assert not [one for one in kept.glob("*") if self.stem in one.name], folder


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


def good(outcomes: list[Outcome]) -> None:
    errors = [one.error for one in outcomes if one.error]
    # this module is not rewritten by pytest, so the errors are the message
    assert errors == [], errors


def sets(path: str, values: list[tuple[str, str]]) -> list[Step]:
    return [Step("set", path, file, value) for file, value in values]


def until(ready: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, "not reached"
        time.sleep(0.05)


def inside(driver: Systemd, path: str, code: str) -> subprocess.Popen[bytes]:
    """A Python process that was moved into the scope before it ran ``code``."""
    words = [sys.executable, "-c", f"input()\n{code}"]
    child = subprocess.Popen(words, stdin=subprocess.PIPE)
    assert child.stdin is not None
    with child.stdin as waits:
        good(driver.perform([Step("attach", path, pid=child.pid)]))
        waits.write(b"\n")
    return child
