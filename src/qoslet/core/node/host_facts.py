"""The machine's part of a node: capacity, swap, and host facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qoslet.core.node import fields as read
from qoslet.core.node.faults import Faults
from qoslet.core.node.lookup import Lookup, Reader, Value
from qoslet.core.node.manager_config import layout_of, numa_nodes
from qoslet.core.node.node import Hierarchy, HostFacts
from qoslet.core.node.topology import MOST_CPUS, MOST_PAGE_SIZES, Layout, NumaNode
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


def _hierarchy(faults: Faults, where: str, value: Any) -> Hierarchy | None:
    found = read.choice(faults, where, value, ("v1", "v2", "hybrid"))
    return None if found is None else "v2" if found == "v2" else "v1"


def _systemd(faults: Faults, where: str, value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 6:
        value = int(value)
    return read.integer(faults, where, value, low=1, high=99999)


def kernel_version(text: str | None) -> tuple[int, int] | None:
    """``6.18.44-fc`` to (6, 18); None where it is not known."""
    major, _, rest = (text or "").partition(".")
    minor = rest.partition(".")[0].partition("-")[0]
    if not (major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        return None
    return int(major[:6]), int(minor[:6])


def _hugepage_sizes(
    machine: Lookup, resources: Mapping[str, Quantity], page: int
) -> tuple[int, ...]:
    """Declared, else those of the capacity, else the machine's or what is assumed."""
    field = "host.hugepageSizes"
    if machine.known(field):
        return machine.given(field, read.page_sizes) or ()
    sizes = {
        parse(name.removeprefix("hugepages-")).value
        for name in resources
        if name.startswith("hugepages-")
    }
    if sizes or (any(f.startswith("capacity.") for f in machine.api) and machine.described):
        # A kubelet lists every size that its machine has, those without pages too.
        machine.origins.setdefault(field, "capacity")
    elif _capacity_is_here(machine):
        pages = machine.found().hugepages
        sizes = set(machine.noted(field, pages) or ())
    else:
        from qoslet.core.node.described.assumptions import hugepage_sizes

        known, why = hugepage_sizes(machine.clues(), page)
        text = ", ".join(binary(size) for size in known) or "none"
        sizes = set(machine.assume(field, known, text, why))
    return tuple(sorted(sizes))


def _capacity_is_here(machine: Lookup) -> bool:
    """Whether CPUs and memory are this machine's."""
    return not machine.described or {"capacity.cpu", "capacity.memory"} <= machine.probed


def _has_rsvd(kernel: str | None) -> bool:
    """Whether the kernel limits hugepage reservations: since 5.7."""
    number = kernel_version(kernel)
    if number is None or number >= (6, 0):
        return True
    # imported for the kernels before
    from qoslet.core.cgroup.kernel_files import older

    return older("hugetlb.2MB.rsvd.max", "v1", number) is None


def _inferred(machine: Lookup, field: str, reader: Reader[Value], attribute: str) -> Value | None:
    """The field as given, else assumed of a described machine, else probed. ``attribute`` names it
    in what was probed, and the function that assumes it."""
    if machine.known(field) or not machine.described:
        return machine.fact(field, reader, attribute)
    from qoslet.core.node.described import assumptions

    found, why = getattr(assumptions, attribute)(machine.clues())
    text = found if isinstance(found, str) else binary(found)
    assumed: Value = machine.assume(field, found, text, why)
    return assumed


def host(
    machine: Lookup, os: str, resources: Mapping[str, Quantity], pinned: bool = False
) -> HostFacts:
    """The host facts. ``pinned``: CPUs or memory are handed out, so their layout matters. Details of
    a declared hierarchy are declared or unknown: this machine's are of the one that it has."""
    if os == "windows":
        return HostFacts(kernel=machine.given("host.kernel", read.version))
    declared = machine.known("host.hierarchy")
    kernel = machine.fact("host.kernel", read.version, "kernel")
    swaps = machine.fact("host.swapController", read.boolean, "swap_controller")

    def detail(field: str, reader: Reader[Value], attribute: str) -> Value | None:
        if declared:
            return machine.given(field, reader)
        return machine.fact(field, reader, attribute)

    rsvd = detail("host.hugetlbRsvd", read.boolean, "hugetlb_rsvd")
    controllers = detail("host.controllers", read.controllers, "controllers")
    page = _inferred(machine, "host.pageSize", read.page, "page_size") or 4096
    return HostFacts(
        hierarchy=_inferred(machine, "host.hierarchy", _hierarchy, "hierarchy") or "v2",
        kernel=kernel,
        page_size=page,
        hugepage_sizes=_hugepage_sizes(machine, resources, page),
        swap_controller=swaps is not False and (controllers is None or "memory" in controllers),
        systemd=detail("host.systemd", _systemd, "systemd"),
        controllers=controllers,
        hugetlb_rsvd=_has_rsvd(kernel) if rsvd is None else rsvd,
        psi=detail("host.psi", read.boolean, "psi"),
        mounts=detail("host.mounts", read.mounts, "mounts") or {},
        numa=_numa(machine, declared),
        layout=_layout(machine, declared, pinned),
        cpus=_cpus(machine, declared),
    )


def _cpus(machine: Lookup, declared: bool) -> str | None:
    """The list of CPUs: as given, else this machine's where its capacity is meant."""
    field = "host.cpus"
    if machine.known(field):
        return machine.given(field, read.cpu_list)
    if declared or not _capacity_is_here(machine):
        return None
    return machine.noted(field, machine.found().cpus)


def _numa(machine: Lookup, declared: bool) -> tuple[NumaNode, ...]:
    """The NUMA nodes, as given; this machine's only where its CPUs and memory are meant."""
    if machine.known("numa"):
        return machine.given("numa", numa_nodes) or ()
    if declared or machine.known("capacity.cpu") or machine.known("capacity.memory"):
        return ()
    if not _capacity_is_here(machine):
        return ()
    return machine.noted("numa", machine.found().numa) or ()


def _layout(machine: Lookup, declared: bool, pinned: bool) -> Layout | None:
    """How the CPUs lie: as given, else probed where it matters and the CPUs are this machine's."""
    if machine.known("topology"):
        return machine.given("topology", layout_of)
    if declared or not pinned or machine.known("capacity.cpu") or machine.known("host.cpus"):
        return None
    if not _capacity_is_here(machine):
        return None
    return machine.noted("topology", machine.found().layout)


def runs_systemd(machine: Lookup) -> bool | None:
    """Whether systemd is PID 1, as declared or as found; None: not known."""
    declared = machine.own.get("host.systemd")
    if declared is not None and isinstance(declared[0], bool):
        return declared[0]
    if declared is not None:
        return True
    hierarchy = machine.own.get("host.hierarchy")
    if hierarchy is not None and hierarchy[1] != "--hierarchy" and not machine.api:
        return False
    if hierarchy is not None or machine.described:
        return None
    return machine.found().systemd_runs
