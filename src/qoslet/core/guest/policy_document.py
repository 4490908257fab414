"""An AgentPolicy document, and what flags say over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.container_resources import is_label, is_subdomain
from qoslet.core.api.schema import nearest, shown
from qoslet.core.guest.policy import ENDS, GUEST_MODES, NAMEABLE, Ends, GuestMode, GuestPolicy
from qoslet.core.versions.kubernetes import MEMORY_QOS_VARIANTS
from qoslet.errors import BadInput


class PolicyFlags(Struct, frozen=True):
    """What the command line says; None where it says nothing."""

    mode: GuestMode | None = None
    memory_qos: str | None = None
    throttling_factor: str | None = None
    ends: Ends | None = None


NO_FLAGS = PolicyFlags()


class _Document(Struct, forbid_unknown_fields=True, rename="camel"):
    api_version: Literal["qoslet/v1"]
    kind: Literal["AgentPolicy"]
    metadata: dict[str, Any] = {}
    mode: str = "watch"
    files: list[str] | None = None
    memory_qos: str | float | None = None
    """YAML takes an unquoted ``1.36`` for a number."""
    memory_throttling_factor: float | None = None
    evict: str = "none"
    evict_critical_pods: list[str] = []
    namespaces: list[str] | None = None
    node_condition: bool = False


def policy_of(document: object, where: str, flags: PolicyFlags = NO_FLAGS) -> GuestPolicy:
    """The policy of a decoded document, under what flags say. Raises BadInput with the field."""
    if not isinstance(document, Mapping):
        raise BadInput("must be an object", where=where, hint=_HINT)
    for field, wanted in _HEAD.items():
        if document.get(field) != wanted:
            found = shown(str(document.get(field) or "missing"), 100)
            raise BadInput(f"is {found}, must be {wanted}", where=f"{where}: {field}", hint=_HINT)
    try:
        read = msgspec.convert(document, _Document)
    except msgspec.ValidationError as error:
        text, _, field = str(error).partition(" - at `$")
        message = shown(text, 200)
        place = f"{where}: {field.rstrip('`').lstrip('.')}" if field.strip("`") else where
        raise BadInput(message, where=place, hint=_HINT) from None
    policy = GuestPolicy(
        mode=_one_of(read.mode, GUEST_MODES, f"{where}: mode"),
        files=frozenset(
            _one_of(file, NAMEABLE, f"{where}: files[{number}]")
            for number, file in enumerate(NAMEABLE[:3] if read.files is None else read.files)
        ),
        memory_qos=_variant(read.memory_qos, f"{where}: memoryQos"),
        throttling_factor=_factor(read.memory_throttling_factor, where),
        ends=_one_of(read.evict, ENDS, f"{where}: evict"),
        named=_pods(read.evict_critical_pods, f"{where}: evictCriticalPods"),
        namespaces=_namespaces(read.namespaces, f"{where}: namespaces"),
        node_condition=read.node_condition,
    )
    return with_flags(policy, flags)


_HEAD = {"apiVersion": "qoslet/v1", "kind": "AgentPolicy"}
_HINT = f"fields: {', '.join(one.encode_name for one in msgspec.structs.fields(_Document))}"


def with_flags(policy: GuestPolicy, flags: PolicyFlags) -> GuestPolicy:
    """A policy under what the command line says."""
    said = {name: getattr(flags, name) for name in PolicyFlags.__struct_fields__}
    return replace(policy, **{name: value for name, value in said.items() if value is not None})


_Word = TypeVar("_Word", bound=str)


def _one_of(word: str, known: tuple[_Word, ...], where: str) -> _Word:
    for one in known:
        if one == word:
            return one
    hint = nearest(word, known) or f"one of {', '.join(known)}"
    raise BadInput(f"{shown(word)} is not known", where=where, hint=hint)


def _namespaces(names: list[str] | None, where: str) -> frozenset[str] | None:
    if names is None:
        return None
    if not names:
        hint = "leave it out for all namespaces, or set mode: watch for none"
        raise BadInput("names no namespace", where=where, hint=hint)
    for number, name in enumerate(names):
        if not is_label(name):
            place, message = f"{where}[{number}]", f"{shown(name)} is not the name of a namespace"
            raise BadInput(message, where=place, hint="lower-case letters, digits and -")
    return frozenset(names)


def _pods(names: list[str], where: str) -> frozenset[str]:
    """Pods as NAMESPACE/NAME: another form would name none."""
    for number, name in enumerate(names):
        namespace, _, pod = name.partition("/")
        if not (is_label(namespace) and is_subdomain(pod)):
            message = f"{shown(name)} is not the name of a pod"
            raise BadInput(message, where=f"{where}[{number}]", hint="NAMESPACE/NAME")
    return frozenset(names)


def _variant(name: str | float | None, where: str) -> str | None:
    return None if name is None else _one_of(str(name), MEMORY_QOS_VARIANTS, where)


def _factor(value: float | None, where: str) -> str | None:
    if value is None:
        return None
    if not 0 < value <= 1:
        place = f"{where}: memoryThrottlingFactor"
        raise BadInput(f"{value} is not above 0 and at most 1", where=place, hint="such as 0.9")
    return str(value)
