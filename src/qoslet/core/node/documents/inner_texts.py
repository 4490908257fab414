"""Documents that stand as text inside others: of ConfigMaps, of kind's Cluster, of files of a node.

Source: cmd/kubeadm/app/constants KubeletBaseConfigurationConfigMapKey, ClusterConfigurationConfigMapKey;
kind.x-k8s.io/v1alpha4 Cluster; OpenShift machine-config-operator pkg/controller/kubelet-config.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from qoslet.core.node.documents.sources import KUBELET_API

_IN_CONFIG_MAPS = ("kubelet", "ClusterConfiguration")
"""The keys of the ConfigMaps kubelet-config and kubeadm-config in kube-system."""

_KUBELET_FILE = "/etc/kubernetes/kubelet.conf"

_KUBEADM_API = "kubeadm.k8s.io/v1beta3"
_API_VERSIONS = {
    "KubeletConfiguration": KUBELET_API,
    "ClusterConfiguration": _KUBEADM_API,
    "InitConfiguration": _KUBEADM_API,
    "JoinConfiguration": _KUBEADM_API,
    "KubeProxyConfiguration": "kubeproxy.config.k8s.io/v1alpha1",
}
"""What kind takes a patch without an apiVersion for."""


def texts_inside(given: Any) -> dict[str, str]:
    """The texts of a document that are documents about a kubelet, by their fields."""
    kind = given.get("kind") if isinstance(given, dict) else None
    if kind == "ConfigMap":
        data = given.get("data")
        found = {key: data.get(key) for key in _IN_CONFIG_MAPS} if isinstance(data, dict) else {}
        return {f"data.{key}": text for key, text in found.items() if isinstance(text, str)}
    if kind == "Cluster" and str(given.get("apiVersion")).startswith("kind.x-k8s.io/"):
        nodes = nodes_with_patches(given)
        return dict(_patches(given, "") if len(nodes) > 1 else _all_patches(given, nodes))
    return dict(_files(given)) if kind == "MachineConfig" else {}


def nodes_with_patches(cluster: Mapping[str, Any]) -> list[int]:
    """Which nodes of a Cluster of kind have patches of their own."""
    nodes = cluster.get("nodes")
    return [
        at
        for at, node in enumerate(nodes if isinstance(nodes, list) else ())
        if isinstance(node, Mapping) and node.get("kubeadmConfigPatches")
    ]


def _all_patches(cluster: Mapping[str, Any], nodes: list[int]) -> Iterator[tuple[str, str]]:
    yield from _patches(cluster, "")
    for at in nodes:
        yield from _patches(cluster["nodes"][at], f"nodes[{at}].")


def _patches(given: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    patches = given.get("kubeadmConfigPatches")
    for at, text in enumerate(patches if isinstance(patches, list) else ()):
        if isinstance(text, str):
            yield f"{place}kubeadmConfigPatches[{at}]", text


def _files(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The kubelet's file of a MachineConfig; its contents are a data URL."""
    found: Any = given
    for name in ("spec", "config", "storage", "files"):
        found = found.get(name) if isinstance(found, Mapping) else None
    for at, file in enumerate(found if isinstance(found, list) else ()):
        if not isinstance(file, Mapping) or file.get("path") != _KUBELET_FILE:
            continue
        contents = file.get("contents")
        source = contents.get("source") if isinstance(contents, Mapping) else None
        text = _of_data_url(source) if isinstance(source, str) else None
        if text is not None:
            yield f"spec.config.storage.files[{at}].contents", text


def _of_data_url(source: str) -> str | None:
    """The text of ``data:[TYPE][;base64],DATA``; None if it is none."""
    head, comma, data = source.partition(",")
    if not comma or not head.startswith("data:"):
        return None
    if not head.endswith(";base64"):
        return unquote(data)
    try:
        return b64decode(data, validate=True).decode()
    except ValueError:
        return None


def with_api_version(given: Any) -> Any:
    """The same document; a patch without an apiVersion gets that of its kind."""
    kind = given.get("kind") if isinstance(given, dict) else None
    if isinstance(kind, str) and kind in _API_VERSIONS and not given.get("apiVersion"):
        return {**given, "apiVersion": _API_VERSIONS[kind]}
    return given
