"""The unit file in a real systemd: ready, reloaded, killed, hung, stopped; the pods run on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.fixtures import answer
from tests.live.systemd.slices import need_guest
from tests.paths import REPO as ROOT

pytestmark = pytest.mark.live

UNIT = ROOT / "examples" / "systemd" / "qoslet.service"
PLACE = Path("/run/systemd/system")
ETC = Path("/etc/qoslet")

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, uid: "0a1b2c3d-0000-4000-8000-00000000000a"}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: x
    command: [sleep, "3600"]
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
"""


def systemctl(*words: str) -> str:
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"systemctl {' '.join(words)}: {done.stderr}{journal()}"
    return done.stdout.strip()


def shown(name: str) -> str:
    return systemctl("show", "-P", name, "qoslet.service")


def journal(lines: int = 30) -> str:
    done = subprocess.run(
        ["journalctl", "-u", "qoslet", "-n", str(lines), "--no-pager"],
        capture_output=True,
        text=True,
    )
    return done.stdout


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline, journal()
        time.sleep(0.5)


def containers() -> dict[str, int | None]:
    """Pod to the process of its container, as the agent says."""
    done = answer("ps", "-o", "json")
    if done.returncode:
        return {}
    items = json.loads(done.stdout)["items"]
    return {item["name"]: item["containers"][0]["pid"] for item in items if item["containers"]}


def main_pid() -> int:
    return int(shown("MainPID"))


@pytest.fixture
def unit() -> Iterator[Path]:
    """The unit as it is delivered, with this checkout's program and a short watchdog."""
    if not Path("/run/systemd/system").is_dir() or os.geteuid() != 0:
        pytest.skip("needs root and systemd as PID 1")
    if ETC.exists() or (PLACE / UNIT.name).exists():
        pytest.skip("this machine has a qoslet of its own")
    manifests = ETC / "manifests"
    manifests.mkdir(parents=True, mode=0o755)
    (manifests / "web.yaml").write_text(POD)
    shutil.copy(UNIT, PLACE / UNIT.name)
    command = f"{sys.executable} -m qoslet run {manifests} --keep --log-format journal"
    extra = PLACE / f"{UNIT.name}.d"
    extra.mkdir()
    (extra / "test.conf").write_text(
        f"[Service]\nExecStart=\nExecStart={command}\nEnvironment=PYTHONPATH={ROOT / 'src'}\n"
        "WatchdogSec=20\n"
    )
    yield manifests
    subprocess.run(["systemctl", "stop", "qoslet"], check=False)
    answer("release")
    shutil.rmtree(extra)
    (PLACE / UNIT.name).unlink()
    shutil.rmtree(ETC)
    systemctl("daemon-reload")


def test_ps_answers_while_the_agent_waits_for_the_bus(unit: Path) -> None:
    need_guest()
    extra = PLACE / f"{UNIT.name}.d" / "test.conf"
    extra.write_text(extra.read_text().replace("--keep", "--keep --cgroup-driver systemd"))
    systemctl("start", "qoslet")
    until(lambda: bool(containers().get("web")))
    process = containers()["web"]
    systemctl("stop", "dbus.socket", "dbus.service")
    try:
        (unit / "second.yaml").write_text(POD.replace("web", "second").replace("00a", "00b"))
        until(lambda: json.loads(answer("ps", "-o", "json").stdout)["lastSyncSeconds"] is not None)
        assert containers()["web"] == process
        told = answer("ps").stdout
        assert "web " in told
        assert "the agent waits for systemd: its last sync ended" in told
    finally:
        systemctl("start", "dbus.socket", "dbus.service")
        # what does not come back to a new bus by itself
        systemctl("try-restart", "systemd-logind")
    until(lambda: bool(containers().get("second")))
    assert containers()["web"] == process
    assert json.loads(answer("ps", "-o", "json").stdout)["lastSyncSeconds"] is None


def test_pods_outlive_whatever_happens_to_the_service(unit: Path) -> None:
    systemctl("start", "qoslet")
    assert shown("ActiveState") == "active"
    until(lambda: bool(containers().get("web")))
    process = containers()["web"]
    assert "pod" in shown("StatusText")

    (unit / "second.yaml").write_text(POD.replace("web", "second").replace("00a", "00b"))
    until(lambda: bool(containers().get("second")))
    both = containers()
    assert both["web"] == process

    killed = main_pid()
    os.kill(killed, signal.SIGKILL)
    until(lambda: main_pid() not in (0, killed) and containers() == both)

    systemctl("reload", "qoslet")
    until(lambda: "configuration reloaded" in journal())
    assert containers() == both

    hung = main_pid()
    os.kill(hung, signal.SIGSTOP)
    until(lambda: main_pid() not in (0, hung) and containers() == both)
    assert "watchdog" in journal().lower()

    systemctl("restart", "qoslet")
    until(lambda: containers() == both)
    keeper = next(
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if b"host.keeper.server" in path.read_bytes()
    )
    assert f"qoslet-keeper-{keeper}.scope" in Path(f"/proc/{keeper}/cgroup").read_text()

    systemctl("stop", "qoslet")
    assert "left-over process" not in journal(2000), "systemd warns of what stays in the unit"
    assert "remains running" not in journal(2000)
    assert answer("ps").returncode == 3
    assert all(Path(f"/proc/{pid}").exists() for pid in both.values())
    done = answer("release")
    assert done.returncode == 0, done.stderr
    assert not any(Path(f"/proc/{pid}").exists() for pid in both.values())


def test_the_unit_is_one_that_systemd_accepts(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(PLACE / UNIT.name)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, "")
