"""Who can change a path that root reads. Source: sshd_config(5) StrictModes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from qoslet.core.api.manifest import Options
from qoslet.errors import BadInput, BadInputs
from qoslet.host.files.manifests import load
from qoslet.host.files.trusted_path import LINKS_MAX, open_trusted, trusted_owners

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
NOBODY = 65534
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c}]}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """``a/b/pod.yaml`` with a link to it beside ``a``, all safe."""
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True, mode=0o755)
    path = folder / "pod.yaml"
    path.write_text(POD)
    path.chmod(0o644)
    (tmp_path / "link.yaml").symlink_to("a/b/pod.yaml")
    (tmp_path / "folder").symlink_to(folder)
    return path


def read(path: Path | str) -> str:
    descriptor = open_trusted(str(path), os.O_RDONLY)
    try:
        return os.read(descriptor, 1000).decode()
    finally:
        os.close(descriptor)


def refusal(path: Path | str) -> BadInput:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(BadInput) as raised:
        open_trusted(str(path), os.O_RDONLY)
    assert os.listdir("/proc/self/fd") == before
    return raised.value


def test_a_working_directory_that_is_gone_keeps_no_absolute_path_away(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert read(file) == POD
    with pytest.raises(OSError, match="No such file"):
        read("pod.yaml")


def test_below_a_working_directory_that_is_gone_nothing_is_said_to_be_absent(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pods would end."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    path = os.path.relpath(file)
    (tmp_path / "gone").rmdir()
    with pytest.raises(OSError, match="the working directory was removed") as caught:
        open_trusted(path, os.O_RDONLY)
    assert caught.value.errno == errno.ESTALE


@pytest.mark.parametrize(
    "way", ["a/b/pod.yaml", "link.yaml", "folder/pod.yaml", "a/../folder/../b/pod.yaml"]
)
def test_a_safe_path_is_read(
    file: Path, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(tmp_path / way) == POD
    monkeypatch.chdir(tmp_path)
    assert read(way) == POD


@pytest.mark.parametrize(
    ("part", "mode", "command"),
    [
        ("a/b/pod.yaml", 0o664, "chmod g-w"),
        ("a/b/pod.yaml", 0o646, "chmod o-w"),
        ("a/b/pod.yaml", 0o666, "chmod go-w"),
        ("a/b", 0o775, "chmod g-w"),
        ("a/b", 0o757, "chmod o-w"),
        ("a", 0o777, "chmod go-w"),
    ],
)
@pytest.mark.parametrize("way", ["a/b/pod.yaml", "link.yaml", "folder/pod.yaml"])
def test_what_a_group_or_everybody_can_write_is_refused(
    file: Path, tmp_path: Path, part: str, mode: int, command: str, way: str
) -> None:
    (tmp_path / part).chmod(mode)
    fault = refusal(tmp_path / way)
    facts = os.stat(tmp_path / part)
    rights = f"owner {facts.st_uid}, group {facts.st_gid}, mode {mode:04o}"
    assert f"{tmp_path / part} ({rights})" in fault.message
    assert (fault.where, fault.hint) == (str(tmp_path / way), f"{command} {tmp_path / part}")


@as_root
@pytest.mark.parametrize("part", ["a/b/pod.yaml", "a/b", "a", "link.yaml", "folder"])
@pytest.mark.parametrize("way", ["link.yaml", "folder/pod.yaml"])
def test_what_belongs_to_another_user_is_refused(
    file: Path, tmp_path: Path, part: str, way: str
) -> None:
    os.chown(tmp_path / part, NOBODY, 0, follow_symlinks=False)
    if part in ("link.yaml", "folder") and not way.startswith(part):
        assert read(tmp_path / way) == POD
        return
    fault = refusal(tmp_path / way)
    option = "-h " if (tmp_path / part).is_symlink() else ""
    assert f"{tmp_path / part} (owner {NOBODY}, " in fault.message
    assert fault.hint == f"chown {option}root {tmp_path / part}"


@as_root
def test_both_faults_of_a_component_are_mended_at_once(file: Path) -> None:
    os.chown(file, NOBODY, NOBODY)
    file.chmod(0o664)
    assert refusal(file).hint == f"chown root {file} && chmod g-w {file}"


@as_root
def test_who_became_root_by_sudo_may_own_files(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(file, 1000, 1000)
    refusal(file)
    monkeypatch.setenv("SUDO_UID", "1000")
    assert read(file) == POD
    assert trusted_owners({"SUDO_UID": "-1"}) == {0}


def test_a_sticky_directory_may_stand_on_the_way_only(file: Path, tmp_path: Path) -> None:
    file.parent.chmod(0o1777)
    assert read(file) == POD
    assert refusal(file.parent).hint == f"chmod go-w {file.parent}"


@as_root
def test_in_a_sticky_directory_the_entry_must_be_safe(file: Path) -> None:
    file.parent.chmod(0o1777)
    other = file.parent / "other.yaml"
    other.symlink_to(file)
    os.chown(other, NOBODY, NOBODY, follow_symlinks=False)
    assert refusal(other).hint == f"chown -h root {other}"
    os.chown(file.parent, NOBODY, 0)
    assert refusal(file).hint == f"chown root {file.parent}"


def test_a_device_keeps_its_mode(tmp_path: Path) -> None:
    """``chmod go-w /dev/zero`` would be advice that breaks the machine."""
    (tmp_path / "pod.yaml").symlink_to("/dev/zero")
    fault = refusal(tmp_path / "pod.yaml")
    assert (fault.message, fault.hint) == ("is not a regular file", "name a file or a directory")


def test_the_system_says_what_is_no_file(file: Path, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nothing")
    reasons = {
        "loop": errno.ELOOP,
        "dangling": errno.ENOENT,
        "none": errno.ENOENT,
        "a/b/pod.yaml/x": errno.ENOTDIR,
        "a/b/pod.yaml/": errno.ENOTDIR,
    }
    for way, reason in reasons.items():
        with pytest.raises(OSError) as raised:
            open_trusted(f"{tmp_path}/{way}", os.O_RDONLY)
        assert raised.value.errno == reason, way


def test_as_many_links_as_the_kernel_follows(file: Path, tmp_path: Path) -> None:
    before = file
    for number in range(LINKS_MAX):
        link = tmp_path / f"l{number}"
        link.symlink_to(before)
        before = link
    assert read(before) == before.read_text() == POD


def test_a_link_of_proc_leads_where_its_text_does_not() -> None:
    assert "a link of the proc file system" in refusal("/proc/self/root/etc/passwd").message


def test_a_file_exchanged_after_the_check_is_not_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever replaces the name between the check and the read finds the old file in use."""
    real: Callable[..., int] = os.open

    def exchange(path: str, *args: object, **options: object) -> int:
        if path.startswith("/proc/self/fd/"):
            file.rename(file.with_name("old"))
            file.write_text("another's")
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", exchange)
    assert read(file) == POD


@as_root
@pytest.mark.parametrize("part", ["a/b/pod.yaml", "a/b", "a"])
def test_a_named_file_and_a_directory_are_checked_alike(
    file: Path, tmp_path: Path, part: str
) -> None:
    os.chown(tmp_path / part, NOBODY, NOBODY)
    for path in (file, file.parent):
        assert [pod.name for pod in load([str(path)], Options()).pods] == ["web"]
        with pytest.raises(BadInputs) as raised:
            load([str(path)], Options(), root_check=True)
        assert raised.value.hint == f"chown root {tmp_path / part}"
