"""What keeps a server from answering, in words of ours, from the errors that its client raises.

Source: the exceptions of urllib3 2, of ``ssl`` and of ``http.client``, found by their class names and
error numbers; their texts hold addresses of objects and file names, and say the same twice.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator
from http.client import HTTPException

from qoslet.core.api.schema import shown
from qoslet.host.cluster.session import NoResponse, Silence

_ADDRESS = "look at its address: kubectl config view --minify"
_BY_NUMBER = {
    errno.ECONNREFUSED: ("connection refused: nothing listens there", _ADDRESS),
    errno.ECONNRESET: ("the connection was reset", ""),
    errno.EPIPE: ("the connection was reset", ""),
    errno.EHOSTUNREACH: ("no route leads there", _ADDRESS),
    errno.ENETUNREACH: ("no route leads there", _ADDRESS),
}
_OUT_OF_TIME = (9, 10)
"""OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED."""
_OTHER_NAME = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
_DEPTH = 8


def no_response(error: Exception, server: str) -> NoResponse:
    """``error`` of a request to ``server``, or of the body of its answer."""
    for one in _causes(error):
        if _is_silence(one):
            return Silence("it does not answer in time", where=server)
        if found := _said(one):
            message, hint = found
            return NoResponse(message, where=server, hint=hint)
    name = type(error).__name__
    return NoResponse(f"{name}: {shown(str(error), 120)}", where=server)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was made of, the innermost first."""
    chain: list[BaseException] = []
    rest: list[object] = [error]
    while rest and len(chain) < _DEPTH:
        one = rest.pop(0)
        if isinstance(one, BaseException) and one not in chain:
            chain.append(one)
            rest += [one.__cause__, getattr(one, "reason", None), *one.args]
    return reversed(chain)


def _is_silence(error: BaseException) -> bool:
    """Whether nothing came in time."""
    return isinstance(error, TimeoutError) or "Timeout" in type(error).__name__


def _said(error: BaseException) -> tuple[str, str] | None:
    """Message and hint of an error that says enough by itself."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message = f"its certificate is not trusted: {shown(error.verify_message, 120)}"
        if error.verify_code in _OUT_OF_TIME:
            return message, "compare the clocks of both machines; else renew the certificate"
        if error.verify_code in _OTHER_NAME:
            return message, "name what it is for in the kubeconfig: tls-server-name"
        return message, "name its authority in the kubeconfig: certificate-authority"
    if isinstance(error, ssl.SSLError):
        return f"it does not speak TLS: {error.reason or 'no reason given'}", _ADDRESS
    if isinstance(error, socket.gaierror):
        return "its name has no address", _ADDRESS
    if isinstance(error, OSError) and error.errno in _BY_NUMBER:
        return _BY_NUMBER[error.errno]
    name = type(error).__name__
    if name == "RemoteDisconnected":
        return "it ends the connection without an answer", ""
    if "Incomplete" in name or isinstance(error, HTTPException):
        return "its answer breaks off", ""
    return None
