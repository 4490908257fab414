"""What a look at some cgroups found to be done, and what came of doing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from qoslet.core.cgroup.observed import ObservedCgroup
    from qoslet.core.reconcile.drift import Difference
    from qoslet.core.reconcile.limit_shrink import Waiting
    from qoslet.core.reconcile.steps import Outcome, Step


class CgroupDiff(Struct):
    """The differences between some cgroups and their plan, the steps that end them, and the
    limits that wait for usage to fall. ``foreign`` are planned cgroups that another process
    created."""

    differences: Sequence[Difference] = ()
    steps: Sequence[Step] = ()
    waiting: Sequence[Waiting] = ()
    cgroups: Mapping[str, ObservedCgroup] = {}
    foreign: frozenset[str] = frozenset()


class FailureLimit(Struct, frozen=True):
    """When to give up: a file that failed so often with one errno is not tried again, and after
    ``total`` failures nothing is."""

    same: int
    total: int


class BatchResult(Struct):
    """What came of steps. ``failed`` is the first failure of each owner; ``not_created`` are
    cgroups that could not be created."""

    outcomes: list[Outcome] = []
    failed: dict[str, str] = {}
    not_created: set[str] = set()

    @property
    def done(self) -> int:
        """Steps that worked."""
        return sum(one.error is None and not one.pending for one in self.outcomes)

    @property
    def pending(self) -> list[str]:
        """Steps that go on in the kernel."""
        return [one.step.describe() for one in self.outcomes if one.pending]
