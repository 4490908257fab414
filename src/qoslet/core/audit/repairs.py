"""Which findings qoslet may repair: values that the owner of a cgroup would write itself."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from qoslet.core.audit.finding import Finding, Verdict
from qoslet.core.audit.live import SUBTREE
from qoslet.core.audit.verdicts.cpusets import UNCLEARED, can_be_cleared
from qoslet.core.audit.verdicts.left_behind import CPUSETS
from qoslet.core.audit.verdicts.paused import LEFT
from qoslet.core.audit.verdicts.processes import OOM
from qoslet.core.audit.verdicts.values import IDLE, weight_of
from qoslet.core.reconcile.drift import Difference
from qoslet.core.reconcile.step_order import PERIOD, magnitude
from qoslet.core.reconcile.steps import Step
from qoslet.core.resources.cgroup_tree import Cgroup, Plan

VALUES: frozenset[Verdict] = frozenset(("drift", "latent", "stale", "weights"))
"""Verdicts that a written value ends."""


class NotRepaired(Struct, frozen=True):
    """A finding that is left to others, and why."""

    finding: Finding
    reason: str


class Repairs(Struct, frozen=True):
    """``controllers`` are enabled first, parents first: values below them come with the next audit.
    ``latent`` are the rows whose file is right, while the unit's property is not."""

    controllers: tuple[Step, ...]
    rows: tuple[Difference, ...]
    latent: frozenset[tuple[str, str]]
    left: tuple[NotRepaired, ...]
    commands: tuple[str, ...]
    """The shell lines that would do it by hand."""

    @property
    def paths(self) -> frozenset[str]:
        """The cgroups in which something is to be written."""
        steps = {step.path for step in self.controllers}
        return frozenset(steps.union(row.path for row in self.rows))


def repairs(plan: Plan, findings: Sequence[Finding]) -> Repairs:
    """What of the findings of a plan can be repaired. Those that do not count are left out."""
    planned = {cgroup.name: cgroup for cgroup in plan.cgroups}
    controllers, latent = list[Step](), set[tuple[str, str]]()
    rows, weights = list[Difference](), list[Difference]()
    left, repaired = list[NotRepaired](), list[Finding]()
    for one in findings:
        if not one.counts:
            continue
        reason = _reason(one, plan, one.name in planned)
        if reason:
            left.append(NotRepaired(one, reason))
            continue
        file = one.file or ""
        repaired.append(one)
        if file == SUBTREE:
            added = set((one.expected or "").split()) - set((one.found or "").split())
            text = " ".join(f"+{name}" for name in sorted(added))
            controllers.append(Step("set", one.path, SUBTREE, text, why=one.verdict))
            continue
        setting = planned[one.name].by_file.get(file)
        value = one.expected if setting is None else setting.value
        rows.append(Difference(one.path, "differs", file, value, one.found, one.verdict))
        weights += _forgotten_weight(one, planned[one.name])
        if one.verdict == "latent":
            latent.add((one.path, file))
    known = {(row.path, row.file) for row in rows}
    rows += [row for row in weights if (row.path, row.file) not in known]
    controllers.sort(key=lambda step: (step.path.count("/"), step.path))
    lines = tuple(one.fix for one in sorted(repaired, key=_turn) if one.fix)
    return Repairs(tuple(controllers), tuple(rows), frozenset(latent), tuple(left), lines)


def _turn(finding: Finding) -> tuple[int, int]:
    """When the line of a finding comes: controllers are enabled first; what allows more is written to
    parents first, what allows less to children first, as the kernel lets no child have more."""
    file, depth = finding.file or "", finding.path.count("/")
    if file == SUBTREE:
        return 0, depth
    try:
        raises = magnitude(file, finding.expected) > magnitude(file, finding.found)
    except ValueError:
        raises = True
    # a quota of a longer period is less
    raises = raises != (file == PERIOD)
    return (1, depth) if raises else (2, -depth)


def _forgotten_weight(one: Finding, cgroup: Cgroup) -> list[Difference]:
    """The weight of a cgroup that is to be idle no more, which reads as planned until the kernel makes it that of
    a new one."""
    row = weight_of(cgroup) if one.file == IDLE else None
    if row is None:
        return []
    return [Difference(one.path, "differs", row.file, row.value, row.applied, one.verdict)]


def _reason(one: Finding, plan: Plan, planned: bool) -> str:
    """Why a finding is left alone; empty where it is repaired."""
    if one.file == OOM:
        return "programs may set it themselves: qoslet changes no process"
    if one.file in LEFT:
        return LEFT[one.file]
    if one.verdict == "controller" and planned:
        if plan.node.driver == "systemd":
            return "systemd enables controllers as its units need them"
        return ""
    if one.file in CPUSETS and one.found == "" and not can_be_cleared(plan.node):
        return f"{UNCLEARED}: release could not undo it"
    if one.verdict in VALUES and one.file is not None and planned:
        writable = one.expected is not None and one.found is not None and one.fix is not None
        return "" if writable else one.hint
    match one.verdict:
        case "missing":
            return one.hint or "its creator makes it again"
        case "foreign" | "orphan" | "stale":
            return "qoslet removes no cgroup and ends no process that it did not create"
        case "driver":
            return "a node changes its driver only with a restart"
    return "the plan has no value for it"
