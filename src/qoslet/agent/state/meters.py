"""Meters of the work on cgroups: how often, how long, how often without success."""

from __future__ import annotations

from collections.abc import Sequence

from qoslet.core.reconcile.steps import Outcome
from qoslet.core.status.meter import Meter

Meters = dict[str, Meter]
"""By ``create``, ``update`` and ``destroy``."""

_KINDS = {"create": "create", "remove": "destroy"}


def add_outcomes(meters: Meters, outcomes: Sequence[Outcome], seconds: float) -> None:
    """Meter the cgroups that were created, written and removed. The seconds of a batch are shared
    out evenly; what is written in a cgroup that was just created is part of its creation."""
    share = seconds / len(outcomes)
    took: dict[tuple[str, str], tuple[float, bool]] = {}
    for one in outcomes:
        kind = _KINDS.get(one.step.kind, "update")
        path = one.step.path
        if kind == "update" and ("create", path) in took:
            kind = "create"
        before, failed = took.get((kind, path), (0.0, False))
        took[kind, path] = before + share, failed or one.error is not None
    for (kind, _), (spent, failed) in took.items():
        meters[kind] = meters.get(kind, Meter()).add(spent, failed=failed)
