"""A pod's first container: its keeper is killed meanwhile, its image is not there yet, or it was the last one."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from qoslet.host.linux.mountinfo import mounts
from qoslet.host.state.folder import folder_of
from qoslet.host.state.keepers import keepers_of
from tests.live.oci.bundles import PATIENCE
from tests.live.oci.test_oci_run import Run, driver, run

__all__ = ["driver", "run"]

pytestmark = [pytest.mark.live, pytest.mark.timeout(6 * PATIENCE)]

NEVER = """
apiVersion: v1
kind: Pod
metadata: {{name: {0}, uid: {0}-0}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers: [{{name: app, image: busybox:1, command: [sleep, "600"]}}]
"""
ONCE = """
apiVersion: v1
kind: Pod
metadata: {name: once, uid: once-0}
spec:
  restartPolicy: Never
  containers: [{name: app, image: busybox:1, command: ["true"]}]
"""


def test_a_keeper_that_is_killed_at_a_first_start_loses_no_pod(run: Run) -> None:
    """Not even one that is never started again."""
    run.write(NEVER.format("anchor"), "anchor")
    run.begin()
    before = run.running(1)
    state = folder_of(run.place)
    for number, seconds in enumerate((0, 0.03, 0.1, 0.2)):
        keeper = _keeper_of(state)
        run.write(NEVER.format(f"pod-{number}"), f"pod-{number}")
        lock = Path(f"{state}/oci/pods/pod-{number}-0/app.lock")
        deadline = time.monotonic() + PATIENCE
        while not lock.exists():
            assert time.monotonic() < deadline, run.said()
            time.sleep(0.002)
        time.sleep(seconds)
        os.kill(keeper, signal.SIGKILL)
        after = run.running(number + 2)
        assert {name: after[name] for name in before} == before
        before = after
    assert {one["restarts"] for one in run.containers().values()} == {0}


def test_a_pod_that_never_restarts_waits_for_its_image(run: Run) -> None:
    run.begin()
    run.until(lambda seen: run.call("ps").returncode == 0)
    away = run.images.rename(run.folder / "away")
    run.write(ONCE)
    run.until(lambda seen: seen.get("once/app", {}).get("status") == "RunContainerError")
    away.rename(run.images)
    ended = run.until(lambda seen: seen["once/app"]["exitCode"] == 0 and seen["once/app"])
    assert ended["restarts"] == 0
    run.until(lambda seen: "default/once/app: exited with 0" in run.said())
    assert run.said().count("default/once/app: started") == 1


def test_a_pod_that_has_ended_holds_no_cgroup_in_any_hierarchy(run: Run) -> None:
    """On v1 a runtime makes them in more hierarchies than the plan names."""
    run.write(ONCE, "once")
    run.begin()
    trees = [Path(one.point) for one in mounts() if one.type in ("cgroup", "cgroup2")]

    def left() -> list[str]:
        return [str(one) for tree in trees for one in tree.glob(f"{run.name}*/**/*once*0*")]

    run.until(lambda seen: {one["phase"] for one in run.pods()} == {"Succeeded"} and not left())


def _keeper_of(state: str) -> int:
    """The one keeper of a state folder: the next one begins after its pods are seen running."""
    deadline = time.monotonic() + PATIENCE
    while len(found := keepers_of(state)) != 1:
        assert time.monotonic() < deadline, f"keepers: {found}"
        time.sleep(0.01)
    return found[0]
