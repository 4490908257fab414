"""Reads documents that describe a node: which kind each is, and the fields that it gives.

A KubeletConfiguration (also as ``configz``), a Node of the API (also in a List) and qoslet's own
Node become flat maps from a dotted field to its decoded value and the place it stands at.
Values are checked by whoever reads the field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from qoslet.core.node.documents.kubelet_documents import (
    add_arguments,
    add_embedded,
    add_kubelet,
    in_force,
    ineffective,
    put_over,
    without_kubelet,
)
from qoslet.core.node.documents.sources import KUBELET_API, LISTED_KINDS, OWN_API, Fields, Sources
from qoslet.core.node.faults import Faults, close_to, kind_of, shown
from qoslet.core.node.fields import known_fields, mapping

_BARE_FIELDS = 30
"""Fields of a KubeletConfiguration that nobody writes by hand; configz has 80."""


_Labelled = tuple[str, Mapping[str, Any]]
_Fault = tuple[str, str, str]
"""Place, message and hint."""


class _Deferred(NamedTuple):
    """What is decided once every document was seen: the API's Nodes, of which one is chosen, the
    documents of kubeadm, and the faults of documents that say nothing of a node (``useless``) or of a
    kubelet (``empty``)."""

    nodes: list[_Labelled]
    kubeadm: list[_Labelled]
    useless: list[_Fault]
    empty: list[_Fault]


def read_sources(
    faults: Faults, documents: Sequence[tuple[str, Any]], node_name: str | None = None
) -> Sources:
    """Read ``documents`` (label, decoded); of a kind given twice the later field wins.
    ``node_name`` chooses among the API's Nodes."""
    found, deferred = Sources(), _Deferred([], [], [], [])
    for label, document in _unlisted(documents):
        given = None if document is None else mapping(faults, label, document)
        if given is not None:
            _read_document(faults, found, deferred, label, given)
    if deferred.kubeadm:
        _kubeadm(faults, found, deferred.kubeadm)
    if found.arguments:
        add_arguments(faults, found)
    if found.kubelet is None and found.own is None and not deferred.nodes:
        for fault in (*deferred.useless, *deferred.empty):
            faults.add(*fault)
        for label, given in deferred.kubeadm:
            message = f"{shown(str(given.get('kind')))} says nothing of a kubelet"
            faults.add(label, message, _KUBELET_CONFIG)
    _choose(faults, found, deferred.nodes, node_name)
    _complete(found)
    found.problems.extend(without_kubelet(deferred.empty))
    found.problems.extend(ineffective(found.unknown))
    return found


def _read_document(
    faults: Faults, found: Sources, deferred: _Deferred, label: str, given: Mapping[str, Any]
) -> None:
    """Put the fields of one document into ``found``, or the document into ``deferred``."""
    kind, version = given.get("kind"), given.get("apiVersion")
    if "kubeletconfig" in given:
        add_kubelet(faults, found, f"{label}: kubeletconfig.", in_force(given["kubeletconfig"]))
        found.is_whole = True
    elif (kind == "KubeletConfiguration" and version == KUBELET_API) or _is_bare(given):
        add_kubelet(faults, found, f"{label}: ", given)
        found.is_whole = True
    elif kind == "Node" and version == OWN_API:
        _own(faults, found, label, given)
    elif kind == "Node" and version == "v1":
        deferred.nodes.append((f"{label}: ", given))
    elif kind in ("List", "NodeList") and version == "v1":
        deferred.nodes.extend(_items(faults, label, given, kind == "NodeList"))
    elif kind == "Pod" and version == "v1":
        hint = "give pods with -f, a node with --node"
        deferred.useless.append((label, "contains a pod, but no node", hint))
    elif is_of_kubeadm(version):
        deferred.kubeadm.append((label, given))
    elif not add_embedded(faults, found, label, given, deferred.empty):
        _unknown(faults, label, given)


def _complete(found: Sources) -> None:
    """Take the fields of a node that only documents of distributions and kubeadm give."""
    known = {**(found.api or {}), **(found.own or {})}
    lacking = {field: row for field, row in found.kubeadm.items() if field not in known}
    if lacking:
        found.own = {**(found.own or {}), **lacking}


_KUBELET_CONFIG = "add the output of kubectl -n kube-system get cm kubelet-config -o yaml"


def is_of_kubeadm(version: object) -> bool:
    """Whether a document of this apiVersion stands in kubeadm's file beside the kubelet's."""
    groups = ("kubeadm.k8s.io", "kubeproxy.config.k8s.io")
    return isinstance(version, str) and version.rpartition("/")[0] in groups


def _kubeadm(
    faults: Faults, found: Sources, documents: Sequence[tuple[str, Mapping[str, Any]]]
) -> None:
    """Take what kubeadm's documents say: below the KubeletConfiguration, whose defaults they are,
    and above it, as flags of the kubelet."""
    from qoslet.core.node.kubeadm.configuration import kubeadm_fields

    said = kubeadm_fields(faults, documents)
    found.problems += said.problems
    if found.kubelet is not None or said.kubelet is not None:
        put_over(found, said.kubelet or {}, said.flags)
    found.kubeadm = {**found.kubeadm, **said.node}


def _unlisted(documents: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The documents; before a List the objects in it that hold a configuration, without which it
    stays one where there are nodes in it."""
    for label, document in documents:
        items = document.get("items") if isinstance(document, Mapping) else None
        rest: list[Any] = []
        for at, item in enumerate(items if isinstance(items, list) else ()):
            holds = isinstance(item, Mapping) and item.get("kind") in LISTED_KINDS
            if holds:
                yield f"{label}: items[{at}]", item
            rest.append(None if holds else item)
        if not isinstance(items, list) or rest == items:
            yield label, document
        elif any(isinstance(item, Mapping) and item.get("kind") == "Node" for item in rest):
            yield label, {**document, "items": rest}


def _known_fields(given: Mapping[str, Any]) -> int:
    """How many fields of a document are those of a KubeletConfiguration."""
    from qoslet.core.node.documents.kubelet_field_names import SINCE

    return sum(key in SINCE for key in given)


def _is_bare(given: Mapping[str, Any]) -> bool:
    """Whether it is what configz has in ``kubeletconfig``: all fields of a kubelet, without kind."""
    if len(given) < _BARE_FIELDS or "kind" in given or "apiVersion" in given:
        return False
    return _known_fields(given) >= _BARE_FIELDS


def _unknown(faults: Faults, label: str, given: Mapping[str, Any]) -> None:
    kind, version = given.get("kind"), given.get("apiVersion")
    kinds = f"KubeletConfiguration ({KUBELET_API}), Node (v1 or {OWN_API}) or a List"
    if not isinstance(kind, str) or not isinstance(version, str):
        hint = f"a node document is a {kinds}"
        if kind is None and version is None and 0 < len(given) == _known_fields(given):
            hint = f"add apiVersion: {KUBELET_API} and kind: KubeletConfiguration"
        faults.add(label, "has neither kind nor apiVersion", hint)
    elif kind in ("KubeletConfiguration", "Node"):
        near = KUBELET_API if kind != "Node" else f"v1 or {OWN_API}"
        faults.add(
            f"{label}: apiVersion",
            f"{shown(version)} is not an apiVersion of {kind}",
            f"use {near}",
        )
    else:
        near = close_to(kind, ("KubeletConfiguration", "Node", "NodeList", "List"))
        faults.add(
            f"{label}: kind", f"{shown(kind)} is not a node document", near or f"use {kinds}"
        )


def _items(
    faults: Faults, label: str, given: Mapping[str, Any], untyped: bool
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The nodes of a List; whatever else is in it is not ours."""
    items = given.get("items")
    if not isinstance(items, list | tuple):
        faults.add(f"{label}: items", f"must be a list, not {kind_of(items)}")
        return
    count = 0
    for at, item in enumerate(items):
        if (
            isinstance(item, Mapping)
            and (item.get("kind", "Node") if untyped else item.get("kind")) == "Node"
        ):
            count += 1
            yield f"{label}: items[{at}].", item
    if not count:
        faults.add(label, "contains no node", "use the output of kubectl get nodes -o yaml")


def _fields(where: str, prefix: str, given: Mapping[str, Any], into: Fields) -> None:
    for key, value in given.items():
        if value is not None:
            into[f"{prefix}{key}"] = (value, f"{where}{prefix}{key}")


def _own(faults: Faults, found: Sources, label: str, given: Mapping[str, Any]) -> None:
    from qoslet.core.node.documents.own_fields import names as own_names

    where = f"{label}: "
    fields = found.own = found.own or {}
    known_fields(faults, label, given, own_names(), top=True)
    _fields(where, "", {key: given.get(key) for key in ("os", "swap", "numa", "topology")}, fields)
    chosen = ("kubernetes", "runtime", "memoryQos")
    _fields(where, "", {key: given.get(key) for key in chosen}, fields)
    for section, known in (("metadata", None), ("capacity", None), ("host", own_names("host"))):
        if given.get(section) is None:
            continue
        inner = mapping(faults, f"{where}{section}", given[section])
        if inner is None:
            continue
        if known is not None:
            known_fields(faults, f"{where}{section}", inner, known)
        if section == "metadata":
            old = fields.get("metadata.name", (inner.get("name"), ""))
            if inner.get("name") not in (None, old[0]):
                faults.add(
                    f"{where}metadata.name",
                    f"names another node than {old[1]}",
                    "describe one node at a time",
                )
            inner = {"name": inner.get("name")}
        _fields(where, f"{section}.", inner, fields)


def _section(faults: Faults, where: str, given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if given.get(name) is None:
        return {}
    return mapping(faults, f"{where}{name}", given[name]) or {}


def _name(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else "?"


def _choose(
    faults: Faults,
    found: Sources,
    nodes: Sequence[tuple[str, Mapping[str, Any]]],
    node_name: str | None,
) -> None:
    """Take the API's Node: the only one, or the one that the flag or qoslet's Node names."""
    wanted = node_name or (found.own or {}).get("metadata.name", (None, ""))[0]
    named = [node for node in nodes if _name(node[1]) == wanted]
    if named:
        nodes = named
    elif nodes and node_name:
        known = sorted({_name(node) for _, node in nodes})
        hint = close_to(node_name, known) or f"nodes: {_listed(known)}"
        where = nodes[0][0].rpartition(": items[")[0] or nodes[0][0].rstrip(": .")
        faults.add(where, f"contains no node {shown(node_name)}", hint)
        return
    if len({_name(node[1]) for node in nodes}) > 1:
        names = _listed([_name(node) for _, node in nodes])
        hint = f"choose one with --node-name, or as metadata.name of a {OWN_API} Node"
        faults.add(nodes[0][0].rstrip(": ."), f"contains several nodes: {names}", hint)
        return
    for where, document in nodes:
        _api(faults, found, where, document)


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*(shown(name) for name in names[:8]), *(["…"] if len(names) > 8 else [])])


def _api(faults: Faults, found: Sources, where: str, document: Mapping[str, Any]) -> None:
    """The fields of a Node of the API that say something about its resources."""
    fields = found.api = found.api or {}
    metadata = _section(faults, where, document, "metadata")
    _fields(where, "metadata.", {"name": metadata.get("name")}, fields)
    status = _section(faults, where, document, "status")
    inside = f"{where}status."
    for section in ("capacity", "allocatable"):
        _fields(inside, f"{section}.", _section(faults, inside, status, section), fields)
    info = _section(faults, inside, status, "nodeInfo")
    system = info.get("operatingSystem")
    if isinstance(system, str):
        # a virtual kubelet says Linux
        info = {**info, "operatingSystem": system.lower()}
    swap = info.get("swap")
    for field, key in (
        ("kubernetes", "kubeletVersion"),
        ("runtime", "containerRuntimeVersion"),
        ("os", "operatingSystem"),
        ("host.kernel", "kernelVersion"),
        ("osImage", "osImage"),
        ("architecture", "architecture"),
        ("machineID", "machineID"),
        ("systemUUID", "systemUUID"),
        ("bootID", "bootID"),
    ):
        if info.get(key):
            fields[field] = (info[key], f"{inside}nodeInfo.{key}")
    if isinstance(swap, Mapping) and swap.get("capacity") is not None:
        fields["swap"] = (swap["capacity"], f"{inside}nodeInfo.swap.capacity")
