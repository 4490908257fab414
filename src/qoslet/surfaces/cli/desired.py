"""What ``run`` wants, from manifests that may change while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qoslet.agent.cycle import Desired
from qoslet.core.confine import Powers
from qoslet.core.manifest import Loaded
from qoslet.core.node import Node, allocatable
from qoslet.core.plan import plan
from qoslet.core.pod import Pod
from qoslet.core.podenv import Surroundings
from qoslet.core.podspec import PodSpec, read
from qoslet.core.tree import Plan, Problem
from qoslet.errors import BadInput


class ManifestSource:
    """The desired state, read again when ``stamp`` gives another value; ``agent.loop.Source``.

    ``load`` reads the manifests with their documents; it raises BadInput, after which the last
    good state stands, with a problem row that says so. ``specs`` are the pods as processes,
    ``documents`` their manifests, both by UID.
    """

    def __init__(
        self,
        load: Callable[[], Loaded],
        stamp: Callable[[], object],
        node: Node,
        powers: Powers,
        root: str,
        *,
        unconfined: bool = False,
        problems: tuple[Problem, ...] = (),
    ) -> None:
        self._load = load
        self._stamp = stamp
        self._node = node
        self._powers = powers
        self._root = root.rstrip("/")
        self._unconfined = unconfined
        self._problems = problems
        self.specs: dict[str, PodSpec] = {}
        self.documents: dict[str, dict[str, Any]] = {}
        self._begun: dict[str, PodSpec] = {}
        self._seen = stamp()
        self._desired = self._read()

    def current(self) -> Desired:
        """What should be now."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._desired = self._read()
            except BadInput as error:
                row = Problem("error", error.where, error.message, "the last good state stands")
                old = self._desired
                self._desired = Desired(old.plan, old.pods, old.grace, (*old.plan.problems, row))
        return self._desired

    def _read(self) -> Desired:
        """Manifests to plan and processes. Pods that may not run are left out of the tree."""
        loaded = self._load()
        around = Surroundings(self._node.name, allocatable(self._node))
        told: list[Problem] = []
        pods = []
        for pod in loaded.pods:
            document = _mapping(loaded.raw.get(pod.uid))
            self.documents[pod.uid] = document
            spec = read(
                pod,
                document,
                around=around,
                powers=self._powers,
                unconfined=self._unconfined,
            )
            told += spec.problems
            before = self._begun.setdefault(pod.uid, spec)
            if before.launches != spec.launches:
                told.append(_changed(pod))
            self.specs[pod.uid] = spec
            if spec.runnable:
                pods.append(pod)
        made = plan(pods, self._node, (*self._problems, *loaded.problems, *told))
        made = _below(made, self._root)
        gone = self._begun.keys() - {pod.uid for pod in loaded.pods}
        for uid in gone:
            del self._begun[uid]
        for uid, scores in _scores(made).items():
            self.specs[uid] = self.specs[uid].scored(scores)
        grace = {pod.uid: self.specs[pod.uid].grace for pod in pods}
        return Desired(made, tuple(pods), grace, made.problems)


def _changed(pod: Pod) -> Problem:
    """The row of a pod whose processes would differ from those that run."""
    message = "its containers have changed: resources follow, processes stay as they were begun"
    return Problem("warning", pod.where, message, "delete the pod's manifest and add it again")


def _below(made: Plan, root: str) -> Plan:
    """The plan without groups that stand outside ``root``: those belong to somebody else."""
    theirs = {
        group.path
        for group in made.cgroups
        if group.path and group.path != root and not group.path.startswith(f"{root}/")
    }
    if not theirs:
        return made
    row = Problem(
        "info", "this machine", f"left alone, outside {root}: {', '.join(sorted(theirs))}", ""
    )
    ours = tuple(group for group in made.cgroups if group.path not in theirs)
    return Plan(made.node, made.pods, ours, (*made.problems, row))


def _scores(made: Plan) -> dict[str, dict[str, int | None]]:
    """The plan's oom_score_adj by pod UID and container name."""
    found: dict[str, dict[str, int | None]] = {}
    for group in made.cgroups:
        if group.pod is not None and group.container is not None:
            found.setdefault(group.pod.uid, {})[group.container.name] = group.oom_score_adj
    return found


def _mapping(value: Any) -> dict[str, Any]:
    """``value`` if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}
