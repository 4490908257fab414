"""The ConfigMaps and Secrets that pods refer to, and what a pod lacks as long as one is absent.

Source: core/v1 EnvFromSource, EnvVarSource, VolumeSource; kubelet kubelet_pods.go, events of
MountVolume.SetUp.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from qoslet.core.api.config.objects import ConfigKey, ConfigKind

CONFIG_ERROR: Literal["CreateContainerConfigError"] = "CreateContainerConfigError"
"""A kubelet's reason of a container whose environment cannot be made."""
MOUNT_ERROR: Literal["FailedMount"] = "FailedMount"
"""A kubelet's reason of a pod whose volume cannot be made."""


class UnmetReference(Struct, frozen=True):
    """Something that a pod needs before it may start and that the input does not have: the field
    that asks for it, a kubelet's reason and sentence."""

    field: str
    reason: Literal["CreateContainerConfigError", "FailedMount"]
    message: str


def not_found(key: ConfigKey) -> str:
    """An absent object, as the API server says it."""
    return f'{key.kind.lower()} "{key.name}" not found'


class ConfigUsers:
    """Which pods refer to which objects."""

    def __init__(self) -> None:
        self._pods: dict[ConfigKey, set[str]] = {}
        self._keys: dict[str, frozenset[ConfigKey]] = {}

    def put(self, uid: str, namespace: str, document: Mapping[str, Any]) -> None:
        """A pod came or changed."""
        self.drop(uid)
        keys = frozenset(references(namespace, document))
        if keys:
            self._keys[uid] = keys
        for key in keys:
            self._pods.setdefault(key, set()).add(uid)

    def drop(self, uid: str) -> None:
        """A pod went."""
        for key in self._keys.pop(uid, ()):
            self._pods[key].discard(uid)
            if not self._pods[key]:
                del self._pods[key]

    def of(self, keys: Iterable[ConfigKey]) -> set[str]:
        """The pods that refer to any of these."""
        return {uid for key in keys for uid in self._pods.get(key, ())}


def references(namespace: str, document: Mapping[str, Any]) -> Iterator[ConfigKey]:
    """The objects that a pod document names."""
    for kind, source in _sources(mapping(document.get("spec"))):
        name = source.get("secretName") or source.get("name")
        if isinstance(name, str) and name:
            yield ConfigKey(kind, namespace, name)


def uses_config(spec: Mapping[str, Any]) -> bool:
    """Whether a variable of a pod comes from an object."""
    return any(True for _ in _of_containers(spec))


def _sources(spec: Mapping[str, Any]) -> Iterator[tuple[ConfigKind, Mapping[str, Any]]]:
    yield from _of_containers(spec)
    for volume in mappings(spec.get("volumes")):
        yield from _pair(volume, "configMap", "secret")
        for source in mappings(mapping(volume.get("projected")).get("sources")):
            yield from _pair(source, "configMap", "secret")


def _of_containers(spec: Mapping[str, Any]) -> Iterator[tuple[ConfigKind, Mapping[str, Any]]]:
    for kind in ("initContainers", "containers"):
        for container in mappings(spec.get(kind)):
            for entry in mappings(container.get("envFrom")):
                yield from _pair(entry, "configMapRef", "secretRef")
            for entry in mappings(container.get("env")):
                source = mapping(entry.get("valueFrom"))
                yield from _pair(source, "configMapKeyRef", "secretKeyRef")


def _pair(
    entry: Mapping[str, Any], config_map: str, secret: str
) -> Iterator[tuple[ConfigKind, Mapping[str, Any]]]:
    if entry.get(config_map):
        yield "ConfigMap", mapping(entry[config_map])
    if entry.get(secret):
        yield "Secret", mapping(entry[secret])


def mappings(value: object) -> list[Mapping[str, Any]]:
    """The mappings of a list; anything else counts as empty."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def mapping(value: object) -> Mapping[str, Any]:
    """``value`` if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}
