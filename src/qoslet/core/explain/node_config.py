"""The effective configuration of a node, field by field, with the source of each value.

Fields have their names in a KubeletConfiguration or in qoslet's Node. ``documents`` returns
documents that describe the node completely, without a probe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct, structs

from qoslet.core.node.documents.kubelet_config import READERS
from qoslet.core.node.documents.sources import KUBELET_API, OWN_API
from qoslet.core.node.flags import FLAG_ROWS
from qoslet.core.node.node import Node
from qoslet.core.quantity import Quantity, binary, canonical
from qoslet.core.resources.node_policy import node_policy
from qoslet.core.versions.feature_gates import group_in

Value = Any
"""A JSON value."""


class EffectiveField(Struct, frozen=True):
    """One field. ``source`` is a file with the field, a flag, ``probed``, or a default and what it
    depends on; ``flag`` is the flag that overrides it, empty without one. ``sources`` are those of
    the entries of a value that has them, by name; without one ``source`` is that of all."""

    field: str
    value: Value
    source: str
    flag: str = ""
    sources: Mapping[str, str] = {}

    @property
    def is_default(self) -> bool:
        """Whether nothing but defaults decided about it."""
        return all(one.startswith("default") for one in self.sources.values() or (self.source,))


def _amounts(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: canonical(amount) for name, amount in amounts.items()}


def _word(on: bool) -> str:
    return "true" if on else "false"


_SHAPES: Mapping[str, Callable[[Any], Value]] = {
    "cpuCFSQuotaPeriod": lambda micro: f"{micro / 1000:g}ms",
    "kubeReserved": _amounts,
    "systemReserved": _amounts,
    "evictionHard": dict,
    "featureGates": dict,
    "enforceNodeAllocatable": list,
    "memorySwap": lambda behavior: {"swapBehavior": behavior} if behavior else {},
    "containerLogMaxSize": binary,
    "cpuManagerPolicyOptions": lambda given: {name: _word(on) for name, on in given.items()},
    "topologyManagerPolicyOptions": dict,
    "reservedMemory": lambda given: [
        {"numaNode": number, "limits": _amounts(amounts)} for number, amounts in given.items()
    ],
    "qosReserved": lambda percent: {} if percent is None else {"memory": f"{percent}%"},
}
"""Converters for fields whose value in ``Kubelet`` differs from that in the document."""

_FLAGS = {row.config or row.field: row.names[0] for row in FLAG_ROWS}


def _kubelet(node: Node) -> dict[str, Value]:
    """The fields of a KubeletConfiguration that decide about values, as in the document."""
    return {
        field: _SHAPES.get(field, _plain)(getattr(node.kubelet, attribute))
        for field, (attribute, _) in READERS.items()
    }


def _plain(value: Any) -> Value:
    return list(value) if isinstance(value, tuple | frozenset) else value


def _host(node: Node) -> dict[str, Value]:
    """The known host facts, by their names in qoslet's Node."""
    host = node.host
    facts = {
        "hierarchy": host.hierarchy,
        "kernel": host.kernel,
        "pageSize": host.page_size,
        "hugepageSizes": [binary(size) for size in host.hugepage_sizes],
        "swapController": host.swap_controller,
        "systemd": host.systemd,
        "controllers": None if host.controllers is None else sorted(host.controllers),
        "hugetlbRsvd": host.hugetlb_rsvd,
        "psi": host.psi,
        "mounts": dict(host.mounts) or None,
        "cpus": host.cpus,
    }
    return {name: value for name, value in facts.items() if value is not None}


def rows(node: Node) -> Iterator[EffectiveField]:
    """Every field that decides about a value: the choices, the kubelet's, the machine's."""
    rules = node.profile
    choices = (
        ("kubernetes", rules.kubernetes, "kubernetes"),
        ("runtime", rules.runtime.name, "runtime"),
        ("memoryQos", node_policy(node).memory_qos, "memory_qos"),
        ("cgroupDriver", node.driver, "cgroupDriver"),
    )
    for field, value, flag in choices:
        origin = "driver" if field == "cgroupDriver" else field
        default = _variant_default(node) if field == "memoryQos" else "default"
        yield EffectiveField(field, value, node.origins.get(origin, default), _FLAGS.get(flag, ""))
    for field, value in _kubelet(node).items():
        if field == "featureGates":
            yield from _gates(node)
            continue
        if field == "memoryReservationPolicy" and _protects_unasked(node):
            yield EffectiveField(field, node_policy(node).reservation, "default of form qoslet")
            continue
        source = node.origin(field)
        yield EffectiveField(
            field, value, source, _FLAGS.get(field, ""), _sources(node, field, value, source)
        )
    yield from _machine(node)


def _sources(node: Node, field: str, value: Value, source: str) -> dict[str, str]:
    """Where the entries of a value came from; empty where that is one place with all of it."""
    if not isinstance(value, dict):
        return {}
    found = {name: node.origins.get(f"{field}.{name}", source) for name in value}
    return {} if set(found.values()) <= {source} else found


def _variant_default(node: Node) -> str:
    rules = node.profile
    if rules.memory_qos == "qoslet" and node_policy(node).memory_qos != "off":
        return "default without a Kubernetes release"
    return f"default of {rules.kubernetes}"


def _protects_unasked(node: Node) -> bool:
    """Whether the reservation policy is the default of variant qoslet."""
    return node.profile.memory_qos == "qoslet" and "memoryReservationPolicy" not in node.origins


def _choices(node: Node) -> dict[str, Value]:
    """The versions, and the variant if it was named. The default release is left out with variant
    qoslet, because a named release has its own variant."""
    rules = node.profile
    fields: dict[str, Value] = {"kubernetes": rules.kubernetes, "runtime": rules.runtime.name}
    if rules.memory_qos_forced:
        return fields | {"memoryQos": rules.memory_qos}
    if rules.memory_qos == "qoslet":
        del fields["kubernetes"]
    return fields


def _gates(node: Node) -> Iterator[EffectiveField]:
    """The gates that decide about values, and others that the user set."""
    given = node.kubelet.feature_gates
    default = f"default of {node.profile.kubernetes}"
    for name in sorted({*node.profile.gates, *given}):
        field = f"featureGates.{name}"
        group = group_in(name, node.profile.minor)
        origin = node.origins.get(field) or node.origins.get(f"featureGates.{group}", default)
        yield EffectiveField(field, node.gate(name), origin, _FLAGS["featureGates"])


def _machine(node: Node) -> Iterator[EffectiveField]:
    """Capacity, swap and host facts."""
    for name, amount in node.capacity.items():
        field = f"capacity.{name}"
        yield EffectiveField(field, canonical(amount), node.origin(field))
    yield EffectiveField("swap", binary(node.swap), node.origin("swap"))
    for name, value in _host(node).items():
        field = f"host.{name}"
        yield EffectiveField(field, value, node.origin(field))
    if node.host.numa:
        yield EffectiveField("numa", _numa(node), node.origin("numa"))
    if node.host.layout is not None:
        yield EffectiveField("topology", _topology(node), node.origin("topology"))


def _numa(node: Node) -> list[dict[str, Value]]:
    """The NUMA nodes as qoslet's Node lists them."""
    entries: list[dict[str, Value]] = []
    for numa in node.host.numa:
        entry: dict[str, Value] = {"id": numa.id, "cpus": numa.cpus, "memory": binary(numa.memory)}
        if numa.hugepages:
            entry["hugepages"] = {binary(page): binary(n) for page, n in numa.hugepages.items()}
        if numa.distances:
            entry["distances"] = list(numa.distances)
        entries.append(entry)
    return entries


def _topology(node: Node) -> dict[str, Value]:
    """The known topology of the CPUs."""
    layout = node.host.layout
    if layout is None:
        return {}
    return {name: list(lists) for name, lists in structs.asdict(layout).items()}


def documents(node: Node) -> list[dict[str, Value]]:
    """qoslet's Node and a KubeletConfiguration that describe the node completely."""
    node_document: dict[str, Value] = {"apiVersion": OWN_API, "kind": "Node"}
    if node.name is not None:
        node_document["metadata"] = {"name": node.name}
    node_document |= {
        "os": node.os,
        "capacity": _amounts(node.capacity),
        "swap": binary(node.swap),
        "host": _host(node) if node.os == "linux" else {},
        **_choices(node),
    }
    if node.host.numa:
        node_document["numa"] = _numa(node)
    if node.host.layout is not None:
        node_document["topology"] = _topology(node)
    kubelet = {
        "apiVersion": KUBELET_API,
        "kind": "KubeletConfiguration",
        "cgroupDriver": node.driver,
        **{field: value for field, value in _kubelet(node).items() if value not in (None, "")},
    }
    if _protects_unasked(node):
        del kubelet["memoryReservationPolicy"]
    if not node.kubelet_given:
        # only a configured kubelet refuses to start
        kubelet |= {"failCgroupV1": False, "failSwapOn": False}
    return [node_document, kubelet]
