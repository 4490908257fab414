"""Memory-backed volumes in the life of a pod of ``qoslet run``."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from qoslet.host.linux.mountinfo import mounts
from tests.live.agent.run import MIB, PATIENCE, Held, One, held, manifest

__all__ = ["held"]

pytestmark = [pytest.mark.live, pytest.mark.timeout(3 * PATIENCE)]

VOLUMES = "[{name: cache, emptyDir: {medium: Memory, sizeLimit: 24Mi}}]"
LIMITED = "{limits: {memory: 64Mi}}"
AT = "[{name: cache, mountPath: /qoslet-cache}]"
FILL = (
    "if test -e /qoslet-cache/data; then wc -c </qoslet-cache/data >/qoslet-cache/seen; "
    "exec sleep 1000; fi; head -c 20971520 /dev/zero >/qoslet-cache/data; exit 1"
)


def volumes(held: Held) -> list[str]:
    """The volumes of the run that are mounted."""
    return [one.point for one in mounts() if one.point.startswith(f"{held.state}/volumes/")]


def pod(name: str, script: str, **spec: str) -> str:
    """A pod with a volume in memory."""
    return manifest(name, One("app", script, LIMITED, AT), volumes=VOLUMES, **spec)


def test_data_and_charge_outlive_the_container_and_end_with_the_pod(held: Held) -> None:
    held.need_memory()
    held.begin(pod("p", FILL, restartPolicy="OnFailure"), pod("q", "exec sleep 1000"))
    (volume,) = (path for path in volumes(held) if "/p0/" in path)
    held.until(lambda: Path(volume, "seen").exists(), "the container is started again")
    held.until(lambda: Path(volume, "seen").read_text() != "", "and sees its data")
    assert Path(volume, "seen").read_text().strip() == str(20 * MIB)
    assert held.shmem(held.path("p")) >= 20 * MIB
    assert held.shmem(held.path("q")) < MIB
    above = held.path("p").rpartition("/")[0]
    (held.folder / "0.yaml").unlink()
    held.until(lambda: not any("/podp0" in path for path in held.groups.below(held.root)), "gone")
    assert [path for path in volumes(held) if "/p0/" in path] == []
    assert not Path(volume).exists()
    assert held.shmem(above) < MIB, "its memory is given back"
    assert len(volumes(held)) == 1
    assert not Path("/qoslet-cache").exists()
    assert held.run is not None
    held.run.send_signal(signal.SIGTERM)
    assert held.run.wait(PATIENCE) == 0, held.errors.read_text()
    assert volumes(held) == []


def test_a_pod_that_has_ended_keeps_no_memory(held: Held) -> None:
    held.need_memory()
    stays = manifest("q", One("app", "exec sleep 1000", LIMITED))
    held.begin(pod("p", "sleep 3; head -c 20971520 /dev/zero >/qoslet-cache/data"), stays)
    above = held.path("p").rpartition("/")[0]
    held.until(lambda: volumes(held) == [], "the pod has succeeded and its volume is removed")
    held.until(lambda: not any("/podp0" in path for path in held.groups.below(held.root)), "gone")
    assert held.shmem(above) < MIB


def test_volumes_stay_over_the_agents_death_and_the_next_one_removes_what_is_left(
    held: Held,
) -> None:
    stays = "echo $$ >>/qoslet-cache/starts; exec sleep 1000"
    held.begin(pod("p", stays), pod("q", stays), options=["--keep"])
    (volume,) = (path for path in volumes(held) if "/p0/" in path)
    held.until(lambda: Path(volume, "starts").exists(), "it has begun")
    before = held.groups.members(held.path("p", "app"))
    assert held.run is not None
    held.run.kill()
    held.run.wait()
    (held.folder / "1.yaml").unlink()
    held.begin(pod("p", stays), options=["--keep"])
    held.until(lambda: volumes(held) == [volume], "the volume of the other pod is removed")
    assert held.groups.members(held.path("p", "app")) == before
    assert len(Path(volume, "starts").read_text().split()) == 1, "it was not started again"
    held.until(lambda: not any("/podq0" in path for path in held.groups.below(held.root)), "gone")


def test_a_volume_that_cannot_be_placed_holds_up_its_pod_only(held: Held) -> None:
    mount = "[{name: cache, mountPath: /usr/bin/none/here}]"
    bad = manifest("b", One("app", "exec sleep 1000", LIMITED, mount), volumes=VOLUMES)
    (held.folder / "bad.yaml").write_text(bad)
    held.begin(pod("p", "exec sleep 1000"))
    held.until(lambda: "create it on the host first" in held.errors.read_text(), "the reason")
    assert len(held.populated()) == 1
