"""Probes and seccomp profiles of containers that a real runc or crun makes."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from qoslet.host.oci.seccomp_profiles import distribution_profile
from tests.live.oci.bundles import PATIENCE
from tests.live.oci.test_oci_run import Run, driver, run  # noqa: F401

pytestmark = [pytest.mark.live, pytest.mark.timeout(6 * PATIENCE)]

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: probed, uid: probed-0}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: command
      image: busybox:1
      command: [sh, -c, "sleep 600; true"]
      readinessProbe: {exec: {command: [sh, -c, "cat /proc/self/cgroup > /probe"]}, periodSeconds: 1}
    - name: open
      image: busybox:1
      command: [sh, -c, "while true; do nc -l -p %(inner)d; done"]
      readinessProbe: {tcpSocket: {port: %(inner)d}, periodSeconds: 1}
    - name: hosts
      image: busybox:1
      command: [sleep, "600"]
      readinessProbe: {tcpSocket: {port: %(outer)d}, periodSeconds: 1}
    - name: ill
      image: busybox:1
      command: [sleep, "600"]
      livenessProbe: {exec: {command: [sh, -c, "sleep 500; true"]}, periodSeconds: 1, failureThreshold: 1}
"""
CONFINED = """
apiVersion: v1
kind: Pod
metadata: {name: confined, uid: confined-0}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {seccompProfile: {type: RuntimeDefault}}
  containers: [{name: app, image: busybox:1, command: [sleep, "600"]}]
"""


def _paths(text: str) -> set[str]:
    """The lines of a cgroup file about hierarchies that a container has a cgroup in."""
    return {line for line in text.splitlines() if re.search(r":(memory|pids|cpu,cpuacct|):", line)}


def test_probes_are_made_inside_of_the_pod(run: Run) -> None:  # noqa: F811
    with socket.create_server(("127.0.0.1", 0)) as listener:
        outer = listener.getsockname()[1]
        run.write(PODS % {"inner": 8099, "outer": outer})
        run.begin()
        seen = run.until(
            lambda seen: (
                seen.get("probed/command", {}).get("ready")
                and seen["probed/hosts"]["unhealthy"]
                and seen["probed/ill"]["restarts"]
                and seen["probed/open"]["ready"]
                and seen
            )
        )
    pid = seen["probed/command"]["pid"]
    inside = Path(f"/proc/{pid}/root/probe").read_text()
    own = Path(f"/proc/{pid}/cgroup").read_text()
    assert "/../" not in inside
    if "0::/\n" not in inside:
        assert _paths(inside) == _paths(own)
    refused = f"Readiness probe failed: dial tcp 127.0.0.1:{outer}: connect: connection refused"
    assert seen["probed/hosts"]["unhealthy"] == [refused], "the host's port is not the pod's"
    assert "Container ill failed liveness probe, will be restarted" in run.said()


def test_the_distributions_profile_is_loaded(run: Run) -> None:  # noqa: F811
    if not distribution_profile():
        pytest.skip("this machine has no seccomp profile: golang-github-containers-common")
    run.write(CONFINED)
    run.begin()
    (pid,) = run.running(1).values()
    assert "Seccomp:\t2\n" in Path(f"/proc/{pid}/status").read_text()
