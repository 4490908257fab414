"""Sorts documents that describe a node: which kind each is, and the fields that it gives.

A KubeletConfiguration (also as ``configz``), a Node of the API (also in a List) and qoslet's own
Node become flat maps from a dotted field to its decoded value and the place it stands at.
Values are checked by whoever reads the field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from qoslet.core.node.faults import Faults, close_to, kind_of, place, shown
from qoslet.core.node.fields import known_fields, mapping
from qoslet.core.problem import Problem

Fields = dict[str, tuple[Any, str]]
"""Dotted field to (decoded value, ``file: field``). A null counts as not given."""

KUBELET_API = "kubelet.config.k8s.io/v1beta1"
OWN_API = "qoslet/v1"

_BARE_FIELDS = 30
"""Fields of a KubeletConfiguration that nobody writes by hand; configz has 80."""

_WARNINGS = 20
"""Mistyped fields that are told."""


class Sources(Struct):
    """What the documents give, per kind. ``kubelet`` is None without a KubeletConfiguration;
    ``kubeadm`` are fields of a node that other documents lack."""

    kubelet: Fields | None = None
    own: Fields | None = None
    api: Fields | None = None
    problems: list[Problem] = []
    kubeadm: Fields = {}
    is_whole: bool = False
    """A KubeletConfiguration is among them, not only a part of one."""
    from_distribution: bool = False
    """A part of one is, of a distribution that sets others itself."""
    entries: dict[str, dict[str, str]] = {}
    """Of fields that several KubeletConfigurations give a part of: the place of each entry."""
    arguments: list[tuple[str, Any]] = []
    """Places of flags of the kubelet, and the flags as they stand there."""
    gates: tuple[Any, str] | None = None
    """Feature gates that win over those of the KubeletConfiguration, one by one."""
    over_defaults: bool = False
    """Only drop-ins give hard eviction thresholds: the defaults were set before them."""
    unknown: list[tuple[str, str]] = []
    """Fields of KubeletConfigurations that there are not, with their places."""


def sort(
    faults: Faults, documents: Sequence[tuple[str, Any]], node_name: str | None = None
) -> Sources:
    """Read ``documents`` (label, decoded); of a kind given twice the later field wins.
    ``node_name`` chooses among the API's Nodes."""
    found = Sources()
    nodes: list[tuple[str, Mapping[str, Any]]] = []
    useless: list[tuple[str, str]] = []
    kubeadms: list[tuple[str, Mapping[str, Any]]] = []
    for label, document in documents:
        if document is None:
            continue
        given = mapping(faults, label, document)
        if given is None:
            continue
        kind, version = given.get("kind"), given.get("apiVersion")
        if "kubeletconfig" in given:
            _kubelet(faults, found, f"{label}: kubeletconfig.", _in_force(given["kubeletconfig"]))
            found.is_whole = True
        elif (kind == "KubeletConfiguration" and version == KUBELET_API) or _is_bare(given):
            _kubelet(faults, found, f"{label}: ", given)
            found.is_whole = True
        elif kind == "Node" and version == OWN_API:
            _own(faults, found, label, given)
        elif kind == "Node" and version == "v1":
            nodes.append((f"{label}: ", given))
        elif kind in ("List", "NodeList") and version == "v1":
            nodes.extend(_items(faults, label, given, kind == "NodeList"))
        elif kind == "Pod" and version == "v1":
            useless.append((label, "contains a pod, but no node"))
        elif is_of_kubeadm(version):
            kubeadms.append((label, given))
        elif not _embedded(faults, found, label, given):
            _unknown(faults, label, given)
    if kubeadms:
        _kubeadm(faults, found, kubeadms)
    if found.arguments:
        _arguments(faults, found)
    if found.kubelet is None and found.own is None and not nodes:
        for label, message in useless:
            faults.add(label, message, "give pods with -f, a node with --node")
        for label, given in kubeadms:
            message = f"{shown(str(given.get('kind')))} says nothing of a kubelet"
            faults.add(label, message, _KUBELET_CONFIG)
    _choose(faults, found, nodes, node_name)
    for field, given_field in found.kubeadm.items():
        if field not in (found.api or {}) and field not in (found.own or {}):
            found.own = {**(found.own or {}), field: given_field}
    found.problems.extend(_ineffective(found.unknown))
    return found


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
        _put_over(found, said.kubelet or {}, said.flags)
    found.kubeadm = said.node


def _put_over(found: Sources, defaults: Fields, flags: Fields) -> None:
    """Put fields below those of the KubeletConfiguration, and those of flags above them."""
    if "featureGates" in flags and "featureGates" in (found.kubelet or {}):
        found.gates = flags.pop("featureGates")
    found.kubelet = {**defaults, **(found.kubelet or {}), **flags}


def _arguments(faults: Faults, found: Sources) -> None:
    """Take the kubelet's flags of documents of distributions."""
    from qoslet.core.node.command_line.kubelet_arguments import read_arguments
    from qoslet.core.node.documents.embedded import arguments_of

    for where, given in found.arguments:
        said = read_arguments(faults, arguments_of(given, where), where)
        found.problems += said.problems
        _put_over(found, {}, said.fields)
        if said.name is not None:
            found.kubeadm = {**found.kubeadm, "metadata.name": said.name}


def _embedded(faults: Faults, found: Sources, label: str, given: Mapping[str, Any]) -> bool:
    """Read the KubeletConfiguration inside a document of a distribution; whether it is one."""
    from qoslet.core.node.documents.embedded import embedded, partial_row

    inside = embedded(given)
    if inside is None:
        return False
    if inside.message:
        faults.add(label, inside.message, inside.hint)
        return True
    given_at = inside.field if inside.document is not None else inside.arguments_field
    found.problems.append(partial_row(f"{label}: {given_at}"))
    found.from_distribution = True
    if inside.hierarchy is not None:
        version, field = inside.hierarchy
        found.own = {**(found.own or {}), "host.hierarchy": (version, f"{label}: {field}")}
    if inside.document is not None:
        _kubelet(faults, found, f"{label}: {inside.field}.", inside.document)
    if inside.arguments:
        found.arguments.append((f"{label}: {inside.arguments_field}", inside.arguments))
    return True


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


def _kubelet(faults: Faults, found: Sources, where: str, document: Any) -> None:
    given = mapping(faults, where.rstrip(": ."), document)
    if given is None:
        return
    adds = found.kubelet is not None and "evictionHard" not in found.kubelet
    found.over_defaults |= adds and isinstance(given.get("evictionHard"), Mapping)
    fields = found.kubelet = found.kubelet or {}
    from qoslet.core.node.documents.kubelet_field_names import SINCE

    for key, value in given.items():
        if key in SINCE:
            # A null factor is told from an absent one: since 1.27 both are legal, with a meaning.
            if value is not None or key == "memoryThrottlingFactor":
                fields[key] = _over(found, key, value, f"{where}{key}")
        elif key not in ("apiVersion", "kind"):
            found.unknown.append((key, f"{where}{key}"))
    swap = given.get("memorySwap")
    for key in swap if isinstance(swap, Mapping) else ():
        if key != "swapBehavior" and isinstance(key, str):
            found.unknown.append((key, f"{where}memorySwap.{key}"))


def _in_force(configz: Any) -> Any:
    """A configuration as a kubelet's /configz has it: complete, so that an empty list or map, which
    JSON leaves out, is no default; and the default thresholds are merged already.

    Source: kubelet config v1beta1 types.go (``omitempty``); a kubelet always has both frequencies.
    """
    if not isinstance(configz, Mapping) or not {
        "syncFrequency",
        "nodeStatusUpdateFrequency",
    } <= set(configz):
        return configz
    given = {key: value for key, value in configz.items() if key != "mergeDefaultEvictionSettings"}
    return {"evictionHard": {}, "enforceNodeAllocatable": [], **given}


def _over(found: Sources, field: str, value: Any, where: str) -> tuple[Any, str]:
    """A field's value and place, merged with that of an earlier KubeletConfiguration if both are
    maps."""
    before = (found.kubelet or {}).get(field)
    if before is None or not (isinstance(before[0], Mapping) and isinstance(value, Mapping)):
        return value, where
    # imported where there are several
    from qoslet.core.node.documents.merge_patch import entries, merge

    known = found.entries.get(field) or dict(entries(before[0], before[1]))
    found.entries[field] = {**known, **dict(entries(value, where))}
    return merge(before[0], value), where


def _ineffective(unknown: Sequence[tuple[str, str]]) -> Iterator[Problem]:
    """What to know about fields that no release of the kubelet has."""
    if not unknown:
        return
    from qoslet.core.node.documents.kubelet_field_names import SINCE

    told = _WARNINGS if len(unknown) <= _WARNINGS else _WARNINGS - 1
    for key, where in unknown[:told]:
        known = ("swapBehavior",) if where.endswith(f".memorySwap.{key}") else SINCE
        message = f"{shown(key)} is not a KubeletConfiguration field and has no effect"
        yield Problem("warning", place(where), message, close_to(key, known) or "remove it")
    if len(unknown) > told:
        message = f"{len(unknown) - told} more fields are not KubeletConfiguration fields"
        yield Problem("warning", place(unknown[told][1]), message, "remove them")


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
