"""Roots of pods in a real containerd, below each cgroup driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.live.cri.containerd import Containerd, need_containerd
from tests.live.cri.pods import Cri
from tests.live.systemd.slices import need_systemd


@pytest.fixture(scope="module")
def containerd() -> Iterator[Containerd]:
    pytest.importorskip("grpc", reason="needs the extra qoslet[cri]")
    need_containerd()
    with Containerd(Path(mkdtemp(prefix="qoslet-cri-", dir="/tmp"))) as made:
        yield made


@pytest.fixture
def cri(tmp_path: Path, containerd: Containerd) -> Iterator[Cri]:
    if containerd.process is None:
        containerd.begin()
    made = Cri(tmp_path, containerd)
    try:
        yield made
    finally:
        made.clean()


@pytest.fixture(scope="module")
def slices() -> Iterator[Containerd]:
    """One with the systemd driver."""
    need_systemd()
    pytest.importorskip("grpc", reason="needs the extra qoslet[cri]")
    need_containerd()
    place = Path(mkdtemp(prefix="qoslet-cri-", dir="/tmp"))
    with Containerd(place, systemd=True) as made:
        yield made


@pytest.fixture(params=["cgroupfs", "systemd"])
def each(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cri]:
    """A root below each driver."""
    driver = request.param
    runtime = request.getfixturevalue("slices" if driver == "systemd" else "containerd")
    if runtime.process is None:
        runtime.begin()
    made = Cri(tmp_path, runtime, driver)
    try:
        yield made
    finally:
        made.clean()
