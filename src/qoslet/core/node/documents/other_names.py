"""Names that clouds give to fields of a KubeletConfiguration, and what they are for the kubelet.

Source: GKE, gcloud container node-pools create --system-config-from-file; AKS, custom node
configuration (linuxkubeletconfig.json); Gardener core.gardener.cloud/v1beta1 KubeletConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from qoslet.core.node.documents.kubelet_field_names import SINCE

_NESTED = {
    "memoryManager": {"policy": "memoryManagerPolicy"},
    "topologyManager": {"policy": "topologyManagerPolicy", "scope": "topologyManagerScope"},
}
"""What GKE groups under one name."""

_RENAMED = {
    "podMaxPids": "podPidsLimit",
    "imageGcHighThreshold": "imageGCHighThresholdPercent",
    "imageGcLowThreshold": "imageGCLowThresholdPercent",
}
"""Names of AKS that differ in more than capitals."""

_LOG_MEGABYTES = "containerLogMaxSizeMB"
_PLAIN_OF_AKS = (
    "cpuManagerPolicy",
    "topologyManagerPolicy",
    "allowedUnsafeSysctls",
    "failSwapOn",
    "containerLogMaxFiles",
    "seccompDefault",
)
_OF_AKS = (*_RENAMED, _LOG_MEGABYTES, "cpuCfsQuota", "cpuCfsQuotaPeriod")

_POLICIES = {
    "BestEffort": "best-effort",
    "SingleNumaNode": "single-numa-node",
    "Restricted": "restricted",
    "None": "none",
}
"""Policies of the topology manager as gcloud's example writes them."""

_FIELDS = {name.lower(): name for name in SINCE}
_SIGNALS = {
    name.replace(".", "").lower(): name
    for name in (
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "imagefs.available",
        "imagefs.inodesFree",
        "pid.available",
    )
}
_EVICTIONS = ("evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim")
_RESERVATIONS = ("kubeReserved", "systemReserved")


class KubeletNames(Struct, frozen=True):
    """A configuration in the names of the kubelet, and where each field stands in the document."""

    document: Mapping[str, Any]
    places: Mapping[str, str]


def is_of_aks(given: Mapping[str, Any]) -> bool:
    """Whether a document without a kind is a custom kubelet configuration of AKS."""
    known = (*_OF_AKS, *_PLAIN_OF_AKS)
    return any(name in given for name in _OF_AKS) and all(name in known for name in given)


def in_kubelet_names(given: Mapping[str, Any]) -> KubeletNames:
    """The fields of a cloud's document under the names that the kubelet has for them; a field that
    there is not keeps its name."""
    document: dict[str, Any] = {}
    places: dict[str, str] = {}
    for name, value in given.items():
        parts = _NESTED.get(name)
        if parts is not None and isinstance(value, Mapping):
            for part, inner in value.items():
                field = parts.get(part, f"{name}.{part}")
                document[field], places[field] = _value(field, inner), f"{name}.{part}"
        elif name == _LOG_MEGABYTES:
            whole = isinstance(value, int) and not isinstance(value, bool)
            document["containerLogMaxSize"] = f"{value}M" if whole else value
            places["containerLogMaxSize"] = name
        else:
            field = _RENAMED.get(name) or _FIELDS.get(name.lower(), name)
            document[field], places[field] = _value(field, value), name
    return KubeletNames(document, places)


def _value(field: str, value: Any) -> Any:
    """A value as the kubelet writes it: signals with dots, resources with dashes."""
    if field in _EVICTIONS and isinstance(value, Mapping):
        return {_SIGNALS.get(str(name).lower(), name): one for name, one in value.items()}
    if field in _RESERVATIONS and isinstance(value, Mapping) and "ephemeralStorage" in value:
        plain = {name: one for name, one in value.items() if name != "ephemeralStorage"}
        return {**plain, "ephemeral-storage": value["ephemeralStorage"]}
    if field == "topologyManagerPolicy" and isinstance(value, str):
        return _POLICIES.get(value, value)
    return value
