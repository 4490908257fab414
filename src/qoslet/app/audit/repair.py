"""Repairs what an audit found, beside whoever owns the tree: journalled, and undone by ``release``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.agent.one_shot import LIMIT
from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.ownership import Ownership
from qoslet.agent.state.read_back import read_back
from qoslet.app import tree as owned_tree
from qoslet.app.audit.machine import Audited
from qoslet.core.audit.repairs import NotRepaired, Repairs, repairs
from qoslet.core.cgroup.names import to_cgroupfs
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.reconcile.journal import CONTROL, GUEST, GUESTS
from qoslet.core.reconcile.steps import Outcome
from qoslet.errors import CannotDo
from qoslet.host.state.folder import JOURNAL, escaped, own_state_directory
from qoslet.host.state.resume import verb_of

if TYPE_CHECKING:
    from qoslet.core.audit.finding import AuditReport
    from qoslet.core.reconcile.drift import Difference
    from qoslet.core.resources.cgroup_tree import Plan

ROUNDS = 2
"""Audits with writes: values below a controller that was enabled are written in the second."""

Look = Callable[[], Audited]
Choose = Callable[[Audited], "AuditReport"]
"""The findings that are to be repaired."""


class Repaired(Struct, frozen=True):
    """What was done. ``root`` names the journal for ``release``; ``audited`` is the audit afterwards,
    ``report`` what was chosen of it; ``left`` are the findings that are for others, ``waiting`` limits
    that wait for usage to fall, ``commands`` the shell lines of a dry run, ``notes`` what taking up the journal met."""

    root: str
    audited: Audited
    report: AuditReport
    outcomes: tuple[Outcome, ...] = ()
    left: tuple[NotRepaired, ...] = ()
    waiting: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether every step worked and nothing of warning or above is left."""
        failed = any(one.error is not None for one in self.outcomes)
        return not failed and not any(one.counts for one in self.report.findings)


def repair(look: Look, choose: Choose, *, dry_run: bool) -> Repaired:
    """Audit, write what can be repaired, audit again; ``look`` audits once. Nothing is locked or
    journalled where nothing is to be written. Raises QosletError, CannotDo where another qoslet has
    the tree."""

    def find() -> tuple[Audited, AuditReport, Repairs]:
        audited = look()
        report = choose(audited)
        return audited, report, repairs(audited.plan, report.findings)

    audited, report, todo = find()
    place, verb = _place(audited.plan)
    if dry_run or not todo.paths:
        return Repaired(place.root, audited, report, left=todo.left, commands=todo.commands)
    if place.root == "/":
        # a journal is of a cgroup below it, and so is what release restores
        message = "cgroupsPerQOS is false: no cgroup of all pods is there to repair values in"
        raise CannotDo(message, hint="run the lines that --fix --dry-run shows")
    outcomes, waiting = list[Outcome](), list[str]()
    with owned_tree.tree(place, write=True, verb=verb) as tree:
        notes = tuple(tree.notes)
        for _ in range(ROUNDS):
            # what was found before the lock may be repaired, or planned otherwise, by now
            audited, report, todo = find()
            tried = {(one.step.path, one.step.file, one.step.value) for one in outcomes}
            done, waiting = _write(tree, todo, tried)
            outcomes += done
            if not todo.controllers or not done:
                break
        if outcomes:
            audited, report, todo = find()
    return Repaired(
        place.root, audited, report, tuple(outcomes), todo.left, tuple(waiting), notes=notes
    )


def _place(plan: Plan) -> tuple[owned_tree.TreeLocation, str | None]:
    """Where the journal is, and of which command; None: that of the tree that qoslet made there."""
    node, kubelet = plan.node, plan.node.kubelet
    state = own_state_directory(write=False)
    if kubelet.cgroup_root.strip("/"):
        own = owned_tree.place_of(kubelet.cgroup_root, node.hierarchy, node.driver)
        journal = f"{state}/{escaped(own.root)}/{JOURNAL}"
        if os.path.exists(journal) and verb_of(own.root, state) not in GUESTS:
            return own, None
    root = to_cgroupfs(kubelet.pods_cgroup)
    return owned_tree.place_of(root, node.hierarchy, node.driver), GUEST


def _write(
    tree: owned_tree.OwnedTree, todo: Repairs, tried: set[tuple[str, str, str]]
) -> tuple[list[Outcome], list[str]]:
    """Write what is still off, each value after its journal entry; what was tried is left. Returns
    what came of it, and the limits that wait. Raises QosletError."""
    journal = tree.journal
    assert journal is not None
    files = frozenset([row.file for row in todo.rows] + [CONTROL] * bool(todo.controllers))
    ownership = Ownership(tree.place.root, tree.ledger.adopted, tree.ledger.cgroups, files)
    executor = CgroupExecutor(ownership, tree.driver, tree, time.monotonic, journal=journal)
    executor.watch_files(files)
    seen = {path: one for path in sorted(todo.paths) if (one := tree.read_cgroup(path))}
    rows = [row for row in todo.rows if _is_off(row, seen, todo)]
    diff = executor.order(rows, Observed(time.monotonic(), seen))
    steps = [step for step in (*todo.controllers, *diff.steps) if step.path in seen]
    steps = [step for step in steps if (step.path, step.file, step.value) not in tried]
    waiting = [one.describe() for one in diff.waiting]
    if not steps:
        return [], waiting
    others = {
        step.path: seen[step.path].identity
        for step in steps
        if not journal.ledger.is_owned(step.path, seen[step.path].identity)
    }
    tree.allow_foreign_writes(others)
    executor.adopt(others)
    journal.seen(
        {(path, file): text for path, one in seen.items() for file, text in one.values.items()}
    )
    outcomes = executor.perform(steps, limit=LIMIT).outcomes
    read_back(executor, outcomes)
    return outcomes, waiting


def _is_off(row: Difference, seen: dict[str, ObservedCgroup], todo: Repairs) -> bool:
    """Whether a value is still the one that was found."""
    one = seen.get(row.path)
    if one is None or row.wanted is None:
        return False
    found = one.values.get(row.file)
    return found is not None and ((row.path, row.file) in todo.latent or found == row.found)
