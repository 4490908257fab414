"""Who may see the web page."""

from __future__ import annotations

import pytest

from qoslet.host.web.access import Access, host_with_port, loopback_host
from qoslet.host.web.request import WebAnswer, parsed

HOST = "127.0.0.1:9754"


def tcp() -> Access:
    return Access(host_with_port(9754, remote=False), "secret", "qoslet-9754")


def judged(access: Access, target: str = "/", **headers: str) -> WebAnswer | None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return access.refuses(parsed(target, {"host": HOST, **named}))


@pytest.mark.parametrize(
    ("host", "is_right"),
    [
        ("127.0.0.1:9754", True), ("localhost:9754", True), ("LOCALHOST:9754", True), ("[::1]:9754", True),
        ("", False), ("127.0.0.1", False), ("127.0.0.1:9755", False), ("attacker.example:9754", False),
        ("localhost.attacker.example:9754", False), ("192.0.2.7:9754", False), ("attacker.example", False),
    ],
)  # fmt: skip
def test_the_host_is_the_loopback_with_our_port(host: str, is_right: bool) -> None:
    answer = judged(tcp(), host=host)
    assert answer is not None
    assert answer.status == (401 if is_right else 403)


def test_a_remote_host_is_a_number_since_a_name_can_be_bent() -> None:
    allowed = host_with_port(80, remote=True)
    assert allowed("192.0.2.7:80")
    assert allowed("[2001:db8::1]:80")
    assert not allowed("node.example:80")


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:80"])
def test_a_forwarded_socket_has_any_port(host: str) -> None:
    assert Access(loopback_host).refuses(parsed("/", {"host": host})) is None


@pytest.mark.parametrize("host", ["", "attacker.example:8080", "127.0.0.1.attacker.example"])
def test_a_private_socket_checks_the_host_too(host: str) -> None:
    answer = Access(loopback_host).refuses(parsed("/", {"host": host}))
    assert answer is not None
    assert answer.status == 403


def test_the_token_becomes_a_cookie_and_leaves_the_address() -> None:
    access = tcp()
    answer = judged(access, "/pods/d/web?token=secret&sort=cpu")
    assert answer is not None
    assert (answer.status, answer.headers["Location"]) == (303, "/pods/d/web?sort=cpu")
    cookie = answer.headers["Set-Cookie"]
    assert "secret" not in cookie
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    session = cookie.partition(";")[0]
    assert judged(access, "/", cookie=f"other=1; {session}") is None
    assert judged(access, "/", cookie=session + "x") is not None
    # of another process
    assert judged(tcp(), "/", cookie=session) is not None


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        ("/", {}, 401), ("/page.css", {}, 401), ("/api/v1/node", {}, 401), ("/?token=", {}, 403),
        ("/?token=secre", {}, 403), ("/?token=secret&token=x", {}, 403), ("/?token=%C3%A9", {}, 403),
        ("/", {"cookie": "qoslet-9754=secret"}, 401), ("/", {"cookie": "\x00;;=" * 50}, 401),
        ("/", {"cookie": "qoslet-9754=\u00e9"}, 401), ("/", {"authorization": "Bearer \u00e9"}, 401),
        ("/", {"authorization": "Basic secret"}, 401),
    ],
)  # fmt: skip
def test_without_the_secret_nothing(target: str, headers: dict[str, str], status: int) -> None:
    answer = judged(tcp(), target, **headers)
    assert answer is not None
    assert answer.status == status


def test_scripts_show_the_token_as_a_bearer() -> None:
    assert judged(tcp(), "/api/v1/node", authorization="Bearer secret") is None


def test_a_redirect_stays_here() -> None:
    answer = judged(tcp(), "//attacker.example/?token=secret")
    assert answer is not None
    assert answer.headers["Location"] == "/attacker.example/"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_ask_in_vain(site: str) -> None:
    access = Access(loopback_host)
    answer = judged(access, "/api/v1/node", sec_fetch_site=site, sec_fetch_mode="no-cors")
    assert answer is not None
    assert answer.status == 403
    # a link leads here
    assert judged(access, "/", sec_fetch_site=site, sec_fetch_mode="navigate") is None
