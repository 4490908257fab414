"""``apply`` and ``release`` through a real systemd: drift, reserved units, kills, limits in use."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from dbus_fast import Message
from dbus_fast.aio import MessageBus

from qoslet.cli import main
from qoslet.core.cgroup.names import root_path
from qoslet.core.reconcile.limit_shrink import near
from qoslet.host.state.folder import STATE, escaped
from qoslet.host.systemd.bus import Bus
from tests.live.moments import thirds
from tests.live.systemd.slices import MIB, Live, need_guest, run, until
from tests.paths import REPO

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: a, uid: a0}
spec: {containers: [{name: c, resources: {requests: {cpu: 100m, memory: 32Mi}, \
limits: {cpu: 200m, memory: 64Mi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, uid: b0}
spec: {containers: [{name: c, resources: {}}]}
"""

KUBELET = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
failCgroupV1: false
systemReserved: {cpu: 200m, memory: 100Mi}
systemReservedCgroup: SYSTEM
enforceNodeAllocatable: [pods, system-reserved]
"""

RESERVED = {
    "v1": "[Slice]\nCPUShares=788\nMemoryLimit=900M\nCPUAccounting=yes\nMemoryAccounting=yes\n",
    "v2": "[Slice]\nCPUWeight=77\nMemoryMax=900M\nCPUAccounting=yes\nMemoryAccounting=yes\n",
}


class Done(NamedTuple):
    """What a run came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        assert self.out, self.err
        return dict(json.loads(self.out))


class Applied(Live):
    """A root with manifests, and a slice of somebody else that the node has reserved."""

    def __init__(self, folder: Path, capture: Callable[[], Iterable[str]]) -> None:
        super().__init__()
        self.capture = capture
        # a - in a unit's name is a level, as the kubelet reads it
        self.other = f"{self.name.replace('-', '')}sys"
        self.pods, self.node = folder / "pods.yaml", folder / "kubelet.yaml"
        self.pods.write_text(PODS)
        self.node.write_text(KUBELET.replace("SYSTEM", self.other))
        self.system = root_path(self.other, "systemd")
        self.file = Path("/run/systemd/system", self.system[1:])
        self.file.write_text(RESERVED[self.hierarchy])
        run("systemctl", "start", self.system[1:])
        if self.hierarchy == "v1":
            # a kubelet, too, wants it in every hierarchy
            self.driver.layout.create(self.system)
        self.began = self.reserved()

    def reserved(self) -> dict[str, str]:
        """The values of the slice of somebody else that can be written."""
        found = {}
        for tree in self.driver.layout.trees:
            for path in sorted(Path(tree.point + self.system).glob("*.*")):
                if path.stat().st_mode & 0o222 and path.stat().st_mode & 0o444:
                    try:
                        found[str(path)] = path.read_text()
                    except OSError:
                        continue
        return found

    @property
    def share(self) -> str:
        return "cpu.shares" if self.hierarchy == "v1" else "cpu.weight"

    @property
    def limit(self) -> str:
        return "memory.limit_in_bytes" if self.hierarchy == "v1" else "memory.max"

    @property
    def a(self) -> str:
        """The slice of the first pod."""
        kubepods = f"{self.root}/{self.stem}-kubepods.slice"
        tier = f"{kubepods}/{self.stem}-kubepods-burstable.slice"
        return f"{tier}/{self.stem}-kubepods-burstable-poda0.slice"

    def arguments(self, verb: str, *more: str) -> list[str]:
        given = [verb, "--cgroup-root", self.name, *more]
        if verb == "apply":
            given += ["--cgroup-driver", "systemd", "--kubernetes", "1.34"]
            given += [str(self.pods), "--node", str(self.node)]
        return given

    def run(self, verb: str, *more: str) -> Done:
        self.capture()
        code = main.run(self.arguments(verb, *more))
        return Done(code, *self.capture())

    def killed(self, verb: str, calls: int) -> bool:
        """Run it in a process that is killed (-9) before its next call to systemd after so many;
        whether there was one."""
        child = os.fork()
        if child == 0:
            try:
                _die_after(calls)
                os._exit(main.run(self.arguments(verb)))
            finally:
                os._exit(99)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = "".join(self.capture())
        assert code in (0, 1, -signal.SIGKILL), said
        return code == -signal.SIGKILL

    def clean(self) -> None:
        """Nothing of ours stands, and what is another's is as it was."""
        assert self.driver.below(self.root) == []
        assert self.reserved() == self.began
        assert not Path(STATE, escaped(self.root), "journal").exists()

    def close(self) -> None:
        self.file.unlink()
        subprocess.run(["systemctl", "stop", self.system[1:]], check=False)
        # a unit that runs no more is read again when it is started: an emulated reload takes seconds
        subprocess.run(["systemctl", "revert", "--no-reload", self.system[1:]], check=False)
        for tree in self.driver.layout.trees if self.hierarchy == "v1" else ():
            if tree.identity(self.system) is not None:
                tree.rmdir(self.system)
        super().close()


def _die_after(calls: int) -> None:
    """Let this process be killed before a call to systemd."""
    real, left = Bus._sent, calls

    async def sent(self: Bus, bus: MessageBus, message: Message) -> list[Any]:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return await real(self, bus, message)

    Bus._sent = sent  # type: ignore[method-assign]


@pytest.fixture
def applied(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Applied]:
    made = Applied(tmp_path, capfd.readouterr)
    try:
        yield made
    finally:
        made.close()


def counts(document: dict[str, Any]) -> list[Any]:
    return [document[name] for name in ("made", "written", "removed", "left", "failed")]


def test_systemd_apply_made_drifted_mended_and_released(applied: Applied) -> None:
    first = applied.run("apply", "-o", "json")
    assert first.code == 0, first
    assert first.json["made"] == 6
    assert first.json["written"] > 6
    assert applied.text(applied.system, applied.share) == (
        "204" if applied.hierarchy == "v1" else "8"
    )
    assert counts(applied.run("apply", "-o", "json").json) == [0, 0, 0, [], []]
    unit = applied.a.rpartition("/")[2]
    wanted = applied.text(applied.a, applied.share)
    run("systemctl", "set-property", "--runtime", unit, "CPUWeight=500")
    until(lambda: applied.text(applied.a, applied.share) != wanted)
    files = [(applied.a, applied.share, wanted)]
    if applied.has("memory"):
        tree = applied.driver.layout.tree_of("memory")
        assert tree is not None
        tree.write(applied.a, applied.limit, str(32 * MIB))
        files.append((applied.a, applied.limit, str(64 * MIB)))
    mended = applied.run("apply", "-o", "json")
    assert counts(mended.json) == [0, len(files), 0, [], []], mended
    run("systemctl", "daemon-reload")
    for path, file, value in files:
        assert applied.text(path, file) == value
    undone = applied.run("release", "-o", "json")
    assert (undone.code, undone.json["removed"]) == (0, 6), undone
    applied.clean()
    assert applied.run("release").out.endswith("nothing to undo\n")


def test_systemd_apply_follows_the_manifests(applied: Applied) -> None:
    applied.run("apply")
    first, second = PODS.split("---")
    applied.pods.write_text(second)
    gone = applied.run("apply", "-o", "json")
    assert (gone.code, gone.json["removed"]) == (0, 1), gone
    assert applied.driver.identity(applied.a) is None
    applied.pods.write_text(first)
    assert applied.run("apply", "-o", "json").json["made"] == 1
    assert applied.run("release").code == 0
    applied.clean()


@pytest.mark.parametrize("calls", thirds())
def test_systemd_apply_killed_between_any_two_calls(applied: Applied, calls: int) -> None:
    met = 0
    while applied.killed("apply", calls):
        met += 1
        if met % 2:
            assert applied.run("apply").code == 0
            assert applied.text(applied.a, applied.share) != "100"
        done = applied.run("release")
        assert done.code == 0, done
        applied.clean()
        calls += 3
    assert met >= 3
    assert applied.run("release").code == 0


@pytest.mark.parametrize("calls", thirds())
def test_systemd_release_killed_between_any_two_calls(applied: Applied, calls: int) -> None:
    met = True
    while met:
        assert applied.run("apply").code == 0
        met = applied.killed("release", calls)
        done = applied.run("release")
        assert done.code == 0, done
        applied.clean()
        calls += 3
    assert calls > 6


def test_systemd_apply_goes_near_a_limit_in_use(applied: Applied) -> None:
    if not applied.has("memory"):
        pytest.skip("this kernel has no v1 memory controller")
    applied.run("apply")
    unit = applied.a.rpartition("/")[2]
    code = f"b = b'x' * {40 * MIB}; print(len(b), flush=True); import time; time.sleep(600)"
    words = ["systemd-run", "--quiet", "--scope", f"--slice={unit}", sys.executable, "-c", code]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline()
            applied.pods.write_text(PODS.replace("64Mi", "33Mi"))
            refused = applied.run("apply", "--shrink", "refuse", "-o", "json")
            assert refused.code == 1
            assert applied.text(applied.a, applied.limit) == str(64 * MIB)
            waits = applied.run("apply", "-o", "json")
            assert waits.code == 1
            now = int(applied.text(applied.a, applied.limit))
            assert 40 * MIB < now < 64 * MIB
            assert now <= near(now)
            assert child.poll() is None
        finally:
            child.kill()
    until(lambda: len(applied.driver.below(applied.a)) == 1)
    assert applied.run("apply").code == 0
    name = "MemoryLimit" if applied.hierarchy == "v1" else "MemoryMax"
    assert run("systemctl", "show", unit, f"-p{name}", "--value") == str(33 * MIB)
    assert applied.text(applied.a, applied.limit) == str(33 * MIB)
    assert applied.run("release").code == 0
    applied.clean()


READ_ONLY = """
for at in $(awk '$3 ~ /^cgroup/ {print $2}' /proc/mounts); do
    mount -o remount,bind,ro "$at" || exit 9
done
exec "$@"
"""


def in_read_only(applied: Applied, verb: str) -> Done:
    """The program where it sees the control groups read-only, and systemd does not."""
    words = [sys.executable, "-m", "qoslet", *applied.arguments(verb)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPO,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_systemd_apply_where_control_groups_are_read_only(applied: Applied) -> None:
    done = in_read_only(applied, "apply")
    assert done.code == 1, done
    said = done.out + done.err
    assert "read-only" in said
    failed = [line for line in done.out.splitlines() if line.startswith("failed: ")]
    if applied.hierarchy == "v2":
        assert failed
        assert all("hugetlb." in line for line in failed), failed
        assert applied.text(applied.a, applied.limit) == str(64 * MIB)
    assert applied.run("apply").code == 0
    assert applied.run("release").code == 0
    applied.clean()


def test_systemd_apply_while_the_bus_is_restarted(applied: Applied) -> None:
    need_guest()
    for verb in ("apply", "release"):
        with subprocess.Popen(["systemctl", "restart", "dbus"]) as restart:
            done = applied.run(verb)
            assert restart.wait(60) == 0
        assert done.code == 0, done
    applied.clean()
    # what does not come back to a new bus by itself
    run("systemctl", "try-restart", "systemd-logind")
