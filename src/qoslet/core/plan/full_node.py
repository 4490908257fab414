"""How much memory each group of a plan uses on a full node.

Every container asks for its request. A group's ``memory.max``, and the machine itself, hold what
is asked for below them; what is too much is taken from the groups below as the kernel takes it:
first what none of them protects, then what ``memory.low`` protects, then what ``memory.min`` does,
where the kernel would end processes; of each kind, from every group in proportion. Source:
Documentation/admin-guide/cgroup-v2.rst "Memory Interface Files", mm/vmscan.c shrink_node_memcgs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.cgroup.names import parents
from qoslet.core.memory.effective_protection import Protection


class Filled(Struct, frozen=True, gc=False):
    """Bytes: ``asked`` is what a group would use if nothing above the containers held it back,
    ``usage`` what is left of that; ``limit`` is what holds it back."""

    asked: int
    usage: int
    limit: Limit | None = None


class Limit(Struct, frozen=True, gc=False):
    """A group's ``memory.max``; with an empty path, the memory of the machine. Bytes."""

    path: str
    value: int


def fill(
    claims: Mapping[str, Protection],
    asked: Mapping[str, int],
    least: Mapping[str, int],
    capacity: int,
) -> dict[str, Filled]:
    """What the groups use, by path. ``asked`` is what groups without others below them ask for,
    ``least`` what a group needs at one time whatever those below it ask for; ``capacity`` 0 is an
    unknown machine."""
    order = sorted(claims, key=lambda one: -one.count("/"))
    above = {path: next((one for one in parents(path) if one in claims), "") for path in order}
    below: dict[str, list[str]] = {}
    wants: dict[str, int] = {}
    usage: dict[str, int] = {}
    held: dict[str, Limit | None] = {"": Limit("", capacity)}
    for path in order:
        inner, most = below.get(path, ()), claims[path].max
        own = 0 if inner else min(asked.get(path, 0), most)
        wants[path] = max(own, least.get(path, 0), sum(wants[one] for one in inner))
        total = max(own, least.get(path, 0), sum(usage[one] for one in inner))
        usage[path] = min(most, total)
        lower = next((held[one] for one in inner if held[one] is not None), None)
        held[path] = Limit(path, most) if total > most else lower if total < wants[path] else None
        below.setdefault(above[path], []).append(path)
    usage[""] = capacity or UNLIMITED
    for path in ("", *reversed(order)):
        inner = below.get(path, ())
        for one, kept in zip(inner, _share(usage[path], inner, usage, claims), strict=True):
            if kept < usage[one]:
                usage[one], held[one] = kept, held[path]
    return {path: Filled(wants[path], usage[path], held[path]) for path in claims}


def _share(
    room: int, groups: Sequence[str], usage: Mapping[str, int], claims: Mapping[str, Protection]
) -> list[int]:
    """What groups of one parent keep of what they use where there is so much room."""
    used = [usage[path] for path in groups]
    excess = sum(used) - room
    if excess <= 0:
        return used
    kept = [(claims[path].min, max(claims[path].min, claims[path].low)) for path in groups]
    hard = [min(one, least) for one, (least, _) in zip(used, kept, strict=True)]
    both = [min(one, more) for one, (_, more) in zip(used, kept, strict=True)]
    soft = [more - one for more, one in zip(both, hard, strict=True)]
    free = [one - more for one, more in zip(used, both, strict=True)]
    left = [0] * len(groups)
    for parts in (free, soft, hard):
        pool = sum(parts)
        taken = min(excess, pool)
        excess -= taken
        for at, part in enumerate(parts):
            left[at] += part * (pool - taken) // pool if pool else 0
    return left
