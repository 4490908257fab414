"""A container's probes as its document asks for them.

Source: core/v1 Probe, Container; SetDefaults_Probe, SetDefaults_HTTPGetAction; core validation.go
validateProbe; kubelet prober.go runProbe (commands see only variables with a value of their own).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.workload.fields import words

Kind = Literal["startup", "readiness", "liveness"]
KINDS: tuple[Kind, ...] = ("startup", "readiness", "liveness")

MIN_GRACE = 2.0
"""Seconds that a container whose probe failed gets at least. Source: kubelet
minimumGracePeriodInSeconds."""

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")


class HttpGet(Struct, frozen=True, omit_defaults=True):
    """A request; ``host`` is empty for the pod's own address. ``hook``: a lifecycle hook makes it, for
    which any answer is a success, also one without TLS to ``tls``."""

    port: int
    path: str = "/"
    host: str = ""
    tls: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    hook: bool = False


class TcpSocket(Struct, frozen=True, omit_defaults=True):
    """A connection; ``host`` is empty for the pod's own address."""

    port: int
    host: str = ""


class Grpc(Struct, frozen=True, omit_defaults=True):
    """A question to the health service of the pod's own address."""

    port: int
    service: str = ""


class Probe(Struct, frozen=True, omit_defaults=True):
    """One probe: exactly one of ``command``, ``http``, ``tcp`` and ``grpc``. Times are seconds;
    ``success`` and ``failure`` are thresholds, ``grace`` None is the pod's."""

    kind: Kind
    command: tuple[str, ...] = ()
    http: HttpGet | None = None
    tcp: TcpSocket | None = None
    grpc: Grpc | None = None
    delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    success: int = 1
    failure: int = 3
    grace: float | None = None

    @property
    def title(self) -> str:
        """As the kubelet's events call it."""
        return self.kind.capitalize()


class Question(Protocol):
    """What a probe or hook asks: one of ``command``, ``http``, ``tcp`` and ``grpc``, within ``timeout``
    seconds."""

    @property
    def kind(self) -> str:
        """What asks."""

    @property
    def command(self) -> tuple[str, ...]:
        """Executed in the container."""

    @property
    def http(self) -> HttpGet | None:
        """Asked for."""

    @property
    def tcp(self) -> TcpSocket | None:
        """Connected to."""

    @property
    def grpc(self) -> Grpc | None:
        """Asked for its health."""

    @property
    def timeout(self) -> float:
        """Seconds."""


class BadProbe(Exception):
    """A field of a probe that is wrong: ``args`` are its path below the probe, what, a hint."""


def probes_of(raw: Mapping[str, Any], field: str) -> tuple[tuple[Probe, ...], list[FieldFault]]:
    """The probes of a container at ``field``, and what is wrong with them."""
    found: list[Probe] = []
    faults: list[FieldFault] = []
    for kind in KINDS:
        given = raw.get(f"{kind}Probe")
        if not given:
            continue
        try:
            found.append(_probe(kind, _mapping(given, ""), raw))
        except BadProbe as error:
            below, message, hint = error.args
            faults.append(FieldFault(f"{field}.{kind}Probe{below}", message, hint))
    return tuple(found), faults


def _probe(kind: Kind, given: Mapping[str, Any], raw: Mapping[str, Any]) -> Probe:
    handlers = [name for name in _HANDLERS if given.get(name) is not None]
    if len(handlers) != 1:
        hint = f"give one of {', '.join(_HANDLERS)}"
        said = " and ".join(handlers)
        raise BadProbe("", f"{said}: more than one" if said else "asks nothing", hint)
    success = int(_number(given, "successThreshold", 1, low=1))
    if kind != "readiness" and success != 1:
        raise BadProbe(".successThreshold", f"must be 1 for a {kind} probe", "remove it")
    grace = None
    if given.get("terminationGracePeriodSeconds") is not None:
        if kind == "readiness":
            hint = "remove it: readiness ends nothing"
            raise BadProbe(".terminationGracePeriodSeconds", "not for a readiness probe", hint)
        grace = _number(given, "terminationGracePeriodSeconds", 1, low=1)
    name = handlers[0]
    asked = _mapping(given[name], f".{name}")
    return Probe(
        kind,
        command=_command(asked, raw) if name == "exec" else (),
        http=http_get(asked, raw) if name == "httpGet" else None,
        tcp=TcpSocket(_port(asked, raw, ".tcpSocket.port"), str(asked.get("host") or ""))
        if name == "tcpSocket"
        else None,
        grpc=Grpc(_port(asked, {}, ".grpc.port"), str(asked.get("service") or ""))
        if name == "grpc"
        else None,
        delay=_number(given, "initialDelaySeconds", 0, low=0),
        period=_number(given, "periodSeconds", 10, low=1),
        timeout=_number(given, "timeoutSeconds", 1, low=1),
        success=success,
        failure=int(_number(given, "failureThreshold", 3, low=1)),
        grace=grace,
    )


def _command(asked: Mapping[str, Any], raw: Mapping[str, Any]) -> tuple[str, ...]:
    command = words(asked.get("command"), dict(_variables(raw)))
    if not command:
        raise BadProbe(".exec.command", "is empty", "give a command")
    if any("\0" in word for word in command):
        raise BadProbe(".exec.command", "contains a NUL", "remove it: a process cannot have one")
    return command


def _variables(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values as written; one that is taken from elsewhere has none here."""
    env = raw.get("env")
    for entry in env if isinstance(env, list) else ():
        if isinstance(entry, Mapping):
            yield str(entry.get("name")), str(entry.get("value") or "")


def http_get(asked: Mapping[str, Any], raw: Mapping[str, Any]) -> HttpGet:
    """The request of the container ``raw``. Raises ``BadProbe``."""
    scheme = str(asked.get("scheme") or "HTTP").upper()
    if scheme not in ("HTTP", "HTTPS"):
        raise BadProbe(".httpGet.scheme", f"{scheme!r} is unknown", "HTTP or HTTPS")
    given = asked.get("httpHeaders") or []
    rows = given if isinstance(given, list) else []
    headers = tuple(
        (str(one.get("name") or ""), str(one.get("value") or ""))
        for one in rows
        if isinstance(one, Mapping)
    )
    path = str(asked.get("path") or "/")
    path = path if path.startswith("/") else f"/{path}"
    for word in (path, str(asked.get("host") or ""), *(text for one in headers for text in one)):
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in word):
            raise BadProbe(".httpGet", "contains a control character", "remove it")
    if any(not name or set(name) & set(" :") for name, _ in headers):
        raise BadProbe(".httpGet.httpHeaders", "a header has no valid name", "name each header")
    port = _port(asked, raw, ".httpGet.port")
    return HttpGet(port, path, str(asked.get("host") or ""), scheme == "HTTPS", headers)


def _port(asked: Mapping[str, Any], raw: Mapping[str, Any], below: str) -> int:
    """A port by number, or by its name among the container's."""
    given = asked.get("port")
    if isinstance(given, str) and given:
        rows = raw.get("ports")
        for one in rows if isinstance(rows, list) else ():
            if isinstance(one, Mapping) and one.get("name") == given:
                given = one.get("containerPort")
                break
        else:
            # a number in quotes is one where no port has that name
            if not given.isdecimal():
                raise BadProbe(
                    below,
                    f"no port of the container is named {given!r}",
                    "name the port in the container's ports, or use its number",
                )
            given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= 65535:
        raise BadProbe(below, f"{given!r} is not a port", "a number from 1 to 65535, or a name")
    return given


def _number(given: Mapping[str, Any], name: str, default: int, *, low: int) -> float:
    """A whole number; 0 where 1 is the least counts as absent, as the API server's defaults do."""
    value = given.get(name)
    if value is None or (value == 0 and low == 1 and name != "terminationGracePeriodSeconds"):
        return float(default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**31:
        raise BadProbe(f".{name}", f"{value!r} is not a whole number from {low}", "correct it")
    return float(value)


def _mapping(value: object, below: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadProbe(below, "is not an object", "see core/v1 Probe")
    return value
