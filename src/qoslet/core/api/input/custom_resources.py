"""Custom resources: those that carry a pod template, and the rows of all others."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
from msgspec import Raw, Struct

from qoslet.core.api.documents import Spot, Text
from qoslet.core.api.kinds import group_of
from qoslet.core.api.schema import DECODE_ERRORS, NOTHING, Metadata, shown
from qoslet.core.problem import Problem, ProblemCode

_KNATIVE = "serving.knative.dev"
_CONTAINERS, _INIT_CONTAINERS = "containers", "initContainers"
_USER_CONTAINER, _INIT_CONTAINER = "user-container", "init-container"
"""The names of containers without one. Source: knative/serving
pkg/apis/serving/v1/revision_defaults.go, pkg/apis/config/defaults.go."""

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_USER_PORT = 8080
"""Source: knative/serving pkg/apis/serving/constants.go, pkg/networking DefaultUserPort."""

_KINDS_MAX = 200
"""Kinds that get a row of their own."""


class _Outer(Struct):
    metadata: Raw = NOTHING
    spec: Raw = NOTHING


class _Spec(Struct):
    template: Raw = NOTHING
    replicas: Raw = NOTHING


class _Template(Struct):
    metadata: Raw = NOTHING
    spec: Raw = NOTHING


class _PodSpec(Struct):
    containers: list[dict[str, Raw]] | None = None


def as_workload(data: Raw | Text, kind: str, group: str) -> bytes | None:
    """The pod template of a custom resource, its metadata and its ``spec.replicas`` as a document
    of their own; None without ``spec.template.spec.containers``."""
    try:
        outer = msgspec.json.decode(data, type=_Outer)
        spec = msgspec.json.decode(outer.spec, type=_Spec)
        template = msgspec.json.decode(spec.template, type=_Template)
        containers = msgspec.json.decode(template.spec, type=_PodSpec).containers
    except DECODE_ERRORS:
        return None
    if not containers or not all("name" in one or "image" in one for one in containers):
        return None
    made: dict[str, Any] = {"template": spec.template}
    if group == _KNATIVE:
        named = _named(msgspec.json.decode(template.spec))
        metadata = {"metadata": template.metadata} if template.metadata else {}
        made["template"] = {**metadata, "spec": named}
    if bytes(spec.replicas).strip().isdigit():
        made["replicas"] = spec.replicas
    document: dict[str, Any] = {"kind": kind, "spec": made}
    if outer.metadata:
        document["metadata"] = outer.metadata
    return msgspec.json.encode(document)


def _named(pod: Any) -> dict[str, Any]:
    """A pod spec with the names that Knative gives its containers, and the handlers and ports of
    their probes."""
    lists: dict[str, list[dict[str, Any]]] = {}
    for field in (_CONTAINERS, _INIT_CONTAINERS):
        given = pod.get(field)
        if isinstance(given, list) and all(isinstance(one, dict) for one in given):
            lists[field] = given
    taken = {one.get("name") for given in lists.values() for one in given}
    for field, default in ((_CONTAINERS, _USER_CONTAINER), (_INIT_CONTAINERS, _INIT_CONTAINER)):
        several = len(lists.get(field, ())) > 1
        free = (name for at in count() if (name := f"{default}-{at}") not in taken)
        for one in lists.get(field, ()):
            if not one.get("name"):
                one["name"] = next(free) if several or default in taken else default
            _probes(one, serves=field == _CONTAINERS and (not several or bool(one.get("ports"))))
    return {**pod, **lists}


def _probes(container: dict[str, Any], *, serves: bool) -> None:
    """A readiness probe of a container that serves is of its port unless it says otherwise."""
    ready = container.get("readinessProbe")
    if serves and isinstance(ready, dict) and all(ready.get(kind) is None for kind in _HANDLERS):
        ready["tcpSocket"] = {}
    for probe in _PROBES:
        if probe in container:
            container[probe] = _with_port(container[probe])


def _with_port(probe: Any) -> Any:
    """A probe; one without a port asks the port that the container serves."""
    if not isinstance(probe, dict):
        return probe
    for handler in _HANDLERS[1:]:
        if isinstance(probe.get(handler), dict) and not probe[handler].get("port"):
            probe[handler]["port"] = _USER_PORT
    return probe


class CustomResources:
    """Counts the custom resources without a pod template, by kind."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], str] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def workload(
        self,
        data: Raw | Text,
        spot: Spot,
        api_version: str | None,
        kind: str,
        meta: Metadata | None,
    ) -> bytes | None:
        """The pod template of a custom resource, as ``as_workload`` gives it; one without is
        counted."""
        group = group_of(api_version)
        found = as_workload(data, kind, group)
        if found is None:
            key = kind, group
            self._places.setdefault(key, spot.named(kind, meta, ""))
            self._counts[key] = self._counts.get(key, 0) + 1
        return found

    def rows(self) -> list[Problem]:
        """One row a kind, in the order of their first places."""
        rows = [
            Problem("info", where, _sentence(*key, self._counts[key]), "", ProblemCode.OTHER)
            for key, where in list(self._places.items())[:_KINDS_MAX]
        ]
        more = len(self._places) - _KINDS_MAX
        if more > 0:
            message = f"{more} more kinds of custom resources skipped: they have no pod template"
            rows.append(Problem("info", list(self._places.values())[-1], message, ""))
        return rows


def _sentence(kind: str, group: str, count: int) -> str:
    several = f", {count} of them" if count > 1 else ""
    return (
        f"{shown(kind)} ({shown(group)}{several}) skipped: a custom resource without a pod template"
    )
