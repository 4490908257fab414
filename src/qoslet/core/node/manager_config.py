"""Readers for what the CPU, memory and topology managers go by: options, reservations, layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from qoslet.core.node import fields as read
from qoslet.core.node.faults import Faults, close_to, kind_of, shown
from qoslet.core.node.topology import (
    MOST_CPUS,
    MOST_NODES,
    MOST_PAGE_SIZES,
    POLICIES,
    SCOPES,
    Layout,
    NumaNode,
)
from qoslet.core.quantity import Quantity, QuantityError, parse


class Option(Struct, frozen=True):
    """A cpuManagerPolicyOption: the attribute of ``PickOptions``, and the minors since when it is
    alpha, beta and stable (None: not yet)."""

    attribute: str
    alpha: int
    beta: int | None = None
    stable: int | None = None


CPU_OPTIONS: Mapping[str, Option] = {
    "full-pcpus-only": Option("full_pcpus_only", 22, 23, 33),
    "distribute-cpus-across-numa": Option("distribute_across_numa", 23, 33),
    "align-by-socket": Option("align_by_socket", 25),
    "distribute-cpus-across-cores": Option("distribute_across_cores", 31),
    "strict-cpu-reservation": Option("strict_reservation", 32, 33, 35),
    "prefer-align-cpus-by-uncorecache": Option("prefer_uncore", 32, 34),
}
"""Source: kubelet pkg/kubelet/cm/cpumanager/policy_options.go of 1.22 to 1.36."""

_TOPOLOGY_OPTIONS = ("prefer-closest-numa-nodes", "max-allowable-numa-nodes")
_TRUE = {"1", "t", "T", "true", "TRUE", "True"}
_FALSE = {"0", "f", "F", "false", "FALSE", "False"}


def cpu_options(faults: Faults, where: str, value: Any) -> dict[str, bool] | None:
    """cpuManagerPolicyOptions: option to true or false, both texts."""
    given = read.mapping(faults, where, value)
    if given is None:
        return None
    found: dict[str, bool] = {}
    for name, entry in given.items():
        spot = f"{where}.{name}"
        if name not in CPU_OPTIONS:
            hint = close_to(name, CPU_OPTIONS) or f"known are {', '.join(CPU_OPTIONS)}"
            faults.add(spot, f"{shown(name)} is not a CPU manager option", hint)
        elif (chosen := _switch(faults, spot, entry)) is not None:
            found[name] = chosen
    return found


def _switch(faults: Faults, where: str, value: Any) -> bool | None:
    """The texts that Go's strconv.ParseBool takes."""
    found = read.text(faults, where, value)
    if found is None or found in _TRUE or found in _FALSE:
        return None if found is None else found in _TRUE
    faults.add(where, f"is {shown(found)}, must be true or false", "put it in quotes")
    return None


def memory_policy(faults: Faults, where: str, value: Any) -> str | None:
    """memoryManagerPolicy."""
    return None if value == "" else read.choice(faults, where, value, ("None", "Static"))


def topology_policy(faults: Faults, where: str, value: Any) -> str | None:
    """topologyManagerPolicy."""
    return None if value == "" else read.choice(faults, where, value, POLICIES)


def topology_scope(faults: Faults, where: str, value: Any) -> str | None:
    """topologyManagerScope."""
    return None if value == "" else read.choice(faults, where, value, SCOPES)


def topology_options(faults: Faults, where: str, value: Any) -> dict[str, str] | None:
    """topologyManagerPolicyOptions: option to its text."""
    given = read.mapping(faults, where, value)
    if given is None:
        return None
    found: dict[str, str] = {}
    for name, entry in given.items():
        spot = f"{where}.{name}"
        said = read.text(faults, spot, entry)
        if name not in _TOPOLOGY_OPTIONS:
            hint = close_to(name, _TOPOLOGY_OPTIONS) or f"known are {', '.join(_TOPOLOGY_OPTIONS)}"
            faults.add(spot, f"{shown(name)} is not a topology manager option", hint)
        elif said is not None and _fits(faults, spot, name, said):
            found[name] = said
    return found


def _fits(faults: Faults, where: str, name: str, said: str) -> bool:
    if name == "prefer-closest-numa-nodes":
        return _switch(faults, where, said) is not None
    if said.isascii() and said.isdigit() and len(said) < 4 and 8 <= int(said) <= MOST_NODES:
        return True
    faults.add(where, f"is {shown(said)}, must be a number from 8 to {MOST_NODES}")
    return False


def _memory_kind(faults: Faults, where: str, name: str) -> bool:
    """Whether a resource is memory or hugepages of a size."""
    if name == "memory":
        return True
    try:
        if name.startswith("hugepages-") and parse(name.removeprefix("hugepages-")).value > 0:
            return True
    except QuantityError:
        pass
    faults.add(
        where,
        f"{shown(name)} cannot be reserved per NUMA node",
        "use memory or hugepages-SIZE",
    )
    return False


def reserved_memory(
    faults: Faults, where: str, value: Any
) -> dict[int, dict[str, Quantity]] | None:
    """reservedMemory: a list of {numaNode, limits}, each resource of a node once, none 0.

    Source: kubelet apis/config/validation validateReservedMemoryConfiguration.
    """
    if not isinstance(value, list | tuple):
        faults.add(where, f"must be a list, not {kind_of(value)}", "of {numaNode, limits}")
        return None
    found: dict[int, dict[str, Quantity]] = {}
    if len(value) > MOST_NODES * MOST_PAGE_SIZES:
        faults.add(
            where, f"has {len(value)} entries", f"at most one for each of {MOST_NODES} nodes"
        )
        return None
    for at, entry in enumerate(value):
        spot = f"{where}[{at}]"
        given = read.mapping(faults, spot, entry)
        if given is None or faults.full:
            continue
        read.known_fields(faults, spot, given, {"numaNode", "limits"})
        node = read.integer(faults, f"{spot}.numaNode", given.get("numaNode"), 0, MOST_NODES - 1)
        limits = read.mapping(faults, f"{spot}.limits", given.get("limits"))
        if node is not None and limits is not None:
            _reserve(faults, f"{spot}.limits", limits, found.setdefault(node, {}))
    return found


def _reserve(
    faults: Faults, where: str, limits: Mapping[str, Any], into: dict[str, Quantity]
) -> None:
    if len(limits) > MOST_PAGE_SIZES:
        faults.add(where, f"has {len(limits)} resources, at most {MOST_PAGE_SIZES}")
        return
    for name, entry in limits.items():
        spot = f"{where}.{name}"
        if not _memory_kind(faults, spot, name):
            continue
        amount = read.amount(faults, spot, entry)
        if amount is not None and not amount.nano:
            faults.add(spot, "is 0; reserve an amount, or remove the entry")
        elif amount is not None and name in into:
            faults.add(spot, "is reserved twice on this node")
        elif amount is not None:
            into[name] = amount


def numa_nodes(faults: Faults, where: str, value: Any) -> tuple[NumaNode, ...] | None:
    """numa: a list of {id, cpus, memory, hugepages, distances}; without an id by their place."""
    if not isinstance(value, list | tuple):
        faults.add(where, f"must be a list, not {kind_of(value)}", "of {cpus, memory}")
        return None
    nodes: list[NumaNode] = []
    if len(value) > MOST_NODES:
        faults.add(where, f"has {len(value)} NUMA nodes, at most {MOST_NODES}")
        return None
    for at, entry in enumerate(value):
        place = f"{where}[{at}]"
        given = read.mapping(faults, place, entry)
        if given is None or faults.full:
            continue
        read.known_fields(faults, place, given, {"id", "cpus", "memory", "hugepages", "distances"})
        node = _node(faults, place, given, at)
        if node is not None and any(node.id == other.id for other in nodes):
            faults.add(f"{place}.id", f"{node.id} is the number of another node")
        elif node is not None:
            nodes.append(node)
    return tuple(nodes)


def _node(faults: Faults, where: str, given: Mapping[str, Any], at: int) -> NumaNode | None:
    number = read.integer(faults, f"{where}.id", given.get("id", at), 0, MOST_NODES - 1)
    cpus = read.cpu_list(faults, f"{where}.cpus", given.get("cpus"))
    memory = read.size(faults, f"{where}.memory", given.get("memory"))
    pages = _pages(faults, f"{where}.hugepages", given.get("hugepages"))
    far = given.get("distances", ())
    if not isinstance(far, list | tuple):
        faults.add(f"{where}.distances", f"must be a list, not {kind_of(far)}", "of numbers")
        far = ()
    elif len(far) > MOST_NODES:
        faults.add(f"{where}.distances", f"has {len(far)} numbers, at most {MOST_NODES}")
        far = ()
    distances = tuple(
        read.integer(faults, f"{where}.distances[{n}]", one, 0, 255) or 0
        for n, one in enumerate(far)
    )
    if number is None or cpus is None or memory is None:
        return None
    return NumaNode(cpus, memory, number, pages, distances)


def _pages(faults: Faults, where: str, value: Any) -> dict[int, int]:
    """Page size to bytes set aside."""
    given = None if value is None else read.mapping(faults, where, value)
    found: dict[int, int] = {}
    for size, entry in (given or {}).items():
        bytes_a_page = read.page(faults, f"{where}.{size}", size)
        amount = read.amount(faults, f"{where}.{size}", entry)
        if bytes_a_page is not None and amount is not None:
            found[bytes_a_page] = amount.value
    return found


def layout_of(faults: Faults, where: str, value: Any) -> Layout | None:
    """topology: {sockets, cores, caches}, each a list of CPU lists of which none overlap."""
    given = read.mapping(faults, where, value)
    if given is None:
        return None
    read.known_fields(faults, where, given, {"sockets", "cores", "caches"})
    lists = {
        name: _cpu_lists(faults, f"{where}.{name}", given.get(name, ()))
        for name in ("sockets", "cores", "caches")
    }
    return Layout(**lists)


def _cpu_lists(faults: Faults, where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        faults.add(where, f"must be a list, not {kind_of(value)}", 'such as ["0-3", "4-7"]')
        return ()
    found: list[str] = []
    seen: set[int] = set()
    work = 0
    for at, entry in enumerate(value):
        if faults.full:
            break
        text = read.cpu_list(faults, f"{where}[{at}]", entry)
        members = (read.cpus(text) or set()) if text else set()
        if members & seen:
            faults.add(f"{where}[{at}]", f"CPU {min(members & seen)} occurs in two lists")
        elif text:
            found.append(text)
        work += len(members)
        if work > 8 * MOST_CPUS:
            break  # the same CPUs over and over
        seen |= members
    return tuple(found)
