"""``apply`` and ``release`` on this machine's kernel: faults, other hands, a user without rights."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qoslet.app import teardown
from qoslet.app import tree as owned_tree
from qoslet.cli import main
from qoslet.core.reconcile.journal import Header, lines, read
from qoslet.core.reconcile.restore import restore
from qoslet.host.state.folder import state_directory
from qoslet.host.state.resume import open_journal
from tests.live.machine import PODS, Done, Machine
from tests.live.moments import thirds

pytestmark = pytest.mark.live

NOBODY = 65534


def test_made_adopted_and_undone(machine: Machine) -> None:
    first = machine.run("apply", "-o", "json").json
    assert (first["made"], first["left"], first["failed"]) == (7, [], [])
    assert first["skipped"] == ["/" + "/".join([*machine.root[1:].split("/"), *SKIPPED])]
    assert machine.value() == ("204" if machine.v1 else "8")
    # the kernel shows a weight a second time, as a nice value
    changed = {
        file
        for file, text in machine.others().items()
        if text != machine.began[file] and not file.endswith("/cpu.weight.nice")
    }
    second = machine.run("apply", "-o", "json").json
    assert [second[name] for name in ("made", "written", "removed", "left")] == [0, 0, 0, []]
    machine.write(f"{machine.root}/kubepods", machine.share, "78")
    assert " (was 78)\n" in machine.run("apply", "-v").out
    undone = machine.run("release", "-o", "json").json
    assert undone["removed"] == 7
    assert undone["restored"] == len(changed) >= 2
    assert machine.others() == machine.began
    assert machine.driver.below(machine.root) == []
    assert not machine.journal().exists()
    again = machine.run("release")
    assert (again.code, again.out.endswith("nothing to undo\n")) == (0, True)


SKIPPED = ("kubepods", "besteffort", "podb0", "c")


def test_dry_runs_do_nothing_and_print_what_would_be_done(machine: Machine) -> None:
    planned = machine.run("apply", "--dry-run")
    assert planned.code == 0
    assert f"{machine.root}/kubepods" in planned.out
    assert machine.driver.below(machine.root) == []
    assert not os.path.exists(machine.state)
    machine.run("apply")
    undo = machine.run("release", "--dry-run")
    assert undo.out.count("rmdir") == 7
    assert len(machine.driver.below(machine.root)) == 7
    subprocess.run(["sh", "-e", "-c", undo.out], check=True)
    assert machine.driver.below(machine.root) == []
    assert machine.value() == "77"
    assert machine.run("release").code == 0


@pytest.mark.parametrize("steps", thirds())
def test_killed_between_any_two_steps_of_apply(machine: Machine, steps: int) -> None:
    while machine.killed("apply", steps):
        if steps % 2:
            assert machine.run("apply").code == 0
            assert machine.value() != "77"
        done = machine.run("release")
        assert done.code == 0, done.out
        assert machine.driver.below(machine.root) == []
        assert machine.others() == machine.began
        steps += 3
    assert steps > 12


@pytest.mark.parametrize("steps", thirds())
def test_killed_between_any_two_steps_of_release(machine: Machine, steps: int) -> None:
    met = True
    while met:
        assert machine.run("apply").code == 0
        met = machine.killed("release", steps)
        done = machine.run("release")
        assert done.code == 0, done.out
        assert machine.driver.below(machine.root) == []
        assert machine.others() == machine.began
        steps += 3
    assert steps > 8


def test_a_release_that_was_killed_can_be_applied_again(machine: Machine) -> None:
    machine.run("apply")
    assert machine.killed("release", 4)
    assert machine.run("apply").code == 0
    assert machine.run("release").code == 0
    assert machine.value() == "77"


def test_two_at_once(machine: Machine) -> None:
    journal = open_journal(machine.root, machine.driver, state=machine.state)
    second = machine.run("apply")
    assert second.code == 3
    assert f"another qoslet runs here (process {os.getpid()})" in second.err
    assert machine.run("release").code == 3
    journal.close(gone=True)
    assert machine.driver.below(machine.root) == []


def test_a_torn_journal_is_said_and_loses_nothing(machine: Machine) -> None:
    machine.run("apply")
    with machine.journal().open("ab") as file:
        file.write(b'0badf00d ["made","/x",1]\n1234 ["ma')
    done = machine.run("apply")
    assert done.code == 0
    assert "2 torn or damaged lines of the journal" in done.err
    assert read(machine.journal().read_bytes()).bad == 0
    assert machine.run("release").code == 0


def test_a_journal_of_another_boot_is_put_aside_and_its_tree_refused(machine: Machine) -> None:
    machine.run("apply")
    text = read(machine.journal().read_bytes())
    hierarchy = machine.driver.hierarchy
    machine.journal().write_bytes(
        lines([Header("another", hierarchy, machine.root), *text.entries])
    )
    done = machine.run("release")
    assert done.code == 3
    assert "no qoslet journal has it" in done.err
    assert machine.journal().with_name("journal.another").exists()
    machine.clear()
    machine.other.layout.create(machine.system)
    assert machine.run("release").code == 0


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_a_state_directory_that_is_not_ours_alone_is_refused(machine: Machine, mode: int) -> None:
    os.mkdir(machine.state, mode)
    os.chmod(machine.state, mode)
    os.chown(machine.state, 0 if mode == 0o755 else NOBODY, 0)
    # an empty folder of ours, as a kubelet makes it for a volume, is made private instead
    Path(machine.state, "file").touch()
    done = machine.run("apply")
    assert done.code == 3
    assert f"chmod 0700 {machine.state}" in done.err
    assert machine.driver.below(machine.root) == []


def test_a_tree_of_somebody_else_is_refused(machine: Machine) -> None:
    machine.driver.layout.create(machine.root)
    for verb in ("apply", "release"):
        assert "no qoslet journal has it" in machine.run(verb).err
        assert machine.run(verb, "--dry-run").code == 3


def test_run_does_not_end_what_apply_made(machine: Machine) -> None:
    from qoslet.errors import CannotDo
    from qoslet.host.state.journal_file import claim

    machine.run("apply")
    with pytest.raises(CannotDo, match=f"qoslet release --cgroup-root {machine.root} removes it"):
        claim(machine.root, machine.driver, state=machine.state)
    assert machine.run("release").code == 0


def test_what_others_did_stops_release_before_anything_is_done(machine: Machine) -> None:
    machine.run("apply")
    group = f"{machine.root}/kubepods"
    machine.write(machine.system, machine.share, "99")
    machine.write(group, "pids.max", "9")
    machine.place(f"{group}/burstable/foreign").mkdir()
    child = machine.process(f"{group}/burstable/poda0/c0ffee")
    refused = machine.run("release", "-o", "json")
    assert refused.code == 1
    assert sorted(row["kind"] for row in refused.json["refused"]) == [
        "foreign",
        "process",
        "written",
        "written",
    ]
    written = next(row for row in refused.json["refused"] if row["path"] == machine.system)
    assert (written["found"], written["before"]) == ("99", "77")
    assert written["resets"] == "kubelet resets it at its start"
    assert len(machine.driver.below(machine.root)) == 8
    child.kill()
    child.wait()
    machine.place(f"{group}/burstable/foreign").rmdir()
    forced = machine.run("release", "--force", "-o", "json")
    assert forced.code == 0
    assert len(forced.json["left"]) == 2
    assert machine.value() == "99"
    assert machine.driver.below(machine.root) == []


def test_pods_that_left_are_removed_or_named(machine: Machine) -> None:
    machine.run("apply")
    first, second = PODS.split("---")
    machine.pods.write_text(first)
    assert machine.run("apply", "-o", "json").json["removed"] == 1
    child = machine.process(f"{machine.root}/kubepods/burstable/poda0/c0ffee")
    machine.pods.write_text(second)
    left = machine.run("apply")
    assert left.code == 1
    assert "is no longer planned, but" in left.out
    child.kill()
    child.wait()
    assert machine.run("apply").code == 0
    assert machine.run("release").code == 0


def test_nothing_stays_of_cgroups_that_went_during_a_release(machine: Machine) -> None:
    assert machine.run("apply").code == 0
    place = owned_tree.place_of(machine.root, None, "cgroupfs")
    with owned_tree.tree(place, write=True, verb=None) as tree:
        for one in machine.driver.layout.trees:
            os.rmdir(f"{one.point}{machine.root}/kubepods/burstable/poda0/c0ffee")
        what = restore(tree.ledger, tree.standing(), hierarchy=place.hierarchy)
        assert not what.refusals
        teardown.perform(tree, what)
    assert machine.driver.below(machine.root) == []
    assert not machine.journal().parent.exists()


def as_nobody(machine: Machine, *arguments: str, runtime: Path) -> Done:
    """The program as a user without rights. The interpreter may lie where only root reads, so
    everything is imported before the rights go."""
    for verb in ("apply", "release"):
        machine.run(verb, "--dry-run", "-o", "json")
    out, err = runtime / "out", runtime / "err"
    child = os.fork()
    if child == 0:
        try:
            for number, path in ((1, out), (2, err)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.environ["XDG_RUNTIME_DIR"] = str(runtime)
            setattr(owned_tree, "state_directory", state_directory)  # noqa: B010
            code = main.run(arguments)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    return Done(os.waitstatus_to_exitcode(status), out.read_text(), err.read_text())


@pytest.fixture
def runtime() -> Iterator[Path]:
    folder = Path(f"/tmp/qoslet-test-{secrets.token_hex(4)}")
    folder.mkdir(0o700)
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def hand_over(machine: Machine, path: str, controllers: set[str]) -> None:
    """Make a group and give it to the user, on v1 in some hierarchies only."""
    machine.driver.layout.create(machine.root)
    machine.driver.layout.create(path)
    for tree in machine.driver.layout.trees:
        if not machine.v1 or controllers & {*machine.driver.layout.controllers_of(tree)}:
            for name in ("", "cgroup.procs", "cgroup.subtree_control"):
                if os.path.exists(f"{tree.point}{path}/{name}"):
                    os.chown(f"{tree.point}{path}/{name}", NOBODY, NOBODY)


PLANNED = ("cpu", "cpuset", "hugetlb", "memory", "pids")


def is_handed_over(machine: Machine, group: str, controller: str) -> bool:
    """Whether the user owns the group where that controller is, which may be mounted with another
    one; a controller that this machine has not is nobody's to give."""
    point = machine.mounts.get(controller)
    return point is None or os.stat(point + group).st_uid == NOBODY


@pytest.mark.parametrize("below", ["", "/mine"])
@pytest.mark.parametrize("controllers", [{*PLANNED}, {"memory", "pids"}, {"memory", "cpuacct"}])
def test_a_user_gets_what_the_delegation_allows_and_the_rest_is_named(
    machine: Machine, runtime: Path, below: str, controllers: set[str]
) -> None:
    pods = runtime / "pods.yaml"
    pods.write_text(PODS)
    pods.chmod(0o644)
    group = f"{machine.root}/user"
    hand_over(machine, group, controllers)
    root = group + below
    lost = {one for one in PLANNED if machine.v1 and not is_handed_over(machine, group, one)}
    given = ("--cgroup-root", root, str(pods), "--kubernetes", "1.34", "-o", "json")
    done = as_nobody(machine, "apply", *given, runtime=runtime)
    assert done.code == (1 if lost else 0), done.err
    assert not done.json["failed"]
    assert not done.json["left"]
    assert {row["controller"] for row in done.json["missing"]} == lost
    assert machine.read(f"{root}/kubepods/burstable/poda0", LIMIT[machine.v1]) == str(64 << 20)
    again = as_nobody(machine, "apply", *given, runtime=runtime).json
    assert (again["made"], again["written"]) == (0, 0)
    undone = as_nobody(machine, "release", "--cgroup-root", root, runtime=runtime)
    assert undone.code == 0, undone.err
    assert machine.driver.below(group) == [group]


LIMIT = {True: "memory.limit_in_bytes", False: "memory.max"}


def test_a_user_without_a_delegated_group_is_told_how_to_get_one(
    machine: Machine, runtime: Path
) -> None:
    pods = runtime / "pods.yaml"
    pods.write_text(PODS)
    pods.chmod(0o644)
    given = ("--cgroup-root", machine.root, str(pods))
    done = as_nobody(machine, "apply", *given, runtime=runtime)
    assert done.code == 3
    assert "no permission to create cgroups" in done.err
    assert "systemd-run --user -p Delegate=yes" in done.err
