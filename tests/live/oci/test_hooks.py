"""Lifecycle hooks of containers that a real runc or crun makes, and of plain processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.oci.bundles import PATIENCE
from tests.live.oci.test_oci_run import Run, driver, run  # noqa: F401

pytestmark = [pytest.mark.live, pytest.mark.timeout(6 * PATIENCE)]

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: hooked, uid: hooked-0}
spec:
  terminationGracePeriodSeconds: %(grace)d
  volumes: [{name: out, hostPath: {path: %(out)s}}]
  containers:
    - name: app
      image: busybox:1
      command: [sh, -c, "trap 'echo term >> /out/order; exit 0' TERM; while :; do sleep 0.1; done"]
      volumeMounts: [{name: out, mountPath: /out}]
      lifecycle:
        postStart: {exec: {command: [sh, -c, "cat /proc/self/cgroup > /out/post"]}}
        preStop: {exec: {command: [sh, -c, "echo pre >> /out/order; while ! test -e /out/go; do sleep 0.1; done"]}}
    - name: wrong
      image: busybox:1
      command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 0.1; done"]
      lifecycle:
        postStart: {exec: {command: [sh, -c, "echo no; exit 3"]}}
"""
OTHER = """
apiVersion: v1
kind: Pod
metadata: {name: other, uid: other-0}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: busybox:1, command: [sleep, "600"]}]
"""


def test_hooks_are_run_in_the_container_and_survive_their_agent(
    run: Run,  # noqa: F811
) -> None:
    out = run.folder / "out"
    out.mkdir()
    run.write(PODS % {"out": out, "grace": 20 * PATIENCE})
    run.write(OTHER, "other")
    run.begin()
    seen = run.until(
        lambda seen: (
            seen.get("hooked/app", {}).get("ready") and seen["hooked/wrong"]["restarts"] and seen
        )
    )
    assert (out / "post").exists()
    own = Path(f"/proc/{seen['hooked/app']['pid']}/cgroup").read_text()
    inside = (out / "post").read_text()
    assert inside == own or "0::/\n" in inside
    assert "PostStartHook failed: exit code 3: no" in run.said()
    (run.manifests / "pods.yaml").unlink()
    order = out / "order"
    run.until(lambda _: order.exists())
    run.agents[-1].kill()
    run.agents[-1].wait()
    run.begin()
    run.until(lambda seen: "other/app" in seen)
    assert order.read_text() == "pre\n", "the keeper waits for its end"
    (out / "go").touch()
    run.until(lambda seen: "hooked/app" not in seen)
    assert order.read_text() == "pre\nterm\n"
