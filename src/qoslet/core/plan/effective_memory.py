"""What the memory values of a plan are worth on a full node.

Full means: every container uses the memory that it requests, and those that request none share
what is left, as far as limits above them let them. ``memory_recursiveprot`` counts where the node's
mount is known to have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import MEMORY_QOS, UNLIMITED
from qoslet.core.cgroup.names import parents
from qoslet.core.memory.effective_protection import (
    Binding,
    EffectiveMemory,
    Overcommit,
    Protection,
    ProtectionTree,
    effective_protection,
    tightest_limit,
)
from qoslet.core.node.node import HostFacts
from qoslet.core.plan.full_node import Filled, Limit, fill
from qoslet.core.quantity import ZERO
from qoslet.core.resources.cgroup_tree import Cgroup, Plan, key_of

_ATTRIBUTE = {"memory.min": "min", "memory.low": "low"}
_FILES = (*MEMORY_QOS, "memory.max")


class FullNodeCgroup(Struct, frozen=True):
    """A planned group on a full node. ``usage`` and the claims are bytes, ``binds`` is the limit
    that the group meets first if no other uses any memory; ``cut`` is the ancestor by which a
    claim is worth less than it says, by file; ``asked`` is what the group would use without the
    limits from it up, ``limit`` the one that keeps it from that."""

    claim: Protection
    worth: EffectiveMemory
    binds: Binding | None
    cut: Mapping[str, Overcommit]
    asked: int
    limit: Limit | None = None

    def kept(self, file: str) -> int:
        """The effective bytes of ``memory.min`` or ``memory.low``."""
        return self.worth.hard if file == "memory.min" else self.worth.soft

    def claimed(self, file: str) -> int:
        """What the file says, as far as that would be used."""
        value: int = getattr(self.claim, _ATTRIBUTE[file])
        return min(value, self.asked)

    def lost(self, file: str) -> bool:
        """Whether the value is worth less than it says."""
        return self.kept(file) < self.claimed(file)


def recursive(host: HostFacts) -> bool:
    """Whether the hierarchy is known to be mounted with ``memory_recursiveprot``."""
    return host.hierarchy == "v2" and "memory_recursiveprot" in host.mounts


def standings(plan: Plan) -> dict[str, FullNodeCgroup]:
    """Every group of the plan but sandboxes, by ``key_of``; empty without cgroup v2."""
    node = plan.node
    if node.hierarchy != "v2" or node.os != "linux":
        return {}
    page, handed_down = node.host.page_size, recursive(node.host)
    groups = [cgroup for cgroup in plan.cgroups if cgroup.level != "sandbox"]
    claims, filled = _claims(groups, node.capacity.get("memory", ZERO).value)
    tree = ProtectionTree(claims.values(), page)
    worth = tree.solve(recursive=handed_down)
    for cgroup in groups:
        if cgroup.role == "init":
            key = key_of(cgroup)
            full = filled[key] = _starts(cgroup, filled.get(key.rpartition("/")[0]))
            claim = claims[key] = replace(claims[key], usage=full.usage)
            worth[key] = _alone(claim, worth, handed_down, page)
    for key, claim in claims.items():
        # the kernel leaves the topmost ones what they claim, used or not
        kept = worth[key]
        if kept.protected > claim.usage:
            worth[key] = EffectiveMemory(min(kept.hard, claim.usage), min(kept.soft, claim.usage))
    cuts = {(one.path, one.file): one for one in tree.overcommits()}
    found: dict[str, FullNodeCgroup] = {}
    for path in sorted(claims, key=lambda one: one.count("/")):
        above = found.get(path.rpartition("/")[0])
        binds = tightest_limit(
            replace(claims[path], usage=0), None if above is None else above.binds
        )
        cut = _cut(cuts, path, above) if cuts else _NOT_CUT
        full = filled[path]
        found[path] = FullNodeCgroup(claims[path], worth[path], binds, cut, full.asked, full.limit)
    return {path: found[path] for path in claims}


def _alone(
    claim: Protection, worth: Mapping[str, EffectiveMemory], handed_down: bool, page: int
) -> EffectiveMemory:
    """An init container's worth: while it runs, no other container of its pod does."""
    above, usage = (
        worth.get(claim.path.rpartition("/")[0], EffectiveMemory(0, 0)),
        claim.usage // page,
    )
    hard, soft = (
        effective_protection(
            usage, usage, value // page, kept // page, min(usage, value // page), handed_down
        )
        for value, kept in ((claim.min, above.hard), (claim.low, above.soft))
    )
    return EffectiveMemory(hard * page, soft * page)


_NOT_CUT: Mapping[str, Overcommit] = {}


def _cut(
    cuts: Mapping[tuple[str, str], Overcommit], path: str, above: FullNodeCgroup | None
) -> Mapping[str, Overcommit]:
    """The highest ancestor that holds less than is claimed below it, by file."""
    if above is not None:
        found = dict(above.cut)
        parent = above.claim.path
        for file in _ATTRIBUTE:
            if file not in found and (parent, file) in cuts:
                found[file] = cuts[parent, file]
        return found or _NOT_CUT
    highest: dict[str, Overcommit] = {}
    for one in parents(path):
        highest |= {file: cuts[one, file] for file in _ATTRIBUTE if (one, file) in cuts}
    return highest


def _claims(
    groups: Sequence[Cgroup], capacity: int
) -> tuple[dict[str, Protection], dict[str, Filled]]:
    """The groups with what each uses on a full node."""
    running = [one for one in groups if one.container is None or _runs(one)]
    asked = {key_of(one): _protected_request(one) for one in running}
    idle = [one for one in running if one.container is not None and not asked[key_of(one)]]
    inner = {path.rpartition("/")[0] for path in asked}
    taken = sum(amount for path, amount in asked.items() if path not in inner)
    left = max(0, capacity - taken) // max(1, len(idle))
    asked |= {key_of(one): left for one in idle}
    claims = {key_of(one): _claim(one) for one in groups}
    filled = fill(claims, asked, _starting(groups), capacity)
    return {path: replace(one, usage=filled[path].usage) for path, one in claims.items()}, filled


def _starting(groups: Iterable[Cgroup]) -> dict[str, int]:
    """The most that an init container of a pod asks for, by the pod's group."""
    found: dict[str, int] = {}
    for one in groups:
        if one.role == "init":
            pod = one.name.rpartition("/")[0]
            found[pod] = max(found.get(pod, 0), _protected_request(one))
    return found


def _starts(cgroup: Cgroup, pod: Filled | None) -> Filled:
    """An init container, which has its pod's room to itself."""
    asked = min(_protected_request(cgroup), _claim(cgroup).max)
    if pod is None or pod.usage >= asked:
        return Filled(asked, asked)
    return Filled(asked, pod.usage, pod.limit)


def _runs(cgroup: Cgroup) -> bool:
    """Whether the container runs as long as its pod."""
    return cgroup.role in ("regular", "sidecar")


def _protected_request(cgroup: Cgroup) -> int:
    """What a group without groups below it asks for, in bytes."""
    if cgroup.container is not None:
        return cgroup.container.resources.requests.get("memory", ZERO).value
    rows = _memory(cgroup)
    return max(rows.get("memory.min", 0), rows.get("memory.low", 0))


def _claim(cgroup: Cgroup) -> Protection:
    """A group's own values; what it uses is for others to say."""
    rows = _memory(cgroup)
    return Protection(
        key_of(cgroup),
        0,
        rows.get("memory.min", 0),
        rows.get("memory.low", 0),
        rows.get("memory.high", UNLIMITED),
        rows.get("memory.max", UNLIMITED),
    )


def _memory(cgroup: Cgroup) -> dict[str, int]:
    """The values as the kernel keeps them, without those that are no number."""
    return {
        row.file: int(row.applied)
        for row in cgroup.settings
        if row.file in _FILES and row.applied.isdigit()
    }
