"""One pass that makes a tree of cgroups true and leaves it standing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.agent.one_shot import (
    ApplyResult,
    perform,
    prepare,
    without_missing_controllers,
    without_unstarted_scopes,
)
from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.memory_journal import MemoryJournal
from qoslet.agent.state.ownership import ownership_of
from qoslet.app import tree as owned_tree
from qoslet.core.node.node import needs_linux
from qoslet.core.reconcile.drift import Difference
from qoslet.core.reconcile.journal import CONTROL
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.render.text.streams import note

if TYPE_CHECKING:
    from qoslet.core.reconcile.limit_shrink import Shrink


class Applied(Struct, frozen=True):
    """What a pass did. ``lost`` are values that need a controller that is missing here,
    ``commands`` the shell lines of a dry run."""

    tree: owned_tree.OwnedTree
    done: ApplyResult
    lost: tuple[Difference, ...]
    commands: list[str]


@contextmanager
def apply_plan(plan: Plan, root: str, shrink: Shrink, *, dry_run: bool) -> Iterator[Applied]:
    """Make the tree below ``root`` as planned, or list the commands that would. Raises
    QosletError."""
    needs_linux(plan.node)
    place = owned_tree.place_of(root, plan.node.hierarchy, plan.node.driver)
    with owned_tree.tree(place, write=not dry_run) as tree:
        for text in tree.notes:
            note(text)
        plan, lost = without_missing_controllers(plan, tree.reach.missing)
        if place.driver == "systemd":
            plan = without_unstarted_scopes(plan, tree.exists)
        tree.watch(plan.files | {file for _, file in tree.ledger.files if file != CONTROL})
        done, commands = _pass(plan, tree, shrink)
        for text in done.before.notes:
            note(text)
        yield Applied(tree, done, lost, commands)


def _pass(plan: Plan, tree: owned_tree.OwnedTree, shrink: Shrink) -> tuple[ApplyResult, list[str]]:
    """The pass itself; without a journal only its commands."""
    executor = CgroupExecutor(
        ownership_of(tree.place.root, tree.ledger),
        tree.driver,
        tree,
        time.monotonic,
        journal=tree.journal or MemoryJournal(tree.ledger),
        shrink=shrink,
    )
    look = partial(prepare, plan, executor, tree.read_planned)
    work = look()
    tree.adopt(work.foreign if work.steps else ())
    if tree.journal is None:
        return ApplyResult(work, (), work.differences), [
            tree.driver.shell(step) for step in work.steps
        ]
    made = any(step.kind == "create" for step in work.steps)
    enabled = made and (tree.record_controllers() or tree.place.driver == "systemd")
    done = perform(work, look, executor)
    if enabled and done.remaining and not done.failures:
        # groups of others have files that they had not
        more = perform(look(), look, executor)
        done = ApplyResult(work, (*done.outcomes, *more.outcomes), more.remaining)
    return done, []
