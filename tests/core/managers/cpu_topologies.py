"""The machines of the kubelet's own tests of its CPU manager.

Source: kubelet pkg/kubelet/cm/cpumanager policy_test.go of 1.36.
"""

from __future__ import annotations

from qoslet.core.node.topology import Layout, NumaNode, Topology, listed


def machine(
    cpus: int,
    *,
    sockets: tuple[str, ...] = (),
    cores: int = 0,
    caches: tuple[str, ...] = (),
    numa: tuple[str, ...] = (),
) -> Topology:
    """A machine of which CPU n and n + ``cores`` are threads of one core; lists are CPU lists."""
    every = cores or cpus
    threads = tuple(listed(range(core, cpus, every)) for core in range(every))
    nodes = tuple(NumaNode(text, 1 << 30, at) for at, text in enumerate(numa))
    return Topology(frozenset(range(cpus)), Layout(sockets, threads, caches), nodes)


_EVEN_ODD = ("0,2,4,6,8,10", "1,3,5,7,9,11")
_FOURS = ("0-3", "4-7", "8-11", "12-15")
_FOUR_NODES = ("0-9,40-49", "10-19,50-59", "20-29,60-69", "30-39,70-79")

MACHINES = {
    "single": machine(8, cores=4),
    "dual": machine(12, sockets=_EVEN_ODD, cores=6, numa=_EVEN_ODD),
    "dual-no-threads": machine(8, sockets=("0-3", "4-7"), numa=("0-3", "4-7")),
    "dual-four-nodes": machine(
        80, sockets=("0-19,40-59", "20-39,60-79"), cores=40, numa=_FOUR_NODES
    ),
    "dual-eight-nodes": machine(
        256,
        sockets=("0-63,128-191", "64-127,192-255"),
        cores=128,
        numa=tuple(f"{at}-{at + 15},{at + 128}-{at + 143}" for at in range(0, 128, 16)),
    ),
    "caches": machine(16, caches=_FOURS),
    "caches-threads": machine(16, cores=8, caches=("0-3,8-11", "4-7,12-15")),
    "caches-dual": machine(16, sockets=("0-7", "8-15"), caches=_FOURS, numa=("0-7", "8-15")),
    "caches-two-nodes": machine(16, caches=_FOURS, numa=("0-7", "8-15")),
}
"""By a short name; hyper-threads unless the name says otherwise."""
