"""The cgroups of two plans, those that stand for the same thing beside each other.

A pod is the same by namespace and name, whatever its UID and QoS class; a cgroup of no pod by its
name below the cgroup root.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from qoslet.core.node.node import can_swap
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.core.resources.node_policy import cpu_list

Identity = tuple[str, ...]


class Pair(Struct, frozen=True):
    """A cgroup on both sides; None where a side has none. ``moved``: it stands elsewhere below
    what is its parent on both sides, or below another parent. ``cpus`` are those of the machine
    on both sides, as a list: a cgroup without a list of its own has them. ``can_swap``: a side's
    node may have swap, so that a limit of it means something."""

    before: Cgroup | None
    after: Cgroup | None
    name: str
    moved: bool = False
    cpus: tuple[str, str] = ("", "")
    can_swap: bool = True

    @property
    def is_same(self) -> bool:
        """Whether both sides have the same cgroup with the same values, and rules for them."""
        before, after = self.before, self.after
        if before is None or after is None or self.moved:
            return False
        return before.settings == after.settings and before.oom_score_adj == after.oom_score_adj

    @property
    def cgroup(self) -> Cgroup:
        """The first side's, else the other's."""
        found = self.before or self.after
        assert found is not None
        return found


def pairs(
    before: Plan, after: Plan, above: tuple[Sequence[Cgroup], Sequence[Cgroup]] = ((), ())
) -> list[Pair]:
    """All cgroups of both plans in the order of the first; what only the second has stands where
    it has it. ``name`` is the first side's, with the UIDs of the first side. ``above`` are parents
    that the plans do not hold."""
    left, right = _Side(before, above[0]), _Side(after, above[1])
    uids = _uids(before, after)
    follow: dict[Identity | None, list[Pair]] = {}
    last: Identity | None = None
    for identity, cgroup in right.cgroups.items():
        if identity in left.cgroups:
            last = identity
        else:
            follow.setdefault(last, []).append(_new(cgroup, uids))
    found = follow.get(None, [])
    for identity in left.cgroups:
        found += [_pair(identity, left, right), *follow.get(identity, ())]
    return found


class _Side:
    """The cgroups of one plan by what they stand for."""

    def __init__(self, plan: Plan, above: Sequence[Cgroup]) -> None:
        self.cpus = cpu_list(plan.node)
        self.can_swap = can_swap(plan.node)
        root = plan.node.kubelet.cgroup_root.rstrip("/")
        self.cgroups: dict[Identity, Cgroup] = {}
        self.of_name = {one.name: _identity(one, root) for one in above}
        for cgroup in plan.cgroups:
            identity = _identity(cgroup, root)
            while identity in self.cgroups:
                # pods of one name, planned apart: by their order
                identity = (*identity, "again")
            self.cgroups[identity] = cgroup
            self.of_name.setdefault(cgroup.name, identity)

    def place(self, cgroup: Cgroup) -> tuple[Identity | str, str]:
        """The parent, and the name below it without what differs between equal pods."""
        above, _, last = cgroup.name.rpartition("/")
        own = cgroup.level if cgroup.pod is not None else last
        return self.of_name.get(above, above), own


def _identity(cgroup: Cgroup, root: str) -> Identity:
    if cgroup.pod is None:
        name = cgroup.name
        return ("", name.removeprefix(root) if name.startswith(f"{root}/") else name)
    container = "" if cgroup.container is None else cgroup.container.name
    return (cgroup.pod.key, cgroup.level, container)


def _pair(identity: Identity, left: _Side, right: _Side) -> Pair:
    before, after = left.cgroups[identity], right.cgroups.get(identity)
    moved = after is not None and left.place(before) != right.place(after)
    swap = left.can_swap or right.can_swap
    return Pair(before, after, before.name, moved, (left.cpus, right.cpus), swap)


def _new(cgroup: Cgroup, uids: dict[str, str]) -> Pair:
    name = cgroup.name
    if cgroup.pod is not None and cgroup.pod.uid in uids:
        name = name.replace(cgroup.pod.uid, uids[cgroup.pod.uid])
    return Pair(None, cgroup, name)


def _uids(before: Plan, after: Plan) -> dict[str, str]:
    """The second side's UIDs to those of the same pods on the first."""
    known = {row.pod.key: row.pod.uid for row in before.pods}
    return {row.pod.uid: known[row.pod.key] for row in after.pods if row.pod.key in known}
