"""The drivers and hierarchies that verdicts are held on, and what tests of them look up."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.audit.finding import AuditReport, Finding
from qoslet.core.audit.live import LiveTree
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from tests.core.audit.trees import (
    look,
)

SETUPS = [("v1", "cgroupfs"), ("v2", "cgroupfs"), ("v1", "systemd"), ("v2", "systemd")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("nodes"))


def first(plan: Plan, level: str, ending: str = "") -> Cgroup:
    """The first cgroup of a level with a path."""
    return next(
        one
        for one in plan.cgroups
        if one.level == level and one.path is not None and one.name.endswith(ending)
    )


def sole(plan: Plan, live: LiveTree, **more: Any) -> Finding:
    """The only finding."""
    report = look(plan, live, **more)
    assert [(one.verdict, one.path, one.file) for one in report.findings][1:] == []
    return report.findings[0]


def is_clean(report: AuditReport) -> bool:
    """Whether something was compared and nothing of warning or above was found."""
    return report.compared > 0 and not any(one.counts for one in report.findings)


def told(plan: Plan, was_changed: bool | None) -> Plan:
    """The plan with pods whose specs were changed since they were created, or not."""
    cgroups = [
        one if one.pod is None else replace(one, pod=replace(one.pod, was_changed=was_changed))
        for one in plan.cgroups
    ]
    return replace(plan, cgroups=cgroups)
