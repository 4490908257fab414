"""``apply`` and ``release`` on this machine's kernel: faults, other hands, a user without rights."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from qoslet import schema
from qoslet.core.journal import CONTROL, Header, lines, read
from qoslet.core.steps import Outcome, Step
from qoslet.host.cgroupfs import Cgroupfs
from qoslet.host.journalfile import escaped
from qoslet.host.probe import probe
from qoslet.host.standing import resume, state_directory
from qoslet.surfaces.cli import entry, wireonce
from tests.contract.benches import NO_KERNEL

pytestmark = pytest.mark.live

NOBODY = 65534

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: a, uid: a0}
spec: {containers: [{name: c, resources: {requests: {cpu: 100m, memory: 64Mi}, \
limits: {cpu: 200m, memory: 64Mi}}}]}
status: {containerStatuses: [{name: c, containerID: "containerd://c0ffee"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, uid: b0}
spec: {containers: [{name: c, resources: {}}]}
"""

KUBELET = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
systemReserved: {cpu: 200m, memory: 100Mi}
systemReservedCgroup: SYSTEM
enforceNodeAllocatable: [pods, system-reserved]
"""


class Done(NamedTuple):
    """What a run came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        document = json.loads(self.out)
        if find_spec("jsonschema") is not None:
            # the real systems of `make test-vm` have Debian's packages only
            import jsonschema

            jsonschema.validate(document, json.loads(schema.text(document["kind"].lower())))
        return dict(document)


def _die_after(steps: int) -> None:
    """Let this process be killed before the next step of the driver."""
    real, left = Cgroupfs._one, steps

    def one(self: Cgroupfs, step: Step, before: str | None) -> Outcome:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return real(self, step, before)

    Cgroupfs._one = one  # type: ignore[method-assign]


class Machine:
    """A root of its own with its manifests, state and a group that belongs to somebody else."""

    def __init__(self, folder: Path, capture: Callable[[], Iterable[str]]) -> None:
        here = probe()
        assert here.hierarchy is not None
        self.v1 = here.hierarchy == "v1"
        self.mounts = dict(here.mounts or {}) if self.v1 else {"unified": here.unified or ""}
        name = secrets.token_hex(4)
        self.root, self.system = f"/qoslet-test-{name}", f"/qoslet-test-{name}-sys"
        self.state = str(folder / "state")
        self.capture = capture
        self.pods, self.node = folder / "pods.yaml", folder / "kubelet.yaml"
        self.pods.write_text(PODS)
        self.node.write_text(KUBELET.replace("SYSTEM", self.system))
        self.driver = Cgroupfs(here.hierarchy, self.mounts, self.root)
        self.other = Cgroupfs(here.hierarchy, self.mounts, self.system)
        self.other.layout.create(self.system)
        self.share = "cpu.shares" if self.v1 else "cpu.weight"
        self.other.layout.trees[0].close()
        self.write(self.system, self.share, "77")
        self.began = self.others()

    def others(self) -> dict[str, str]:
        """Every value of the group of somebody else, and what the top hands on."""
        files = {}
        for tree in self.driver.layout.trees:
            places = [Path(tree.point + self.system), Path(tree.point)]
            for path in [*places[0].iterdir(), places[1] / CONTROL]:
                if path.is_file() and path.stat().st_mode & 0o222:
                    with suppress(OSError):
                        files[str(path)] = path.read_text()
        return files

    def arguments(self, verb: str, *more: str) -> list[str]:
        given = [verb, "--cgroup-root", self.root, *more]
        if verb == "apply":
            given += [str(self.pods), "--node", str(self.node), "--kubernetes", "1.34"]
        return given

    def run(self, verb: str, *more: str) -> Done:
        code = entry.run(self.arguments(verb, *more))
        return Done(code, *self.capture())

    def killed(self, verb: str, steps: int) -> bool:
        """Run it in a process that is killed (-9) when so many steps are done; whether that many
        were to do."""
        child = os.fork()
        if child == 0:
            try:
                _die_after(steps)
                os._exit(entry.run(self.arguments(verb)))
            finally:
                os._exit(99)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = "".join(self.capture())
        assert code in (0, 1, -signal.SIGKILL), said
        return code == -signal.SIGKILL

    def place(self, path: str, file: str = "") -> Path:
        tree = self.driver.layout.tree_of(file.split(".")[0]) or self.driver.layout.trees[0]
        return Path(f"{tree.point}{path}/{file}")

    def read(self, path: str, file: str) -> str:
        return self.place(path, file).read_text().strip()

    def write(self, path: str, file: str, value: str) -> None:
        self.place(path, file).write_text(value)

    def value(self) -> str:
        """What the group of somebody else holds."""
        return self.read(self.system, self.share)

    def journal(self) -> Path:
        return Path(self.state, escaped(self.root), "journal")

    def process(self, path: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(["sleep", "1000"])
        for tree in self.driver.layout.trees:
            Path(f"{tree.point}{path}/cgroup.procs").write_text(str(child.pid))
        return child

    def clear(self) -> None:
        for driver in (self.driver, self.other):
            driver.kill(driver.root)
            for path in driver.below(driver.root):
                driver.discard(path)
            left = driver.below(driver.root)
            driver.close()
            assert left == []


@pytest.fixture
def machine(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    if os.environ.get(NO_KERNEL) == "1":
        pytest.skip(f"{NO_KERNEL}=1: no kernel to write to")
    assert os.geteuid() == 0, f"needs root; {NO_KERNEL}=1 leaves it out"
    made = Machine(tmp_path, capfd.readouterr)
    monkeypatch.setattr(wireonce, "state_directory", lambda *_: made.state)
    yield made
    made.clear()


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
    undone = machine.run("release", "-o", "json").json
    assert undone["removed"] == 7
    assert undone["restored"] == len(changed) >= 2
    assert machine.others() == machine.began
    assert machine.driver.below(machine.root) == []
    assert not machine.journal().exists()
    again = machine.run("release")
    assert (again.code, again.out.endswith("nothing of ours stands here\n")) == (0, True)


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


@pytest.mark.parametrize("steps", range(3))
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


@pytest.mark.parametrize("steps", range(3))
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
    journal = resume(machine.root, machine.driver, state=machine.state)
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
    assert "no journal of ours names it" in done.err
    assert machine.journal().with_name("journal.another").exists()
    machine.clear()
    machine.other.layout.create(machine.system)
    assert machine.run("release").code == 0


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_a_state_directory_that_is_not_ours_alone_is_refused(machine: Machine, mode: int) -> None:
    os.mkdir(machine.state, mode)
    os.chmod(machine.state, mode)
    os.chown(machine.state, 0 if mode == 0o755 else NOBODY, 0)
    done = machine.run("apply")
    assert done.code == 3
    assert "must be our own with mode 0700" in done.err
    assert machine.driver.below(machine.root) == []


def test_a_tree_of_somebody_else_is_refused(machine: Machine) -> None:
    machine.driver.layout.create(machine.root)
    for verb in ("apply", "release"):
        assert "no journal of ours names it" in machine.run(verb).err
        assert machine.run(verb, "--dry-run").code == 3


def test_run_does_not_end_what_apply_made(machine: Machine) -> None:
    from qoslet.errors import CannotDo
    from qoslet.host.journalfile import claim

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
    assert "is not planned any more, but" in left.out
    child.kill()
    child.wait()
    assert machine.run("apply").code == 0
    assert machine.run("release").code == 0


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
            setattr(wireonce, "state_directory", state_directory)  # noqa: B010
            code = entry.run(arguments)
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
    assert "no right to make cgroups" in done.err
    assert "systemd-run --user -p Delegate=yes" in done.err
