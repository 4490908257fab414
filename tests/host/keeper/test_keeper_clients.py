"""What clients ask of a keeper."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.errors import CannotDo
from qoslet.host.keeper.client import KeeperRuntime
from qoslet.host.keeper.launch import Starter
from qoslet.host.keeper.protocol import LARGEST, VERSION, Peer, StopPod, encode
from tests.host.keeper.test_keeper import (
    BOOT_HERE,
    PATIENCE,
    Bench,
    bench,
    ended,
    pod,
    running,
    until,
    wait,
)

__all__ = ["bench"]


def test_restart_and_update(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "echo one; sleep 600"), ("b", "sleep 600")))
    before = until(one, running)
    wait(lambda: bench.printed("u1") == ["one"])
    spec = pod("u1", ("app", "echo two; sleep 600"), ("b", "sleep 600"))
    one.update(spec)
    one.restart("u1", "app")
    after = until(one, lambda s: s["u1", "app"].restarts == 1 and running(s))
    wait(lambda: bench.printed("u1", run=1) == ["two"])
    assert after["u1", "b"].pid == before["u1", "b"].pid
    assert bench.printed("u1") == ["one"]
    assert one.list_pods()["u1"].spec_digest != spec.digest(), "what was begun was another"


def test_two_clients_see_the_same(bench: Bench) -> None:
    one, two = bench.client(), bench.client()
    bench.begin(one, pod("u1", ("app", "sleep 600")))
    first = until(one, running)
    assert two.list_pods() == {} or [*two.list_pods()] == ["u1"]
    three = bench.client()
    assert [*three.list_pods()] == ["u1"]
    assert until(three, running) == first
    three.stop("u1", 0)
    until(one, lambda s: one.list_pods()["u1"].ended)
    three.close()


def test_a_start_of_what_is_kept_already_is_answered_with_how_it_is(bench: Bench) -> None:
    one, late = bench.client(), bench.client()
    late.begin()
    spec = pod("u1", ("app", "sleep 600"))
    bench.begin(one, spec)
    first = until(one, running)
    bench.begin(late, spec)
    assert until(late, running) == first


def test_the_starts_of_a_sync_are_sent_together(bench: Bench) -> None:
    one = bench.client()
    one.begin()
    until(one, lambda _: bool(one.pid))
    for uid in ("u1", "u2"):
        bench.begin(one, pod(uid, ("app", "sleep 600")))
    time.sleep(0.1)
    assert not (bench.folder / "keeper").exists()
    assert [*one.list_pods()] == ["u1", "u2"]
    until(one, running)


def test_a_hundred_containers_and_nothing_leaks(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u", ("app", "sleep 600")))
    until(one, running)
    descriptors = Path(f"/proc/{bench.keeper(one)}/fd")

    def crowd(first: int, line: str) -> None:
        specs = [pod(f"p{n}", ("app", line)) for n in range(first, first + 100)]
        begun = time.monotonic()
        for spec in specs:
            bench.begin(one, spec)
        assert time.monotonic() - begun < 5, "nobody waits for a start"
        until(one, lambda s: all(s[spec.uid, "app"].exit_code == 7 for spec in specs))
        assert all(bench.printed(spec.uid) == ["hello"] for spec in specs)
        for spec in specs:
            one.remove_pod(spec.uid)
        until(one, lambda s: [*one.list_pods()] == ["u"])

    crowd(0, "echo hello; exit 7")
    wait(lambda: len(os.listdir(bench.folder / "keeper")) == 1)
    before = len(os.listdir(descriptors))
    crowd(100, "echo hello; exit 7")
    wait(lambda: len(os.listdir(bench.folder / "keeper")) == 1)
    wait(lambda: len(os.listdir(descriptors)) <= before)
    # the last pod's log goes right after its record
    wait(lambda: len(os.listdir(bench.folder / "logs")) == 1)
    assert os.listdir(bench.folder / "logs") == ["default_u_u"]


def test_who_prints_without_end_holds_up_nobody(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("loud", ("a", "yes"), ("b", "yes"), ("c", "exec yes >&2")))
    until(one, running)
    for number in range(5):
        begun = time.monotonic()
        bench.begin(one, pod(f"p{number}", ("app", "echo hello")))
        until(one, lambda s: s[f"p{number}", "app"].exit_code == 0)  # noqa: B023
        assert time.monotonic() - begun < 5
        assert bench.printed(f"p{number}") == ["hello"]
    folder = bench.folder / "logs" / "default_loud_loud"
    for name in "abc":
        wait(lambda: len(list((folder / name).glob("0.log.*"))) == 2)  # noqa: B023
        assert sum(path.stat().st_size for path in (folder / name).iterdir()) < 8 << 20


def frame(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (frame(b"nonsense"), b"request rejected"),
        (frame(b"{}"), b"request rejected"),
        (frame(b'{"do":"stop","id":1,"uid":"u","grace":"x"}'), b"request rejected"),
        (frame(encode(StopPod(1, "u1", 0.0))), b"no hello before"),
        (frame(b"[" * 100_000), b"request rejected"),
        (struct.pack(">I", LARGEST + 1), b"too long"),
        (frame(b'{"do":"hello","version":999,"root":"/g"}'), b"has protocol version"),
        (frame(b'{"do":"hello","version":%d,"root":"/other"}' % VERSION), b"keeper of /g"),
        (b"\0", b""),
        (b"", b""),
    ],
)
def test_bad_messages_are_answered_in_a_line_and_end_nobody(
    bench: Bench, sent: bytes, said: bytes
) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "sleep 600")))
    before = until(one, running)
    pid = bench.keeper(one)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(bench.folder / "keeper.sock"))
        stranger.settimeout(PATIENCE)
        stranger.sendall(sent)
        answer = stranger.recv(4096) if said else b""
    assert said in answer
    assert answer.count(b"\n") == 0
    one.restart("u1", "app")
    after = until(one, lambda s: s["u1", "app"].restarts == 1 and running(s))
    assert (bench.keeper(one), after != before) == (pid, True)


def test_a_client_of_another_version_is_told_what_to_do(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "sleep 600")))
    until(one, running)
    setting = replace(bench.setting, root="/x")
    other = KeeperRuntime(setting, Starter(setting, BOOT_HERE))
    with pytest.raises(CannotDo, match=rf"process {one.pid}.*kill {one.pid}"):
        other.list_pods()
    other.close()


def test_many_connections_and_one_that_never_reads(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "sleep 600")))
    until(one, running)
    strangers = []
    for _ in range(40):
        stranger = socket.socket(socket.AF_UNIX)
        stranger.connect(str(bench.folder / "keeper.sock"))
        strangers.append(stranger)
    one.restart("u1", "app")
    until(one, lambda s: s["u1", "app"].restarts == 1 and running(s))
    for stranger in strangers:
        stranger.close()


def test_a_state_folder_that_is_open_to_others_is_refused(tmp_path: Path) -> None:
    made = Bench(tmp_path)
    made.folder.chmod(0o755)
    with pytest.raises(CannotDo, match="other users can access"):
        made.client().begin()
    made.folder.chmod(0o700)


def test_the_socket_and_all_files_are_private(bench: Bench) -> None:
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "echo x; sleep 600")))
    until(one, running)
    wait(lambda: bench.printed("u1") == ["x"])
    for path in [*bench.folder.rglob("*")]:
        mode = path.lstat().st_mode & 0o777
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_the_keeper_is_on_its_own_and_light(bench: Bench, monkeypatch) -> None:
    monkeypatch.setenv("OURS", "secret")
    leaked = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    one = bench.client()
    bench.begin(one, pod("u1", ("app", "ulimit -n; sleep 600")))
    until(one, running)
    os.close(leaked)
    pid = bench.keeper(one)
    proc = Path(f"/proc/{pid}")
    assert b"OURS" not in (proc / "environ").read_bytes()
    assert os.readlink(proc / "cwd") == "/"
    assert os.getsid(pid) == pid
    assert not [fd for fd in (proc / "fd").iterdir() if os.readlink(fd) == "/etc/hostname"]
    wait(lambda: bench.printed("u1") != [])
    soft = subprocess.run(["sh", "-c", "ulimit -n"], capture_output=True, text=True, check=True)
    assert bench.printed("u1") == [soft.stdout.strip()]
    memory = next(x for x in (proc / "status").read_text().splitlines() if x.startswith("VmRSS"))
    assert int(memory.split()[1]) < 26_000, memory


def test_a_restart_of_the_boot_forgets_what_was_kept(bench: Bench) -> None:
    place = bench.folder / "keeper" / "u9"
    place.mkdir(mode=0o700, parents=True)
    (place / "pod.json").write_text("{}")
    one = bench.client()
    assert one.list_pods() == {}
    assert any("unusable record" in note for note in one.notes)
    assert not place.exists()


def test_a_keeper_that_cannot_start_says_why(tmp_path: Path) -> None:
    made = Bench(tmp_path)
    one = KeeperRuntime(made.setting, Starter(made.setting, "import sys; sys.exit('no luck')"))
    made.begin(one, pod("u1", ("app", "true")))
    deadline = time.monotonic() + PATIENCE
    while not any("no luck" in note for note in one.notes):
        one.poll()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(one.notes) == 1
    one.close()


def test_an_agent_is_told_when_an_earlier_one_was_told_a_note(bench: Bench) -> None:
    def note_of(client: KeeperRuntime) -> str:
        deadline = time.monotonic() + PATIENCE
        while not (found := [one for one in client.notes if "unusable record" in one]):
            client.poll()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return found[0]

    place = bench.folder / "keeper" / "u9"
    place.mkdir(mode=0o700, parents=True)
    (place / "pod.json").write_text("{}")
    first = bench.client()
    bench.begin(first, pod("u1", ("app", "sleep 60")))
    assert "before this agent began" not in note_of(first)
    second = bench.client()
    assert note_of(second).startswith(f"{note_of(first)} (at 2")
    assert note_of(second).endswith("Z, before this agent began)")


def test_what_an_agent_says_last_is_heard(bench: Bench) -> None:
    for number in range(3):
        one = bench.client()
        uids = [f"u{number}-{n}" for n in range(5)]
        for uid in uids:
            bench.begin(one, pod(uid, ("app", "true")))
        until(one, ended)
        for uid in uids:
            one.stop(uid, 0)
            one.remove_pod(uid)
        one.close(PATIENCE)
        assert not Starter(bench.setting).running()


def test_a_keeper_gets_its_place_before_a_container_runs(bench: Bench) -> None:
    placed: list[int] = []
    client = bench.client()

    def place(pid: int) -> str:
        placed.append(pid)
        return "nowhere"

    client.place = place
    client.begin()
    assert len(placed) == 1
    assert placed == [bench.keeper(client)] * 2, "and when it answers"
    (line,) = client.notes
    assert line.endswith("out of the service: nowhere")


def test_one_who_sends_without_end_does_not_hold_its_reader() -> None:
    ours, theirs = socket.socketpair()
    sender = Peer(theirs)

    class Endless(Peer):
        """One piece more for each that is read."""

        def fill(self) -> bool:
            sender.send(StopPod(1, "u" * 2_000, 1.0))
            sender.flush()
            return super().fill()

    peer = Endless(ours)
    assert 1 <= len(list(peer.arrived())) < 100
    assert list(peer.arrived()), "the rest, the next time"
    peer.close()
    sender.close()
