"""Directories, files of ConfigMaps and Secrets, and host paths in the life of a pod of ``qoslet
run``."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from qoslet.host.containers.disk_volumes import VOLUMES_DIRECTORY
from qoslet.host.linux.mountinfo import mounts
from qoslet.host.state.folder import escaped
from tests.live.agent.run import PATIENCE, Held, One, held, manifest

__all__ = ["held"]

pytestmark = [pytest.mark.live, pytest.mark.timeout(3 * PATIENCE)]

VOLUMES = (
    "[{name: data, emptyDir: {}}, {name: cfg, configMap: {name: app}}, "
    "{name: sec, secret: {secretName: cred, defaultMode: 0400}}, "
    "{name: host, hostPath: {path: /etc, type: Directory}}]"
)
MOUNTS = (
    "[{name: data, mountPath: /qoslet-data}, {name: data, mountPath: /qoslet-data/in/two, subPath: two}, "
    "{name: cfg, mountPath: /qoslet-cfg}, "
    "{name: cfg, mountPath: /qoslet-one, subPath: key}, {name: sec, mountPath: /qoslet-sec}, "
    "{name: host, mountPath: /qoslet-host, readOnly: true}]"
)
SCRIPT = (
    "cd /qoslet-data; { id -u; cat /qoslet-cfg/key /qoslet-one /qoslet-sec/pw; "
    "test -e /qoslet-host/passwd && echo host; touch /qoslet-cfg/x || echo ro; echo in >in/two/file; } "
    ">seen 2>/dev/null; mv seen done; exec sleep 1000"
)
OWNED = {"securityContext": "{runAsUser: 1234, runAsGroup: 1234, fsGroup: 4321}"}


def config(text: str, secret: str = "hunter2") -> str:
    """ConfigMap ``app`` and Secret ``cred``."""
    return (
        f'apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: app}}\ndata: {{key: "{text}\\n"}}\n---\n'
        f'apiVersion: v1\nkind: Secret\nmetadata: {{name: cred}}\nstringData: {{pw: "{secret}\\n"}}\n'
    )


def pod(name: str, script: str = SCRIPT) -> str:
    """A pod with all of them."""
    return manifest(name, One("app", script, "{}", MOUNTS), volumes=VOLUMES, **OWNED)


def disk(held: Held) -> Path:
    return Path(VOLUMES_DIRECTORY, escaped(held.root))


def tmpfs(held: Held) -> list[str]:
    return [one.point for one in mounts() if one.point.startswith(f"{held.state}/volumes/")]


def inside(held: Held, path: str) -> str:
    """A file as the container has it."""
    (pid, *_) = held.groups.members(held.path("p", "app"))
    return Path(f"/proc/{pid}/root{path}").read_text()


def settled(held: Held) -> set[int]:
    """The one process of the container once its script is over."""
    app = held.path("p", "app")
    done = disk(held) / "pods" / "p0" / "data" / "done"
    held.until(lambda: done.exists() and len(held.groups.members(app)) == 1, "mv has ended")
    return set(held.groups.members(app))


def begin(held: Held, *pods: str) -> None:
    (held.folder / "config.yaml").write_text(config("v1"))
    held.begin(*pods, options=["--keep"])


def test_a_pod_has_its_files_and_nothing_is_left_of_them(held: Held) -> None:
    begin(held, pod("p"))
    data = disk(held) / "pods" / "p0" / "data"
    held.until(lambda: (data / "done").exists(), "it has looked")
    assert (data / "done").read_text().split() == ["1234", "v1", "v1", "hunter2", "host", "ro"]
    assert (data / "two" / "file").read_text() == "in\n", "a volume in a volume is one"
    assert (data / "done").stat().st_gid == 4321
    assert [Path(point).name for point in tmpfs(held)] == ["sec"], "Secrets are in memory only"
    for path in (disk(held), disk(held) / "pods", data.parent, held.state / "volumes"):
        assert path.stat().st_mode & 0o077 == 0
    assert not any(Path(f"/qoslet-{name}").exists() for name in ("data", "cfg", "sec", "host"))
    assert "hunter2" not in held.errors.read_text()
    (held.folder / "0.yaml").unlink()
    held.until(lambda: not data.parent.exists() and tmpfs(held) == [], "they are removed")


NOBODY = 65534


def test_no_other_user_of_the_machine_reads_a_file_of_a_volume(held: Held) -> None:
    """Files have their manifest's modes, 0644 where it says none; who may enter decides."""
    begin(held, pod("p"))
    data = disk(held) / "pods" / "p0" / "data"
    (pid,) = settled(held)
    files = [
        data / "done",
        data.parent / "cfg" / "key",
        *(Path(point) / "pw" for point in tmpfs(held)),
        *(Path(f"/proc/{pid}/root/qoslet-{name}") for name in ("cfg/key", "sec/pw", "data/done")),
        Path(f"/proc/{pid}/environ"),
    ]
    for file in files:
        assert file.read_bytes() is not None
        done = subprocess.run(
            ["cat", str(file)],
            capture_output=True,
            text=True,
            check=False,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
        )
        assert (done.returncode, done.stdout) == (1, ""), file
        assert "Permission denied" in done.stderr


def test_an_edit_reaches_volumes_and_no_variable_and_a_removal_nothing(held: Held) -> None:
    begin(held, pod("p"))
    assert inside(held, "/qoslet-cfg/key") == "v1\n"
    before = settled(held)
    (held.folder / "config.yaml").write_text(config("v2", "other"))
    held.until(lambda: inside(held, "/qoslet-cfg/key") == "v2\n", "the edit arrives")
    held.until(lambda: inside(held, "/qoslet-sec/pw") == "other\n", "and that of the Secret")
    assert inside(held, "/qoslet-one") == "v1\n", "a subPath stays"
    (held.folder / "config.yaml").unlink()
    held.until(lambda: "not found" in held.errors.read_text(), "the removal is said")
    assert inside(held, "/qoslet-cfg/key") == "v2\n"
    assert held.groups.members(held.path("p", "app")) == before


def test_a_killed_agents_successor_brings_files_up_to_date(held: Held) -> None:
    begin(held, pod("p"), pod("q"))
    data = disk(held) / "pods" / "p0" / "data"
    before = settled(held)
    assert held.run is not None
    held.run.send_signal(signal.SIGKILL)
    held.run.wait()
    (held.folder / "config.yaml").write_text(config("v3"))
    (held.folder / "1.yaml").unlink()
    held.begin(pod("p"), options=["--keep"])
    held.until(lambda: inside(held, "/qoslet-cfg/key") == "v3\n", "it knows the edit")
    held.until(lambda: os.listdir(disk(held) / "pods") == ["p0"], "the other's are removed")
    assert held.groups.members(held.path("p", "app")) == before, "it was not started again"
    assert (data / "done").exists()


def test_a_huge_directory_does_not_hold_up_the_agent(held: Held) -> None:
    fill = "cd /qoslet-data; for d in $(seq 100); do mkdir $d; done; touch $(seq 101 4000); exec sleep 1000"
    begin(held, pod("p", fill), pod("q"))
    data = disk(held) / "pods" / "p0" / "data"
    held.until(lambda: (data / "4000").exists(), "it is full")
    (held.folder / "0.yaml").unlink()
    held.until(lambda: not data.exists(), "it is out of the way")
    held.until(
        lambda: not (disk(held) / "removed").exists() or not os.listdir(disk(held) / "removed"),
        "gone",
    )
    assert len(held.populated()) == 1
