"""KubeletConfigurations and flags of a kubelet inside documents of distributions and clouds.

Source: OpenShift machineconfiguration.openshift.io/v1 KubeletConfig, MachineConfig; EKS
node.eks.aws/v1alpha1 NodeConfig; Karpenter karpenter.k8s.aws EC2NodeClass, karpenter.azure.com
AKSNodeClass, karpenter.sh/v1beta1 NodePool and v1alpha5 Provisioner; Talos v1alpha1 machine
configuration and KubeletConfig; GKE node system configuration; AKS custom node configuration; Gardener
Shoot; k0s ClusterConfig; kind kind.x-k8s.io Cluster; k3s and RKE2 config.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.node.command_line.parse import flags
from qoslet.core.problem import Problem

Given = Mapping[str, Any]

_PLACES = {
    ("machineconfiguration.openshift.io", "KubeletConfig"): "spec.kubeletConfig",
    ("node.eks.aws", "NodeConfig"): "spec.kubelet.config",
    ("karpenter.k8s.aws", "EC2NodeClass"): "spec.kubelet",
    ("karpenter.azure.com", "AKSNodeClass"): "spec.kubelet",
    ("karpenter.sh", "NodePool"): "spec.template.spec.kubelet",
    ("karpenter.sh", "Provisioner"): "spec.kubeletConfiguration",
    ("", "KubeletConfig"): "config",
}
"""Where a kind of a group has it; Talos' kinds have no group."""

_ARGUMENTS = {
    "spec.kubelet.config": "spec.kubelet.flags",
    "machine.kubelet.extraConfig": "machine.kubelet.extraArgs",
    "config": "extraArgs",
}
"""Where a document has flags of the kubelet beside its configuration."""

_IMAGES = {"machine.kubelet.extraConfig": "machine.kubelet.image", "config": "image"}
"""Where a document names the kubelet's image, whose tag is the release."""

_TAG = re.compile(r"[^@]*:v(1\.[0-9]{1,3}(?:\.[0-9]+)?)(?:[-+@].*)?")

_TALOS_KIND = re.compile(r"[A-Za-z0-9]{1,60}(?:Config|Document)")

_CGROUP_MODE = "linuxConfig.cgroupMode"
_CGROUP_MODES = {"CGROUP_MODE_V1": "v1", "CGROUP_MODE_V2": "v2"}
"""What GKE calls the cgroup versions; unspecified is the release's default."""

_PAGES = {"hugepage_size2m": ("2Mi", 2), "hugepage_size1g": ("1Gi", 1024)}
"""GKE's numbers of hugepages: their size, and how many Mi a page has."""

_CONFIGZ = "kubectl get --raw /api/v1/nodes/NAME/proxy/configz"

_REFUSED = {
    ("kops.k8s.io", "Cluster"): "has the kubelet's settings in kOps' own names",
    ("kops.k8s.io", "InstanceGroup"): "has the kubelet's settings in kOps' own names",
    ("bootstrap.cluster.x-k8s.io", "KubeadmConfig"): "holds parts of kubeadm's file",
    ("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate"): "holds parts of kubeadm's file",
    ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane"): "holds parts of kubeadm's file",
}


class Embedded(Struct, frozen=True):
    """What a document holds: the field that the configuration stands at, and that (None: empty), and
    the same of the kubelet's flags; ``places`` are those of its fields whose names differ.
    ``hierarchy`` is v1 or v2 where it says so, before the field that does, and ``node`` are fields of
    the node that others override; or, with ``message``, why it cannot be read and what to give
    instead. ``is_empty``: it is a document without a configuration, which may stand beside one."""

    field: str = ""
    document: Given | None = None
    arguments_field: str = ""
    arguments: Any = None
    hierarchy: tuple[str, str] | None = None
    places: Mapping[str, str] = {}
    node: Mapping[str, tuple[Any, str]] = {}
    message: str = ""
    hint: str = ""
    is_empty: bool = False


def embedded(given: Given) -> Embedded | None:
    """The KubeletConfiguration inside a document of another kind; None for an unknown document."""
    kind, version = given.get("kind"), given.get("apiVersion")
    if isinstance(kind, str) and isinstance(version, str):
        return _of_kind(given, kind, version)
    if kind is not None or version is not None:
        return None
    if "kubelet-arg" in given:
        return Embedded(arguments_field="kubelet-arg", arguments=given["kubelet-arg"] or [])
    if isinstance(given.get("machine"), Mapping) and ("version" in given or "cluster" in given):
        return _at(given, "machine.kubelet.extraConfig", "Talos machine configuration")
    if "kubeletConfig" in given or "linuxConfig" in given:
        return _gke(given)
    from qoslet.core.node.command_line.flag_text import flags_of
    from qoslet.core.node.documents.other_names import in_kubelet_names, is_of_aks

    if (variable := flags_of(given)) is not None:
        return Embedded(arguments_field=variable, arguments=given[variable])
    if is_of_aks(given):
        names = in_kubelet_names(given)
        return Embedded(document=names.document, places=names.places)
    return None


def _of_kind(given: Given, kind: str, version: str) -> Embedded | None:
    """The same, by kind and group."""
    key = (version.rpartition("/")[0], kind)
    if key in _REFUSED:
        return Embedded(
            message=f"the {kind} {_REFUSED[key]}", hint=f"give the output of {_CONFIGZ}"
        )
    if key in _READERS:
        return _READERS[key](given)
    if key in _PLACES:
        return _at(given, _PLACES[key], kind)
    if version == "v1alpha1" and _TALOS_KIND.fullmatch(kind):
        return _empty(f"the {kind} of Talos says nothing of a kubelet")
    return None


def _empty(message: str) -> Embedded:
    """The answer for a document without a configuration."""
    return Embedded(message=message, hint=f"give the output of {_CONFIGZ} instead", is_empty=True)


def _gke(given: Given) -> Embedded:
    """What a node system configuration of GKE says of the kubelet, of cgroups and of hugepages."""
    mode = _value(given, _CGROUP_MODE)
    hierarchy = _CGROUP_MODES.get(mode) if isinstance(mode, str) else None
    node = dict(_hugepages(_value(given, "linuxConfig.hugepageConfig")))
    config = given.get("kubeletConfig")
    if config is None and (hierarchy or node):
        config = {}
    found = _renamed(_at({"kubeletConfig": config}, "kubeletConfig", "GKE configuration"))
    if found.message:
        return found
    place = None if hierarchy is None else (hierarchy, _CGROUP_MODE)
    return replace(found, hierarchy=place, node=node)


def _hugepages(given: Any) -> Iterator[tuple[str, tuple[str, str]]]:
    """Capacities in hugepages; gcloud takes their numbers as numbers and as text."""
    for name, (size, mebibytes) in _PAGES.items():
        count = str(given.get(name) or "") if isinstance(given, Mapping) else ""
        if count.isascii() and count.isdigit() and len(count) < 10:
            place = f"linuxConfig.hugepageConfig.{name}"
            yield f"capacity.hugepages-{size}", (f"{int(count) * mebibytes}Mi", place)


def _gardener(given: Given) -> Embedded:
    """What a Shoot of Gardener says: a pool of workers has its own kubelet, or that of the Shoot."""
    workers = _value(given, "spec.provider.workers")
    pools = workers if isinstance(workers, list) else []
    own = [at for at, pool in enumerate(pools) if _value(pool, "kubernetes.kubelet") is not None]
    if own and len(pools) > 1:
        message = "the worker pools of the Shoot have different kubelets"
        return Embedded(message=message, hint=f"give the output of {_CONFIGZ}")
    if own:
        inner = _at(pools[0], "kubernetes.kubelet", "Shoot")
        field = f"spec.provider.workers[0].{inner.field}"
    else:
        inner = _at(given, "spec.kubernetes.kubelet", "Shoot")
        field = inner.field
    if inner.message:
        return inner
    version = _value(given, "spec.kubernetes.version")
    named = isinstance(version, str) and re.fullmatch(r"1\.[0-9]{1,3}(\.[0-9]+)?", version)
    node = {"kubernetes": (version, "spec.kubernetes.version")} if named else {}
    return replace(_renamed(inner), field=field, node=node)


def _k0s(given: Given) -> Embedded:
    """What a ClusterConfig of k0s says of its workers."""
    profiles = _value(given, "spec.workerProfiles")
    profiles = profiles if isinstance(profiles, list) else []
    if len(profiles) > 1:
        message = f"the ClusterConfig has {len(profiles)} worker profiles"
        return Embedded(message=message, hint="leave one, or give the output of " + _CONFIGZ)
    if not profiles:
        return _empty("the ClusterConfig has no spec.workerProfiles")
    inner = _at(profiles[0], "values", "worker profile")
    return inner if inner.message else replace(inner, field="spec.workerProfiles[0].values")


def _kind(given: Given) -> Embedded:
    """What a Cluster of kind says beside its patches, which are read as documents of their own."""
    from qoslet.core.node.documents.inner_texts import nodes_with_patches

    nodes = nodes_with_patches(given)
    if len(nodes) > 1:
        places = " and ".join(f"nodes[{at}]" for at in (nodes[0], nodes[-1]))
        message = f"{places} of the Cluster have kubeadmConfigPatches"
        return Embedded(message=message, hint="leave those of the node to plan")
    gates = given.get("featureGates")
    if not (nodes or gates or given.get("kubeadmConfigPatches")):
        return _empty("the Cluster has no kubeadmConfigPatches")
    images = given.get("nodes")
    tags = {
        (_TAG.fullmatch(str(_value(node, "image"))) or ("", ""))[1]
        for node in (images if isinstance(images, list) else ())
    }
    release = tags.pop() if len(tags) == 1 else ""
    node = {"kubernetes": (release, "nodes[0].image")} if release else {}
    return Embedded(document={"featureGates": gates} if gates else {}, node=node)


def _machine_config(given: Given) -> Embedded:
    """A MachineConfig without the kubelet's file, which is read before it."""
    return _empty("the MachineConfig does not hold /etc/kubernetes/kubelet.conf")


_READERS: Mapping[tuple[str, str], Callable[[Given], Embedded]] = {
    ("core.gardener.cloud", "Shoot"): _gardener,
    ("k0s.k0sproject.io", "ClusterConfig"): _k0s,
    ("kind.x-k8s.io", "Cluster"): _kind,
    ("machineconfiguration.openshift.io", "MachineConfig"): _machine_config,
}


def _at(given: Any, field: str, kind: str) -> Embedded:
    """What stands at a dotted field, and the flags beside it."""
    found, beside = _value(given, field), _ARGUMENTS.get(field, "")
    arguments = _value(given, beside) if beside else None
    if found is not None and not isinstance(found, Mapping):
        return Embedded(message=f"{field} of the {kind} is not an object", hint="correct it")
    if found is None and not arguments:
        return _empty(f"the {kind} has no {field}")
    image = _IMAGES.get(field, "")
    tag = _TAG.fullmatch(str(_value(given, image) or "")) if image else None
    node = {"kubernetes": (tag[1], image)} if tag else {}
    return Embedded(field, found, beside, arguments, node=node)


def _renamed(found: Embedded) -> Embedded:
    """The same with the names that the kubelet has for its fields."""
    if not found.document:
        return found
    from qoslet.core.node.documents.other_names import in_kubelet_names

    names = in_kubelet_names(found.document)
    return replace(found, document=names.document, places=names.places)


def _value(given: Any, field: str) -> Any:
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
