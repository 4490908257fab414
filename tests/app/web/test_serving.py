"""The page over its sockets: what is answered, to whom, and live."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import jsonschema
import pytest
from msgspec.structs import replace

from qoslet import schema
from qoslet.app.web.serve import listening
from qoslet.errors import BadInput, CannotDo
from qoslet.host.web.answers import SAFETY
from qoslet.host.web.streams import WATCHING
from tests.web.demo import Demo, node_plan, pod, served

HOSTILE = (
    '"><script>alert(1)</script>',
    "</script><img src=x onerror=alert(1)>",
    "a\u202eb\x1b[31m\x00",
)


class Client:
    """A program that asks over TCP with the token."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        assert parts.port is not None
        self.port, self.token = parts.port, parts.query.removeprefix("token=")

    def ask(self, path: str, method: str = "GET", **headers: str) -> HTTPResponse:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        known = {"Authorization": f"Bearer {self.token}", **headers}
        connection.request(method, path, headers=known)
        return connection.getresponse()

    def text(self, path: str) -> str:
        answer = self.ask(path)
        assert answer.status == 200, answer.status
        return answer.read().decode()


@pytest.fixture(scope="module")
def demo() -> Demo:
    # the tests may take longer than a few looks
    made = Demo(6, interval=3600.0)
    made.steps(4, time.monotonic())
    return made


@pytest.fixture(scope="module")
def client(demo: Demo) -> Iterator[Client]:
    with served(demo) as place:
        yield Client(place.address)


@pytest.mark.parametrize("path", ["/", "/pods/shop/web-0", "/page.css", "/page.js", "/icon.svg", "/nosuch",
                                  "/pods/shop/nosuch", "/pods/shop", "/api/v1/nosuch", "/api", "/healthz"])  # fmt: skip
def test_every_answer_forbids_what_a_browser_might_do(client: Client, path: str) -> None:
    answer = client.ask(path)
    assert answer.status == (404 if "nosuch" in path or path in ("/pods/shop", "/api") else 200)
    assert {name: answer.headers[name] for name in SAFETY} == SAFETY
    body = answer.read()
    head = client.ask(path, "HEAD")
    assert (head.status, head.read()) == (answer.status, b"")
    assert b"style=" not in body
    assert b"<style" not in body
    assert b"//" not in body.replace(b"http://www.w3.org/2000/svg", b"") or path == "/page.js"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
def test_it_only_reads(client: Client, method: str) -> None:
    answer = client.ask("/", method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert answer.headers["Content-Security-Policy"]


def test_without_the_token_there_is_nothing(client: Client) -> None:
    assert client.ask("/", Authorization="Bearer x").status == 401
    assert client.ask("/events?page=/", Authorization="Bearer x").status == 401
    assert client.ask("/", Host="attacker.example").status == 403


@pytest.mark.parametrize("request_text", [b"\n\n", b"\x00\xff\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /?token=" + b"\xe9" * 10 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"])  # fmt: skip
def test_nonsense_is_answered_or_closed(client: Client, request_text: bytes) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as peer:
        peer.sendall(request_text)
        answer = b""
        try:
            while chunk := peer.recv(65536):
                answer += chunk
        except ConnectionResetError:
            pass
    assert b" 200 " not in answer[:20]
    assert client.ask("/healthz").status == 200


def test_the_documents_are_as_their_schemas_say(client: Client) -> None:
    for path, name in (("/api/v1/node", "nodeview"), ("/api/v1/pods/shop/cart-1", "podview")):
        document = json.loads(client.text(path))
        jsonschema.validate(document, json.loads(schema.text(name)))
        assert document["apiVersion"] == "qoslet/v1"
    assert [one["verdict"] for one in document["findings"]] == ["drift"]
    assert len(document["timelines"][0]["memoryBytes"]) == 4


@pytest.mark.parametrize("path", ["/", "/pods/shop/cart-1"])
def test_a_finding_names_its_pod_and_leads_to_it(client: Client, path: str) -> None:
    (row,) = re.findall(r'<li class="warning">.*?</li>', client.text(path))
    assert '<a href="/pods/shop/cart-1">shop/cart-1</a>' in row


def test_page_and_documents_show_one_snapshot(client: Client, demo: Demo) -> None:
    from qoslet.render.pages.numbers import memory

    node = json.loads(client.text("/api/v1/node"))
    one = json.loads(client.text("/api/v1/pods/shop/web-0"))
    row = next(row for row in node["cgroups"] if row["title"] == "shop/web-0")
    assert one["cgroups"][0] == row
    for path in ("/", "/pods/shop/web-0"):
        assert f">{memory(row['memoryBytes'])}<" in client.text(path)


def test_without_scripts_the_table_is_sorted_and_filtered(client: Client) -> None:
    text = client.text("/?sort=memory&q=web")
    assert text.count("<tr data-pod=") == 1
    assert 'aria-sort="descending"' in text
    assert 'value="web"' in text
    assert client.text("/?sort=nosuch&q=").count("<tr data-pod=") == 6


def test_hostile_names_are_text() -> None:
    more = tuple(pod(f"x{at}", 100 + at) for at in range(len(HOSTILE)))
    demo = Demo(1, more=more)
    # the names are given to the view, since no API server would let them pass
    from msgspec.structs import replace

    plan = demo.load.plan
    names = {f"u{100 + at}": name for at, name in enumerate(HOSTILE)}
    cgroups = tuple(
        one
        if one.pod is None or one.pod.uid not in names
        else replace(one, pod=replace(one.pod, name=names[one.pod.uid]))
        for one in plan.cgroups
    )
    demo.load.plan = replace(plan, cgroups=cgroups)
    demo.steps(2, time.monotonic())
    with served(demo) as place:
        client = Client(place.address)
        text = client.text("/?q=%22%3E%3Cscript%3Ealert(2)%3C/script%3E") + client.text("/")
        assert "<script>" not in text
        assert "<img" not in text
        assert "\u202e" not in text
        assert "\x1b" not in text
        assert text.count("<script ") == 2
        node = json.loads(client.text("/api/v1/node"))
        assert HOSTILE[0] in [one["name"] for one in node["pods"]]
        own = client.text("/pods/shop/%22%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E")
        assert "&lt;script&gt;alert(1)" in own
        assert own.count("<script") == 1


def events(client: Client, path: str) -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", client.port), timeout=30)
    words = (
        f"GET {path} HTTP/1.1",
        f"Host: 127.0.0.1:{client.port}",
        f"Authorization: Bearer {client.token}",
    )
    peer.sendall("\r\n".join((*words, "", "")).encode())
    return peer


def read_until(peer: socket.socket, end: bytes) -> str:
    got = b""
    while end not in got:
        chunk = peer.recv(65536)
        assert chunk, got
        got += chunk
    return got.decode()


def test_who_watches_is_sent_what_changed(client: Client, demo: Demo) -> None:
    look = json.loads(client.text("/api/v1/node"))["look"]
    client.text("/")
    with events(client, f"/events?page=/&look={look}") as peer:
        assert "text/event-stream" in read_until(peer, b"retry: 2000\n\n")
        demo.step(time.monotonic())
        got = read_until(peer, b"\n\n")
        kind, number, data = got.split("\n")[:3]
        assert (kind, number) == ("event: values", f"id: {look + 1}")
        values = json.loads(data.removeprefix("data: "))
        assert values["when"]
        whole = client.text("/")
        assert all(f'id="{key.partition("@")[0]}"' in whole for key in values)
        assert len(data) < len(whole) / 3


def test_a_page_of_an_unknown_look_is_asked_to_load_again(client: Client) -> None:
    for path in (
        "/events?page=/&look=0",
        "/events?page=/nosuch&look=1",
        "/events?look=9999999999999999999",
    ):
        with events(client, path) as peer:
            assert "event: frame" in read_until(peer, b"data: \n\n")


def test_watchers_are_bounded_and_the_slow_hold_up_nobody(client: Client, demo: Demo) -> None:
    peers = [events(client, "/events?page=/&look=0") for _ in range(WATCHING + 8)]
    for peer in peers[-WATCHING // 2 :]:
        read_until(peer, b"\n\n")
    begun = time.monotonic()
    for _ in range(20):
        demo.step(time.monotonic())
    assert time.monotonic() - begun < 60
    assert client.ask("/healthz").status == 200
    for peer in peers:
        peer.close()
    demo.step(time.monotonic())


def test_a_wall_clock_set_back_does_not_make_it_stale(client: Client, demo: Demo) -> None:
    demo.step(time.monotonic(), wall=1.0)
    node = json.loads(client.text("/api/v1/node"))
    assert (node["stale"], node["ageSeconds"] < 3600) == (False, True)
    assert client.ask("/healthz").status == 200
    demo.site.fail("no cgroups")
    assert "no cgroups" in client.text("/")
    demo.step(time.monotonic())


def test_an_old_look_is_stale() -> None:
    demo = Demo(1)
    demo.steps(2, time.monotonic() - 60)
    with served(demo) as place:
        client = Client(place.address)
        assert client.ask("/healthz").status == 503
        assert json.loads(client.text("/api/v1/node"))["stale"] is True


def test_a_removed_pod_keeps_its_page() -> None:
    demo = Demo(2)
    demo.steps(2, time.monotonic())
    demo.load.plan = node_plan(1)
    demo.step(time.monotonic())
    with served(demo) as place:
        client = Client(place.address)
        text = client.text("/pods/shop/cart-1")
        assert "removed from the node" in text
        assert json.loads(client.text("/api/v1/pods/shop/cart-1"))["exists"] is False


def test_why_the_kubelet_ended_a_pod_is_told() -> None:
    demo = Demo(2)
    demo.steps(2, time.monotonic())
    gone = next(row.pod for row in demo.load.plan.pods if row.pod.name == "cart-1")
    message = "The node was low on resource: memory. <b>"
    ended = replace(gone, phase="Failed", reason="Evicted", message=message)
    demo.load.plan = node_plan(1)
    demo.step(time.monotonic(), ended=[ended])
    demo.step(time.monotonic(), ended=[ended])
    with served(demo) as place:
        client = Client(place.address)
        text = client.text("/pods/shop/cart-1")
        assert "failed: Evicted: The node was low on resource: memory. &lt;b&gt;" in text
        story = json.loads(client.text("/api/v1/pods/shop/cart-1"))["events"]
        assert [one["event"] for one in story] == ["ended", "removed"]


def test_a_private_socket_is_private_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    demo = Demo(1)
    demo.steps(2, time.monotonic())
    with served(demo, f"unix:{path}") as place:
        facts = os.stat(path)
        assert (stat.S_ISSOCK(facts.st_mode), stat.S_IMODE(facts.st_mode)) == (True, 0o600)
        assert place.address == f"unix:{path}"
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(30)
            peer.connect(str(path))
            peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost:9754\r\n\r\n")
            assert read_until(peer, b"</html>").startswith("HTTP/1.0 200")
        with pytest.raises(CannotDo, match="another process serves there"):
            listening(f"unix:{path}")
    assert not path.exists()


def test_a_dead_socket_is_replaced_and_a_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    place = listening(f"unix:{path}")
    place.socket.close()
    place.forget()
    assert not path.exists()
    path.write_text("mine")
    with pytest.raises(BadInput, match="not a socket"):
        listening(f"unix:{path}")
    assert path.read_text() == "mine"


def test_the_socket_of_a_successor_stays(tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    first = listening(f"unix:{path}")
    path.unlink()
    second = listening(f"unix:{path}")
    first.forget()
    assert path.exists()
    for place in (first, second):
        place.socket.close()
    second.forget()


def test_tokens_differ_and_tcp_is_loopback_unless_told() -> None:
    first, second = listening("127.0.0.1:0"), listening("0")
    assert first.address.startswith("http://127.0.0.1:")
    assert second.address.startswith("http://127.0.0.1:")
    assert first.address.partition("=")[2] != second.address.partition("=")[2]
    assert len(first.address.partition("=")[2]) >= 43
    third = listening("0.0.0.0:0")
    assert (first.note, bool(third.note)) == ("", True)
    for place in (first, second, third):
        place.socket.close()


def test_names_of_classes_leave_each_other_room() -> None:
    """Seen on a node whose Guaranteed pods request little: one name stood on the next."""
    small = pod("small", 13)
    amount = {"cpu": "250m", "memory": "1Mi"}
    small["spec"] = {
        "containers": [
            {"name": "app", "image": "x", "resources": {"requests": amount, "limits": amount}}
        ]
    }
    demo = Demo(2, more=(small,))
    demo.steps(2, time.monotonic())
    with served(demo) as place:
        text = Client(place.address).text("/")
    rows = re.findall(r'<text class="small" x="([\d.]+)" y="222">(\w+)</text>', text)
    assert [name[0] for _, name in rows] == ["G", "B"] * 2
    for (x, name), (after, _) in (rows[:2], rows[2:]):
        assert float(x) + 7 * len(name) <= float(after)


def test_a_user_without_a_runtime_directory_is_told_to_name_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    with pytest.raises(CannotDo) as found:
        listening("unix:")
    assert "journal" not in str(found.value)
    assert found.value.where == str(tmp_path / "none")
    assert found.value.hint == "give its place: --listen unix:PATH"
