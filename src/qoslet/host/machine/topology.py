"""How this machine's CPUs and memory lie, from sysfs: cores, sockets, caches, NUMA nodes.

Reads only; whatever cannot be read stays unknown. A CPU list that two files tell differently
counts as the first of them tells it. Source: Documentation/ABI/stable/sysfs-devices-system-cpu,
sysfs-devices-node.
"""

from __future__ import annotations

from collections.abc import Callable

from qoslet.core.node.fields import cpus as cpu_numbers
from qoslet.core.node.topology import MOST_NODES, Layout, NumaNode
from qoslet.host.linux.procfs import listed, text

_CPU = "/sys/devices/system/cpu"
_NODE = "/sys/devices/system/node"


def meminfo(content: str | None) -> dict[str, int]:
    """Bytes by name; lines of a NUMA node's file begin with ``Node N``."""
    found = {}
    for line in (content or "").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name.split()[-1]] = int(words[0]) * (1024 if words[-1] == "kB" else 1)
    return found


def _list(path: str) -> str | None:
    """A CPU list that names a CPU."""
    found = (text(path) or "").strip()
    return found if found and cpu_numbers(found) else None


def _cache(directory: str) -> str | None:
    """The CPUs that share the last level of cache."""
    best: tuple[int, str] | None = None
    for name in listed(directory):
        level = (text(f"{directory}/{name}/level") or "").strip()
        shared = _list(f"{directory}/{name}/shared_cpu_list")
        if name.startswith("index") and level.isdigit() and shared is not None:
            best = max(best or (0, ""), (int(level), shared))
    return best[1] if best is not None and best[0] >= 3 else None


def _groups(online: set[int], shared: Callable[[int], str | None]) -> tuple[str, ...]:
    """The lists that CPUs are in, each asked of the lowest CPU that none named so far; none at
    all where one is unknown."""
    found: list[str] = []
    left = set(online)
    while left:
        cpu = min(left)
        shown = shared(cpu)
        members = cpu_numbers(shown) if shown is not None else None
        if shown is None or members is None or cpu not in members:
            return ()
        found.append(shown)
        left -= members
    return tuple(found)


def layout(root: str, online: set[int]) -> Layout | None:
    """Cores, sockets and last-level caches of the ``online`` CPUs; None where the kernel tells
    nothing about cores."""

    def sharing(*names: str) -> Callable[[int], str | None]:
        def shared(cpu: int) -> str | None:
            lists = (_list(f"{root}{_CPU}/cpu{cpu}/topology/{name}") for name in names)
            return next((one for one in lists if one is not None), None)

        return shared

    cores = _groups(online, sharing("core_cpus_list", "thread_siblings_list"))
    if not cores:
        return None
    return Layout(
        _groups(online, sharing("package_cpus_list", "core_siblings_list")),
        cores,
        _groups(online, lambda cpu: _cache(f"{root}{_CPU}/cpu{cpu}/cache")),
    )


def _hugepages(directory: str) -> dict[int, int]:
    """Page size to bytes set aside on one node."""
    found = {}
    for name in listed(directory):
        size = name.removeprefix("hugepages-").removesuffix("kB")
        count = (text(f"{directory}/{name}/nr_hugepages") or "").strip()
        if size.isdigit() and count.isdigit():
            found[int(size) * 1024] = int(count) * int(size) * 1024
    return found


def _distances(path: str) -> tuple[int, ...]:
    words = (text(path) or "").split()
    return tuple(int(word) for word in words) if all(word.isdigit() for word in words) else ()


def numa(root: str) -> tuple[NumaNode, ...] | None:
    """The NUMA nodes that have memory, in the order of their numbers; None without any."""
    found = []
    for name in listed(root + _NODE):
        digits = name.removeprefix("node")
        if not (name.startswith("node") and digits.isdigit() and int(digits) < MOST_NODES):
            continue
        place = f"{root}{_NODE}/{name}"
        memory = meminfo(text(f"{place}/meminfo")).get("MemTotal")
        if memory is not None:
            cpus = _list(f"{place}/cpulist") or ""
            pages = _hugepages(f"{place}/hugepages")
            far = _distances(f"{place}/distance")
            found.append(NumaNode(cpus, memory, int(digits), pages, far))
    return tuple(sorted(found, key=lambda node: node.id)) or None
