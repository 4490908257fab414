"""The way up: a pod's groups are made and written, its volumes provided, its containers begun.

The same look keeps the groups of running pods true.
"""

from __future__ import annotations

from collections.abc import Sequence

from qoslet.agent.state.cgroup_executor import Batch, Off, at_or_below
from qoslet.agent.state.pod_worker import SETTLING, Pace
from qoslet.agent.state.sync_context import Shared
from qoslet.core.reconcile.drift import Difference
from qoslet.core.reconcile.resize import in_phases
from qoslet.core.reconcile.steps import Step
from qoslet.errors import QosletError


class Rising:
    """Carries pods up, as many as are due, in one batch of steps."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def carry(self, paces: Sequence[Pace], blocked: set[str]) -> list[Pace]:
        """Make true the groups of these pods; begin those that wait. ``blocked`` are groups that
        could not be made, so nothing can be made in them. The pods that were begun."""
        shared = self._shared
        free = [pace for pace in paces if not self._is_blocked(pace, blocked)]
        if not free:
            return []
        off = shared.hands.off(shared.node, [one for pace in free for one in pace.standing])
        owners = {one.path: pace.uid for pace in free for one in pace.groups if one.path}
        ready = [pace for pace in free if not self._refused(pace, off)]
        names = {pace.uid for pace in ready}

        def owner_of(step: Step) -> str:
            return owners.get(step.path, "")

        steps = [step for step in self._steps(ready, off, owners) if owner_of(step) in names]
        batch = shared.hands.perform(steps, owner_of)
        self._note(off, batch)
        return [pace for pace in ready if self._made(pace, batch, off, owners)]

    def keep(self, paces: Sequence[Pace]) -> None:
        """Write what is off in groups of these pods, which are ending: nothing is made."""
        hands = self._shared.hands
        off = hands.off(self._shared.node, [one for pace in paces for one in pace.groups])
        rows = [row for row in off.differences if row.verdict == "differs" and row.path in off.seen]
        if rows:
            owners = {one.path: pace.uid for pace in paces for one in pace.groups if one.path}
            steps = hands.in_order([rows], off)
            batch = hands.perform(steps, lambda step: owners.get(step.path, ""))
            said = self._shared.said
            said.differences += len(rows)
            said.outcomes += batch.outcomes
            said.errors += batch.failed.values()

    def _is_blocked(self, pace: Pace, blocked: set[str]) -> bool:
        """Whether the pod has to wait: for one of before with its name, or for a group above
        its own that could not be made."""
        shared = self._shared
        before = shared.follows(pace) if pace.stage == "waiting" else None
        if before is not None:
            message = f"{pace.key}: waits for pod {before} of the same name to be gone"
            pace.say("PodBefore", message, shared.clock.wall())
            return True
        if not any(at_or_below(path, blocked) for path in pace.tops):
            return False
        message = f"{pace.key}: waits for the group above it, which could not be made"
        pace.say("FailedToCreatePodContainer", message, shared.clock.wall())
        shared.again_in(pace.uid, shared.config.retry.first)
        return True

    def _refused(self, pace: Pace, off: Off) -> bool:
        """Whether somebody else has a group where the pod's is to be, or processes that nobody
        began are in one of its containers."""
        for path in (one.path for one in pace.groups):
            if path in off.foreign:
                self._shared.fail(
                    pace,
                    "GroupNotOurs",
                    f"{path}: somebody else made this group: it is not in our journal (if nobody "
                    "needs it, rmdir it)",
                )
                return True
        if pace.stage != "waiting":
            return False
        taken = [p for p in pace.cgroups.values() if p in off.seen and off.seen[p].pids]
        return any(self._is_taken(pace, path, off.seen[path].pids) for path in taken)

    def _is_taken(self, pace: Pace, path: str, pids: Sequence[int]) -> bool:
        """Whether processes of an earlier life are still in a container's group; they are ended."""
        shared = self._shared
        shared.said.notes.append(
            f"{path}: ended {shared.killing.holders(path, pids)}, which nobody keeps"
        )
        try:
            if shared.killing.kill(path):
                return False
        except (QosletError, OSError) as error:
            shared.fail(pace, "ProcessesLeft", f"{path}: {error}")
            return True
        shared.fail(pace, "ProcessesLeft", f"{path}: processes of before are ending", SETTLING)
        return True

    def _steps(self, paces: Sequence[Pace], off: Off, owners: dict[str, str]) -> Sequence[Step]:
        """The steps in their order: those of a resize go pod by pod, in a kubelet's order."""
        resizing = {pace.uid: pace for pace in paces if pace.resize == "InProgress"}
        if not resizing:
            return off.steps
        plain: list[Difference] = []
        own: dict[str, list[Difference]] = {}
        for row in off.differences:
            uid = owners.get(row.path, "")
            (own.setdefault(uid, []) if uid in resizing else plain).append(row)
        steps = self._shared.hands.in_order([plain], off)
        for uid, rows in own.items():
            steps += self._shared.hands.in_order(in_phases(rows, resizing[uid].tops), off)
        return steps

    def _note(self, off: Off, batch: Batch) -> None:
        said = self._shared.said
        said.differences += len(off.differences)
        said.outcomes += batch.outcomes
        said.waiting += [one.describe() for one in off.waiting]

    def _made(self, pace: Pace, batch: Batch, off: Off, owners: dict[str, str]) -> bool:
        """What came of a pod's groups; whether it was begun."""
        shared = self._shared
        wrong = batch.failed.get(pace.uid)
        if wrong is not None:
            up = pace.stage == "waiting"
            reason = "FailedToCreatePodContainer" if up else "FailedToWriteGroup"
            shared.fail(pace, reason, wrong)
            return False
        if pace.resize == "InProgress":
            self._resized(pace, batch, off, owners)
        if pace.stage != "waiting":
            if pace.retries:
                pace.turn_to(pace.stage, shared.clock.wall())
            return False
        return self._begin(pace)

    def _resized(self, pace: Pace, batch: Batch, off: Off, owners: dict[str, str]) -> None:
        """Whether a resize is through, or what it waits for."""
        shared = self._shared
        waits = [one.describe() for one in off.waiting if owners.get(one.path) == pace.uid]
        waits += [
            f"{one.step.describe()}: being written"
            for one in batch.outcomes
            if one.pending and owners.get(one.step.path) == pace.uid
        ]
        if waits:
            pace.resize_reason = "; ".join(waits)
            shared.again_in(pace.uid, shared.config.retry.first)
            return
        pace.resize, pace.resize_reason = "Done", ""
        pace.say("", "", shared.clock.wall())

    def _begin(self, pace: Pace) -> bool:
        """Provide the volumes and begin the containers."""
        shared = self._shared
        assert pace.wanted is not None
        try:
            spec = shared.ready(pace)
        except (QosletError, OSError) as error:
            shared.fail(pace, "FailedMount", f"volumes of {pace.key}: {error}")
            return False
        try:
            shared.runtime.start(spec, pace.cgroups)
        except (QosletError, OSError) as error:
            shared.fail(pace, "StartError", f"starting {pace.key}: {error}")
            return False
        pace.digest, pace.grace = spec.digest(), pace.wanted.grace
        pace.turn_to("running", shared.clock.wall())
        return True
