"""What containers of a real containerd get of their pod: files, variables, probes, seccomp."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.live.agent.agents import SLOW
from tests.live.cri.pods import SLEEPS, Cri, container, pod
from tests.live.cri.roots import containerd as containerd
from tests.live.cri.roots import cri as cri

pytestmark = [pytest.mark.live, pytest.mark.timeout(240 * SLOW)]

GREETING = "greeting"


def _object(kind: str, **more: Any) -> dict[str, Any]:
    """A ConfigMap or Secret that is named after its kind."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": kind.lower()}, **more}


def _mounted(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "mountPath": f"/{name}"} for name in names]


def test_files_variables_and_disk_space_of_a_pod(cri: Cri) -> None:
    script = "cat /files/* /keys/token; echo $GREETING; echo kept > /disk/note; cat /disk/note"
    volumes = [
        {"name": "files", "configMap": {"name": "configmap"}},
        {"name": "keys", "secret": {"secretName": "secret"}},
        {"name": "disk", "emptyDir": {}},
    ]
    made = container(
        "app",
        f"{script}; {SLEEPS}",
        envFrom=[{"configMapRef": {"name": "configmap"}}],
        volumeMounts=_mounted("files", "keys", "disk"),
    )
    cri.put(
        _object("ConfigMap", data={"GREETING": f"{GREETING}\n"}),
        _object("Secret", stringData={"token": "secret word\n"}),
        pod("web", made, volumes=volumes),
    )
    run = cri.begin()
    cri.up("web")
    lines = [GREETING, "secret word", GREETING, "kept"]
    cri.soon(lambda: [line for line in cri.log("web").splitlines() if line] == lines)
    said = cri.ends(run)
    assert "secret word" not in said


def test_probes_are_made_through_the_runtime(cri: Cri) -> None:
    ill = {"exec": {"command": ["sh", "-c", "exit 3"]}, "periodSeconds": 1, "failureThreshold": 1}
    well = {"exec": {"command": ["sh", "-c", "test -e /proc/1"]}, "periodSeconds": 1}
    cri.put(
        pod("ill", container("app", livenessProbe=ill)),
        pod("well", container("app", readinessProbe=well)),
    )
    run = cri.begin()
    cri.until(lambda: cri.answers() and len(cri.pods()) == 2, 40 * SLOW)
    cri.soon(lambda: cri.states("well")["app"]["ready"], 30)
    cri.soon(lambda: cri.states("ill")["app"]["restarts"] >= 1, 40)
    assert cri.states("well")["app"]["restarts"] == 0
    cri.ends(run)


@pytest.mark.parametrize(("profile", "mode"), [("RuntimeDefault", 2), ("Unconfined", 0)])
def test_the_runtimes_seccomp_profile_is_loaded(cri: Cri, profile: str, mode: int) -> None:
    cri.put(pod("confined", securityContext={"seccompProfile": {"type": profile}}))
    run = cri.begin()
    cri.up("confined")
    status = Path(f"/proc/{cri.pid('confined')}/status").read_text()
    assert f"\nSeccomp:\t{mode}\n" in status
    cri.ends(run)
