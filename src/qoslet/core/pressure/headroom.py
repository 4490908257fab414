"""What groups were given of the memory that can be had and do not use yet, and what is left of it.

Groups lie in each other: what is given to several of a pod is at most what the pod's limit leaves.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.cgroup.names import is_below
from qoslet.core.memory.breakdown import reclaimable_bytes
from qoslet.core.memory.sample import MemorySample


class GrantedShare(Struct, frozen=True):
    """A group, in bytes: ``limit_headroom`` up to its limit, beyond what nobody can take back from it,
    ``granted`` up to a memory.high that was raised, beyond that and what is planned; 0 where it
    was not."""

    limit_headroom: int
    granted: int = 0


class Headroom(Struct, frozen=True):
    """``free`` bytes may be given to a group. ``granted_unused`` is what others were given and do not use
    yet, where there is least: in the group ``within``, on the node where that is empty."""

    free: int
    granted_unused: int = 0
    within: str = ""


def share_of(sample: MemorySample, planned: int = 0, raised: int = 0) -> GrantedShare:
    """A group as it was seen; ``raised`` is its memory.high where that is another one than
    ``planned``."""
    limit = UNLIMITED if sample.max is None else sample.max
    used = unreclaimable_bytes(sample)
    most = max(planned, min(raised, limit))
    return GrantedShare(max(0, limit - used), max(0, most - max(used, planned)))


def unreclaimable_bytes(sample: MemorySample) -> int:
    """Bytes of a group that are not available to others: page cache is."""
    return max(0, sample.current - reclaimable_bytes(sample, 0))


def unused_grants(parts: Mapping[str, GrantedShare]) -> dict[str, int]:
    """What was given in each group, with all below it, and is not used yet; on the node under an
    empty path."""
    found = dict.fromkeys(["", *parts], 0)
    for path in sorted(parts, key=len, reverse=True):  # what is below has the longer path
        one = parts[path]
        found[path] = min(one.limit_headroom, max(one.granted, found[path]))
        found[_above(path, parts)] += found[path]
    return found


def headroom_for(path: str, pod: str, spare: int, parts: Mapping[str, GrantedShare]) -> Headroom:
    """What a group may be given: ``spare`` bytes are the node's, those of the groups above its
    pod are what their limits leave; what others were given counts as used. ``pod`` is the path of
    its pod, empty where it is in none. The pod's own limit is the group's own: it does not
    count here."""
    whole = pod or path
    others = unused_grants(
        {
            at: GrantedShare(one.limit_headroom) if is_related(at, whole) else one
            for at, one in parts.items()
        }
    )
    levels = [
        ("", spare),
        *((at, one.limit_headroom) for at, one in parts.items() if is_below(whole, at)),
    ]
    free, within = min((left - others[at], at) for at, left in levels)
    given = others[within]
    if pod in parts and path != pod and parts[pod].limit_headroom > free:
        beside = {
            at: one for at, one in parts.items() if is_below(at, pod) and not is_related(at, path)
        }
        inside = min(parts[pod].limit_headroom, unused_grants(beside)[""])
        free, given = free - inside, given + inside
    return Headroom(max(0, free), given, within)


def is_related(one: str, other: str) -> bool:
    """Whether two groups are the same, or one lies in the other."""
    return one == other or is_below(one, other) or is_below(other, one)


def _above(path: str, parts: Mapping[str, GrantedShare]) -> str:
    """The next group above one."""
    at = path.rpartition("/")[0]
    while at and at not in parts:
        at = at.rpartition("/")[0]
    return at
