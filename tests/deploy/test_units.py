"""The units of ``examples/systemd`` leave the programs what they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.objects import kustomized
from tests.paths import REPO

UNITS = sorted((REPO / "examples" / "systemd").glob("*.service"))


def capabilities(path: Path) -> str:
    """The bounding set, ``~`` before what is taken away."""
    lines = path.read_text(encoding="utf-8").splitlines()
    (found,) = [one for one in lines if one.startswith("CapabilityBoundingSet=")]
    return found.partition("=")[2]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_threads_may_be_real_time(path: Path) -> None:
    """Source: systemd src/shared/seccomp-util.c, seccomp_restrict_realtime_full refuses every policy
    above SCHED_IDLE, so SCHED_RESET_ON_FORK and the nice value that comes after it, too."""
    assert "\nRestrictRealtime=yes" not in path.read_text(encoding="utf-8")
    found = capabilities(path)
    assert ("CAP_SYS_NICE" in found) != found.startswith("~")


def test_the_plugin_has_what_it_has_in_a_cluster() -> None:
    pods = kustomized("nri")["DaemonSet", "qoslet"]["spec"]["template"]["spec"]
    (plugin,) = [one for one in pods["containers"] if one["name"] == "nri"]
    found = capabilities(REPO / "examples" / "systemd" / "qoslet-nri.service").split()
    assert {f"CAP_{one}" for one in plugin["securityContext"]["capabilities"]["add"]} <= {*found}
