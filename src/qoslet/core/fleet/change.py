"""What a change means for one node, in numbers: the summary of ``core.diff``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct, field

from qoslet.core.diff.diff import Change, Direction, Share, changes_of, deciding, diff
from qoslet.core.diff.pairs import Pair
from qoslet.core.resources.cgroup_tree import Plan

RATIOS = (0.5, 0.8, 0.95, 0.99, 1.01, 1.05, 1.25, 2.0)
"""Bounds between which pods are counted by what is left of their CPU share, or added to it."""
_UNCHANGED = bisect_right(RATIOS, 1.0)

Competing = Direction | Literal["none"]
"""What becomes of a CPU share; none: it does not compete."""

_AFTER: Mapping[Competing, float] = {"worse": 0.5, "better": 2.0, "same": 1.0}


class NodeChange(Struct, frozen=True, gc=False):
    """The summary of a ``Diff``, and its pods by their CPU share when all compete: those that get
    less and more, and ``ratios``, the number in each interval between ``RATIOS``."""

    worse: int = 0
    better: int = 0
    changed: int = 0
    pods_with_less_cpu: int = 0
    pods_with_more_cpu: int = 0
    ratios: tuple[int, ...] = (0,) * (len(RATIOS) + 1)


class Effect(Struct, frozen=True, gc=False):
    """How many values a change makes worse and better, and how many it changes at all."""

    worse: int = 0
    better: int = 0
    changed: int = 0

    @classmethod
    def of(cls, rows: Sequence[Change]) -> Effect:
        """The number of the rows."""
        return cls(
            sum(one.severity != "info" for one in rows),
            sum(one.direction == "better" for one in rows),
            len(rows),
        )

    @classmethod
    def total(cls, parts: Iterable[Effect]) -> Effect:
        """The sum of several."""
        worse = better = changed = 0
        for one in parts:
            worse += one.worse
            better += one.better
            changed += one.changed
        return cls(worse, better, changed)


class CgroupChange(Struct, gc=False):
    """A cgroup on both sides. ``fractions`` are the parts of the pod's CPU that it has; None: it
    does not compete. ``known`` are its effects by the direction of its share."""

    pair: Pair
    fractions: tuple[float, float] | None = None
    known: dict[Competing, Effect] = {}

    def effect(self, direction: Competing) -> Effect:
        """How many values are worse, better and changed."""
        found = self.known.get(direction)
        if found is None:
            same = self.pair.is_same
            found = Effect() if same else _effect(deciding(self.pair), direction)
            self.known[direction] = found
        return found


@lru_cache(maxsize=4096)
def _effect(pair: Pair, direction: Competing) -> Effect:
    share = None if direction == "none" else Share("", pair.cgroup, 1.0, _AFTER[direction])
    return Effect.of(changes_of(pair, share))


class ChangeCounter(Struct, gc=False):
    """Adds up what changes on a node."""

    worse: int = 0
    better: int = 0
    changed: int = 0
    less: int = 0
    more: int = 0
    ratios: list[int] = field(default_factory=lambda: [0] * (len(RATIOS) + 1))

    def add(self, effect: Effect, times: int = 1) -> None:
        """The values of ``times`` equal cgroups."""
        self.worse += times * effect.worse
        self.better += times * effect.better
        self.changed += times * effect.changed

    def share(self, share: Share, times: int = 1) -> None:
        """The CPU share of ``times`` pods."""
        if share.direction == "worse":
            self.less += times
        elif share.direction == "better":
            self.more += times
        ratio = share.after / share.before if share.before else 1.0
        self.ratios[bisect_right(RATIOS, ratio)] += times

    def unchanged(self, times: int) -> None:
        """The CPU share of ``times`` pods that get what they had."""
        self.ratios[_UNCHANGED] += times

    def done(self) -> NodeChange:
        """The sums."""
        return NodeChange(
            self.worse, self.better, self.changed, self.less, self.more, tuple(self.ratios)
        )


def change_between(before: Plan, after: Plan) -> NodeChange:
    """What differs between two whole plans."""
    counter = ChangeCounter()
    if before is after:
        counter.unchanged(_competing(before))
        return counter.done()
    found = diff(before, after)
    counter.add(Effect.of(found.changes))
    for share in found.shares:
        if share.cgroup.level == "pod":
            counter.share(share)
    counter.unchanged(_competing(before) - sum(counter.ratios))
    return counter.done()


def _competing(plan: Plan) -> int:
    """How many pods may have a CPU share: those of Windows have none."""
    return sum(one.pod.os == "linux" for one in plan.pods)
