"""A container on its way, with a runtime that takes its time."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from pathlib import Path
from typing import Any, cast

import pytest

from qoslet.core.workload.container_spec import OciRuntime
from qoslet.errors import CannotDo
from qoslet.host.oci import create
from qoslet.host.oci.bundle_folder import ContainerFiles
from qoslet.host.oci.create import (
    CreateRequest,
    create_container,
    delete_container,
    wait_for_create,
)
from qoslet.host.oci.writable_layer import no_layer

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


DELETE = """#!/bin/sh
case "$*" in *delete*) ;; *) exit 0 ;; esac
{act}
"""


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("exit 1", "runc delete: exit code 1"),
        ("sleep 600", "runc delete: not done within 0 s"),
        ("""echo '{"level":"error","msg":"busy"}' > "$4"; exit 1""", "runc delete: busy"),
    ],
)
def test_what_a_runtime_that_deletes_nothing_said_last(
    place: ContainerFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, said: str
) -> None:
    """Each attempt is told in the same words: neither those of the last one nor of the start."""
    monkeypatch.setattr(create, "FORGET_SECONDS", 0.3)
    Path(place.engine.program).write_text(DELETE.format(act=act))
    Path(place.state, place.id).mkdir(parents=True)
    Path(place.bundle).mkdir(parents=True)
    Path(place.log).write_text('{"level":"error","msg":"of the start"}')
    for _ in range(3):
        assert deleted(place) == create.NOT_BEGUN
        assert Path(place.error).read_text() == said


def test_who_holds_the_lock_of_a_container_that_is_deleted_is_asked_for(
    place: ContainerFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime may leave a process behind that has it."""
    monkeypatch.setattr(create, "FORGET_SECONDS", 0.3)
    held = create.take_lock(place)
    assert deleted(place) == create.NOT_BEGUN
    assert (
        f"another process has held its lock for 0 s (fuser {place.lock})"
        == Path(place.error).read_text()
    )
    os.close(held)
    assert deleted(place) == 0


def test_a_runtime_that_hangs_is_killed_where_its_container_is_deleted(
    place: ContainerFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keeper was killed, and would have done so."""
    monkeypatch.setattr(create, "_prepare", lambda making: None)
    monkeypatch.setattr(create, "FORGET_SECONDS", 2.0)
    monkeypatch.setattr(create, "KILL_SECONDS", 1.9)
    child = os.fork()
    if child == 0:
        making = cast(Any, CreateRequest)(place, None, None, {}, (1, 1), create.take_lock(place))
        create_container(making)
    until(tmp_path / "began")
    assert is_locked(place)
    assert deleted(place) == 0
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert not is_locked(place)


def deleted(place: ContainerFiles) -> int:
    """The exit code of a child that deletes the container."""
    child = os.fork()
    if child == 0:
        delete_container(place)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_file_system_without_room_for_layers_is_named() -> None:
    """The kernel says "Invalid argument" of the mount point, which is elsewhere."""
    refused = OSError(errno.EINVAL, "cannot mount overlay: Invalid argument", "/run/q/rootfs")
    said = no_layer(refused, "/var/lib/q")
    assert isinstance(said, CannotDo)
    assert said.where == "/var/lib/q"
    assert "--storage" in (said.hint or "")
    full = OSError(errno.ENOSPC, "No space left on device", "/run/q/rootfs")
    assert no_layer(full, "/var/lib/q") is full
