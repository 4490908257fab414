"""What a machine has: CPUs, memory, process IDs, huge pages and swap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qoslet.core.node import fields as read
from qoslet.core.node.faults import Faults
from qoslet.core.node.lookup import Lookup
from qoslet.core.node.topology import MOST_CPUS, MOST_PAGE_SIZES
from qoslet.core.quantity import Quantity, QuantityError, binary, from_int, parse


def _capacity(faults: Faults, where: str, value: Any) -> Quantity | None:
    """An amount of a resource; a hugepage resource must name its page size."""
    name = where.rpartition("capacity.")[2]
    if name.startswith("hugepages-"):
        try:
            parse(name.removeprefix("hugepages-"))
        except QuantityError as error:
            faults.add(where, f"the page size {error}", "such as hugepages-2Mi")
            return None
    if not name.isprintable() or not 0 < len(name) <= 317:
        faults.add(where, "is not a resource name", "such as cpu, memory or hugepages-2Mi")
        return None
    found = read.amount(faults, where, value)
    if found is not None and not found.nano and name in ("cpu", "memory"):
        faults.add(where, "is 0: no pod fits on the node")
        return None
    if found is not None and name == "cpu" and found.value > MOST_CPUS:
        faults.add(where, f"is more than {MOST_CPUS} CPUs", "a machine has at most 8192")
        return None
    return found


def capacity(machine: Lookup, os: str) -> dict[str, Quantity]:
    """The machine's resources, ``pid`` among them on Linux."""
    fields = (*machine.api, *machine.own)
    names = [one.removeprefix("capacity.") for one in fields if one.startswith("capacity.")]
    if sum(name.startswith("hugepages-") for name in names) > 2 * MOST_PAGE_SIZES:
        message = f"has more than {MOST_PAGE_SIZES} sizes of hugepages"
        machine.faults.add("capacity", message, "name the sizes that the machine has")
        return {}
    result = {}
    for name in dict.fromkeys(names):
        if (found := machine.given(f"capacity.{name}", _capacity)) is not None:
            result[name] = found
    for name in ("cpu", "memory") if os == "windows" else ("cpu", "memory", "pid"):
        if name not in names and (amount := _unnamed(machine, name, result)):
            result[name] = from_int(amount, "BinarySI" if name == "memory" else "DecimalSI")
    if not names and os == "linux" and not machine.described:
        for size, amount in (machine.found().hugepages or {}).items():
            name = f"hugepages-{binary(size)}"
            machine.noted(f"capacity.{name}", amount)
            result[name] = from_int(amount, "BinarySI")
    return result


def _unnamed(machine: Lookup, name: str, known: Mapping[str, Quantity]) -> int | None:
    """The amount of a resource that no document names: this machine's, or the PIDs that such machines have."""
    field = f"capacity.{name}"
    is_measured = not machine.described or (machine.only_named and name != "pid")
    found = getattr(machine.found(), name) if is_measured else None
    amount: int | None = machine.noted(field, found)
    if amount:
        return amount
    if name != "pid":
        why = " and this machine does not show it" if is_measured else ""
        this = "" if is_measured else ", or --probe always if this is the node"
        hint = f"set capacity in a qoslet/v1 Node document (--node){this}"
        machine.faults.add(field, f"is unknown: no document has it{why}", hint)
    elif not is_measured and "memory" in known:
        from qoslet.core.node.described.assumptions import pids

        cpus = known["cpu"].value if "cpu" in known else 1
        number, why = pids(machine.clues(), known["memory"].value, cpus)
        return machine.assume(field, number, str(number), why)
    return None


def _bytes(faults: Faults, where: str, value: Any) -> int | None:
    found = read.amount(faults, where, value)
    return None if found is None else found.value


def swap_of(machine: Lookup, os: str) -> int:
    """Swap capacity in bytes. A qoslet Node that describes the machine and no swap has none."""
    if os == "windows" or ("capacity.memory" in machine.own and not machine.known("swap")):
        return 0
    if not machine.known("swap") and machine.described:
        return machine.assume("swap", 0, "0", "kubelets refuse swap by default")
    return machine.fact("swap", _bytes, "swap") or 0
