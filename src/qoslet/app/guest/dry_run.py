"""What an agent beside a kubelet would write, as shell lines, and may end; nothing is done."""

from __future__ import annotations

import time

from msgspec import Struct

from qoslet.app import tree as owned_tree
from qoslet.app.guest.machine import location_of, own_pods
from qoslet.app.guest.run import GuestOptions, inputs_of
from qoslet.core.cgroup.names import to_cgroupfs
from qoslet.core.cgroup.observed import Observed
from qoslet.core.guest.policy import governed, nothing_to_write
from qoslet.core.guest.would_end import WouldEnd, would_end
from qoslet.core.reconcile.drift import Cause, compare
from qoslet.core.reconcile.journal import AGENT
from qoslet.core.reconcile.step_order import ordered
from qoslet.core.resources.cgroup_tree import Plan


class WouldWrite(Struct, frozen=True):
    """``commands`` are the shell lines, ``note`` says why there are none where a policy lets an agent
    write. ``ends``: what a guard may end."""

    commands: tuple[str, ...]
    note: str = ""
    ends: tuple[WouldEnd, ...] = ()


def would_write(options: GuestOptions) -> WouldWrite:
    """Look once. Raises QosletError."""
    with inputs_of(options) as inputs:
        view = inputs.current()
    location, node = location_of(view), view.plan.node
    root = to_cgroupfs(node.kubelet.pods_cgroup)
    wanted = governed(view.in_force, view.policy, root)
    why = nothing_to_write(view.policy, wanted, node, len(view.plan.pods))
    with owned_tree.tree(location, write=False, verb=AGENT) as tree:
        tree.watch({row.file for one in wanted for row in one.settings})
        looked = {one.path: tree.read_cgroup(one.path) for one in wanted if one.path is not None}
        seen = {path: one for path, one in looked.items() if one is not None}
        tree.allow_foreign_writes(seen)
        there = tuple(one for one in wanted if one.path in seen)
        observed = Observed(time.monotonic(), seen)
        rows = [
            row
            for row in compare(Plan(node, (), there, ()), observed)
            if row.verdict == "differs" and row.cause is Cause.PLANNED
        ]
        commands = tuple(tree.driver.shell(step) for step in ordered(rows, observed))
    if not wanted and not why:
        why = "the policy lets the agent write nothing"
    ends = would_end(view.policy, (one.pod for one in view.plan.pods), own_pods())
    return WouldWrite(commands, why, ends)
