"""Questions to a kubelet: certificates verified before anything is sent, answers bounded."""

from __future__ import annotations

import ssl
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from qoslet.host.kubelet.answers import KubeletAnswer, take
from qoslet.host.kubelet.client import (
    AnswerLimits,
    AnswerTimes,
    Credentials,
    KubeletPort,
    NoAnswer,
    ask_kubelet,
)
from tests.host.kubelet.fake_node import CERTIFICATES, Reply, kubelet_port


def der(name: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert((CERTIFICATES / name).read_text())


@pytest.fixture
def token(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text("secret\n")
    return str(path)


def test_a_page_of_the_read_only_port() -> None:
    with kubelet_port({"/pods": b"{}"}) as (number, _):
        answer = ask_kubelet(KubeletPort("127.0.0.1", number, False), "/pods", Credentials())
    assert (answer.status, answer.body) == (200, b"{}")


def test_a_token_goes_to_no_port_without_tls(token: str) -> None:
    with kubelet_port({"/pods": b"{}"}) as (number, asked):
        port = KubeletPort("127.0.0.1", number, False)
        ask_kubelet(port, "/pods", Credentials(token=token))
    assert asked == [("/pods", "")]


def test_the_certificate_of_the_kubelet_s_file_is_trusted(token: str) -> None:
    with kubelet_port({"/pods": b"{}"}, "self-signed.pem", "secret") as (number, asked):
        port = KubeletPort("127.0.0.1", number, True, der("self-signed.pem"))
        assert ask_kubelet(port, "/pods", Credentials(token=token)).status == 200
        assert ask_kubelet(port, "/pods", Credentials()).status == 401
    assert asked[0] == ("/pods", "Bearer secret")


def test_another_certificate_is_told_nothing(token: str) -> None:
    with kubelet_port({"/pods": b"{}"}, "other.pem") as (number, asked):
        port = KubeletPort("127.0.0.1", number, True, der("self-signed.pem"))
        with pytest.raises(NoAnswer, match="not the one of the kubelet's own file"):
            ask_kubelet(port, "/pods", Credentials(token=token))
    assert not asked


def test_without_a_certificate_nothing_is_asked() -> None:
    with (
        kubelet_port({"/pods": b"{}"}, "self-signed.pem") as (number, asked),
        pytest.raises(NoAnswer, match="cannot be verified"),
    ):
        ask_kubelet(KubeletPort("127.0.0.1", number, True), "/pods", Credentials())
    assert not asked


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"certificate": "self-signed.pem"}, "no key that fits it was given", "--kubelet-key"),
        ({"certificate": "ca.pem", "key": "key.pem"}, "no key that fits it was given", "--kubelet-key"),
        ({"authorities": "key.pem"}, "contains no certificate", "give PEM of the authority"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_are_named_with_what_helps(
    given: dict[str, str], message: str, hint: str
) -> None:
    paths = {name: str(CERTIFICATES / file) for name, file in given.items()}
    with kubelet_port({"/pods": b"{}"}, "self-signed.pem") as (number, asked):
        port = KubeletPort("127.0.0.1", number, True, der("self-signed.pem"))
        with pytest.raises(NoAnswer, match=message) as caught:
            ask_kubelet(port, "/pods", Credentials(**paths))
    assert hint in caught.value.hint
    assert not asked


@pytest.mark.parametrize(
    ("certificate", "names", "message"),
    [
        ("signed.pem", ("n1", "127.0.0.1"), ""),
        ("signed.pem", ("10.0.0.7",), ""),
        ("signed.pem", ("n2", "127.0.0.1"), "its certificate is for 10.0.0.7, n1"),
        ("self-signed.pem", ("n1",), "its certificate is not trusted"),
    ],
)
def test_an_authority_vouches_for_a_name(
    certificate: str, names: tuple[str, ...], message: str
) -> None:
    credentials = Credentials(authorities=str(CERTIFICATES / "ca.pem"))
    with kubelet_port({"/pods": b"{}"}, certificate) as (number, asked):
        port = KubeletPort("127.0.0.1", number, True, b"", names)
        if not message:
            assert ask_kubelet(port, "/pods", credentials).status == 200
            return
        with pytest.raises(NoAnswer, match=message):
            ask_kubelet(port, "/pods", credentials)
    assert not asked


@pytest.mark.parametrize("field", ["authorities", "certificate", "token"])
def test_a_file_that_lacks_is_named(field: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    port = KubeletPort("127.0.0.1", 1, True, der("self-signed.pem"))
    with pytest.raises(NoAnswer, match="No such file") as error:
        ask_kubelet(port, "/pods", Credentials(**{field: missing}))
    assert error.value.where == missing


def slow(handler: BaseHTTPRequestHandler) -> None:
    """Headers, a few bytes at a time, without an end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    try:
        while True:
            handler.wfile.write(b"X: y\r\n")
            handler.wfile.flush()
            time.sleep(0.1)
    except OSError:
        handler.close_connection = True


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
    try:
        while True:
            handler.wfile.write(b"x" * 65536)
    except OSError:
        handler.close_connection = True


def cut(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n{}")


def garbage(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"\x00\xff\n\n" * 10)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (slow, "does not answer in time|more than 100 headers"),
        (endless, "more than 1 MiB"),
        (cut, "in the middle"),
        (garbage, "."),
    ],
)
@pytest.mark.parametrize("secure", [False, True])
def test_a_hostile_answer_ends(reply: Reply, message: str, secure: bool) -> None:
    limits = AnswerLimits(0.5, 1 << 20)
    certificate = "self-signed.pem" if secure else ""
    with kubelet_port({"/pods": reply}, certificate) as (number, _):
        port = KubeletPort("127.0.0.1", number, secure, der("self-signed.pem"))
        began = time.monotonic()
        with pytest.raises(NoAnswer, match=message) as error:
            ask_kubelet(port, "/pods", Credentials(), limits)
    assert time.monotonic() - began < 5
    assert "\n" not in str(error.value)


def test_a_port_where_nothing_listens() -> None:
    with pytest.raises(NoAnswer, match="nothing listens there"):
        ask_kubelet(KubeletPort("127.0.0.1", 1, False), "/pods", Credentials())


def test_a_certificate_that_is_refused_may_have_expired() -> None:
    # a kubelet 1.36.2 answers 401 to one of another authority and to one of the past alike
    answers = KubeletAnswer()
    with kubelet_port({"/pods": 401}) as (number, _):
        port = KubeletPort("127.0.0.1", number, False)
        assert take(answers, port, "/pods", Credentials(certificate="c.pem"))
    why = answers.why_not("/pods")
    assert why is not None
    assert why.is_refused
    assert why.message == "the credentials are not valid or have expired"


def test_both_ports_say_why_a_page_is_not_there() -> None:
    answers = KubeletAnswer()
    with kubelet_port({"/pods": 403}) as (number, _):
        for _ in range(2):
            take(answers, KubeletPort("127.0.0.1", number, False), "/pods", Credentials())
    take(answers, KubeletPort("127.0.0.1", 1, True), "/pods", Credentials())
    why = answers.why_not("/pods")
    assert why is not None
    first = f"; http://127.0.0.1:{number}/pods: system:anonymous may not get nodes/pods"
    assert why.message.endswith(first)
    assert why.message.count("may not get") == 1
    assert why.where.startswith("https://127.0.0.1:1")


def test_who_did_not_answer_shortly_before_gets_one_second() -> None:
    now = [100.0]
    waits = AnswerTimes(6.0, lambda: now[0])
    assert waits.seconds("a") == 6.0
    waits.missed("a", 6.0)
    assert (waits.seconds("a"), waits.seconds("b")) == (1.0, 6.0)
    now[0] += 7.0
    waits.missed("a", 1.0)
    now[0] += 2.0
    assert waits.seconds("a") == 6.0, "a short time that was missed prolongs nothing"
