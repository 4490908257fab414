"""What is left of a pod of an OCI runtime once it has ended: nothing, with the last one of a root."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.core.workload.container_spec import OciPod, OciRuntime
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.host.linux.mountinfo import MountPoint
from qoslet.host.oci.containers import OciContainers


def pod(uid: str, folder: Path) -> PodSpec:
    engine = OciRuntime("crun", "/usr/bin/crun", str(folder / "storage"))
    app = ProcessSpec("app", "regular", ("x",), (), "/", None, "Always")  # type: ignore[arg-type]
    return PodSpec(uid, f"default/{uid}", (app,), 1.0, (), bundles=OciPod(engine, {}))


@pytest.mark.parametrize("left", [".empty-directory", ".cache/seccomp", ""])
def test_what_crun_keeps_goes_with_the_last_pod(tmp_path: Path, left: str) -> None:
    """crun 1.21 in Debian 13 keeps compiled seccomp filters, crun 1.28 an empty directory."""
    state = tmp_path / "root"
    containers = OciContainers(str(state))
    first, last = pod("u-0", tmp_path), pod("u-1", tmp_path)
    for one in (first, last):
        Path(containers.place(one, "app").bundle).mkdir(parents=True)
    kept = state / "oci" / "crun" / left
    kept.mkdir(parents=True, exist_ok=True)
    if "cache" in left:
        (kept / "0123abcd").write_bytes(b"bpf")
    containers.forget(first)
    assert kept.exists(), "crun may be about to use it"
    containers.forget(last)
    assert list(state.iterdir()) == []
    containers.forget(last)


@pytest.mark.parametrize("mounted", [False, True])
def test_layers_of_a_boot_before_go_with_the_last_pod_unless_some_are_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: bool
) -> None:
    containers = OciContainers(str(tmp_path / "root"))
    first, last = pod("u-0", tmp_path), pod("u-1", tmp_path)
    for one in (first, last):
        Path(containers.place(one, "app").bundle).mkdir(parents=True)
    stale = Path(containers.place(pod("u-9", tmp_path), "app").written, "upper")
    stale.mkdir(parents=True)
    over = MountPoint("/x", "overlay", ("rw", f"upperdir={stale}"))
    monkeypatch.setattr("qoslet.host.oci.containers.mounts", lambda about: [over] * mounted)
    containers.forget(first)
    assert stale.exists()
    containers.forget(last)
    assert stale.exists() == mounted
    assert (tmp_path / "storage" / "containers").exists() == mounted
