"""The topology manager: merges the NUMA hints of the CPU and memory managers.

Each manager lists the sets of NUMA nodes that fit a request. A policy picks the set that suits all
managers, or refuses the pod. A set is an integer with one bit for each node.
Source: kubelet pkg/kubelet/cm/topologymanager policy.go, policy_*.go, numa_info.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from msgspec import Struct

from qoslet.core.node.topology import Policy, Topology


class Hint(Struct, frozen=True):
    """A set of nodes that fits, None: any; ``preferred``: no smaller set fits."""

    nodes: int | None
    preferred: bool


ANY = Hint(None, True)
NOWHERE = Hint(None, False)

Hints = Sequence[Sequence[Hint]]
"""The hints of each requested resource; an empty list: no set of nodes fits."""


def bits(nodes: Iterable[int]) -> int:
    """Node numbers as a set."""
    mask = 0
    for node in nodes:
        mask |= 1 << node
    return mask


def numbers(mask: int) -> tuple[int, ...]:
    """The node numbers of a set."""
    return tuple(at for at in range(mask.bit_length()) if mask >> at & 1)


def sets_of(nodes: Sequence[int]) -> Iterator[int]:
    """Every set of ``nodes``, the smaller first."""
    for size in range(1, len(nodes) + 1):
        for some in combinations(sorted(nodes), size):
            yield bits(some)


class NodeSets:
    """Every set of NUMA nodes, the smaller first, each with its index into what ``sums`` returns and
    its size."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self.nodes = sorted(nodes)
        places = {1 << node: 1 << at for at, node in enumerate(self.nodes)}
        indices = {0: 0}
        for bit, place in places.items():
            indices |= {mask | bit: index | place for mask, index in indices.items()}
        self.all = [(mask, indices[mask], mask.bit_count()) for mask in sets_of(self.nodes)]

    def sums(self, amounts: Mapping[int, int]) -> list[int]:
        """The sum of each set's amounts by the set's index."""
        found = [0]
        for node in self.nodes:
            amount = amounts[node]
            found += [one + amount for one in found]
        return found


def narrower(mask: int) -> tuple[int, int]:
    """Sorts sets: the fewest nodes, then the lowest numbers."""
    return mask.bit_count(), mask


class Merger(Struct, frozen=True):
    """A topology manager policy on one machine. ``closest``: prefer-closest-numa-nodes."""

    policy: Policy
    topology: Topology
    closest: bool = False

    def merged(self, resources: Hints) -> tuple[Hint, bool]:
        """The set for all ``resources`` together, and whether the pod is admitted."""
        if self.policy == "none":
            return NOWHERE, True
        every = bits(node.id for node in self.topology.nodes)
        asked = [list(hints) or [NOWHERE] for hints in resources] or [[ANY]]
        if self.policy == "single-numa-node":
            asked = [[hint for hint in hints if _single(hint)] for hints in asked]
        best = self._best(asked, every)
        if self.policy == "best-effort":
            return best, True
        if self.policy == "single-numa-node" and best.nodes == every:
            best = Hint(None, best.preferred)
        return best, best.preferred

    def _best(self, asked: Sequence[Sequence[Hint]], every: int) -> Hint:
        smallest = [_smallest(hints) for hints in asked]
        aim = max((size for size in smallest if size is not None), default=0)
        preferred, others = permuted(asked, every)
        sure = bool(preferred)
        masks = preferred or others
        if not masks:
            return Hint(every, False)
        sizes = {mask.bit_count() for mask in masks}
        best = min(sizes, key=lambda size: self._order(size, sure, aim))
        equal = [mask for mask in masks if mask.bit_count() == best]
        if self.closest:
            return Hint(min(equal, key=lambda mask: (self._distance(mask), mask)), sure)
        return Hint(min(equal), sure)

    def _order(self, size: int, preferred: bool, aim: int) -> tuple[int, int]:
        """Sort key of sets by their size: the narrowest of preferred ones. Of others those of the size
        that the most demanding resource needs, then smaller ones from the largest down, then larger
        ones."""
        if preferred:
            return 0, size
        rank = 0 if size == aim else 1 if size < aim else 2
        return rank, -size if rank == 1 else size

    def _distance(self, mask: int) -> float:
        inside = numbers(mask)
        far = {node.id: node.distances for node in self.topology.nodes}
        pairs = [far[a][b] for a in inside for b in inside if a in far and b < len(far[a])]
        return sum(pairs) / len(pairs) if pairs else 0.0


def _single(hint: Hint) -> bool:
    return hint.preferred and (hint.nodes is None or hint.nodes.bit_count() == 1)


def _smallest(hints: Sequence[Hint]) -> int | None:
    return min((hint.nodes.bit_count() for hint in hints if hint.nodes is not None), default=None)


FEW = 1 << 16
"""Pairs of sets that are intersected one by one."""


def permuted(asked: Hints, every: int, few: int = FEW) -> tuple[set[int], set[int]]:
    """The common nodes of every combination of one hint of each resource, none empty: those where
    all hints are preferred and name the same nodes, and the others.

    The others may hold some of the first, too. Each is a combination that holds no more hints than
    one of the first, so that it decides nothing. ``few`` pairs of sets are intersected one by one.
    """
    same: set[int | None] = {None}
    others: set[int] = set()
    for hints in asked:
        masks = {hint.nodes for hint in hints if hint.nodes is not None}
        preferred = {hint.nodes for hint in hints if hint.preferred and hint.nodes is not None}
        anywhere = any(hint.nodes is None for hint in hints)
        nowhere = any(hint.nodes is None and not hint.preferred for hint in hints)
        before = {every if mask is None else mask & every for mask in same}
        found = _intersections(others | before, masks, every, few)
        found |= others if anywhere else set()
        found |= before if nowhere else set()
        kept: set[int | None] = {mask for mask in same if mask in preferred}
        if None in same:
            kept |= preferred
        if any(hint == ANY for hint in hints):
            kept |= same
        same, others = kept, found
    sure = {every if mask is None else mask & every for mask in same}
    return sure - {0}, others - {0}


def _intersections(some: set[int], others: set[int], every: int, few: int) -> set[int]:
    """Every intersection of a set with another one, in a time that grows with the number of sets of
    nodes and not with that of their pairs."""
    if len(some) * len(others) <= few:
        return {one & other & every for one in some for other in others}
    some, others = {one & every for one in some}, {one & every for one in others}
    places = numbers(every)
    subsets = [0]
    for place in places:
        subsets += [mask | 1 << place for mask in subsets]
    counts = _within(some, subsets, len(places)), _within(others, subsets, len(places))
    found = [one * other for one, other in zip(*counts, strict=True)]
    for at in range(len(places)):
        _each_half(found, 1 << at, -1)
    return {mask for mask, count in zip(subsets, found, strict=True) if count}


def _within(masks: set[int], subsets: Sequence[int], nodes: int) -> list[int]:
    """For every subset of the nodes how many of ``masks`` contain it."""
    counts = [int(subset in masks) for subset in subsets]
    for at in range(nodes):
        _each_half(counts, 1 << at, 1)
    return counts


def _each_half(counts: list[int], step: int, sign: int) -> None:
    """Add the count of each set with one more node to that without, or take it off again."""
    width = 2 * step
    if step < len(counts) // width:
        for at in range(step):
            low, high = counts[at::width], counts[at + step :: width]
            counts[at::width] = [a + sign * b for a, b in zip(low, high, strict=True)]
        return
    for at in range(0, len(counts), width):
        low, high = counts[at : at + step], counts[at + step : at + width]
        counts[at : at + step] = [a + sign * b for a, b in zip(low, high, strict=True)]
