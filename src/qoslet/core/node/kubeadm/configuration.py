"""kubeadm's own documents: what they say of the kubelets that it sets up.

Source: k8s.io/kubernetes cmd/kubeadm/app/apis/kubeadm v1beta1 to v1beta4;
cmd/kubeadm/app/componentconfigs/kubelet.go (kubeletConfig.Default: the systemd driver, since 1.22).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from qoslet.core.node.command_line.kubelet_arguments import no_effect, read_arguments
from qoslet.core.node.faults import Faults, kind_of, place
from qoslet.core.node.fields import mapping
from qoslet.core.problem import Problem

GROUP = "kubeadm.k8s.io"

_MAKES_NODES = ("ClusterConfiguration", "InitConfiguration")
_REGISTERS = ("InitConfiguration", "JoinConfiguration")
_VERSION = re.compile(r"(?:stable-)?v?(1\.[0-9]{1,3}(?:\.[0-9]+)?)(?:[-+].*)?")
_SYSTEMD_SINCE = 22
_API = re.compile(r"v1beta([0-9]{1,3})")
_LIST_SINCE = 4
"""The beta since which arguments are a list."""

Fields = dict[str, tuple[Any, str]]


class KubeadmFields(Struct):
    """What the documents give: fields of the KubeletConfiguration, which ``kubelet`` None says
    nothing of, those that the kubelet's flags override, fields of a node, and what has no effect."""

    kubelet: Fields | None = None
    flags: Fields = {}
    node: Fields = {}
    problems: list[Problem] = []


def kubeadm_fields(
    faults: Faults, documents: Sequence[tuple[str, Mapping[str, Any]]]
) -> KubeadmFields:
    """What kubeadm's documents (label, decoded) say; of a field given twice the later wins."""
    found = KubeadmFields()
    made = ""
    for label, given in documents:
        kind, version = given.get("kind"), str(given.get("apiVersion"))
        if version.rpartition("/")[0] != GROUP:
            continue
        if kind == "ClusterConfiguration":
            match = _VERSION.fullmatch(str(given.get("kubernetesVersion") or ""))
            if match:
                found.node["kubernetes"] = (match[1], f"{label}: kubernetesVersion")
        if kind in _REGISTERS and given.get("nodeRegistration") is not None:
            _registration(faults, label, given, found)
        if kind in _MAKES_NODES or found.flags:
            made = label
    if made:
        release = found.node.get("kubernetes", ("", ""))[0].split(".")
        old = len(release) > 1 and int(release[1]) < _SYSTEMD_SINCE
        found.kubelet = {} if old else {"cgroupDriver": ("systemd", f"{made} (kubeadm's default)")}
    return found


def _registration(
    faults: Faults, label: str, given: Mapping[str, Any], found: KubeadmFields
) -> None:
    """The node's name, and the flags of its kubelet."""
    where = f"{label}: nodeRegistration"
    registration = mapping(faults, where, given["nodeRegistration"]) or {}
    if registration.get("name"):
        found.node["metadata.name"] = (registration["name"], f"{where}.name")
    arguments = registration.get("kubeletExtraArgs")
    if arguments is None:
        return
    place_of = f"{where}.kubeletExtraArgs"
    _check_form(str(given.get("apiVersion")), arguments, place_of, found.problems)
    read = read_arguments(faults, _arguments(arguments, place_of), place_of, "kubeadm")
    found.flags |= read.fields
    found.problems += read.problems
    if read.name is not None:
        found.node["metadata.name"] = read.name


def _check_form(version: str, given: Any, where: str, problems: list[Problem]) -> None:
    """A row for arguments in the form of another version of kubeadm."""
    match = _API.fullmatch(version.rpartition("/")[2])
    is_list = match is None or int(match[1]) >= _LIST_SINCE
    wanted = list if is_list else Mapping
    if not isinstance(given, wanted) and isinstance(given, list | Mapping):
        form = "a list of name and value" if is_list else "a map of names to values"
        message = f"{version.rpartition('/')[2]} has {form} here: kubeadm refuses the other form"
        problems.append(Problem("warning", place(where), message, "run kubeadm config migrate"))
    elif not isinstance(given, list | Mapping):
        message = f"must be a list or a map, not {kind_of(given)},"
        problems.append(no_effect(where, message, "give name and value of each flag"))


def _arguments(given: Any, where: str) -> Iterator[tuple[Any, Any, str]]:
    """Name, value and place of each argument: ``{name: value}`` up to v1beta3, ``[{name, value}]``
    since v1beta4."""
    if isinstance(given, Mapping):
        for name, value in given.items():
            yield name, value, f"{where}.{name}"
    elif isinstance(given, list):
        for index, item in enumerate(given):
            at = f"{where}[{index}]"
            if isinstance(item, Mapping):
                name = item.get("name")
                part = "value" if isinstance(name, str) else "name"
                yield name, item.get("value"), f"{at}.{part}"
            else:
                yield item, item, at
