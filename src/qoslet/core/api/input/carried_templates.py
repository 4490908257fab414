"""Where custom resources have pod templates and containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

_JOB_TEMPLATE = "spec.jobTemplate.spec.template"
"""Of any custom resource: the shape of a CronJob."""

_PATHS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("argoproj.io", "Experiment"): ("spec.templates[].template",),
    ("kubeflow.org", "TFJob"): ("spec.tfReplicaSpecs{}.template",),
    ("keda.sh", "ScaledJob"): ("spec.jobTargetRef.template",),
    ("apps.kruise.io", "AdvancedCronJob"): (
        "spec.template.jobTemplate.spec.template",
        "spec.template.broadcastJobTemplate.spec.template",
    ),
}
"""Kinds whose controllers run pod templates as they are, several of them with a name each.
``[]`` is a list of what has a ``name``, ``{}`` a map by name. Source: argo-rollouts
pkg/apis/rollouts/v1alpha1/experiment_types.go; kubeflow/training-operator tensorflow_types.go,
pkg/core GenGeneralName; kedacore/keda scaledjob_types.go; openkruise/kruise
advancedcronjob_types.go."""

_CONTAINERS = ("containers", "initContainers")
_IMAGES = ("steps", "sidecars")
_ONE = ("container", "script")
"""Members that are containers: named ones, those with an image, single ones."""


class CarriedTemplate(Struct, frozen=True):
    """A pod template with the place where it stands. ``name`` is what its pods have behind the
    name of the resource, empty where that has one template; ``replicas`` is None where the resource
    does not say it."""

    path: str
    template: Mapping[str, Any]
    name: str = ""
    replicas: int | None = None


def carried(value: Mapping[str, Any], kind: str, group: str) -> list[CarriedTemplate]:
    """The pod templates that are not at ``spec.template`` and that can be read as they are; empty
    unless all of them can."""
    found: list[CarriedTemplate] = []
    for path in _PATHS.get((group, kind), (_JOB_TEMPLATE,)):
        for one in _at(value, path):
            if one is None:
                return []
            found.append(one)
    names = {one.name for one in found}
    return found if len(names) == len(found) else []


def _at(value: object, path: str) -> Iterator[CarriedTemplate | None]:
    """What stands at ``path``; None for what is no pod template there."""
    for sign, several in (("[]", list), ("{}", dict)):
        above, marked, below = path.partition(f"{sign}.")
        entries = _member(value, above)
        if not marked:
            continue
        if isinstance(entries, several):
            for place, name, entry in _named(entries):
                template, replicas = _member(entry, below), _count(entry, "replicas")
                fits = isinstance(name, str) and name and _is_template(template)
                where = f"{above}{place}.{below}"
                yield CarriedTemplate(where, template, name, replicas) if fits else None
        return
    template = _member(value, path)
    if template is not None:
        job = _member(value, path.rpartition(".")[0])
        limits = [n for n in (_count(job, "parallelism"), _count(job, "completions")) if n]
        count = min(limits) if limits and _count(job, "parallelism") else None
        yield CarriedTemplate(path, template, "", count) if _is_template(template) else None


def _named(entries: list[Any] | dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """The place of each entry, its name (a key in small letters), and the entry."""
    if isinstance(entries, dict):
        yield from ((f".{key}", key.lower(), entry) for key, entry in entries.items())
    else:
        for at, entry in enumerate(entries):
            yield f"[{at}]", _member(entry, "name"), entry


def _member(value: object, path: str) -> Any:
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _count(value: object, field: str) -> int | None:
    number = _member(value, field)
    return number if type(number) is int and number >= 0 else None


def _is_template(value: object) -> bool:
    containers = _member(value, "spec.containers")
    return isinstance(containers, list) and bool(containers) and all(map(_is_named, containers))


def _is_named(value: object) -> bool:
    return isinstance(value, dict) and ("name" in value or "image" in value)


def container_path(value: object) -> str:
    """Where the first containers stand in a document, as ``spec.templates[].container``; empty
    without any."""
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        place, inner = waiting.pop()
        if isinstance(inner, list):
            waiting += [(f"{place}[]", each) for each in reversed(inner)]
        elif isinstance(inner, dict):
            for key, member in inner.items():
                if _has_containers(key, member):
                    return f"{place}.{key}".removeprefix(".")
            waiting += [(f"{place}.{key}", inner[key]) for key in reversed(inner)]
    return ""


def _has_containers(key: str, member: object) -> bool:
    if key in _ONE:
        return isinstance(member, dict) and isinstance(member.get("image"), str)
    if key not in (*_CONTAINERS, *_IMAGES) or not isinstance(member, list) or not member:
        return False
    fields = ("image", "name") if key in _CONTAINERS else ("image",)
    first = member[0]
    return isinstance(first, dict) and any(isinstance(first.get(field), str) for field in fields)
