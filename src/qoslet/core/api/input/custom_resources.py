"""Custom resources: those that carry a pod template, and the rows of all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgspec
from msgspec import Raw, Struct

from qoslet.core.api.documents import Spot, Text
from qoslet.core.api.input.carried_templates import carried, container_path
from qoslet.core.api.kinds import group_of, unknown_hint
from qoslet.core.api.schema import DECODE_ERRORS, NOTHING, Metadata, shown
from qoslet.core.problem import Problem, ProblemCode
from qoslet.errors import BadInput

_KNATIVE = "serving.knative.dev"
_CONTAINERS, _INIT_CONTAINERS = "containers", "initContainers"
_USER_CONTAINER, _INIT_CONTAINER = "user-container", "init-container"
"""The names of containers without one. Source: knative/serving
pkg/apis/serving/v1/revision_defaults.go, pkg/apis/config/defaults.go."""

_PATH = "spec.template"

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_USER_PORT = 8080
"""Source: knative/serving pkg/apis/serving/constants.go, pkg/networking DefaultUserPort."""

_ADDED = {
    _KNATIVE: ("queue-proxy", "Knative"),
    "agones.dev": ("agones-gameserver-sidecar", "Agones"),
}
"""API group to the container that its controller adds to every pod, and the controller's name.
Source: knative/serving pkg/reconciler/revision/resources/constants.go; agones
pkg/gameservers/controller.go."""

_HINT = "plan the pods that its controller makes"

_PODS = ("Pod", "PodTemplate")
"""Kubernetes' kinds whose containers stand where no custom resource is read: with such containers,
one of another group is a typo of the group, and no pod that runs may end because of it."""

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


class CustomTemplate(Struct, frozen=True):
    """A pod template of a custom resource as a document of its own, at ``spec.template``. ``path``
    is where the resource has it, ``where`` names the resource, ``owner`` is its name if its pods
    are called otherwise."""

    document: bytes
    group: str
    where: str
    path: str = _PATH
    owner: str = ""


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


def _elsewhere(
    value: dict[str, Any], kind: str, group: str, where: str
) -> Iterator[CustomTemplate]:
    """The pod templates that a custom resource has at other places."""
    metadata = value.get("metadata")
    for one in carried(value, kind, group):
        meta, owner = metadata, ""
        if one.name:
            if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
                return
            owner = metadata["name"]
            meta = {**metadata, "name": f"{owner}-{one.name}"}
        spec = {"template": one.template, "replicas": one.replicas}
        document = {"kind": kind, "metadata": meta, "spec": spec}
        yield CustomTemplate(msgspec.json.encode(document), group, where, one.path, owner)


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
    """Counts the custom resources that are skipped, by kind, and those whose controllers add a
    container. ``add_fault`` takes the fault of a pod in a group that has none."""

    def __init__(self, add_fault: Callable[[BadInput], None]) -> None:
        self._add_fault = add_fault
        self._places: dict[tuple[str, str], str] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._containers: dict[tuple[str, str], str] = {}
        self._added: dict[str, str] = {}

    def templates(
        self,
        data: Raw | Text,
        spot: Spot,
        api_version: str | None,
        kind: str,
        meta: Metadata | None,
    ) -> list[CustomTemplate]:
        """The pod templates of a custom resource; one without is counted."""
        group, where = group_of(api_version), spot.named(kind, meta)
        if (document := as_workload(data, kind, group)) is not None:
            if group in _ADDED:
                self._added.setdefault(group, where)
            return [CustomTemplate(document, group, where)]
        try:
            value = msgspec.json.decode(data)
        except DECODE_ERRORS:
            value = {}
        if found := list(_elsewhere(value, kind, group, where)):
            return found
        path = container_path(value)
        if kind in _PODS and path:
            message = f"{shown(api_version or '')} {kind} is not a known kind"
            self._add_fault(BadInput(message, where=where, hint=unknown_hint(api_version, kind)))
            return []
        key = kind, group
        self._places.setdefault(key, spot.named(kind, meta, ""))
        self._counts[key] = self._counts.get(key, 0) + 1
        if not self._containers.get(key):
            self._containers[key] = path
        return []

    def rows(self) -> list[Problem]:
        """One row a kind, in the order of their first places, and one for each container that is
        added."""
        rows = [self._row(key, where) for key, where in list(self._places.items())[:_KINDS_MAX]]
        more = len(self._places) - _KINDS_MAX
        if more > 0:
            message = f"{more} more kinds of custom resources skipped"
            rows.append(Problem("info", list(self._places.values())[-1], message, ""))
        for group, where in self._added.items():
            name, controller = _ADDED[group]
            message = f"{controller} adds a {name} container to each pod, which is not planned"
            rows.append(Problem("info", where, message, "plan the pods that it makes"))
        return rows

    def _row(self, key: tuple[str, str], where: str) -> Problem:
        (kind, group), count = key, self._counts[key]
        several = f", {count} of them" if count > 1 else ""
        what = f"{shown(kind)} ({shown(group)}{several}) skipped"
        if path := self._containers[key]:
            message = f"{what}: qoslet does not read its containers at {shown(path)}"
            return Problem("info", where, message, _HINT, ProblemCode.UNREAD_CONTAINERS)
        message = f"{what}: a custom resource without a pod template"
        return Problem("info", where, message, "", ProblemCode.OTHER)
