"""A container on its way, with a runtime that takes its time."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Any, cast

import pytest

from qoslet.core.workload.container_spec import OciRuntime
from qoslet.host.oci import create
from qoslet.host.oci.bundle_folder import ContainerFiles
from qoslet.host.oci.create import CreateRequest, create_container, wait_for_create

SLOW = """#!/bin/sh
echo $$ > {folder}/began
while [ ! -e {folder}/go ]; do sleep 0.02; done
"""


@pytest.fixture
def place(tmp_path: Path) -> ContainerFiles:
    runc = tmp_path / "runc"
    runc.write_text(SLOW.format(folder=tmp_path))
    runc.chmod(0o755)
    return ContainerFiles(str(tmp_path), OciRuntime("runc", str(runc), str(tmp_path)), "u", "app")


def is_locked(place: ContainerFiles) -> bool:
    with open(place.lock, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def until(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or not path.stat().st_size:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_lock_is_held_until_the_runtime_is_done(
    place: ContainerFiles,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """A keeper that is killed meanwhile leaves nothing half made to the next one."""
    monkeypatch.setattr(create, "_prepare", lambda making: None)
    nothing = os.open(os.devnull, os.O_WRONLY)
    making = CreateRequest(place, cast(Any, None), cast(Any, None), {}, (nothing, nothing))
    child = os.fork()
    if child == 0:
        create_container(making)
    request.addfinalizer(lambda: (tmp_path / "go").touch())
    until(tmp_path / "began")
    assert (tmp_path / "began").read_text().strip() == str(child), "it became the runtime"
    assert is_locked(place)
    waiting = os.fork()
    if waiting == 0:
        wait_for_create(place)
    time.sleep(0.2)
    assert os.waitpid(waiting, os.WNOHANG) == (0, 0), "the next keeper waits"
    (tmp_path / "go").touch()
    assert os.waitpid(child, 0)[1] == 0
    assert os.waitpid(waiting, 0)[1] == 0
    assert not is_locked(place)
    os.close(nothing)
