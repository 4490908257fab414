"""The topology manager: merges the NUMA hints of the CPU and memory managers.

Each manager lists the sets of NUMA nodes that fit a request. A policy picks the set that suits all
managers, or refuses the pod. A set is an integer with one bit for each node.
Source: kubelet pkg/kubelet/cm/topologymanager policy.go, policy_*.go, numa_info.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
        merged = {Hint(mask, preferred) for mask, preferred in _permuted(asked, every) if mask}
        best = min(merged, key=lambda hint: self._order(hint, aim), default=None)
        return Hint(every, False) if best is None else best

    def _order(self, hint: Hint, aim: int) -> tuple[bool, int, int, float, int]:
        """Sort key: preferred sets first, the narrowest of them. Then sets of the size that the
        most demanding resource needs, smaller ones from the largest down, larger ones."""
        mask = hint.nodes or 0
        size = mask.bit_count()
        distance = self._distance(mask) if self.closest else 0.0
        if hint.preferred:
            return False, 0, size, distance, mask
        rank = 0 if size == aim else 1 if size < aim else 2
        return True, rank, -size if rank == 1 else size, distance, mask

    def _distance(self, mask: int) -> float:
        inside = numbers(mask)
        far = {node.id: node.distances for node in self.topology.nodes}
        pairs = [far[a][b] for a in inside for b in inside if a in far and b < len(far[a])]
        return sum(pairs) / len(pairs) if pairs else 0.0


def _single(hint: Hint) -> bool:
    return hint.preferred and (hint.nodes is None or hint.nodes.bit_count() == 1)


def _smallest(hints: Sequence[Hint]) -> int | None:
    return min((hint.nodes.bit_count() for hint in hints if hint.nodes is not None), default=None)


def _permuted(asked: Sequence[Sequence[Hint]], every: int) -> set[tuple[int, bool]]:
    """For every combination of one hint of each resource: the common nodes, and whether all hints
    are preferred and name the same nodes."""
    combined: set[tuple[int, int | None, bool]] = {(every, None, True)}
    for hints in asked:
        combined = {
            (
                mask if hint.nodes is None else mask & hint.nodes,
                first if hint.nodes is None or first is not None else hint.nodes,
                preferred and hint.preferred and hint.nodes in (None, first or hint.nodes),
            )
            for mask, first, preferred in combined
            for hint in hints
        }
    return {(mask, preferred) for mask, _, preferred in combined}
