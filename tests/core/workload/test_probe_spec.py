"""Probes as documents ask for them."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.workload.probe_spec import Grpc, HttpGet, Probe, TcpSocket, probes_of


def probe_of(given: dict[str, Any], kind: str = "liveness", **raw: Any) -> Probe:
    found, faults = probes_of({**raw, f"{kind}Probe": given}, "c")
    assert faults == []
    return found[0]


def test_defaults_are_the_api_servers() -> None:
    probe = probe_of({"exec": {"command": ["a", "b"]}})
    assert probe == Probe("liveness", command=("a", "b"))
    assert (probe.delay, probe.period, probe.timeout) == (0, 10, 1)
    assert (probe.success, probe.failure, probe.grace) == (1, 3, None)
    zeros = dict.fromkeys(("periodSeconds", "timeoutSeconds", "failureThreshold"), 0)
    assert probe_of({"exec": {"command": ["a", "b"]}, **zeros}) == probe


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"httpGet": {"port": 80}}, HttpGet(80)),
        ({"httpGet": {"port": "web", "path": "x"}}, HttpGet(8080, "/x")),
        ({"httpGet": {"port": "81", "host": "h", "scheme": "HTTPS"}}, HttpGet(81, "/", "h", True)),
        (
            {"httpGet": {"port": 1, "httpHeaders": [{"name": "A", "value": "b"}]}},
            HttpGet(1, headers=(("A", "b"),)),
        ),
        ({"tcpSocket": {"port": "web"}}, TcpSocket(8080)),
        ({"grpc": {"port": 9, "service": "s"}}, Grpc(9, "s")),
    ],
)
def test_a_handler_is_read_with_named_ports_and_defaults(
    given: dict[str, Any], told: object
) -> None:
    probe = probe_of(given, ports=[{"name": "web", "containerPort": 8080}])
    assert told in (probe.http, probe.tcp, probe.grpc)


def test_a_command_sees_variables_as_they_are_written() -> None:
    """Source: kubelet prober.go, ExpandContainerCommandOnlyStatic."""
    env = [{"name": "A", "value": "$(B)"}, {"name": "B", "valueFrom": {}}]
    probe = probe_of({"exec": {"command": ["$(A)", "$(B)", "$(C)"]}}, env=env)
    assert probe.command == ("$(B)", "", "$(C)")


@pytest.mark.parametrize(
    ("kind", "given", "where"),
    [
        ("liveness", {"periodSeconds": 1}, ""),
        ("liveness", {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}, ""),
        ("liveness", {"exec": {"command": []}}, ".exec.command"),
        ("liveness", {"exec": {"command": ["a\0"]}}, ".exec.command"),
        ("liveness", {"tcpSocket": {"port": "none"}}, ".tcpSocket.port"),
        ("liveness", {"tcpSocket": {"port": 0}}, ".tcpSocket.port"),
        ("liveness", {"tcpSocket": {"port": 65536}}, ".tcpSocket.port"),
        ("liveness", {"httpGet": {"port": 1, "scheme": "ftp"}}, ".httpGet.scheme"),
        ("liveness", {"httpGet": {"port": 1, "path": "/\r\nX: y"}}, ".httpGet"),
        (
            "liveness",
            {"httpGet": {"port": 1, "httpHeaders": [{"name": "a b"}]}},
            ".httpGet.httpHeaders",
        ),
        ("liveness", {"exec": {"command": ["x"]}, "successThreshold": 2}, ".successThreshold"),
        ("startup", {"exec": {"command": ["x"]}, "periodSeconds": -1}, ".periodSeconds"),
        ("startup", {"exec": {"command": ["x"]}, "timeoutSeconds": "1s"}, ".timeoutSeconds"),
        (
            "readiness",
            {"exec": {"command": ["x"]}, "terminationGracePeriodSeconds": 1},
            ".terminationGracePeriodSeconds",
        ),
        ("liveness", "x", ""),
    ],
)
def test_what_is_wrong_is_named(kind: str, given: Any, where: str) -> None:
    found, faults = probes_of({f"{kind}Probe": given}, "c")
    assert found == ()
    assert [one.path for one in faults] == [f"c.{kind}Probe{where}"]
