"""A user without rights: what was delegated to them by their own manager, and that manager itself."""

from __future__ import annotations

import json
import os
import pwd
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qoslet.host.machine.probe import probe
from tests.live.systemd.slices import MIB, need_guest, need_systemd, run, until
from tests.paths import REPO

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

USER = 1000
POINT = "/sys/fs/cgroup"
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: a, uid: a0}
spec: {containers: [{name: c, resources: {requests: {cpu: 100m, memory: 32Mi}, \
limits: {cpu: 200m, memory: 64Mi}}}]}
"""
ASIDE = """
here=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)
mkdir "$here/main" && echo $$ > "$here/main/cgroup.procs" &&
    touch "$XDG_RUNTIME_DIR/aside" && exec sleep infinity
"""
"""What DelegateSubgroup= does, for a systemd that has none."""


class Session:
    """The manager of a user, and a unit of it whose group is theirs."""

    def __init__(self) -> None:
        need_systemd()
        need_guest()
        if probe().hierarchy != "v2":
            pytest.skip("systemd delegates no v1 controller to users")
        self.user = pwd.getpwuid(USER)
        run("systemctl", "start", f"user@{USER}")
        self.runtime = Path(f"/run/user/{USER}")
        self.pods = self.runtime / "pods.yaml"
        self.pods.write_text(PODS)
        self.pods.chmod(0o644)
        self.unit = f"qoslet-test-{secrets.token_hex(4)}.service"
        given = ["systemd-run", "--user", "--quiet", f"--unit={self.unit}", "-p", "Delegate=yes"]
        # as a file: systemd would replace what a command's $ says
        aside = self.runtime / "aside.sh"
        aside.write_text(ASIDE)
        aside.chmod(0o644)
        self.did(*given, "sh", str(aside))
        until((aside.parent / "aside").exists)
        shown = "systemctl", "--user", "show", "-pControlGroup", "--value", self.unit
        self.group = self.did(*shown).stdout.strip()

    def did(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """A command of the user that ends with a code."""
        done = self.tried(*words)
        assert done.returncode == code, done
        return done

    def tried(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of the user."""
        environment = {
            "HOME": self.user.pw_dir,
            "PATH": os.environ["PATH"],
            "XDG_RUNTIME_DIR": str(self.runtime),
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={self.runtime}/bus",
        }
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            cwd=REPO,
            env=environment,
            user=USER,
            group=USER,
            extra_groups=[],
            timeout=120,
        )

    def qoslet(self, verb: str, *more: str, code: int = 0) -> dict[str, Any]:
        words = [sys.executable, "-m", "qoslet", verb, *more, "-o", "json"]
        if verb == "apply":
            words += [str(self.pods), "--kubernetes", "1.34"]
        return dict(json.loads(self.did(*words, code=code).stdout))

    def text(self, path: str) -> str:
        return Path(POINT + path).read_text().strip()

    def close(self) -> None:
        self.did("systemctl", "--user", "stop", self.unit)
        for name in ("pods.yaml", "aside.sh", "aside"):
            (self.runtime / name).unlink()
        assert list(self.runtime.glob("qoslet/*/journal")) == []


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session()
    try:
        yield made
    finally:
        made.close()


def test_a_systemd_users_own_group_gets_what_was_delegated(session: Session) -> None:
    there = set(session.text(f"{session.group}/cgroup.controllers").split())
    assert {"memory", "pids"} <= there
    root = f"{session.group}/qoslet"
    machine = set(Path(POINT, "cgroup.controllers").read_text().split())
    lacking = machine & {"cpu", "cpuset", "hugetlb", "memory", "pids"} - there
    first = session.qoslet("apply", "--cgroup-root", root, code=1 if lacking else 0)
    assert {row["controller"] for row in first["missing"]} == lacking
    assert (first["made"], first["failed"], first["left"]) == (5, [], [])
    pod = f"{root}/kubepods/burstable/poda0"
    assert session.text(f"{pod}/memory.max") == str(64 * MIB)
    if "cpu" in there:
        assert session.text(f"{pod}/cpu.max") == "20000 100000"
    again = session.qoslet("apply", "--cgroup-root", root, code=1 if lacking else 0)
    assert (again["made"], again["written"]) == (0, 0)
    # nobody names the driver here: it is that of the tree, not what systemd as PID 1 suggests
    audit = session.qoslet("audit", "-f", str(session.pods), "--cgroup-root", root, code=1)
    assert {one["verdict"] for one in audit["findings"]} <= {"controller", "missing"}
    assert session.qoslet("release", "--cgroup-root", root)["removed"] == 5
    assert not Path(POINT + root).exists()


RUNS = """
apiVersion: v1
kind: Pod
metadata: {name: b, uid: b0}
spec:
  restartPolicy: Never
  containers: [{name: c, image: none, command: ["true"], resources: {limits: {cpu: 200m, memory: 64Mi}}}]
"""


def test_a_pod_runs_in_a_users_own_group(session: Session) -> None:
    session.pods.write_text(RUNS)
    root = f"{session.group}/qoslet"
    words = ["run", str(session.pods), "--cgroup-root", root, "--for", "120"]
    ended = session.qoslet(*words)
    assert [(pod["name"], pod["phase"]) for pod in ended["pods"]] == [("b", "Succeeded")]
    machine = set(Path(POINT, "cgroup.controllers").read_text().split())
    there = set(session.text(f"{session.group}/cgroup.controllers").split())
    lacking = machine & {"cpu", "cpuset", "hugetlb", "memory", "pids"} - there
    said = [row["message"] for row in ended["problems"] if "not delegated" in row["message"]]
    assert all(any(name in text for text in said) for name in lacking)
    assert not any("becomes the unit" in row["message"] for row in ended["problems"])
    assert not Path(POINT + root).exists()


def test_the_only_agent_of_a_user_is_asked(session: Session) -> None:
    session.pods.write_text(RUNS.replace('["true"]', '["sh", "-c", "echo hello; sleep infinity"]'))
    agent = f"qoslet-test-{secrets.token_hex(4)}"
    python = [sys.executable, "-m", "qoslet", "run", str(session.pods), "--keep"]
    given = ["-p", "Delegate=yes", "-p", f"WorkingDirectory={REPO}", f"--unit={agent}"]
    given += [f"--setenv=PYTHONPATH={os.environ.get('PYTHONPATH', '')}"]
    root = ["--cgroup-root", f"{session.group}/qoslet"]
    session.did("systemd-run", "--user", "--quiet", *given, *python, *root)
    logs = [sys.executable, "-m", "qoslet", "logs", "b"]
    try:
        until((session.runtime / "qoslet").exists)
        until(lambda: session.tried(*logs).stdout == "hello\n")
        (pod,) = session.qoslet("ps")["items"]
        assert (pod["name"], pod["phase"]) == ("b", "Running")
    finally:
        session.did("systemctl", "--user", "stop", agent)
        session.qoslet("release", *root)


def test_a_systemd_users_own_manager_makes_slices(session: Session) -> None:
    name = f"/qoslet-test-{secrets.token_hex(4)}"
    given = ["--cgroup-root", name, "--cgroup-driver", "systemd"]
    above = session.group.partition("/app.slice")[0]
    there = set(session.text(f"{above}/cgroup.controllers").split())
    machine = set(Path(POINT, "cgroup.controllers").read_text().split())
    lacking = machine & {"cpu", "cpuset", "hugetlb", "memory", "pids"} - there
    first = session.qoslet("apply", *given, code=1 if lacking else 0)
    assert (first["made"], first["failed"], first["left"]) == (5, [], [])
    assert {row["controller"] for row in first["missing"]} == lacking
    stem = name[1:].replace("-", "_")
    pod = f"{stem}-kubepods-burstable-poda0.slice"
    (place,) = Path(POINT + above).glob(f"{stem}.slice/*/*/{pod}")
    assert (place / "memory.max").read_text().strip() == str(64 * MIB)
    session.did("systemctl", "--user", "daemon-reload")
    assert (place / "memory.max").read_text().strip() == str(64 * MIB)
    again = session.qoslet("apply", *given, code=1 if lacking else 0)
    assert (again["made"], again["written"]) == (0, 0)
    assert session.qoslet("release", *given[:2])["removed"] == 5
    assert not place.exists()
    listed = session.did("systemctl", "--user", "list-units", "--all", "--no-legend", f"{stem}*")
    assert listed.stdout == ""


def test_a_systemd_user_without_a_manager_is_told_what_to_do() -> None:
    need_systemd()
    need_guest()
    nobody = {"XDG_RUNTIME_DIR": "/run/user/65534", "PATH": os.environ["PATH"]}
    words = [sys.executable, "-m", "qoslet", "run", "examples/"]
    done = subprocess.run(
        [*words, "--cgroup-driver", "systemd"],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPO,
        env=nobody,
        user=65534,
        group=65534,
        extra_groups=[],
        timeout=120,
    )
    assert done.returncode == 3, done
    assert "Traceback" not in done.stderr
    if probe().hierarchy == "v2":
        assert "cannot connect to systemd's bus" in done.stderr
    else:
        assert "delegates no cgroup v1 controller" in done.stderr
