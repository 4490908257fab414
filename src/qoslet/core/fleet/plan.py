"""The nodes of a cluster, planned one by one: on one side, or before and after a change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from qoslet.core.fleet.change import ChangePlanner, NodeChange, PairStore
from qoslet.core.fleet.cluster import Cluster
from qoslet.core.fleet.fit import TAINTS, Fit, FitRequest, Fitter
from qoslet.core.fleet.nodes import FoundNode, NodeFactory
from qoslet.core.fleet.outcome import NodeOutcome, NodePlanner
from qoslet.core.fleet.problems import FleetProblem, ProblemTable
from qoslet.core.fleet.templates import TemplateStore, node_key
from qoslet.core.node.node import Node
from qoslet.core.problem import Problem, ProblemCode
from qoslet.errors import BadInput, BadInputs


class NodeResult(Struct, frozen=True, gc=False):
    """What was found of a node; ``after`` and ``change`` with a second side, ``fit`` with a pod to
    fit."""

    outcome: NodeOutcome
    after: NodeOutcome | None = None
    change: NodeChange | None = None
    fit: Fit | None = None


class Fleet(Struct, frozen=True):
    """The whole answer: nodes in the order of the input. ``exact`` problem counts are those of
    ``counts``; ``dropped`` rows are not in ``problems``."""

    nodes: tuple[NodeResult, ...]
    problems: tuple[FleetProblem, ...]
    dropped: int
    errors: int
    problem_count: int
    pods: int
    unscheduled: int
    ended: int
    shapes: int
    fit_pod: str = ""
    fit_ignored: tuple[str, ...] = ()
    """What limits where that pod runs and is not considered."""

    @property
    def is_valid(self) -> bool:
        """Whether every document was read and every plan can stand."""
        return not self.errors


class FleetPlanner:
    """Plans the nodes of a cluster. ``factories`` are one or two sides; ``fit`` is what is to fit."""

    def __init__(
        self, cluster: Cluster, factories: Sequence[NodeFactory], fit: FitRequest | None = None
    ) -> None:
        self._cluster = cluster
        self._factories = factories
        self._fit = fit
        self.templates = TemplateStore()
        self._pairs = PairStore()
        self._nodes: dict[str, NodePlanner] = {}
        self._planners: dict[tuple[int, int], NodePlanner] = {}
        self._changes: dict[tuple[int, int], ChangePlanner] = {}
        self._fitters: dict[int, Fitter] = {}

    @property
    def compared(self) -> int:
        """How many pairs of templates were compared."""
        return self._pairs.count

    def results(self, names: Iterable[str]) -> Iterator[NodeResult]:
        """The nodes of these names."""
        for name in names:
            yield self._result(name)

    def _result(self, name: str) -> NodeResult:
        bundled = self._cluster.bundled.get(name)
        if bundled is not None:
            if not bundled.nodes:
                return self._broken(name, list(bundled.problems))
            planners = [self._planner(one) for one in bundled.nodes]
            found = [FoundNode(one, 0, bundled.problems) for one in bundled.nodes]
            change = (
                ChangePlanner(planners[0], planners[1], self._pairs) if len(planners) > 1 else None
            )
            fitter = Fitter(planners[0], self._fit) if self._fit is not None else None
            return self._planned(name, found, planners, change, fitter)
        try:
            found = [one.of(self._cluster.nodes[name]) for one in self._factories]
        except BadInputs as error:
            where = self._cluster.nodes[name].where
            rows = [_unread(one, where) for one in error.faults]
            return self._broken(name, rows)
        return self._planned(name, found, *self._parts(found))

    def _planner(self, node: Node) -> NodePlanner:
        """The planner of nodes that are equal to this one, on both sides."""
        key = node_key(node)
        planner = self._nodes.get(key)
        if planner is None:
            planner = NodePlanner(node, self._cluster.shapes.pods, self.templates)
            self._nodes[key] = planner
        return planner

    def _parts(
        self, found: Sequence[FoundNode]
    ) -> tuple[list[NodePlanner], ChangePlanner | None, Fitter | None]:
        """The planners of nodes like this one."""
        planners = []
        for side, one in enumerate(found):
            planner = self._planners.get((side, one.kind))
            if planner is None:
                planner = self._planners[side, one.kind] = self._planner(one.node)
            planners.append(planner)
        change = None
        if len(found) > 1:
            pair = found[0].kind, found[1].kind
            change = self._changes.get(pair)
            if change is None:
                change = self._changes[pair] = ChangePlanner(planners[0], planners[1], self._pairs)
        fitter = None
        if self._fit is not None:
            fitter = self._fitters.get(found[0].kind)
            if fitter is None:
                fitter = self._fitters[found[0].kind] = Fitter(planners[0], self._fit)
        return planners, change, fitter

    def _planned(
        self,
        name: str,
        found: Sequence[FoundNode],
        planners: Sequence[NodePlanner],
        change: ChangePlanner | None,
        fitter: Fitter | None,
    ) -> NodeResult:
        groups = self._cluster.groups(name)
        whole = change is not None and change.is_exact
        standings = [planners[0].plan(name, groups, found[0].problems, whole)]
        for one, planner in zip(found[1:], planners[1:], strict=True):
            same = planner is planners[0] and one.problems == found[0].problems
            standings.append(
                standings[0] if same else planner.plan(name, groups, one.problems, whole)
            )
        outcome = standings[0].outcome
        row = self._cluster.nodes[name]
        return NodeResult(
            outcome,
            standings[1].outcome if change is not None else None,
            change.compare(*standings) if change is not None else None,
            fitter.fit(outcome, row) if fitter is not None else None,
        )

    def _broken(self, name: str, problems: Sequence[Problem]) -> NodeResult:
        pods = sum(one.count for one in self._cluster.groups(name))
        outcome = NodeOutcome(name, "broken", pods, problems=tuple(problems))
        return NodeResult(outcome)


def _unread(fault: BadInput, where: str) -> Problem:
    """The fault of a node's documents, with the node where it names none."""
    place = fault.where if fault.where.startswith(where) else f"{where}: {fault.where}"
    return Problem("error", place, fault.message, fault.hint, ProblemCode.UNREAD)


def fleet_of(cluster: Cluster, results: Iterable[NodeResult], fit: FitRequest | None) -> Fleet:
    """The answer of what was read and planned. The results' problems are counted and told once."""
    from msgspec.structs import replace

    problems: ProblemTable = cluster.problems
    nodes: list[NodeResult] = []
    for one in results:
        outcome = one.outcome
        problems.add_all(outcome.problems, outcome.name)
        after = one.after
        if after is not None:
            after = replace(after, problem_count=len(after.problems), problems=())
        count = len(outcome.problems)
        outcome = replace(outcome, problem_count=count, problems=())
        nodes.append(replace(one, outcome=outcome, after=after))
    for row in _input_rows(cluster):
        problems.add(row[0], row[1])
    return Fleet(
        tuple(nodes),
        tuple(problems.rows()),
        problems.dropped,
        problems.counts["error"],
        problems.total,
        cluster.pods,
        cluster.unscheduled,
        cluster.ended,
        len(cluster.shapes.pods),
        "" if fit is None else fit.pod.key,
        () if fit is None else _ignored(cluster, fit),
    )


def _ignored(cluster: Cluster, fit: FitRequest) -> tuple[str, ...]:
    """What is not considered of the pod and of the nodes."""
    tainted = any(row.tainted for row in cluster.nodes.values())
    return (*fit.ignored, *((TAINTS,) if tainted else ()))


def _input_rows(cluster: Cluster) -> Iterator[tuple[Problem, str | None]]:
    """What is to be said of the input as a whole."""
    for name, count in cluster.homeless().items():
        pods = "1 pod is" if count == 1 else f"{count} pods are"
        message = f"{pods} on a node that the input lacks"
        hint = "fetch both: kubectl get nodes,pods -A -o json"
        yield Problem("warning", f"node {name}", message, hint), name
    for kind, count in sorted(cluster.skipped.items()):
        message = f"{count} skipped: a fleet is nodes and the pods on them"
        yield Problem("info", kind, message, ""), None
