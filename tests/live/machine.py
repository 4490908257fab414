"""What tests of ``apply`` and ``release`` share: a root of its own beside a group of somebody else."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from qoslet import schema
from qoslet.app import tree as owned_tree
from qoslet.cli import main
from qoslet.core.reconcile.journal import CONTROL
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.machine.probe import probe
from qoslet.host.state.folder import LOG_DIRECTORY, STATE, escaped
from tests.contract.drivers import NO_KERNEL

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


def remove_files(root: str) -> None:
    """Remove what a root has on disk where nobody releases it: its state, and the logs of its pods."""
    for place in (STATE, LOG_DIRECTORY):
        shutil.rmtree(f"{place}/{escaped(root)}", ignore_errors=True)


class Done(NamedTuple):
    """What a run came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        document = json.loads(self.out)
        hold_to_schema(document, json.loads(schema.text(document["kind"].lower())))
        return dict(document)


def hold_to_schema(document: object, described: dict[str, Any]) -> None:
    """Validate, but in the real systems of `make test-vm`, which have Debian's packages only."""
    if find_spec("jsonschema") is not None:
        import jsonschema

        jsonschema.Draft202012Validator(described).validate(document)


def before_step(number: int, act: Callable[[Step], None]) -> list[Step]:
    """Let something happen in this process before a step of the driver; the step, once it came."""
    real, met = Cgroupfs._one, list[Step]()
    left = number

    def one(self: Cgroupfs, step: Step, before: str | None) -> Outcome:
        nonlocal left
        if left == 0:
            met.append(step)
            act(step)
        left -= 1
        return real(self, step, before)

    Cgroupfs._one = one  # type: ignore[method-assign]
    return met


def begun(body: Callable[[], int]) -> int:
    """A body in a process of its own; its number."""
    child = os.fork()
    if child == 0:
        try:
            code = body()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        except BaseException:  # noqa: BLE001 - whatever it is, the tests' own process goes on
            traceback.print_exc()
        finally:
            os._exit(99)
    return child


def ended(child: int) -> int:
    """The exit code of such a process, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


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

    def only(self, hierarchy: str) -> None:
        """Skip a test of one hierarchy where the machine has the other."""
        if self.driver.hierarchy != hierarchy:
            pytest.skip(f"this machine has {self.driver.hierarchy}; make test-vm has both")

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
        code = main.run(self.arguments(verb, *more))
        return Done(code, *self.capture())

    def killed(self, verb: str, steps: int) -> bool:
        """Run it in a process that is killed (-9) when so many steps are done; whether that many
        were to do."""

        def body() -> int:
            before_step(steps, lambda step: os.kill(os.getpid(), signal.SIGKILL))
            return main.run(self.arguments(verb))

        code = ended(begun(body))
        said = "".join(self.capture())
        assert code in (0, 1, -signal.SIGKILL), said
        return code == -signal.SIGKILL

    def meddled(self, verb: str, steps: int, act: Callable[[Step], None]) -> Done | None:
        """Run it while somebody acts before a step; None where there are not so many."""
        few = 50

        def body() -> int:
            met = before_step(steps, act)
            return main.run(self.arguments(verb)) + (0 if met else few)

        done = Done(ended(begun(body)), *self.capture())
        return done if done.code < few or done.code >= 2 * few - 1 else None

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

    def process(self, path: str, *command: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(command or ["sleep", "1000"])
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
    monkeypatch.setattr(owned_tree, "state_directory", lambda *_, **__: made.state)
    yield made
    made.clear()
