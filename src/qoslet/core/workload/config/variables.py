"""Variables of a container from ConfigMaps and Secrets: ``envFrom`` and ``valueFrom``.

With ``symbolic`` they read as their references, whatever the objects hold.
Source: kubelet kubelet_pods.go makeEnvironmentVariables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from qoslet.core.api.config.objects import ConfigKey, ConfigKind, ConfigObjects
from qoslet.core.workload.config.references import (
    CONFIG_ERROR,
    UnmetReference,
    mapping,
    mappings,
    not_found,
)

_REFERENCES: tuple[tuple[str, ConfigKind], ...] = (
    ("configMapRef", "ConfigMap"),
    ("secretRef", "Secret"),
)
_KEY_REFERENCES: tuple[tuple[str, ConfigKind], ...] = (
    ("configMapKeyRef", "ConfigMap"),
    ("secretKeyRef", "Secret"),
)


class ConfigVariables(Struct):
    """Reads the variables of one container at ``field``, a pod's of ``namespace``; ``unmet`` gathers
    what the objects lack."""

    objects: ConfigObjects
    namespace: str
    field: str
    symbolic: bool = False
    unmet: list[UnmetReference] = []

    def all_of(self, container: Mapping[str, Any]) -> dict[str, str]:
        """The variables of ``envFrom``; of the same name the last one."""
        made: dict[str, str] = {}
        for index, entry in enumerate(mappings(container.get("envFrom"))):
            prefix = str(entry.get("prefix") or "")
            field = f"envFrom[{index}]"
            for name, kind in _REFERENCES:
                source = mapping(entry.get(name))
                if not source:
                    continue
                key = ConfigKey(kind, self.namespace, str(source.get("name") or ""))
                if self.symbolic:
                    made[field] = f"{prefix} {kind} {key.name} {source.get('optional') is True}"
                    continue
                values = self._values(key, field, optional=source.get("optional") is True)
                for variable in sorted(values):
                    text = self._text(values[variable], key, variable, field)
                    if text is not None:
                        made[prefix + variable] = text
        return made

    def one_of(self, source: Mapping[str, Any], field: str) -> tuple[bool, str | None]:
        """Whether ``valueFrom`` names a key of an object, and its value; None where there is
        none."""
        for name, kind in _KEY_REFERENCES:
            reference = mapping(source.get(name))
            if reference:
                return True, self._value(kind, reference, field)
        return False, None

    def _value(self, kind: ConfigKind, reference: Mapping[str, Any], field: str) -> str | None:
        object_key = ConfigKey(kind, self.namespace, str(reference.get("name") or ""))
        key, optional = str(reference.get("key") or ""), reference.get("optional") is True
        if self.symbolic:
            return f"{kind} {object_key.name} {key} {optional}"
        one = self.objects.get(object_key)
        values = self._values(object_key, field, optional=optional)
        if key in values:
            return self._text(values[key], object_key, key, field)
        if one is not None and not optional:
            where = f"{kind} {self.namespace}/{object_key.name}"
            self._lacks(field, f"couldn't find key {key} in {where}")
        return None

    def _values(self, key: ConfigKey, field: str, *, optional: bool) -> Mapping[str, bytes]:
        one = self.objects.get(key)
        if one is None and not optional:
            self._lacks(field, not_found(key))
        return {} if one is None else one.text

    def _text(self, value: bytes, key: ConfigKey, name: str, field: str) -> str | None:
        try:
            return value.decode()
        except UnicodeDecodeError:
            where = f"{key.kind} {self.namespace}/{key.name}"
            self._lacks(field, f"key {name} in {where} is not UTF-8 and can be no variable")
            return None

    def _lacks(self, field: str, message: str) -> None:
        self.unmet.append(UnmetReference(f"{self.field}.{field}", CONFIG_ERROR, message))
