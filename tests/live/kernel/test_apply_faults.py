"""``apply`` and ``release`` on this machine's kernel while it fails or others are at work: what went
wrong is said, nothing of ours stands unnamed, and the next run converges."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from qoslet.cli import main
from qoslet.core.reconcile.journal import Adopted, Header, Set, lines, read
from qoslet.core.reconcile.steps import Step
from qoslet.host.linux.openat import parent
from qoslet.host.state.journal_file import claim
from tests.live.machine import PODS, Done, Machine, begun, ended

pytestmark = pytest.mark.live

STRIDE = {"apply": 1 if os.environ.get("QOSLET_LONG") else 4, "release": 1}
"""How many steps further the next run is met; an apply has many that are alike."""
POD = "kubepods/burstable/poda0"
THIRD = """
---
apiVersion: v1
kind: Pod
metadata: {name: third, uid: third0}
spec: {containers: [{name: c, resources: {}}]}
"""
HOLDS = "import sys; sys.stdin.readline(); b = b'x' * (32 << 20); print(1, flush=True); sys.stdin.read()"
CLONE_NEWNS = 0x20000


def nothing() -> None:
    """Nobody has to leave."""


def after_each_step(
    machine: Machine, verb: str, act: Callable[[Step], None], leave: Callable[[], None] = nothing
) -> int:
    """Let somebody act before a step of the verb, over all of them; the number of runs in which
    it was told that something is off."""
    number, told = 0, 0
    while True:
        if verb == "release":
            assert machine.run("apply").code == 0
        met = machine.meddled(verb, number, act)
        leave()
        for again in ("apply", "release"):
            done = machine.run(again)
            assert (done.code, done.err.count("\n") < 3) == (0, True), (number, met, done)
        assert machine.driver.below(machine.root) == []
        assert machine.others() == machine.began
        assert not machine.journal().exists()
        if met is None:
            assert number > (12 if verb == "apply" else 6), number
            return told
        assert met.code in (0, 1), (number, met)
        assert met.code == 0 or met.out.strip(), (number, met)
        assert "Traceback" not in met.out + met.err
        told += met.code
        number += STRIDE[verb]


@pytest.mark.parametrize("verb", ["apply", "release"])
def test_others_remove_a_group_between_any_two_steps(machine: Machine, verb: str) -> None:
    def act(step: Step) -> None:
        path = parent(step.path) if step.kind == "create" else step.path
        if path.startswith(f"{machine.root}/"):
            for one in machine.driver.below(path):
                for tree in machine.driver.layout.trees:
                    tree.rmdir(one)

    told = after_each_step(machine, verb, act)
    assert (told > 0) is (verb == "apply"), "what is gone needs no removal, but takes no value"


@pytest.mark.parametrize("verb", ["apply", "release"])
def test_others_fill_a_group_between_any_two_steps(machine: Machine, verb: str) -> None:
    child = subprocess.Popen(["sleep", "1000"])

    def act(step: Step) -> None:
        path = parent(step.path) if step.kind == "create" else step.path
        for tree in machine.driver.layout.trees:
            if path.startswith(machine.root) and tree.identity(path) is not None:
                try:
                    tree.write(path, "cgroup.procs", str(child.pid))
                except OSError:
                    # a group of v2 that hands controllers on takes no process
                    continue

    def leave() -> None:
        for tree in machine.driver.layout.trees:
            tree.write("", "cgroup.procs", str(child.pid))

    try:
        told = after_each_step(machine, verb, act, leave)
        assert told > 0 or (verb == "apply" and machine.v1), "a process stops no value on v1"
    finally:
        child.kill()
        child.wait()


def fails_always(machine: Machine, pods: str, word: str, *more: str) -> None:
    """Two runs fail alike in one place, and what else the pods ask is done."""
    machine.pods.write_text(pods.replace("cpu: 200m", "cpu: 300m"))
    for written in (True, False):
        done = machine.run("apply", "-o", "json", *more)
        assert done.code == 1
        assert done.json["failed"]
        assert any(word in row["error"] for row in done.json["failed"]), done.json["failed"]
        assert not any("cpu" in (row["file"] or "") for row in done.json["failed"])
        assert (done.json["written"] > 0) is written
        quota = machine.read(
            f"{machine.root}/{POD}", "cpu.cfs_quota_us" if machine.v1 else "cpu.max"
        )
        assert quota.split()[0] == "30000"


def converges(machine: Machine) -> None:
    done = machine.run("apply", "-o", "json").json
    assert (done["failed"], done["left"]) == ([], [])
    assert machine.run("release").code == 0
    assert machine.driver.below(machine.root) == []
    assert machine.others() == machine.began


def test_a_limit_that_v1_refuses_always_is_said_each_time_and_the_rest_is_done(
    machine: Machine,
) -> None:
    machine.only("v1")
    assert machine.run("apply").code == 0
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        for tree in machine.driver.layout.trees:
            tree.write(f"{machine.root}/{POD}/c0ffee", "cgroup.procs", str(child.pid))
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"1\n"
        pods = PODS.replace("64Mi", "8Mi")
        fails_always(machine, pods, "uses more than that", "--shrink", "force")
    finally:
        child.communicate()
    converges(machine)


def test_the_limit_of_groups_on_v2_is_said_each_time_and_the_rest_is_done(
    machine: Machine,
) -> None:
    machine.only("v2")
    assert machine.run("apply").code == 0
    limit = machine.place(machine.root, "cgroup.max.descendants")
    limit.write_text(str(len(machine.driver.below(machine.root)) - 1))
    fails_always(machine, PODS + THIRD, "cgroup.max.descendants")
    limit.write_text("max")
    converges(machine)


def test_controllers_that_v2_lost_above_are_enabled_again(machine: Machine) -> None:
    machine.only("v2")
    assert machine.run("apply").code == 0
    for path in machine.driver.below(machine.root):
        machine.write(path, "cgroup.subtree_control", "-memory -pids")
    assert not machine.place(f"{machine.root}/{POD}", "memory.max").exists()
    converges_with = machine.run("apply", "-o", "json")
    assert converges_with.code == 0, converges_with
    assert machine.read(f"{machine.root}/{POD}", "memory.max") == str(64 << 20)
    converges(machine)


def read_only(machine: Machine, points: list[str]) -> Done:
    """An apply that sees these mounts read-only; nobody else does."""

    def body() -> int:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), "unshare")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        for point in points:
            subprocess.run(["mount", "--bind", point, point], check=True)
            subprocess.run(["mount", "-o", "remount,bind,ro", point], check=True)
        return main.run(machine.arguments("apply"))

    return Done(ended(begun(body)), *machine.capture())


def test_a_read_only_mount_is_said_and_nothing_is_made(machine: Machine) -> None:
    done = read_only(machine, [tree.point for tree in machine.driver.layout.trees])
    assert done.code == 3, done
    assert "mounted read-only" in done.err
    assert done.out == ""
    assert machine.driver.below(machine.root) == []
    converges(machine)


def test_one_read_only_hierarchy_of_v1_is_left_out_and_named(machine: Machine) -> None:
    machine.only("v1")
    done = read_only(machine, [os.path.realpath(machine.mounts["pids"])])
    assert done.code == 1, done
    assert "unavailable: pids: 1 value cannot be written" in done.out
    assert "mounted read-only" in done.out
    assert machine.read(f"{machine.root}/{POD}", "memory.limit_in_bytes") == str(64 << 20)
    assert not Path(machine.mounts["pids"] + machine.root).exists()
    converges(machine)


def carry(machine: Machine, text: bytes) -> None:
    """A state directory that holds a journal."""
    machine.journal().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    Path(machine.state).chmod(0o700)
    machine.journal().write_bytes(text)


def test_a_boot_into_the_other_hierarchy_and_back_begins_anew(machine: Machine) -> None:
    """The state directory outlives the boots and carries the journals of both hierarchies: none of
    their groups is taken for ours, none of their values is written back."""
    here = machine.driver.hierarchy
    there = "v1" if here == "v2" else "v2"
    file = "cpu.weight" if there == "v2" else "cpu.shares"
    for boot, hierarchy, name in (("1st", here, machine.share), ("2nd", there, file)):
        header = Header(boot, hierarchy, machine.root, verb="apply")
        met, written = Adopted(machine.system, 1), Set(machine.system, name, "55", "66")
        aside = f"{machine.root}: ignoring a journal of another boot"

        carried = partial(carry, machine, lines([header, met, written]))
        carried()
        done = machine.run("release")
        assert (done.code, aside in done.err) == (0, True), done
        assert "nothing to undo" in done.out
        carried()
        journal = claim(machine.root, machine.driver, state=machine.state)
        assert journal.notes == [aside]
        journal.close(gone=True)
        carried()
        done = machine.run("apply")
        assert (done.code, aside in done.err) == (0, True), done
        old = read(machine.journal().with_name(f"journal.{boot}").read_bytes())
        now = read(machine.journal().read_bytes())
        assert old.header == header
        assert now.header is not None
        assert (now.header.hierarchy, now.bad) == (here, 0)
        converges(machine)
