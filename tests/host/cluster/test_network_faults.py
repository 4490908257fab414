"""Errors of the network in words of ours, as urllib3 really raises them."""

from __future__ import annotations

import socket
import ssl
import threading
from http.client import IncompleteRead
from pathlib import Path

import pytest

from qoslet.host.cluster.client_library import ClusterAccess, is_installed, open_session
from qoslet.host.cluster.network_faults import no_response
from qoslet.host.cluster.session import NoResponse
from tests.core.node.cluster.api_model import ApiModel
from tests.host.cluster.fake_api import LOCAL, FakeApi, fake_api

needs_client = pytest.mark.skipif(
    not is_installed(), reason="the Kubernetes client is not installed: make test installs it"
)


def fault(path: Path) -> NoResponse:
    session = open_session(ClusterAccess(str(path)))
    with pytest.raises(NoResponse) as found:
        b"".join(session.get("/x", {}, silence_seconds=0.5).chunks())
    session.close()
    return found.value


@needs_client
def test_each_fault_of_a_server_has_its_words(tmp_path: Path) -> None:
    with fake_api() as api:
        whole = api.kubeconfig(tmp_path)
        for name, said in {
            "reset": "it ends the connection without an answer",
            "silent": "it does not answer in time",
        }.items():
            api.faults.append(name)
            assert fault(whole).message == said
    with fake_api(certificate=LOCAL) as api:
        found = fault(api.kubeconfig(tmp_path))
        assert found.message.startswith("its certificate is not trusted: ")
        assert "certificate-authority" in found.hint


@needs_client
def test_what_speaks_no_tls_or_is_not_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:
        address = f"https://127.0.0.1:{plain.getsockname()[1]}"

        def greet() -> None:
            taken, _ = plain.accept()
            taken.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            taken.close()

        greeter = threading.Thread(target=greet)
        greeter.start()
        found = fault(FakeApi(ApiModel()).kubeconfig(tmp_path, server=address))
        greeter.join()
    assert (found.where, found.message[:21]) == (address, "it does not speak TLS")
    found = fault(FakeApi(ApiModel()).kubeconfig(tmp_path, server=address))
    assert found.message == "connection refused: nothing listens there"
    session = open_session(ClusterAccess(str(tmp_path / "kubeconfig")))
    with pytest.raises(NoResponse, match="connection refused"):
        session.reach()
    session.close()


@pytest.mark.parametrize(
    ("code", "text", "hint"),
    [
        (9, "certificate is not yet valid", "compare the clocks"),
        (10, "certificate has expired", "compare the clocks"),
        (18, "self-signed certificate", "name its authority"),
        (62, "Hostname mismatch", "name what it is for"),
        (64, "IP address mismatch", "name what it is for"),
    ],
)
def test_what_to_do_depends_on_what_is_wrong_with_a_certificate(
    code: int, text: str, hint: str
) -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, text
    found = no_response(error, "https://api")
    assert (text in found.message, found.hint.startswith(hint)) == (True, True)


def test_other_errors_keep_their_names() -> None:
    cases: dict[str, Exception] = {
        "its name has no address": socket.gaierror(-2, "Name or service not known"),
        "no route leads there": OSError(113, "No route to host"),
        "its answer breaks off": OSError("broken", IncompleteRead(b"x", 9)),
        "the connection was reset": RuntimeError("aborted", ConnectionResetError(104, "reset")),
        "LookupError: at 0x1": LookupError("at 0x1"),
    }
    for said, error in cases.items():
        assert no_response(error, "s").message == said
