"""Where a kubelet listens, and which certificate it shows, by its configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from qoslet.core.node.command_line.parse import CommandLine
from qoslet.host.kubelet.client import KubeletPort
from qoslet.host.kubelet.process_files import ProcessFiles

_CERTIFICATES = "/var/lib/kubelet/pki"
_ANY = ("", "0.0.0.0", "::")


def read_only_port(configuration: Mapping[str, Any]) -> KubeletPort | None:
    """The port that answers without authentication; None where it is off."""
    number = configuration.get("readOnlyPort", 0)
    if not _is_port(number):
        return None
    return KubeletPort(_host(configuration), number, False)


def secure_port(
    configuration: Mapping[str, Any],
    command: CommandLine,
    files: ProcessFiles,
    name: str,
    *,
    pinned: bool,
) -> KubeletPort | None:
    """The kubelet's own port, with the certificate of its file where that is ``pinned``; None where
    it serves none. ``name`` is the node's. Raises OSError, ValueError where the certificate cannot be read."""
    number = configuration.get("port", 10250)
    if configuration.get("enableServer") is False or not _is_port(number):
        return None
    host = _host(configuration)
    names = tuple(dict.fromkeys(part.lower() for part in (name, host) if part))
    certificate = _pinned(configuration, command, files) if pinned else b""
    return KubeletPort(host, number, True, certificate, names)


def certificate_path(configuration: Mapping[str, Any], command: CommandLine) -> str:
    """The file of the certificate that the kubelet serves with.

    Source: cmd/kubelet/app/server.go InitializeTLS; client-go certificate_store (``-current.pem``).
    """
    given = configuration.get("tlsCertFile")
    if isinstance(given, str) and given:
        return given
    folder = command.path("cert-dir", _CERTIFICATES).rstrip("/")
    rotated = configuration.get("serverTLSBootstrap") is True
    return f"{folder}/{'kubelet-server-current.pem' if rotated else 'kubelet.crt'}"


def _pinned(configuration: Mapping[str, Any], command: CommandLine, files: ProcessFiles) -> bytes:
    import ssl

    path = files.absolute(certificate_path(configuration, command))
    text = os.fsdecode(files.read(path))
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    start, stop = text.find(begin), text.find(end)
    if start < 0 or stop < start:
        raise ValueError(f"{path}: contains no certificate")
    return ssl.PEM_cert_to_DER_cert(text[start : stop + len(end)] + "\n")


def _host(configuration: Mapping[str, Any]) -> str:
    given = configuration.get("address", "")
    if not isinstance(given, str) or given in _ANY:
        return "127.0.0.1"
    return given


def _is_port(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 < number < 65536
