"""How long a kubelet has looked after its cgroups."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from qoslet.host.kubelet.processes import KubeletProcess, working_seconds


def kubelet(folder: Path, age: float, socket_age: float | None) -> KubeletProcess:
    """A kubelet that started ``age`` seconds ago, with a socket of device plugins that old."""
    uptime = float(Path("/proc/uptime").read_text().split()[0]) - age
    ticks = int(uptime * os.sysconf("SC_CLK_TCK"))
    (folder / "stat").write_text(f"812 (kubelet) S {'0 ' * 18}{ticks} 0\n")
    if socket_age is not None:
        path = folder / "root/var/lib/kubelet/device-plugins/kubelet.sock"
        path.parent.mkdir(parents=True)
        path.touch()
        made = time.time() - socket_age
        os.utime(path, (made, made))
    return KubeletProcess(812, "kubelet", str(folder), ())


@pytest.mark.parametrize(
    ("age", "socket_age", "works"),
    [
        (30, None, 30),
        (100, 60, 60),
        (100, 5000, 0),
        (700, 5000, 700),
        (100, -50, 100),
    ],
    ids=["no-socket", "waited", "has-not-begun", "never-begins", "clock-put-back"],
)
def test_a_kubelet_works_since_its_socket_of_device_plugins(
    tmp_path: Path, age: float, socket_age: float | None, works: float
) -> None:
    """One that waited for its runtime for half a minute updates QoS cgroups half a minute later."""
    found = working_seconds(kubelet(tmp_path, age, socket_age))
    assert found == pytest.approx(works, abs=5)


def test_an_age_that_is_not_known_is_not_guessed(tmp_path: Path) -> None:
    assert working_seconds(KubeletProcess(812, "kubelet", str(tmp_path), ())) is None
