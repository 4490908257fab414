"""What a keeper finds of a container that the one before it was making."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

import pytest

from qoslet.core.workload.container_spec import OciRuntime
from qoslet.host.containers.spawn import StartFailed
from qoslet.host.oci import containers, create
from qoslet.host.oci.bundle_folder import ContainerFiles
from qoslet.host.oci.containers import CreateJob


def place_in(folder: Path) -> ContainerFiles:
    engine = OciRuntime("runc", "/usr/bin/runc", str(folder / "storage"))
    place = ContainerFiles(str(folder), engine, "u", "app")
    Path(place.pod).parent.mkdir(0o700, parents=True)
    Path(place.pod).mkdir(0o700)
    Path(place.bundle).mkdir()
    return place


def child(code: int = 0) -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(code)
    return pid


def failure(place: ContainerFiles, *, rejoins: bool, code: int = 0) -> StartFailed:
    job = CreateJob(place, child(code), lambda pid: True, rejoins=rejoins)
    select.select([job.report], [], [], 60)
    with pytest.raises(StartFailed) as failed:
        job.settle()
    return failed.value


def test_one_whose_maker_was_killed_with_the_keeper_is_made_again(tmp_path: Path) -> None:
    failed = failure(place_in(tmp_path), rejoins=True)
    assert (failed.temporary, failed.unseen) == (True, False)
    assert failed.reason == "its keeper was killed before it was started"


def test_one_that_ran_and_ended_without_a_keeper_has_no_known_code(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    ended = child(3)
    os.waitpid(ended, 0)
    Path(place.pid).write_text(str(ended))
    failed = failure(place, rejoins=True)
    assert (failed.temporary, failed.unseen) == (False, True)


def test_one_that_its_runtime_refused_is_made_again_which_tells_whether_it_may_be(
    tmp_path: Path,
) -> None:
    place = place_in(tmp_path)
    said = "runc run failed: namespace path: lstat /proc/12/fd/83: no such file or directory"
    Path(place.error).write_text(said)
    failed = failure(place, rejoins=True)
    assert (failed.reason, failed.temporary, failed.unseen) == (said, True, False)


def test_one_that_this_keeper_made_must_be_there(tmp_path: Path) -> None:
    failed = failure(place_in(tmp_path), rejoins=False)
    assert (failed.code, failed.temporary, failed.unseen) == (126, False, False)


@pytest.mark.parametrize(
    ("code", "said", "temporary"),
    [
        (create.NOT_BEGUN, "image app is not in /images", True),
        (create.NOT_BEGUN, "No such file or directory: /usr/sbin/runc", True),
        (create.REFUSED, "runAsNonRoot is set and app would run as root", False),
        (1, 'exec: "serve": executable file not found in $PATH', False),
        (1, "write /run/qoslet/a/oci/runc/u-app/state-1.tmp: no space left on device", True),
        (1, "write /run/qoslet/a/oci/pods/u/app/.pid: no space left on device", False),
    ],
)
def test_what_fails_before_the_runtime_is_no_end_of_the_container(
    tmp_path: Path, code: int, said: str, temporary: bool
) -> None:
    place = place_in(tmp_path)
    Path(place.error).write_text(said)
    failed = failure(place, rejoins=False, code=code)
    assert (failed.reason, failed.temporary) == (said, temporary)


def test_a_runtime_that_logs_nothing_is_told_by_its_end(tmp_path: Path) -> None:
    """As one that lacks a library: what it printed went where the container's output goes."""
    place = place_in(tmp_path)
    printed = "and logged no error; what it printed is in the container's log"
    assert failure(place, rejoins=False, code=3).reason == f"runc exited with 3 {printed}"
    killed = os.fork()
    if killed == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    job = CreateJob(place, killed, lambda pid: True)
    select.select([job.report], [], [], 60)
    with pytest.raises(StartFailed, match=f"runc was killed by signal 9 {printed}"):
        job.settle()


def test_its_lock_is_held_before_its_maker_exists(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    held = create.take_lock(place)
    assert held >= 0
    assert create.take_lock(place) == -1, "who asks for it now waits"
    os.close(held)
    again = create.take_lock(place)
    assert again >= 0
    os.close(again)


@pytest.mark.parametrize("started", [False, True])
def test_a_runtime_that_hangs_is_no_end_of_what_it_has_not_started(
    tmp_path: Path, started: bool
) -> None:
    place = place_in(tmp_path)
    hanging = os.fork()
    if hanging == 0:
        signal.pause()
    if started:
        Path(place.pid).write_text(str(hanging))
    job = CreateJob(place, hanging, lambda pid: True)
    job.deadline = 0.0
    with pytest.raises(StartFailed, match="not created within") as failed:
        job.settle()
    assert failed.value.temporary is not started


ROOTS = ("one.slice", "two.slice")


def claimed(place: ContainerFiles) -> int:
    """Claim a container as its keeper does; the lock is let go at once."""
    os.close(held := containers.claim(place))
    return held


def scoped(folder: Path, systemd: int | None = 257) -> list[ContainerFiles]:
    """The same container in two roots."""
    engine = OciRuntime("runc", "/usr/bin/runc", str(folder / "storage"), systemd=systemd)
    places = [ContainerFiles(str(folder / root), engine, "u", "app") for root in ROOTS]
    for place in places:
        Path(place.folder, "oci").mkdir(parents=True)
    return places


def test_a_scope_that_another_root_has_is_not_made(tmp_path: Path) -> None:
    """Seen with runc 1.1 and 1.3: it stops the scope that it could not make."""
    first, second = scoped(tmp_path)
    claimed(first)
    for _ in range(2):
        with pytest.raises(StartFailed, match="the root /one has a container of the same") as no:
            claimed(second)
        assert no.value.temporary
        assert not os.path.exists(second.lock), "the first root's restarts go on"
    claimed(first)
    os.unlink(first.lock)
    claimed(second)


def test_of_two_roots_that_begin_at_once_none_makes_the_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = scoped(tmp_path)
    take = create.take_lock

    def both(place: ContainerFiles) -> int:
        os.close(take(first))
        return take(place)

    monkeypatch.setattr(create, "take_lock", both)
    with pytest.raises(StartFailed, match=r"--cgroup-root /one\)"):
        claimed(second)
    assert not os.path.exists(second.lock)


def test_cgroups_without_systemd_have_paths_of_their_own(tmp_path: Path) -> None:
    for place in scoped(tmp_path, systemd=None):
        claimed(place)
