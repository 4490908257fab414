"""What is in force on a node, field by field, and where each value came from.

A field has the name that it has in its document: those of a KubeletConfiguration, those of
qoslet's Node. ``documents`` turns a node back into
documents that describe it whole: read again, anywhere, they give the same node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct, structs

from qoslet.core.node.documents import KUBELET_API, OWN_API
from qoslet.core.node.flags import FLAG_ROWS
from qoslet.core.node.kubelet_config import READERS
from qoslet.core.node.node import Node
from qoslet.core.quantity import Quantity, canonical, from_int
from qoslet.core.resources.node_policy import node_policy

Value = Any
"""A value as it stands in a JSON document."""


class EffectiveField(Struct, frozen=True):
    """One field. ``source`` is a file with the field, a flag, ``probed``, or a default with what
    it depends on; ``flag`` is the flag that overrides it, empty where none does."""

    field: str
    value: Value
    source: str
    flag: str = ""


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
    "containerLogMaxSize": lambda size: _bytes(size),
    "cpuManagerPolicyOptions": lambda given: {name: _word(on) for name, on in given.items()},
    "topologyManagerPolicyOptions": dict,
    "reservedMemory": lambda given: [
        {"numaNode": number, "limits": _amounts(amounts)} for number, amounts in given.items()
    ],
    "qosReserved": lambda percent: {} if percent is None else {"memory": f"{percent}%"},
}
"""How the fields are written whose value in ``Kubelet`` has another form."""

_FLAGS = {row.config or row.field: row.names[0] for row in FLAG_ROWS}


def _kubelet(node: Node) -> dict[str, Value]:
    """Every field of a KubeletConfiguration that decides here, as the document writes it."""
    return {
        field: _SHAPES.get(field, _plain)(getattr(node.kubelet, attribute))
        for field, (attribute, _) in READERS.items()
    }


def _plain(value: Any) -> Value:
    return list(value) if isinstance(value, tuple | frozenset) else value


def _host(node: Node) -> dict[str, Value]:
    """The host facts that are known, by their names in qoslet's Node."""
    host = node.host
    facts = {
        "hierarchy": host.hierarchy,
        "kernel": host.kernel,
        "pageSize": host.page_size,
        "hugepageSizes": [_bytes(size) for size in host.hugepage_sizes],
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
        default = _form_default(node) if field == "memoryQos" else "default"
        yield EffectiveField(field, value, node.origins.get(origin, default), _FLAGS.get(flag, ""))
    for field, value in _kubelet(node).items():
        if field == "featureGates":
            yield from _gates(node)
            continue
        if field == "memoryReservationPolicy" and _protects_unasked(node):
            yield EffectiveField(field, node_policy(node).reservation, "default of form qoslet")
            continue
        yield EffectiveField(field, value, node.origin(field), _FLAGS.get(field, ""))
    yield from _machine(node)


def _form_default(node: Node) -> str:
    rules = node.profile
    if rules.memory_qos == "qoslet" and node_policy(node).memory_qos != "off":
        return "default without a Kubernetes release"
    return f"default of {rules.kubernetes}"


def _protects_unasked(node: Node) -> bool:
    """Whether the reservation policy is that of form qoslet, which nobody set."""
    return node.profile.memory_qos == "qoslet" and "memoryReservationPolicy" not in node.origins


def _choices(node: Node) -> dict[str, Value]:
    """The versions and the form, as far as they were named: a default stays one, since a named
    release has its own form of Memory QoS."""
    rules = node.profile
    found: dict[str, Value] = {"kubernetes": rules.kubernetes, "runtime": rules.runtime.name}
    if rules.memory_qos_forced:
        return found | {"memoryQos": rules.memory_qos}
    if rules.memory_qos == "qoslet":
        del found["kubernetes"]
    return found


def _gates(node: Node) -> Iterator[EffectiveField]:
    """The gates that decide about a value, and any other that the owner set."""
    given = node.kubelet.feature_gates
    default = f"default of {node.profile.kubernetes}"
    for name in sorted({*node.profile.gates, *given}):
        field = f"featureGates.{name}"
        yield EffectiveField(
            field, node.gate(name), node.origins.get(field, default), _FLAGS["featureGates"]
        )


def _machine(node: Node) -> Iterator[EffectiveField]:
    """Capacity, swap and host facts."""
    for name, amount in node.capacity.items():
        field = f"capacity.{name}"
        yield EffectiveField(field, canonical(amount), node.origin(field))
    yield EffectiveField("swap", _bytes(node.swap), node.origin("swap"))
    for name, value in _host(node).items():
        field = f"host.{name}"
        yield EffectiveField(field, value, node.origin(field))
    if node.host.numa:
        yield EffectiveField("numa", _numa(node), node.origin("numa"))
    if node.host.layout is not None:
        yield EffectiveField("topology", _topology(node), node.origin("topology"))


def _numa(node: Node) -> list[dict[str, Value]]:
    """The NUMA nodes as qoslet's Node lists them."""
    found: list[dict[str, Value]] = []
    for one in node.host.numa:
        entry: dict[str, Value] = {"id": one.id, "cpus": one.cpus, "memory": _bytes(one.memory)}
        if one.hugepages:
            entry["hugepages"] = {_bytes(page): _bytes(n) for page, n in one.hugepages.items()}
        if one.distances:
            entry["distances"] = list(one.distances)
        found.append(entry)
    return found


def _bytes(amount: int) -> str:
    return canonical(from_int(amount, "BinarySI"))


def _topology(node: Node) -> dict[str, Value]:
    """Which CPUs share what, as far as it is known."""
    layout = node.host.layout
    if layout is None:
        return {}
    return {name: list(lists) for name, lists in structs.asdict(layout).items()}


def documents(node: Node) -> list[dict[str, Value]]:
    """qoslet's Node and a KubeletConfiguration that say everything, so that nothing is probed
    where they are read."""
    own: dict[str, Value] = {"apiVersion": OWN_API, "kind": "Node"}
    if node.name is not None:
        own["metadata"] = {"name": node.name}
    own |= {
        "os": node.os,
        "capacity": _amounts(node.capacity),
        "swap": _bytes(node.swap),
        "host": _host(node) if node.os == "linux" else {},
        **_choices(node),
    }
    if node.host.numa:
        own["numa"] = _numa(node)
    if node.host.layout is not None:
        own["topology"] = _topology(node)
    kubelet = {
        "apiVersion": KUBELET_API,
        "kind": "KubeletConfiguration",
        "cgroupDriver": node.driver,
        **{field: value for field, value in _kubelet(node).items() if value not in (None, "")},
    }
    if _protects_unasked(node):
        del kubelet["memoryReservationPolicy"]
    if not node.kubelet_given:
        # Only a kubelet that somebody configured refuses to start.
        kubelet |= {"failCgroupV1": False, "failSwapOn": False}
    return [own, kubelet]
