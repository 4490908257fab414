"""Picks free CPUs for a container: whole NUMA nodes and sockets, whole cores, single threads.

At each level the fullest place comes first, so that the free CPUs stay together.
Source: kubelet pkg/kubelet/cm/cpumanager/cpu_assignment.go; KEP-2902 (distribute-cpus-across-numa),
KEP-4176 (distribute-cpus-across-cores), KEP-4800 (prefer-align-cpus-by-uncorecache).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from msgspec import Struct

from qoslet.core.node.topology import NO_CPUS, Cpus, Level, Topology


class PickOptions(Struct, frozen=True):
    """cpuManagerPolicyOptions, in the order in which the kubelet got them."""

    full_pcpus_only: bool = False
    distribute_across_numa: bool = False
    align_by_socket: bool = False
    distribute_across_cores: bool = False
    strict_reservation: bool = False
    prefer_uncore: bool = False


def pick(topology: Topology, free: Cpus, count: int, options: PickOptions) -> Cpus | None:
    """``count`` of the ``free`` CPUs; None if there are too few."""
    if count > len(free):
        return None
    if options.distribute_across_numa:
        group_size = topology.each("core") if options.full_pcpus_only else 1
        cpus = _distributed(topology, free, count, group_size) if count % group_size == 0 else None
        if cpus is not None:
            return cpus
    return _Packing(topology, free, count).packed(options)


class _Packing:
    """CPUs taken so far, and those still wanted."""

    def __init__(self, topology: Topology, free: Cpus, count: int) -> None:
        self.topology = topology
        self.free = free
        self.wanted = count
        self.taken: Cpus = NO_CPUS
        nodes_hold_sockets = topology.count("socket") >= topology.count("node")
        self._levels: tuple[Level, Level] = ("node", "socket")
        if not nodes_hold_sockets:
            self._levels = ("socket", "node")

    def packed(self, options: PickOptions) -> Cpus:
        """The wanted number of CPUs, packed into as few places as possible."""
        for level in self._levels:
            self._take_full(level)
        if options.prefer_uncore:
            self._take_caches()
        if not options.distribute_across_cores:
            self._take_full("core")
        for cpu in self._single(options.distribute_across_cores):
            if not self.wanted:
                break
            if cpu in self.free:
                self.take(frozenset((cpu,)))
        return self.taken

    def take(self, cpus: Cpus) -> None:
        """Count ``cpus`` among the taken ones."""
        self.taken |= cpus
        self.free -= cpus
        self.wanted -= len(cpus)

    def ordered(self, level: Level) -> list[int]:
        """The places of a level that have free CPUs: those inside the fullest place above first,
        there the one with the fewest free CPUs, then the lowest number."""
        sizes = self.topology.groups(level, self.free)

        def size(place: int) -> tuple[int, int]:
            return len(sizes[place]), place

        above = self._above(level)
        if above is None:
            return sorted(sizes, key=size)
        outer = self.topology.groups(above, self.free)
        return [
            place
            for place_above in self.ordered(above)
            for place in sorted(self.topology.groups(level, outer[place_above]), key=size)
        ]

    def _above(self, level: Level) -> Level | None:
        if level == "core":
            return self._levels[1]
        if level == "cache":
            return "node"
        return self._levels[0] if level == self._levels[1] else None

    def _full(self, level: Level) -> Iterator[Cpus]:
        """The places of a level of which every CPU is free."""
        free = self.topology.groups(level, self.free)
        for place in self.ordered(level):
            whole = self.topology.whole(level)[place]
            if len(free[place]) == len(whole):
                yield whole

    def _take_full(self, level: Level) -> None:
        for cpus in list(self._full(level)):
            if self.wanted >= len(cpus) and cpus <= self.free:
                self.take(cpus)

    def _take_caches(self) -> None:
        for cache in self.ordered("cache"):
            if self.wanted >= self.topology.each("cache"):
                self._take_full("cache")
            if self.wanted:
                self._take_part(cache)

    def _take_part(self, cache: int) -> None:
        """Take all remaining CPUs from one cache, whole cores first, if it has enough."""
        threads = self.topology.each("core")
        inside = self.topology.groups("cache", self.free).get(cache, NO_CPUS)
        cores = self.topology.groups("core", inside)
        needed = -(-self.wanted // threads)
        cpus = sorted(cpu for core in sorted(cores)[:needed] for cpu in cores[core])
        if self.wanted % 2 and threads > 1 and len(cpus) > self.wanted:
            cpus.pop()
        if len(cpus) == self.wanted:
            self.take(frozenset(cpus))

    def _single(self, spread: bool) -> list[int]:
        """Free CPUs one by one: core by core, or ``spread`` over the cores of a socket."""
        level: Level = "socket" if spread else "core"
        free = self.topology.groups(level, self.free)
        return [cpu for place in self.ordered(level) for cpu in sorted(free[place])]


class _Split(Struct):
    """A choice of NUMA nodes. ``more`` are those that give one group more than the others;
    ``uneven`` is the standard deviation of the free CPUs afterwards."""

    uneven: float
    nodes: tuple[int, ...]
    more: tuple[int, ...]


def _distributed(topology: Topology, free: Cpus, count: int, group_size: int) -> Cpus | None:
    """The same number of CPUs from each of the fewest possible NUMA nodes, in groups of ``group_size``;
    None if no set of nodes has them."""
    packing = _Packing(topology, free, count)
    if not count:
        return NO_CPUS
    nodes = packing.ordered("node")
    groups = _upward(count, group_size)
    per_node = _upward(_upward(len(topology.cpus), group_size), topology.count("node"))
    for size in range(_upward(groups, per_node), min(groups, len(nodes)) + 1):
        best = _best_split(topology, free, count, group_size, nodes, size)
        if best is not None:
            return _taken_evenly(packing, best, count, group_size)
    return None


def _upward(amount: int, part: int) -> int:
    """A quotient, rounded up."""
    return -(-amount // part)


def _best_split(
    topology: Topology, free: Cpus, count: int, group_size: int, nodes: Sequence[int], size: int
) -> _Split | None:
    have = {node: len(cpus) for node, cpus in topology.groups("node", free).items()}
    best: _Split | None = None
    for some in combinations(nodes, size):
        if best is not None and best.uneven == 0:
            break
        if sum(have[node] // group_size for node in some) * group_size < count:
            continue
        share = count // size // group_size * group_size
        if any(have[node] < share for node in some):
            continue
        left = {node: have[node] - (share if node in some else 0) for node in nodes}
        split = _split(left, some, count - share * size, group_size)
        if split is not None and (best is None or split.uneven < best.uneven):
            best = split
    return best


def _split(
    left: dict[int, int], some: tuple[int, ...], rest: int, group_size: int
) -> _Split | None:
    """The best way to take the ``rest`` that does not divide evenly from the nodes ``some``."""
    if not rest:
        return _Split(_deviation(left.values()), some, ())
    able = [node for node in some if left[node] >= group_size]
    best: _Split | None = None
    for size in range(len(able), 0, -1):
        for more in combinations(able, size):
            if sum(left[node] for node in more) < rest:
                continue
            after = _given_more(left, more, rest, group_size)
            uneven = None if after is None else _deviation(after.values())
            if uneven is not None and (best is None or uneven < best.uneven):
                best = _Split(uneven, some, more)
    return best


def _given_more(
    left: dict[int, int], more: tuple[int, ...], rest: int, group_size: int
) -> dict[int, int] | None:
    """The free CPUs after ``more`` gave the rest in turns; None if groups do not add up to it."""
    after = dict(left)
    while rest > 0:
        before = rest
        for node in more:
            if rest > 0 and after[node] >= group_size:
                after[node] -= group_size
                rest -= group_size
        if rest == before:
            return None
    return after


def _taken_evenly(packing: _Packing, split: _Split, count: int, group_size: int) -> Cpus:
    topology = packing.topology
    share = count // len(split.nodes) // group_size * group_size
    for node in split.nodes:
        _take_inside(packing, node, share)
    while packing.wanted > 0:
        for node in split.more:
            if packing.wanted > 0 and len(_inside(topology, packing.free, node)) >= group_size:
                _take_inside(packing, node, group_size)
    return packing.taken


def _take_inside(packing: _Packing, node: int, count: int) -> None:
    inside = _inside(packing.topology, packing.free, node)
    packing.take(_Packing(packing.topology, inside, count).packed(PickOptions()))


def _inside(topology: Topology, free: Cpus, node: int) -> Cpus:
    return topology.whole("node").get(node, NO_CPUS) & free


def _deviation(amounts: Iterable[int]) -> float:
    """The standard deviation, to three places, as the kubelet compares it."""
    numbers = list(amounts)
    mean = _thousandths(sum(numbers) / len(numbers))
    return _thousandths(math.sqrt(sum((number - mean) ** 2 for number in numbers) / len(numbers)))


def _thousandths(number: float) -> float:
    return math.floor(number * 1000 + 0.5) / 1000
