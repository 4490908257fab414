"""``qoslet web`` as a program: it ends well on signals, and takes its socket with it."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qoslet.core.bundle.archive import pack
from tests.cli.fixtures import KUBELET, NODE, PODS, command, environment, run

ITEMS = [msgspec.yaml.decode(one) for one in PODS.split("---\n")]
PARTS = {
    "bundle.json": b'{"apiVersion": "qoslet/v1", "kind": "Bundle"}',
    "machine.yaml": NODE.encode(),
    "kubelet.yaml": KUBELET.encode(),
    "pods.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": ITEMS}).encode(),
    "cgroups.jsonl": b'{"path": "/kubepods", "hierarchy": "v2", "inode": 1, "processes": 0, "files": {}}\n',
}


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "b.tgz").write_bytes(pack(PARTS))
    arguments = ("web", "--bundle", "b.tgz", "--listen", "unix:web.sock")
    process = begin(tmp_path, *arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def begin(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The program, once it serves."""
    process = subprocess.Popen(
        command(*arguments),
        cwd=folder,
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # the suite may have been started by nohup
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return process


def asked(path: Path, page: str) -> str:
    """What a server at a socket answers."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(path))
        peer.sendall(f"GET {page} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        return peer.makefile("rb").read().decode()


def test_the_pages_of_a_bundle_say_when_it_was_made(tmp_path: Path) -> None:
    about = {"apiVersion": "qoslet/v1", "kind": "Bundle", "time": "2026-11-28T23:48:39.344Z"}
    parts = {**PARTS, "bundle.json": json.dumps(about).encode()}
    (tmp_path / "b.tgz").write_bytes(pack(parts))
    process = begin(tmp_path, "web", "--bundle", "b.tgz", "--listen", "unix:web.sock")
    try:
        node = asked(tmp_path / "web.sock", "/")
        link = re.search(r'href="(/pods/[^"]+)"', node)
        assert link is not None
        pod = asked(tmp_path / "web.sock", link[1])
    finally:
        process.kill()
        process.communicate()
    for text in (node, pod):
        assert "2026-11-28 23:48:39" in text
        assert "it does not change" in text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_its_socket(
    started: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
) -> None:
    assert (tmp_path / "web.sock").is_socket()
    started.send_signal(number)
    _, error = started.communicate(timeout=60)
    assert started.returncode == 0, error
    assert "Traceback" not in error
    assert list(tmp_path.glob("web.sock*")) == []


def test_a_second_one_does_not_take_its_place(
    started: subprocess.Popen[str], tmp_path: Path
) -> None:
    done = run("web", "--bundle", "b.tgz", "--listen", "unix:web.sock", folder=tmp_path)
    assert done.returncode == 3
    assert "another process serves there" in done.stderr
    assert started.poll() is None
    assert (tmp_path / "web.sock").is_socket()


def test_a_bundle_is_a_page_that_does_not_change(tmp_path: Path) -> None:
    from tests.app.web.asking import ask

    (tmp_path / "b.tgz").write_bytes(pack(PARTS))
    process = begin(tmp_path, "web", "--bundle", "b.tgz", "--listen", "unix:web.sock")
    try:
        path = str(tmp_path / "web.sock")
        status, body = ask(path, "/")
        assert (status, b"default/web" in body, b"it does not change" in body) == (200, True, True)
        status, body = ask(path, "/api/v1/node")
        node: dict[str, Any] = json.loads(body)
        assert (status, node["kind"], node["stale"]) == (200, "NodeView", False)
        assert node["findings"]
        assert ask(path, "/events")[0] == 404
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_what_is_assumed_is_said_once(tmp_path: Path) -> None:
    bare = NODE.replace("  pageSize: 4Ki\n", "")
    assert bare != NODE
    (tmp_path / "b.tgz").write_bytes(pack({**PARTS, "machine.yaml": bare.encode()}))
    process = begin(tmp_path, "web", "--bundle", "b.tgz", "--listen", "unix:web.sock")
    process.terminate()
    _, error = process.communicate(timeout=60)
    assert error.count("pageSize") == 1, error


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--interval", "nan"), 2, "is not a duration such as 10s, 5m or 1h30m"),
        (("--listen", "unix:absent/web.sock"), 3, "cannot create the socket"),
        (("--listen", "node.example:80"), 2, "not a numeric address"),
        (("--listen", "127.0.0.1:99999"), 2, "is not an address"),
        (("--bundle", "absent.tgz"), 2, "absent.tgz"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    listen = () if "--listen" in arguments else ("--listen", "unix:web.sock")
    done = run("web", *arguments, *listen, folder=tmp_path)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
