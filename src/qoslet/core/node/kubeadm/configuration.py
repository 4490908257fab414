"""kubeadm's own documents: what they say of the kubelets that it sets up.

Source: k8s.io/kubernetes cmd/kubeadm/app/apis/kubeadm v1beta1 to v1beta4;
cmd/kubeadm/app/componentconfigs/kubelet.go (kubeletConfig.Default: the systemd driver, since 1.22).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from qoslet.core.node.faults import Faults
from qoslet.core.node.fields import mapping
from qoslet.core.node.flags import FLAG_ROWS, decode

GROUP = "kubeadm.k8s.io"

_MAKES_NODES = ("ClusterConfiguration", "InitConfiguration")
_REGISTERS = ("InitConfiguration", "JoinConfiguration")
_VERSION = re.compile(r"(?:stable-)?v?(1\.[0-9]{1,3}(?:\.[0-9]+)?)(?:[-+].*)?")
_SYSTEMD_SINCE = 22

Fields = dict[str, tuple[Any, str]]


class KubeadmFields(Struct):
    """What the documents give: fields of the KubeletConfiguration, which ``kubelet`` None says
    nothing of, those that the kubelet's flags override, and fields of a node."""

    kubelet: Fields | None = None
    flags: Fields = {}
    node: Fields = {}


def kubeadm_fields(
    faults: Faults, documents: Sequence[tuple[str, Mapping[str, Any]]]
) -> KubeadmFields:
    """What kubeadm's documents (label, decoded) say; of a field given twice the later wins."""
    found = KubeadmFields()
    made = ""
    for label, given in documents:
        kind = given.get("kind")
        if str(given.get("apiVersion")).rpartition("/")[0] != GROUP:
            continue
        if kind == "ClusterConfiguration":
            match = _VERSION.fullmatch(str(given.get("kubernetesVersion") or ""))
            if match:
                found.node["kubernetes"] = (match[1], f"{label}: kubernetesVersion")
        if kind in _MAKES_NODES:
            made = label
        if kind in _REGISTERS and given.get("nodeRegistration") is not None:
            where = f"{label}: nodeRegistration"
            registration = mapping(faults, where, given["nodeRegistration"]) or {}
            if registration.get("name"):
                found.node["metadata.name"] = (registration["name"], f"{where}.name")
            place = f"{where}.kubeletExtraArgs"
            found.flags |= _flags(faults, place, registration.get("kubeletExtraArgs"))
    if made:
        release = found.node.get("kubernetes", ("", ""))[0].split(".")
        old = len(release) > 1 and int(release[1]) < _SYSTEMD_SINCE
        found.kubelet = {} if old else {"cgroupDriver": ("systemd", f"{made} (kubeadm's default)")}
    return found


def _flags(faults: Faults, where: str, given: Any) -> Fields:
    """The kubelet's flags that set fields of its configuration."""
    rows = {name: row for row in FLAG_ROWS for name in row.names if row.config is not None}
    found: Fields = {}
    for name, text in _arguments(given):
        row = rows.get(f"--{name.lstrip('-')}")
        if row is None or row.config is None:
            continue
        value = decode(faults, row, text)
        if value is not None:
            found[row.config] = (value, f"{where}.{row.names[0][2:]}")
    return found


def _arguments(given: Any) -> Iterator[tuple[str, str]]:
    """``{name: value}`` up to v1beta3, ``[{name, value}]`` since v1beta4."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, list):
        items = [one for one in given if isinstance(one, Mapping)]
        pairs = [(one.get("name"), one.get("value")) for one in items]
    for name, value in pairs:
        if isinstance(name, str) and isinstance(value, str):
            yield name, value
