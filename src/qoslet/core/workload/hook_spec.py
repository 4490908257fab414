"""A container's lifecycle hooks as its document asks for them.

Source: core/v1 Lifecycle, LifecycleHandler; kubelet pkg/kubelet/lifecycle/handlers.go (a command's
``$(VAR)`` are not expanded; ``tcpSocket`` is valid and always fails).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.pod import Pod
from qoslet.core.problem import Problem
from qoslet.core.workload.config.references import mapping
from qoslet.core.workload.fields import problem_row
from qoslet.core.workload.probe_spec import BadProbe, Grpc, HttpGet, TcpSocket, http_get

HookKind = Literal["postStart", "preStop"]
HOOKS: tuple[HookKind, ...] = ("postStart", "preStop")

UNLIMITED_SECONDS = 1e6
"""The timeout of a question that has none: what ends a hook is the end of its container."""

TCP_SOCKET = "invalid handler: tcpSocket"


class Hook(Struct, frozen=True, omit_defaults=True):
    """One hook: at most one of ``command``, ``http`` and ``sleep`` (seconds); one without any always
    fails."""

    kind: HookKind
    command: tuple[str, ...] = ()
    http: HttpGet | None = None
    sleep: float | None = None

    @property
    def tcp(self) -> TcpSocket | None:
        """No hook is one."""
        return None

    @property
    def grpc(self) -> Grpc | None:
        """No hook is one."""
        return None

    @property
    def timeout(self) -> float:
        """Seconds."""
        return UNLIMITED_SECONDS

    @property
    def title(self) -> str:
        """As the kubelet's events call it."""
        return f"{self.kind[:1].upper()}{self.kind[1:]}Hook"


class ReadHooks(Struct, frozen=True):
    """The hooks of a container; ``failing`` are the fields of those that fail whenever they are run."""

    hooks: tuple[Hook, ...] = ()
    faults: tuple[FieldFault, ...] = ()
    failing: tuple[str, ...] = ()


def hooks_of(raw: Mapping[str, Any], field: str) -> ReadHooks:
    """The hooks of the container ``raw`` at ``field``, and what is wrong with them."""
    found: list[Hook] = []
    faults: list[FieldFault] = []
    failing: list[str] = []
    for kind in HOOKS:
        given = mapping(mapping(raw.get("lifecycle")).get(kind))
        if not given:
            continue
        try:
            hook = _hook(kind, given, raw)
        except BadProbe as error:
            below, message, hint = error.args
            faults.append(FieldFault(f"{field}.lifecycle.{kind}{below}", message, hint))
            continue
        found.append(hook)
        if given.get("tcpSocket") is not None:
            failing.append(f"{field}.lifecycle.{kind}.tcpSocket")
    return ReadHooks(tuple(found), tuple(faults), tuple(failing))


def failing_row(pod: Pod, field: str) -> Problem:
    """That a hook fails whenever it is run."""
    message = "no kubelet connects for a hook: it fails each time"
    return problem_row(pod, "warning", field, message, "use exec, httpGet or sleep")


def _hook(kind: HookKind, given: Mapping[str, Any], raw: Mapping[str, Any]) -> Hook:
    """One hook, which has one handler: the API server's rules were applied before. Raises ``BadProbe``."""
    if given.get("exec") is not None:
        words = mapping(given["exec"]).get("command")
        command = tuple(str(word) for word in words) if isinstance(words, list) else ()
        if not command:
            raise BadProbe(".exec.command", "is empty", "give a command")
        if any("\0" in word for word in command):
            hint = "remove it: a process cannot have one"
            raise BadProbe(".exec.command", "contains a NUL", hint)
        return Hook(kind, command=command)
    if given.get("httpGet") is not None:
        return Hook(kind, http=replace(http_get(mapping(given["httpGet"]), raw), hook=True))
    if given.get("sleep") is not None:
        return Hook(kind, sleep=float(mapping(given["sleep"]).get("seconds") or 0))
    return Hook(kind)
