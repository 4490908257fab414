"""Volumes on disk and of the host, without any mount."""

from __future__ import annotations

import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from qoslet.core.workload.folders.types import DiskVolume, FilesVolume, HostVolume, VolumeFile
from qoslet.core.workload.process_spec import PodVolume, VolumeMount
from qoslet.errors import CannotDo
from qoslet.host.containers.disk_volumes import DiskVolumes
from qoslet.host.containers.host_paths import host_path
from qoslet.host.containers.mount_namespace import inside
from qoslet.host.containers.pod_volumes import PodVolumes


@pytest.fixture
def volumes(tmp_path: Path) -> PodVolumes:
    return PodVolumes(str(tmp_path / "state"), str(tmp_path / "disk"))


FILES = FilesVolume("cfg", files=(VolumeFile("k", 0o640, b"1"),))


def test_they_are_made_once_and_keep_what_is_in_them(volumes: PodVolumes, tmp_path: Path) -> None:
    wanted: list[PodVolume] = [DiskVolume("data"), FILES]
    places = volumes.provide("u1", wanted)
    data = Path(places["data"])
    assert stat.S_IMODE(data.stat().st_mode) == 0o777
    assert Path(places["cfg"], "k").read_bytes() == b"1"
    (data / "kept").write_text("x")
    data.chmod(0o700)
    other = FilesVolume("cfg", files=(VolumeFile("k", 0o640, b"2"),))
    assert volumes.provide("u1", [DiskVolume("data"), other]) == places
    assert (data / "kept").read_text() == "x"
    assert stat.S_IMODE(data.stat().st_mode) == 0o700, "who has it may change its mode"
    assert Path(places["cfg"], "k").read_bytes() == b"2"
    for path in (tmp_path / "disk", tmp_path / "disk/pods", data.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert dict(volumes.existing()) == {"u1": ("cfg", "data")}
    again = PodVolumes(str(tmp_path / "state"), str(tmp_path / "disk"))
    assert dict(again.existing()) == {"u1": ("cfg", "data")}, "another agent takes them up"


def test_a_group_owns_what_is_asked_for(volumes: PodVolumes) -> None:
    path = volumes.provide("u1", [DiskVolume("data", os.getegid())])["data"]
    found = os.stat(path)
    assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o2777, os.getegid())


def test_what_is_removed_is_gone_at_once_and_its_content_in_time(
    volumes: PodVolumes, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    data = Path(volumes.provide("u1", [DiskVolume("data")])["data"])
    deep = data
    for number in range(40):
        deep = deep / f"d{number}"
        deep.mkdir()
        (deep / "file").write_text("x")
    (data / "link").symlink_to(outside)
    volumes.provide("u2", [DiskVolume("data")])
    volumes.remove("u1")
    assert dict(volumes.existing()) == {"u2": ("data",)}
    assert not data.exists()
    volumes.remove("u1")
    volumes.finish()
    assert os.listdir(tmp_path / "disk") == ["pods"]
    assert (outside / "kept").read_text() == "x", "no link is followed"
    volumes.remove("u2")
    volumes.finish()
    assert not (tmp_path / "disk").exists(), "nothing is left"
    assert volumes.notes == []


def test_an_agent_goes_on_removing_what_the_one_before_began(
    volumes: PodVolumes, tmp_path: Path
) -> None:
    """As ``kill -9`` between the rename and the end leaves it."""
    left = tmp_path / "disk" / "removed" / "abc"
    left.mkdir(parents=True)
    (left / "file").write_text("x")
    assert dict(volumes.existing()) == {}
    volumes.collect()
    volumes.finish()
    assert not (tmp_path / "disk").exists()


def test_what_no_thread_can_be_had_for_is_removed_later(
    volumes: PodVolumes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    volumes.provide("u1", [DiskVolume("data")])
    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", start)
        volumes.remove("u1")
    assert len(os.listdir(tmp_path / "disk" / "removed")) == 1
    volumes.finish()
    assert not (tmp_path / "disk").exists()


def test_two_may_remove_at_a_time(volumes: PodVolumes, tmp_path: Path) -> None:
    """The thread of an agent and the end of its run."""
    for number in range(20):
        data = Path(volumes.provide(f"u{number}", [DiskVolume("data")])["data"])
        for file in range(50):
            (data / f"{file}").touch()
        volumes.remove(f"u{number}")
        other = PodVolumes(str(tmp_path / "state"), str(tmp_path / "disk"))
        other.finish()
        assert not (tmp_path / "disk").exists()
        volumes.finish()
        assert (volumes.notes, other.notes) == ([], [])


def test_what_was_half_made_is_made_anew(volumes: PodVolumes, tmp_path: Path) -> None:
    half = tmp_path / "disk" / "pods" / "u1" / ".data"
    for path in (tmp_path / "disk", tmp_path / "disk/pods", half.parent, half):
        path.mkdir(mode=0o700)
    assert dict(volumes.existing()) == {"u1": ()}
    assert os.path.isdir(volumes.provide("u1", [DiskVolume("data")])["data"])
    assert os.listdir(half.parent) == ["data"]


@pytest.mark.parametrize("uid", ["..", "a/b", "", "."])
def test_no_name_leads_elsewhere(volumes: PodVolumes, uid: str) -> None:
    with pytest.raises(CannotDo):
        volumes.provide(uid, [DiskVolume("data")])
    with pytest.raises(CannotDo):
        volumes.provide("u1", [DiskVolume(uid)])


def test_a_link_in_our_place_is_refused(volumes: PodVolumes, tmp_path: Path) -> None:
    path = volumes.provide("u1", [FILES])["cfg"]
    volumes.remove("u1")
    volumes.provide("u1", [])
    Path(path).parent.mkdir()
    Path(path).parent.chmod(0o700)
    os.symlink(tmp_path, path)
    with pytest.raises(CannotDo):
        volumes.provide("u1", [FILES])


def test_folders_that_others_may_enter_are_refused(volumes: PodVolumes, tmp_path: Path) -> None:
    volumes.provide("u1", [DiskVolume("data")])
    (tmp_path / "disk").chmod(0o755)
    with pytest.raises(CannotDo, match="other users"):
        volumes.provide("u1", [DiskVolume("data")])


def test_host_paths_are_checked_by_type(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
    (tmp_path / "link").symlink_to(tmp_path)
    for path, kind in (
        (tmp_path, ""), (file, ""), (tmp_path, "Directory"), (tmp_path, "DirectoryOrCreate"),
        (tmp_path / "link", "Directory"), (file, "File"), (file, "FileOrCreate"),
        (tmp_path / "sock", "Socket"), (Path("/dev/null"), "CharDevice"),
    ):  # fmt: skip
        assert host_path(HostVolume("v", str(path), kind)) == str(path)  # type: ignore[arg-type]
    for path, kind, word in (
        (file, "Directory", "directory"), (tmp_path, "File", "file"), (file, "DirectoryOrCreate", "directory"),
        (file, "Socket", "socket file"), (file, "CharDevice", "character device"), (file, "BlockDevice", "block device"),
    ):  # fmt: skip
        with pytest.raises(CannotDo, match=f"hostPath type check failed: it is not a {word}"):
            host_path(HostVolume("v", str(path), kind))  # type: ignore[arg-type]
    hints = {
        "": "DirectoryOrCreate",
        "Directory": "DirectoryOrCreate",
        "File": "FileOrCreate",
        "Socket": "",
    }
    for kind, other in hints.items():
        with pytest.raises(CannotDo, match="does not exist") as caught:
            host_path(HostVolume("v", str(tmp_path / "none"), kind))  # type: ignore[arg-type]
        assert caught.value.hint == (f"create it, or use type {other}" if other else "create it")
        assert not (tmp_path / "none").exists()


def test_a_host_path_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    for path, kind, hint in (
        (tmp_path / "none/file", "FileOrCreate", "create the directory above it"),
        (tmp_path / "dangling", "DirectoryOrCreate", "check what is there"),
    ):
        with pytest.raises(CannotDo, match="hostPath cannot be created: ") as caught:
            host_path(HostVolume("v", str(path), kind))  # type: ignore[arg-type]
        assert (caught.value.where, caught.value.hint) == (str(path), hint)


def test_host_paths_are_created_where_the_type_says_so(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        host_path(HostVolume("v", str(tmp_path / "a/b"), "DirectoryOrCreate"))
        host_path(HostVolume("v", str(tmp_path / "a/f"), "FileOrCreate"))
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "a/f").stat().st_mode) == 0o644


def opened(mount: VolumeMount) -> str:
    """Where a mount leads."""
    descriptor = inside(mount)
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def test_a_part_of_files_is_found_through_our_link_alone(
    volumes: PodVolumes, tmp_path: Path
) -> None:
    path = volumes.provide("u1", [FILES])["cfg"]
    current = os.readlink(f"{path}/..data")
    mount = VolumeMount("cfg", "/x", True, path, "k", "files")
    assert opened(mount) == f"{path}/{current}/k"
    with pytest.raises(ValueError, match="no such file"):
        inside(VolumeMount("cfg", "/x", True, path, "none", "files"))
    assert not os.path.lexists(f"{path}/{current}/none"), "nothing is made in it"
    os.unlink(f"{path}/..data")
    os.symlink("/etc", f"{path}/..data")
    with pytest.raises(ValueError, match="leads to"):
        inside(VolumeMount("cfg", "/x", True, path, "passwd", "files"))


def test_links_in_a_volume_for_data_lead_nowhere(volumes: PodVolumes, tmp_path: Path) -> None:
    path = volumes.provide("u1", [DiskVolume("data")])["data"]
    os.symlink("/etc", f"{path}/link")
    for sub in ("link", "link/passwd"):
        with pytest.raises((ValueError, OSError)):
            inside(VolumeMount("data", "/x", False, path, sub, "disk"))
    assert opened(VolumeMount("data", "/x", False, path, "new/sub", "disk")) == f"{path}/new/sub"
    host = VolumeMount("host", "/x", False, str(path), "link", "host")
    with pytest.raises(ValueError, match="neither directory nor file"):
        inside(host)


def test_what_is_above_all_roots_goes_with_the_last_one(tmp_path: Path) -> None:
    shared = tmp_path / "volumes"
    first, second = (DiskVolumes(str(shared / name), str(shared)) for name in ("a", "b"))
    for one in (first, second):
        one.provide("u1", DiskVolume("data"))
        one.remove("u1")
    first.finish()
    assert [path.name for path in shared.iterdir()] == ["b"], "another root's stays"
    second.finish()
    assert not shared.exists()
    assert tmp_path.exists()
