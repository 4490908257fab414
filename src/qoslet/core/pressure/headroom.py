"""How much memory the guard has given to cgroups that do not use it yet, and what is left.

Cgroups nest: the containers of a pod together can use at most what the pod's limit leaves.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.cgroup.names import is_below
from qoslet.core.memory.breakdown import reclaimable_bytes
from qoslet.core.memory.sample import MemorySample


class GrantedShare(Struct, frozen=True):
    """A cgroup, in bytes."""

    limit_headroom: int
    """Unused up to its limit; reclaimable memory counts as unused."""
    granted: int = 0
    """Unused up to a raised memory.high, beyond the planned one; 0 if not raised."""


class Headroom(Struct, frozen=True):
    """What a cgroup may be given, in bytes."""

    free: int
    """Bytes that it may be given."""
    granted_unused: int = 0
    """Bytes that others were given and do not use yet, at the tightest level."""
    within: str = ""
    """The cgroup of that level; empty for the node."""


def share_of(sample: MemorySample, planned: int = 0, raised: int = 0) -> GrantedShare:
    """The share of a sampled cgroup; ``raised`` is its memory.high if that is not ``planned``."""
    limit = UNLIMITED if sample.max is None else sample.max
    used = unreclaimable_bytes(sample)
    raised_high = max(planned, min(raised, limit))
    return GrantedShare(max(0, limit - used), max(0, raised_high - max(used, planned)))


def unreclaimable_bytes(sample: MemorySample) -> int:
    """Bytes of a cgroup that reclaim cannot take without swap."""
    return max(0, sample.current - reclaimable_bytes(sample, 0))


def unused_grants(shares: Mapping[str, GrantedShare]) -> dict[str, int]:
    """Unused grants by cgroup, each with those below it; the node has the empty path."""
    found = dict.fromkeys(["", *shares], 0)
    for path in sorted(shares, key=len, reverse=True):  # what is below has the longer path
        share = shares[path]
        found[path] = min(share.limit_headroom, max(share.granted, found[path]))
        found[_above(path, shares)] += found[path]
    return found


def headroom_for(path: str, pod: str, spare: int, shares: Mapping[str, GrantedShare]) -> Headroom:
    """What a cgroup may be given: the least of ``spare``, which the node has, and of what the limits
    above its pod leave. Grants of others count as used. ``pod`` is the path of its pod, empty if
    it is in none; the pod's own limit does not count here."""
    whole = pod or path
    others = unused_grants(
        {
            at: GrantedShare(share.limit_headroom) if is_related(at, whole) else share
            for at, share in shares.items()
        }
    )
    levels = [
        ("", spare),
        *((at, share.limit_headroom) for at, share in shares.items() if is_below(whole, at)),
    ]
    free, within = min((left - others[at], at) for at, left in levels)
    given = others[within]
    if pod in shares and path != pod and shares[pod].limit_headroom > free:
        beside = {
            at: share
            for at, share in shares.items()
            if is_below(at, pod) and not is_related(at, path)
        }
        inside = min(shares[pod].limit_headroom, unused_grants(beside)[""])
        free, given = free - inside, given + inside
    return Headroom(max(0, free), given, within)


def is_related(path: str, other: str) -> bool:
    """Whether two cgroups are the same, or one is below the other."""
    return path == other or is_below(path, other) or is_below(other, path)


def _above(path: str, shares: Mapping[str, GrantedShare]) -> str:
    """The nearest cgroup above that has a share."""
    at = path.rpartition("/")[0]
    while at and at not in shares:
        at = at.rpartition("/")[0]
    return at
