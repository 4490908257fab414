"""What unpacks an image: it cannot write elsewhere, nor go on beyond its budget, whatever it is."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from qoslet.errors import CannotDo
from qoslet.host.images import umoci
from qoslet.host.images.layers import Limits
from qoslet.host.images.sandbox import MEMORY_BYTES, OPEN_FILES, confined
from qoslet.host.images.store import Store
from tests.host.images import layouts
from tests.host.images.layouts import file, layer
from tests.host.images.test_images import found, left, needs_umoci, tree

pytestmark = needs_umoci


def run(
    folder: Path, work: Callable[[], object], size: int = 1 << 20, seconds: float = 20.0
) -> None:
    folder.mkdir()
    confined(work, str(folder), size, seconds)


def failure(
    folder: Path, work: Callable[[], object], size: int = 1 << 20, seconds: float = 20
) -> str:
    with pytest.raises(ValueError) as error:
        run(folder, work, size, seconds)
    return str(error.value)


def test_what_its_parent_has_open_is_none_of_its_business(tmp_path: Path) -> None:
    kept = [os.open("/", os.O_PATH) for _ in range(max(2 * OPEN_FILES, 1100))]
    try:
        assert kept[-1] > 1023, "select(2) knows none beyond"
        run(tmp_path / "in", lambda: Path("open").write_text(str(len(os.listdir("/proc/self/fd")))))
    finally:
        for descriptor in kept:
            os.close(descriptor)
    assert int((tmp_path / "in/open").read_text()) < 8


def test_only_its_directory_can_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "evil").write_text("untouched")
    run(tmp_path / "in", lambda: Path("made").write_text("x"))
    assert tree(tmp_path / "in") == {"made": "x"}
    outside: list[Callable[[], object]] = [
        lambda: Path("../evil").write_text("pwned"),
        lambda: (tmp_path / "evil").write_text("pwned"),
        lambda: os.unlink("../evil"),
        lambda: os.rename("..", "../../other"),
        lambda: Path("/tmp/qoslet-escaped").write_text("pwned"),
    ]
    for number, escape in enumerate(outside):
        said = failure(tmp_path / f"out{number}", escape)
        assert any(one in said for one in ("Read-only file system", "cross-device", "busy"))
    assert (tmp_path / "evil").read_text() == "untouched"


def test_a_program_cannot_undo_it(tmp_path: Path) -> None:
    def remount() -> None:
        line = "mount -o remount,bind,rw / && exit 0; touch /qoslet-escaped && exit 0; exit 1"
        os.execv("/bin/sh", ["sh", "-c", line])

    assert "Read-only file system" in failure(tmp_path / "in", remount)


def test_what_it_writes_is_bounded(tmp_path: Path) -> None:
    def one_file() -> None:
        Path("big").write_bytes(bytes(2 << 20))

    assert failure(tmp_path / "one", one_file)
    assert (tmp_path / "one/big").stat().st_size == 1 << 20

    def many_files() -> None:
        for number in range(10_000):
            Path(f"{number}").write_bytes(bytes(1 << 16))
            time.sleep(0.001)

    assert "more than 1048576 bytes written" in failure(tmp_path / "many", many_files)
    # what it wrote between two looks at most
    assert len(os.listdir(tmp_path / "many")) < 2000


def test_its_memory_and_its_time_are_bounded(tmp_path: Path) -> None:
    taken: list[bytes] = []

    def hoard() -> None:
        while True:
            taken.append(os.urandom(1 << 16) * (MEMORY_BYTES >> 20))

    assert "more memory" in failure(tmp_path / "memory", hoard)
    started = time.monotonic()
    assert "more than 0.5 seconds" in failure(
        tmp_path / "time", lambda: time.sleep(60), seconds=0.5
    )
    assert time.monotonic() - started < 15


def test_it_ends_with_all_that_it_started(tmp_path: Path) -> None:
    def fork() -> None:
        child = os.fork()
        if child:
            Path("child").write_text(str(child))
        time.sleep(60)

    failure(tmp_path / "in", fork, seconds=0.5)
    child = int((tmp_path / "in/child").read_text())
    for _ in range(100):
        try:
            state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    pytest.fail("it goes on")


def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    def nested() -> None:
        Path("pid").write_text(str(os.getpid()))
        time.sleep(60)

    folder = tmp_path / "in"
    folder.mkdir()
    parent = os.fork()
    if parent == 0:
        try:
            confined(nested, str(folder), 1 << 20, 50)
        finally:
            os._exit(0)
    deadline = time.monotonic() + 20
    while not (folder / "pid").exists() or not (folder / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child = int((folder / "pid").read_text())
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        stat = (
            Path(f"/proc/{child}/stat").read_text() if Path(f"/proc/{child}/stat").exists() else ""
        )
        if stat.rpartition(")")[2].split()[:1] == ["Z"]:
            break
        time.sleep(0.02)
    assert time.monotonic() < deadline


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rm -rf ../../../evil; mkdir rootfs; echo cannot >&2; exit 1", "cannot"),
        ("exit 7", "exit code 7"),
        ("kill -9 $$", "ended by signal 9"),
        ("true", "No such file or directory: rootfs"),
        ("mkdir rootfs; mknod rootfs/sda b 8 0", "is a device"),
        (
            "mkdir rootfs; cd rootfs; seq 2000 | xargs mkdir",
            "more than 1000 entries",
        ),
        ("while :; do :; done", "more than 1 seconds"),
        ("yes >&2 & yes >&2", "more than 1 seconds|bytes written"),
    ],
)
def test_a_program_that_misbehaves_leaves_nothing(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "evil").write_text("untouched")
    layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))]))
    program = script(tmp_path / "umoci", text)
    store = Store(
        str(tmp_path / "store"), Limits(1 << 20, 1000, 1 if "seconds" in said else 60), program
    )
    with pytest.raises(ValueError, match=said):
        store.unpacked(found(tmp_path))
    assert left(tmp_path) == []
    assert (tmp_path / "evil").read_text() == "untouched"


def test_attributes_that_overlayfs_obeys_are_taken_back(tmp_path: Path) -> None:
    layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))]))
    set_ = "import os; os.setxattr('rootfs', 'user.overlay.opaque', b'y')"
    program = script(
        tmp_path / "umoci", f'mkdir rootfs; echo x > rootfs/a; /usr/bin/python3 -c "{set_}"; exit 0'
    )
    rootfs = Store(str(tmp_path / "store"), program=program).unpacked(found(tmp_path))
    assert tree(Path(rootfs)) == {"a": "x\n"}
    assert os.listxattr(rootfs) == []


def test_umoci_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(umoci, "find_program", lambda name: None)
    with pytest.raises(CannotDo, match="apt install umoci") as error:
        umoci.find_umoci()
    assert error.value.exit_code == 3
