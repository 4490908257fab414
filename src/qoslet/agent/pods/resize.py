"""Carries resizes of running pods: judged, allowed or put off, told to the runtime."""

from __future__ import annotations

from qoslet.agent.state.pod_worker import Pace
from qoslet.agent.state.sync_context import Shared
from qoslet.core.api.pod import Pod
from qoslet.core.node.node import Node
from qoslet.core.reconcile.resize import ResizeState, amounts, judge, restarting
from qoslet.core.resources.node_policy import Basis, basis_of
from qoslet.core.workload.lifecycle import Backoff
from qoslet.errors import QosletError

PUT_OFF = Backoff(first=5.0, longest=60.0, reset_after=0.0)
"""Between two looks at a resize that does not fit yet; it is looked at whenever a pod goes, too."""


class Resizing:
    """``sums`` are the requests of all pods that count, kept as they change."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._basis: tuple[Node, Basis] | None = None
        self._deferred: set[str] = set()

    @property
    def basis(self) -> Basis:
        """What rules need of the node."""
        node = self._shared.node
        if self._basis is None or self._basis[0] is not node:
            self._basis = node, basis_of(node)
        return self._basis[1]

    def propose(self, pace: Pace) -> None:
        """A running pod's resources were edited: allow it, or let it keep what it has."""
        shared = self._shared
        assert pace.wanted is not None
        assert pace.pod is not None
        wanted = pace.wanted
        found = shared.live.put(wanted.pod)
        shared.due |= found.others
        verdict = judge(
            self.basis, (pace.pod, pace.qos), (wanted.pod, found.qos), self._others(pace.uid)
        )
        self._deferred.discard(pace.uid)
        if verdict.state != "InProgress":
            back = shared.live.put(pace.pod)
            shared.due |= back.others
            pace.plan(back.pod, back.qos, back.groups)
            self._say(pace, verdict.state, verdict.reason)
            if verdict.state == "Deferred":
                self._deferred.add(pace.uid)
                shared.again_in(pace.uid, PUT_OFF.longest)
            return
        old = pace.pod
        pace.plan(found.pod, found.qos, found.groups)
        self._say(pace, "InProgress", "")
        self._tell(pace, old)

    def look_again(self, uid: str | None = None) -> None:
        """Judge resizes anew that did not fit: one, or all because something went."""
        for one in [uid] if uid is not None else sorted(self._deferred):
            pace = self._shared.paces.get(one)
            if one not in self._deferred or pace is None:
                continue
            if pace.stage != "running" or pace.wanted is None or pace.resize != "Deferred":
                self._deferred.discard(one)
                continue
            self.propose(pace)
            self._shared.due.add(one)

    def _say(self, pace: Pace, state: ResizeState, reason: str) -> None:
        """The state of a resize, noted where it changes."""
        if (state, reason) != (pace.resize, pace.resize_reason):
            why = f": {reason}" if reason else ""
            self._shared.said.notes.append(f"{pace.key}: resize {state}{why}")
        pace.resize, pace.resize_reason = state, reason

    def _others(self, uid: str) -> dict[str, int]:
        """What all other pods request that count."""
        total = {"cpu": 0, "memory": 0}
        for pace in self._shared.paces.values():
            if pace.uid == uid or pace.pod is None or (pace.stage == "over" and pace.cleared):
                continue
            for name, amount in amounts(self.basis, pace.pod).items():
                total[name] += amount
        return total

    def _tell(self, pace: Pace, old: Pod) -> None:
        """Later starts use the new values; containers whose policy says so are restarted."""
        shared = self._shared
        assert pace.wanted is not None
        assert pace.pod is not None
        shared.tell(pace)
        try:
            for name in restarting(old, pace.pod, pace.wanted.spec.resize_restarts):
                shared.said.notes.append(f"{pace.key}/{name}: restarted, as its resizePolicy says")
                shared.runtime.restart(pace.uid, name)
        except (QosletError, OSError) as error:
            shared.fail(pace, "RestartFailed", f"restarting {pace.key}: {error}")
