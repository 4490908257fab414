"""The way down: a pod's containers are ended, its volumes and its groups removed, its record dropped."""

from __future__ import annotations

from collections.abc import Iterable

from qoslet.agent.state.pod_worker import SETTLING, Pace
from qoslet.agent.state.sync_context import Shared
from qoslet.core.cgroup.observed import ObservedCgroup
from qoslet.core.reconcile.steps import Step
from qoslet.errors import QosletError


class Falling:
    """Carries pods down. ``final`` keeps the last look at the groups of pods that are over."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.final: dict[str, ObservedCgroup] = {}

    def stop(self, pace: Pace, grace: float | None = None) -> None:
        """Ask the pod's containers to end, within ``grace`` seconds: its own by default."""
        stop(self._shared, pace, grace)

    def carry(self, pace: Pace) -> bool:
        """Go as far down as it goes now; whether the pod's groups are gone with this turn."""
        shared = self._shared
        if pace.stage == "ending" and self._has_ended(pace):
            shared.ending.discard(pace.uid)
            pace.turn_to("clearing", shared.clock.wall())
        if pace.stage not in ("clearing", "over") or pace.cleared or pace.held_up(shared.now):
            return False
        if not self._volumes(pace) or not self._groups(pace):
            return False
        pace.cleared = True
        pace.went_well()
        pace.say("", "", shared.clock.wall())
        return True

    def _has_ended(self, pace: Pace) -> bool:
        """Whether the runtime says that no container runs and none will be started."""
        try:
            kept = self._shared.held().get(pace.uid)
        except (QosletError, OSError) as error:
            self._shared.fail(pace, "KillFailed", f"stopping {pace.key}: {error}")
            return False
        return kept is None or kept.ended

    def _volumes(self, pace: Pace) -> bool:
        """Give the pod's volumes back."""
        try:
            self._shared.volumes.remove(pace.uid)
        except (QosletError, OSError) as error:
            self._shared.fail(pace, "VolumeInUse", f"volumes of {pace.key}: {error}")
            return False
        return True

    def _groups(self, pace: Pace) -> bool:
        """Remove the pod's groups with all below them, once nobody is in them."""
        shared, hands = self._shared, self._shared.hands
        below: dict[str, ObservedCgroup] = {}
        for top in pace.tops:
            below |= hands.observer.observe(top, values=False).cgroups
        taken = {path: one.pids for path, one in below.items() if one.pids}
        if taken:
            return self._empty(pace, taken)
        if pace.stage == "over":
            looks = (hands.observer.look(path) for path in pace.cgroups.values())
            self.final |= {one.path: one for one in looks if one is not None}
        steps = [Step("remove", path, why="its pod has ended") for path in deepest_first(below)]
        batch = hands.perform(steps, lambda step: pace.uid)
        shared.said.outcomes += batch.outcomes
        wrong = batch.failed.get(pace.uid)
        if wrong is not None:
            shared.fail(pace, "FailedToRemoveGroup", wrong)
        return wrong is None

    def _empty(self, pace: Pace, taken: dict[str, tuple[int, ...]]) -> bool:
        """End what is still in the pod's groups though its containers have ended. Never done."""
        shared = self._shared
        path = min(taken, key=len)
        who = shared.killing.holders(path, taken[path])
        message = f"{path}: {who} is still in it and is ended"
        try:
            for top in pace.tops:
                shared.killing.kill(top)
        except (QosletError, OSError) as error:
            shared.fail(pace, "ProcessesLeft", f"{path}: {error}")
            return False
        shared.fail(pace, "ProcessesLeft", message, SETTLING)
        return False

    def finish(self, pace: Pace) -> None:
        """The pod's groups are gone: what comes after."""
        shared = self._shared
        if pace.wanted is not None and not pace.again:
            pace.stage = "over"
            shared.drop(pace.uid)
            return
        try:
            shared.runtime.forget(pace.uid)
        except (QosletError, OSError) as error:
            shared.fail(pace, "KillFailed", f"forgetting {pace.key}: {error}")
            return
        for path in pace.cgroups.values():
            self.final.pop(path, None)
        if pace.wanted is None:
            shared.drop(pace.uid)
            shared.remove(pace)
            return
        pace.again = pace.cleared = pace.failed = False
        pace.evicted = ("", "")
        pace.resize, pace.resize_reason = "", ""
        shared.note(pace, ())
        if not pace.wanted.spec.runnable:
            shared.drop(pace.uid)
            pace.plan(pace.wanted.pod, pace.qos, ())
            pace.turn_to("refused", shared.clock.wall())
            shared.refused.add(pace.uid)
            return
        found = shared.live.put(pace.wanted.pod)
        if found.refused is not None:
            pace.plan(found.pod, found.qos, ())
            pace.turn_to("refused", shared.clock.wall())
            pace.say(found.refused.reason, found.refused.message, shared.clock.wall())
            shared.refused.add(pace.uid)
            return
        pace.plan(found.pod, found.qos, found.groups)
        shared.turn_to_waiting(pace)


def stop(shared: Shared, pace: Pace, grace: float | None = None) -> None:
    """Ask a pod's containers to end, within ``grace`` seconds: its own by default. What the runtime
    refuses is asked for again after a back-off."""
    if pace.stage in ("refused", "waiting", "over"):
        pace.turn_to("clearing", shared.clock.wall())
        shared.due.add(pace.uid)
        return
    within = pace.grace if grace is None else grace
    try:
        shared.runtime.stop(pace.uid, within)
    except (QosletError, OSError) as error:
        pace.stop_within = within
        shared.fail(pace, "KillFailed", f"stopping {pace.key}: {error}")
        return
    pace.stop_within = None
    if pace.stage != "ending":
        pace.turn_to("ending", shared.clock.wall())
    shared.ending.add(pace.uid)
    shared.due.add(pace.uid)


def deepest_first(paths: Iterable[str]) -> list[str]:
    """Groups, those below others first."""
    return sorted(paths, key=lambda path: (-path.count("/"), path))
