"""Rules for probes and lifecycle handlers.

Source: validateProbe, validateLivenessProbe, validateReadinessProbe, validateStartupProbe,
validateHandler, validateLifecycle; pkg/apis/core/v1/defaults.go (SetDefaults_Probe).
"""

from __future__ import annotations

from typing import Any

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.schema import shown
from qoslet.core.api.validation import names
from qoslet.core.api.validation.fields import Fields

_PROBE = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK = ("exec", "httpGet", "tcpSocket", "sleep")


def probe(kind: str, value: Any, path: str, faults: list[FieldFault]) -> None:
    """A probe; ``kind`` is its field, such as ``livenessProbe``."""
    given = Fields({kind: value}, path.rpartition(".")[0], faults).inside(kind)
    if given is None:
        return
    _handler(given, _PROBE, None)
    given.not_negative("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold")
    successes = given.number("successThreshold")
    if successes is not None and successes < 0:
        given.refuse("successThreshold", f"{successes} is negative", "use 1 or more")
    elif kind != "readinessProbe" and successes not in (None, 0, 1):
        given.refuse("successThreshold", f"{successes} is not 1", f"a {kind} needs 1")
    grace = given.number("terminationGracePeriodSeconds", 64)
    if grace is not None and kind == "readinessProbe":
        message = "is not allowed: a readiness probe ends no container"
        given.refuse("terminationGracePeriodSeconds", message, "remove it")
    elif grace is not None and grace <= 0:
        given.refuse("terminationGracePeriodSeconds", f"{grace} is not positive", "use 1 or more")


def lifecycle(value: Any, path: str, faults: list[FieldFault], grace: int | None) -> None:
    """The hooks of a container; ``grace`` is the pod's ``terminationGracePeriodSeconds``."""
    given = Fields({"lifecycle": value}, path.rpartition(".")[0], faults).inside("lifecycle")
    if given is not None:
        given.text("stopSignal")
    for name in ("postStart", "preStop"):
        hook = given.inside(name) if given is not None else None
        if hook is not None:
            _handler(hook, _HOOK, 30 if grace is None else grace)


def _handler(given: Fields, known: tuple[str, ...], grace: int | None) -> None:
    kinds = [name for name in known if given.value.get(name) is not None]
    if len(kinds) != 1:
        message = "has several handlers" if kinds else "has no handler"
        given.refuse("", message, f"give one of {', '.join(known)}")
    for kind in kinds:
        action = given.inside(kind)
        if action is None:
            continue
        if kind == "exec":
            if not action.texts("command") and not action.value.get("command"):
                action.refuse("command", "is missing or empty", "give the command to run")
        elif kind == "httpGet":
            _http(action)
        elif kind == "tcpSocket":
            _port(action)
        elif kind == "grpc":
            action.between("port", 1, 65535)
            if action.value.get("port") is None:
                action.refuse("port", "is missing", "use 1 to 65535")
        elif grace is not None:
            _sleep(action, grace)


def _http(action: Fields) -> None:
    _port(action)
    action.text("path")
    action.text("host")
    action.choose("scheme", ("HTTP", "HTTPS"))
    for header in action.items("httpHeaders"):
        name = header.text("name")
        header.text("value")
        if not names.is_header_name(name):
            hint = "use letters, digits and -"
            header.refuse("name", f"{shown(name)!r} is not a header name", hint)


def _port(action: Fields) -> None:
    port = action.value.get("port")
    if port is None:
        action.refuse("port", "is missing", "give a number or the name of a port")
    elif not isinstance(port, str):
        action.between("port", 1, 65535)
    elif not names.is_port_name(port):
        hint = "write the number without quotes" if port.isdigit() else names.PORT_NAME_HINT
        action.refuse("port", f"{shown(port)!r} is not a port name", hint)


def _sleep(action: Fields, grace: int) -> None:
    seconds = action.number("seconds", 64) or 0
    if not 0 <= seconds <= max(grace, 0):
        message = f"{seconds} is not within the pod's terminationGracePeriodSeconds {grace}"
        action.refuse("seconds", message, "shorten it, or raise terminationGracePeriodSeconds")
