"""Rules for labels, annotations and node selectors.

Source: k8s.io/apimachinery pkg/apis/meta/v1/validation (ValidateLabels), pkg/api/validation
(ValidateAnnotations); ValidatePodSpecificAnnotations, ValidateAppArmorPodAnnotations.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.schema import child, shown
from qoslet.core.api.validation import names
from qoslet.core.api.validation.fields import remember

APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
"""The annotation that names a container's profile begins so."""
_ANNOTATIONS_MAX = 256 * 1024


class LabelRules:
    """Checks labels and annotations; remembers keys and values that passed, which repeat."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._values: set[str] = set()

    def labels(self, given: Mapping[str, str], path: str, faults: list[FieldFault]) -> None:
        """Keys and values of labels, or of a node selector."""
        for key, value in given.items():
            if key not in self._keys:
                self._key(key, key, path, faults)
            if value not in self._values:
                if names.is_label_value(value):
                    remember(self._values, value)
                else:
                    message = f"{shown(value)!r} is not a label value"
                    faults.append(FieldFault(child(path, key), message, names.LABEL_VALUE_HINT))

    def annotations(self, given: Mapping[str, str], path: str, faults: list[FieldFault]) -> None:
        """Keys of annotations, and the size of all together."""
        size = 0
        for key, value in given.items():
            size += len(key) + len(value)
            if key not in self._keys:
                self._key(key, key.lower(), path, faults)
        if size * 4 > _ANNOTATIONS_MAX:  # a character is at most four bytes
            size = sum(len(f"{k}{v}".encode(errors="replace")) for k, v in given.items())
        if size > _ANNOTATIONS_MAX:
            message = f"have {size} bytes together"
            faults.append(FieldFault(path, message, f"use at most {_ANNOTATIONS_MAX}"))

    def _key(self, key: str, checked: str, path: str, faults: list[FieldFault]) -> None:
        if not names.is_qualified(checked):
            message = f"{shown(key, 80)!r} is not a valid key"
            faults.append(FieldFault(child(path, key), message, names.QUALIFIED_HINT))
        elif checked == key:
            remember(self._keys, key)


def apparmor(
    annotations: Mapping[str, str], containers: Collection[str], path: str
) -> list[FieldFault]:
    """The annotations that name an AppArmor profile of a container."""
    faults = []
    for key, profile in annotations.items():
        if not key.startswith(APPARMOR):
            continue
        place, name = child(path, key), key.removeprefix(APPARMOR)
        if name not in containers:
            message = f"the pod has no container {shown(name, 63)!r}"
            faults.append(FieldFault(place, message, "name a container of the pod"))
        named = profile.startswith("localhost/")
        if not named and profile not in ("", "runtime/default", "unconfined"):
            hint = "known are runtime/default, unconfined and localhost/PROFILE"
            faults.append(FieldFault(place, f"{shown(profile)!r} is unknown", hint))
    return faults
