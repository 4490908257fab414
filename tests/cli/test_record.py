"""``qoslet record`` as a process: how it ends, what it refuses, what it leaves on disk."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qoslet.core.recording.frames import FIRST_LINE
from qoslet.core.recording.recording import Recording
from qoslet.host.cgroupfs.mounted import mounted
from qoslet.host.files.recording_file import MAX_READ, OLDER, read_segments
from tests.cli.fixtures import PODS, environment, run

pytestmark = pytest.mark.skipif(mounted().hierarchy is None, reason="no cgroups are mounted here")
ARGUMENTS = ("-f", "pods.yaml", "--cgroup-root", "/no-such-root", "--interval", "0.1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pods.yaml").write_text(PODS)
    return tmp_path


def read(folder: Path, name: str = "r") -> Recording:
    return Recording(read_segments(str(folder / name)))


@pytest.fixture
def begin(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    begun = []

    def start(*arguments: str, **options: object) -> subprocess.Popen[str]:
        process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-m", "qoslet", "record", *ARGUMENTS, *arguments, "r"],
            cwd=folder, env=environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,  # type: ignore[call-overload]
        )  # fmt: skip
        begun.append(process)
        return process

    yield start
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.communicate()


def until_size(file: Path, size: int) -> None:
    """Wait until a file has grown."""
    for _ in range(600):
        if file.exists() and file.stat().st_size >= size:
            return
        time.sleep(0.1)
    raise AssertionError(f"{file} has not grown to {size}")


def test_it_records_for_a_while_and_goes_on_at_the_end(folder: Path) -> None:
    first = run("record", *ARGUMENTS, "--for", "300ms", "r", folder=folder)
    assert first.returncode == 0, first.stderr
    assert " moment" in first.stdout
    before = len(read(folder))
    assert before >= 2
    assert run("record", *ARGUMENTS, "--for", "300ms", "r", folder=folder).returncode == 0
    found = read(folder)
    assert len(found) >= before + 2
    assert not found.notes
    assert stat.S_IMODE((folder / "r").stat().st_mode) == 0o600
    assert {one.pod for one in found.moment(0).rows} >= {"shop/db", "default/web"}
    assert found.moment(0).series[""].values["total"] > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_well(
    begin: Callable[..., subprocess.Popen[str]], folder: Path, number: int
) -> None:
    # the suite may have been started by nohup
    process = begin(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
    until_size(folder / "r", 1000)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert " moment" in out
    assert not read(folder).notes


def test_under_nohup_a_hang_up_changes_nothing(
    begin: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    process = begin(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    until_size(folder / "r", 1000)
    process.send_signal(signal.SIGHUP)
    until_size(folder / "r", (folder / "r").stat().st_size + 200)
    assert process.poll() is None
    process.terminate()
    assert process.wait(timeout=120) == 0


def test_closed_pipes_change_nothing(
    begin: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    process = begin()
    assert process.stdout is not None
    assert process.stderr is not None
    until_size(folder / "r", 1000)
    process.stdout.close()
    process.stderr.close()
    until_size(folder / "r", (folder / "r").stat().st_size + 200)
    assert process.poll() is None
    process.terminate()
    assert process.wait(timeout=120) == 141
    assert not read(folder).notes


def test_a_crash_leaves_what_was_recorded_and_the_next_start_says_what_it_cut(
    begin: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    process = begin()
    until_size(folder / "r", 1000)
    process.kill()
    process.wait(timeout=120)
    whole = len(read(folder))
    with (folder / "r").open("ab") as file:
        file.write(b"\xf5QR\n torn")
    done = run("record", *ARGUMENTS, "--for", "200ms", "r", folder=folder)
    assert done.returncode == 0
    assert "cut 9 bytes of a frame that was not whole" in done.stderr
    found = read(folder)
    assert len(found) > whole
    assert not found.notes


def test_a_full_disk_is_said_and_leaves_whole_frames(
    begin: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    most = 6000
    process = begin(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
    _, err = process.communicate(timeout=240)
    assert process.returncode == 3
    assert "cannot be written: File too large" in err
    assert (folder / "r").stat().st_size <= most
    assert not read(folder).notes


def test_one_process_records_to_a_file(
    begin: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    process = begin()
    until_size(folder / "r", 1000)
    done = run("record", *ARGUMENTS, "--for", "1", "r", folder=folder)
    assert done.returncode == 3
    assert "another process records to it" in done.stderr
    process.terminate()
    assert process.wait(timeout=120) == 0


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"qoslet recording 7\nx", 2, "has format 7, this qoslet reads 1"),
        (b"my diary", 2, "is not a recording"),
    ],
)
def test_other_files_stay_as_they_are(folder: Path, content: bytes, code: int, said: str) -> None:
    (folder / "r").write_bytes(content)
    done = run("record", *ARGUMENTS, "--for", "1", "r", folder=folder)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert (folder / "r").read_bytes() == content


def test_links_and_devices_are_refused(folder: Path) -> None:
    (folder / "target").write_bytes(b"")
    (folder / "link").symlink_to("target")
    os.mkfifo(folder / "pipe")
    for name, code, said in (
        ("link", 2, "link: is a symbolic link (name a file)"),
        (".", 2, ".: is a directory (name a file)"),
        ("pipe", 2, "pipe: is not a regular file"),
        ("/dev/null", 2, "/dev/null: is not a regular file"),
        ("no/r", 3, "no/r: cannot be opened: No such file or directory (name another file)"),
        ("", 3, "FILE: cannot be opened: No such file or directory (name another file)"),
    ):
        done = run("record", *ARGUMENTS, "--for", "1", name, folder=folder)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert f"qoslet: {said}" in done.stderr
        assert done.stderr.count("\n") <= 2, done.stderr
    assert (folder / "target").read_bytes() == b""


def test_a_file_that_is_too_large_to_read_is_not_cut(folder: Path) -> None:
    size = MAX_READ + 1
    (folder / "r").write_bytes(FIRST_LINE)
    os.truncate(folder / "r", size)
    done = run("record", *ARGUMENTS, "--for", "1", "r", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "r: is larger than 1024 MiB" in done.stderr
    assert (folder / "r").stat().st_size == size


def test_what_is_replayed_is_a_file(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for arguments in (("replay", "pipe"), ("top", "--replay", "pipe")):
        done = run(*arguments, folder=folder)
        assert (done.returncode, done.stderr) == (2, "qoslet: pipe: is a FIFO (give a file)\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--interval", "0", "r"), "is not a duration"),
        (("--interval", "2h", "r"), "must be 0.1 to 3600 seconds"),
        (("--for", "soon", "r"), "is not a duration"),
        (("--max-size", "10", "r"), "must be 1Mi to 1Gi"),
        (("--max-size", "2Gi", "r"), "must be 1Mi to 1Gi"),
        (("--max-size", "much", "r"), "--max-size"),
        ((), "FILE"),
    ],
)
def test_bad_input_is_one_line(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run("record", *arguments, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not (folder / "r").exists()


def test_a_bounded_recording_keeps_the_newest(folder: Path) -> None:
    from qoslet.core.recording.codec import Encoder
    from qoslet.host.files.recording_file import RecordingFile
    from tests.core.recording.examples import SESSION, SyntheticNode

    node, encoder = SyntheticNode(20, 20), Encoder()
    file = RecordingFile(str(folder / "r"), 40_000)
    for number in range(100):
        begins = not number or file.is_full
        if number and begins:
            file.rotate()
        if begins:
            file.append(encoder.session(SESSION))
        file.append(encoder.moment(node.moment(5.0 * number), key=begins))
    file.close()
    sizes = [(folder / name).stat().st_size for name in ("r", f"r{OLDER}")]
    assert sum(sizes) < 60_000
    found = read(folder)
    times = [one.at for one in found.moments()]
    assert times[-1] == 495.0
    assert times == [495.0 - 5 * back for back in range(len(times))][::-1]
    assert times[0] > 0
    assert stat.S_IMODE((folder / f"r{OLDER}").stat().st_mode) == 0o600
