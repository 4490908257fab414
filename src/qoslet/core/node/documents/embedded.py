"""KubeletConfigurations and flags of a kubelet inside documents of distributions and clouds.

Source: OpenShift machineconfiguration.openshift.io/v1 KubeletConfig, MachineConfig; EKS
node.eks.aws/v1alpha1 NodeConfig; Karpenter karpenter.k8s.aws EC2NodeClass; Talos v1alpha1 machine
configuration; GKE node system configuration; kind kind.x-k8s.io Cluster; k3s and RKE2 config.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.node.command_line.parse import flags
from qoslet.core.problem import Problem

_PLACES = {
    ("machineconfiguration.openshift.io", "KubeletConfig"): "spec.kubeletConfig",
    ("node.eks.aws", "NodeConfig"): "spec.kubelet.config",
    ("karpenter.k8s.aws", "EC2NodeClass"): "spec.kubelet",
}
"""Where a kind of a group has it."""

_ARGUMENTS = {
    "spec.kubelet.config": "spec.kubelet.flags",
    "machine.kubelet.extraConfig": "machine.kubelet.extraArgs",
}
"""Where a document has flags of the kubelet beside its configuration."""

_UNTYPED = ("machine.kubelet.extraConfig", "kubeletConfig")
"""Where documents without a kind have it: those of Talos and of GKE."""

_CGROUP_MODE = "linuxConfig.cgroupMode"
_CGROUP_MODES = {"CGROUP_MODE_V1": "v1", "CGROUP_MODE_V2": "v2"}
"""What GKE calls the cgroup versions; unspecified is the release's default."""

_CONFIGZ = "kubectl get --raw /api/v1/nodes/NAME/proxy/configz"

_REFUSED = {
    ("kind.x-k8s.io", "Cluster"): (
        "holds the KubeletConfiguration as text in kubeadmConfigPatches",
        "give that patch as a file, or",
    ),
    ("machineconfiguration.openshift.io", "MachineConfig"): (
        "holds files of a node, no kubelet configuration to read",
        "give the KubeletConfig object, or",
    ),
}


class Embedded(Struct, frozen=True):
    """What a document holds: the field that the configuration stands at, and that (None: empty), and
    the same of the kubelet's flags; ``hierarchy`` is v1 or v2 where it says so, before the field that
    does; or, with ``message``, why it cannot be read and what to give
    instead."""

    field: str = ""
    document: Mapping[str, Any] | None = None
    arguments_field: str = ""
    arguments: Any = None
    hierarchy: tuple[str, str] | None = None
    message: str = ""
    hint: str = ""


def embedded(given: Mapping[str, Any]) -> Embedded | None:
    """The KubeletConfiguration inside a document of another kind; None for an unknown document."""
    kind, version = given.get("kind"), given.get("apiVersion")
    if isinstance(kind, str) and isinstance(version, str):
        key = (version.rpartition("/")[0], kind)
        if key in _REFUSED:
            message, hint = _REFUSED[key]
            return Embedded(message=f"a {kind} {message}", hint=f"{hint} the output of {_CONFIGZ}")
        return _at(given, _PLACES[key], kind) if key in _PLACES else None
    if kind is not None or version is not None:
        return None
    if "kubelet-arg" in given:
        return Embedded(arguments_field="kubelet-arg", arguments=given["kubelet-arg"] or [])
    if isinstance(given.get("machine"), Mapping) and ("version" in given or "cluster" in given):
        return _at(given, _UNTYPED[0], "Talos machine configuration")
    return _gke(given) if "kubeletConfig" in given or "linuxConfig" in given else None


def _gke(given: Mapping[str, Any]) -> Embedded:
    """What a node system configuration of GKE says of the kubelet and of cgroups."""
    mode = _value(given, _CGROUP_MODE)
    hierarchy = _CGROUP_MODES.get(mode) if isinstance(mode, str) else None
    if hierarchy is None:
        return _at(given, _UNTYPED[1], "GKE configuration")
    beside = {**given, "kubeletConfig": given.get("kubeletConfig") or {}}
    found = _at(beside, _UNTYPED[1], "GKE configuration")
    return replace(found, hierarchy=(hierarchy, _CGROUP_MODE))


def _at(given: Mapping[str, Any], field: str, kind: str) -> Embedded:
    """What stands at a dotted field, and the flags beside it."""
    found, beside = _value(given, field), _ARGUMENTS.get(field, "")
    arguments = _value(given, beside) if beside else None
    if found is not None and not isinstance(found, Mapping):
        return Embedded(message=f"{field} of the {kind} is not an object", hint="correct it")
    if found is None and not arguments:
        return Embedded(
            message=f"the {kind} has no {field}", hint=f"give the output of {_CONFIGZ} instead"
        )
    return Embedded(field, found, beside, arguments)


def _value(given: Mapping[str, Any], field: str) -> Any:
    """The value of a dotted field; None where it is not there."""
    found: Any = given
    for name in field.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def arguments_of(given: Any, where: str) -> Iterator[tuple[Any, Any, str]]:
    """Name, value and place of each flag: words as on a command line, also without dashes, or a map
    of names to values or lists of them."""
    if isinstance(given, Mapping):
        for name, value in given.items():
            for one in value if isinstance(value, list) else (value,):
                yield name, one, f"{where}.{name}"
        return
    words = given if isinstance(given, list) else [given]
    for index, word in enumerate(words):
        if not isinstance(word, str):
            yield word, word, f"{where}[{index}]"
    texts = [word for word in words if isinstance(word, str)]
    plain = not any(word.startswith("-") for word in texts)
    for name, value in flags([f"--{word}" for word in texts] if plain else texts):
        yield name, value, where


def partial_row(where: str) -> Problem:
    """That the rest of the configuration is the distribution's."""
    message = "what the distribution sets beside it is not known: defaults of the kubelet count"
    return Problem("info", where, message, f"the output of {_CONFIGZ} has everything")
