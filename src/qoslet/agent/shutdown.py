"""The end of a run: every pod ended, every group of ours removed, what others had given back."""

from __future__ import annotations

from collections.abc import Callable

from qoslet.agent.pods.teardown import deepest_first
from qoslet.agent.reconciler import Wheel
from qoslet.core.reconcile.steps import Step
from qoslet.errors import QosletError

TICK = 0.05
"""Seconds between two looks at what is ending."""


def end(wheel: Wheel, hurry: Callable[[], bool], undo: Callable[[], list[str]] = list) -> list[str]:
    """End all pods, remove all groups of ours below the root; what could not be done is returned.

    ``hurry`` is asked on the way: once true, grace periods end at once. ``undo`` gives values
    of before back to groups of others and tells what it could not.
    """
    shared = wheel.shared
    if shared.desired is None:
        return []
    hurried = False
    deadline: float | None = None
    for pace in shared.paces.values():
        pace.again = False
    while shared.paces:
        if hurry() and not hurried:
            hurried = True
            for pace in shared.paces.values():
                if pace.stage == "ending":
                    wheel.falling.stop(pace, 0.0)
        wheel.fall()
        left = [pace for pace in shared.paces.values() if pace.stage != "ending"]
        if shared.paces and len(left) == len(shared.paces):
            # nothing but removals are left, which are over within moments or not at all
            deadline = deadline or shared.now + shared.config.settle
            if shared.now >= deadline:
                break
        if shared.paces:
            shared.clock.sleep(TICK)
    wrong = [pace.message or f"{pace.key} is {pace.stage}" for pace in shared.paces.values()]
    try:
        return wrong + _remove_all(wheel) + undo()
    except (QosletError, OSError) as error:
        return [*wrong, str(error)]


def _remove_all(wheel: Wheel) -> list[str]:
    """Remove the groups below the root, children first; busy ones are tried again."""
    shared, hands = wheel.shared, wheel.shared.hands
    deadline = shared.now + shared.config.settle
    while True:
        seen = hands.observer.observe(hands.root, values=False).cgroups
        ours = [path for path, one in seen.items() if hands.ours(path, one.identity)]
        wrong = [
            failed
            for path in deepest_first(ours)
            for failed in hands.perform(
                [Step("remove", path, why="the run ends")], lambda step: ""
            ).failed.values()
        ]
        if not wrong or shared.now >= deadline:
            return wrong
        shared.clock.sleep(TICK)
