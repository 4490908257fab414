"""Takes in what is wanted: pods that came, changed or went become due work, each at its own pace."""

from __future__ import annotations

from collections.abc import Collection

from qoslet.agent.pods.resize import Resizing
from qoslet.agent.pods.teardown import Falling
from qoslet.agent.ports import Desired, Wanted
from qoslet.agent.state.pod_worker import Pace, adopted, never_restarts, places_of
from qoslet.agent.state.sync_context import Shared
from qoslet.core.api.pod import Pod
from qoslet.core.reconcile.resize import asks, remembered
from qoslet.core.workload.pod_status import Held
from qoslet.errors import QosletError


class Taking:
    """Turns the desired state into stages of pods."""

    def __init__(self, shared: Shared, falling: Falling, resizing: Resizing) -> None:
        self._shared = shared
        self._falling = falling
        self._resizing = resizing
        self._version: int | None = None
        self._taken_over = False
        self._edited_before: list[Pace] = []

    def take(self, desired: Desired) -> bool:
        """Take in what changed since the last call; whether this is another plan altogether."""
        shared = self._shared
        before = shared.desired
        anew = before is None or before.live is not desired.live
        shared.desired = desired
        if anew:
            self._version = desired.version
            self._all(desired)
            return True
        if desired.version != self._version:
            self._version = desired.version
            for uid in desired.gone - desired.pods.keys():
                self._gone(uid)
            for uid in sorted(desired.changed & desired.pods.keys()):
                self._wanted(uid, desired.pods[uid])
        return False

    def _all(self, desired: Desired) -> None:
        """The first desired state, or one on another node configuration."""
        shared = self._shared
        if not self._taken_over:
            self._take_over(desired)
        for uid in shared.paces.keys() - desired.pods.keys():
            self._gone(uid)
        for uid, wanted in desired.pods.items():
            self._wanted(uid, wanted)
        for pace in shared.paces.values():
            if pace.pod is not None and pace.groups and not pace.cleared:
                self._as_it_stands(pace, pace.pod)

    def _as_it_stands(self, pace: Pace, pod: Pod) -> None:
        """Plan a pod on this node that has groups and is not wanted as it is: one that ends, or
        one that goes on because its edit was refused. It counts until its groups are gone."""
        live, places = self._shared.live, (pace.cgroups, pace.tops)
        if pace.uid in live:
            return
        found = live.put(pod)
        if found.refused is None:
            pace.plan(found.pod, found.qos, found.groups)
        if pace.cgroups != places[0]:
            pace.cgroups, pace.tops = places
            pace.groups = ()
        if found.refused is not None or not pace.groups:
            live.drop(pace.uid)

    def _take_over(self, desired: Desired) -> None:
        """The pods that the runtime keeps from an earlier agent."""
        shared = self._shared
        wall = shared.clock.wall()
        kept = shared.runtime.held()
        self._give_back(kept.keys())
        for uid, held in kept.items():
            pace = adopted(held, wall)
            shared.add(pace)
            wanted = desired.pods.get(uid)
            if wanted is None:
                self._falling.stop(pace)
            else:
                self._take_up(pace, held, wanted)
        # judged by what all pods have
        for pace in self._edited_before:
            self._resizing.propose(pace)
        self._taken_over = True

    def _give_back(self, kept: Collection[str]) -> None:
        """Volumes of wanted pods that were not begun: they may want others. Those of pods that
        nobody wants are orphans."""
        shared = self._shared
        wanted = shared.desired.pods if shared.desired is not None else {}
        try:
            for uid in shared.volumes.standing():
                if uid in wanted and uid not in kept:
                    shared.volumes.remove(uid)
        except (QosletError, OSError) as error:
            shared.said.errors.append(f"volumes: {error}")

    def _take_up(self, pace: Pace, held: Held, wanted: Wanted) -> None:
        """A kept pod that is wanted: it goes on where it is right."""
        pace.wanted = wanted
        if wanted.refused is not None:
            pace.stage = "over" if held.ended else "running"
            if not held.ended:
                self._as_it_stands(pace, remembered(wanted.pod, held.memo))
            self._refuse(pace, wanted)
            return
        places = dict(pace.cgroups), pace.tops
        old = remembered(wanted.pod, held.memo)
        edited = asks(old) != asks(wanted.pod)
        found = self._shared.live.put(old) if edited else wanted.groups
        pace.plan(old, found.qos, found.groups)
        moved = (pace.cgroups, pace.tops) != places if held.tops else pace.cgroups != places[0]
        if held.ending:
            pace.cgroups, pace.tops = places
            self._ended_before(pace, held, wanted, moved)
            return
        if held.ended:
            pace.cgroups, pace.tops = places
            if held.digest != wanted.spec.digest():
                self.restart(pace, "its containers have changed")
                return
            pace.stage = "over"
            return
        if not moved and held.digest == wanted.spec.digest():
            self._edited_before += [pace] if edited else []
            return
        pace.cgroups, pace.tops = places
        if moved and never_restarts(wanted.spec):
            self._give_up(pace)
            return
        self.restart(pace, "it runs outside its group" if moved else "its containers have changed")

    def _give_up(self, pace: Pace) -> None:
        """End a pod that may neither stay where it is nor be started again."""
        pace.failed = True
        self._shared.said.notes.append(
            f"{pace.key} runs outside its group and is not restarted (restartPolicy Never): "
            "it is ended and has failed"
        )
        self._falling.stop(pace)

    def _ended_before(self, pace: Pace, held: Held, wanted: Wanted, moved: bool) -> None:
        """A kept pod that is wanted and was asked to end: by an agent that did not live to begin
        it anew, or that no longer wanted it."""
        if not (moved and never_restarts(wanted.spec)):
            self.restart(pace, "it was asked to end before")
        elif held.ended:
            pace.stage, pace.failed = "over", True
        else:
            self._give_up(pace)

    def meet(self, held: Held) -> Pace:
        """A pod that the runtime keeps though nobody here asked for it, because the word of an
        agent before came late: it ends."""
        shared = self._shared
        pace = adopted(held, shared.clock.wall())
        shared.add(pace)
        shared.said.notes.append(f"{pace.key}: begun by an agent before; it is ended")
        self._falling.stop(pace)
        return pace

    def restart(self, pace: Pace, why: str) -> None:
        """End the pod and begin it anew as it is wanted now."""
        pace.again = True
        self._shared.said.notes.append(f"{pace.key}: {why}; it is started anew")
        self._falling.stop(pace)

    def _gone(self, uid: str) -> None:
        """A pod is not wanted any more."""
        pace = self._shared.paces.get(uid)
        if pace is None:
            # it went before it was seen
            self._shared.drop(uid)
            return
        if pace.wanted is None and pace.stage in ("ending", "clearing"):
            return
        pace.wanted, pace.again = None, False
        pace.resize, pace.resize_reason = "", ""
        self._shared.due.add(uid)
        if pace.stage not in ("ending", "clearing"):
            self._falling.stop(pace)

    def _wanted(self, uid: str, wanted: Wanted) -> None:
        """A pod came or changed."""
        shared = self._shared
        shared.due.add(uid)
        pace = shared.paces.get(uid)
        if pace is None:
            pace = Pace(uid, wanted.pod.key, since=shared.clock.wall(), wanted=wanted)
            pace.plan(wanted.pod, wanted.groups.qos, wanted.groups.groups)
            shared.add(pace)
            if wanted.refused is not None:
                self._refuse(pace, wanted)
            return
        if wanted.refused is not None and pace.stage in ("running", "over", "refused"):
            self._refuse(pace, wanted)
            return
        before, pace.wanted = pace.wanted, wanted
        pace.key = wanted.pod.key
        match pace.stage:
            case "ending" | "clearing":
                # a pod that failed for good stays so until its processes would differ
                if before is None or not pace.failed:
                    pace.again = True
            case "over":
                if wanted.spec.digest() == pace.digest:
                    shared.drop(uid)
                else:
                    self.restart(pace, "its containers have changed")
            case "refused":
                pace.plan(wanted.pod, wanted.groups.qos, wanted.groups.groups)
                shared.turn_to_waiting(pace)
            case "waiting":
                self._replanned(pace, wanted)
            case "running":
                self._edited(pace, wanted)

    def _refuse(self, pace: Pace, wanted: Wanted) -> None:
        """A pod that may not run here; one that was begun before the edit stays as it is."""
        reason, message = wanted.refused or ("Refused", "")
        if pace.stage in ("running", "over"):
            message = f"the edit is refused, what runs stays: {message}"
        else:
            pace.stage, pace.wanted = "refused", wanted
            self._shared.refused.add(pace.uid)
        pace.say(reason, message, self._shared.clock.wall())

    def _replanned(self, pace: Pace, wanted: Wanted) -> None:
        """A pod changed before it was begun: what was made elsewhere goes first."""
        if wanted.refused is not None:
            self._falling.stop(pace)
            pace.again = True
            return
        places = pace.cgroups, pace.tops
        pace.plan(wanted.pod, wanted.groups.qos, wanted.groups.groups)
        if pace.cgroups != places[0]:
            pace.cgroups, pace.tops = places
            pace.again = True
            self._falling.stop(pace)
            return
        # what was refused may be right now
        pace.went_well()

    def _edited(self, pace: Pace, wanted: Wanted) -> None:
        """A running pod's manifest changed."""
        if wanted.spec.digest() != pace.digest:
            self.restart(pace, "its containers have changed")
            return
        if pace.stop_within is not None:
            if not pace.again or places_of(wanted.groups.groups) != pace.cgroups:
                return
            # what runs is wanted again before it could be stopped
            pace.again, pace.stop_within = False, None
        if wanted.grace != pace.grace:
            pace.grace = wanted.grace
        if pace.pod is not None and asks(pace.pod) != asks(wanted.pod):
            self._resizing.propose(pace)
            return
        if pace.resize in ("Deferred", "Infeasible"):
            pace.resize, pace.resize_reason = "", ""
        pace.plan(wanted.pod, wanted.groups.qos, wanted.groups.groups)
        # what could not be written may be right now
        pace.not_before = None
        self._shared.tell(pace)
