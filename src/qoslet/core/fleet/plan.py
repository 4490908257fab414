"""The nodes of a cluster, planned one by one: on one side, or before and after a change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.fleet.change import NodeChange
from qoslet.core.fleet.cluster import Cluster
from qoslet.core.fleet.fit import AFFINITY, SELECTOR, TAINTS, Fit, FitRequest, Fitter
from qoslet.core.fleet.nodes import FoundNode, NodeFactory
from qoslet.core.fleet.outcome import NodeOutcome, NodePlanner
from qoslet.core.fleet.problems import FleetProblem, ProblemTable
from qoslet.core.fleet.read import NodeRow
from qoslet.core.fleet.second_side import SecondSide, Told, unchanged
from qoslet.core.fleet.shape_change import ShapeStore
from qoslet.core.fleet.templates import TemplateStore, node_key
from qoslet.core.node.node import Node
from qoslet.core.problem import Problem, ProblemCode, Severity
from qoslet.errors import BadInput, BadInputs


class NodeResult(Struct, frozen=True, gc=False):
    """What was found of a node; ``after`` and ``change`` with a second side, ``fit`` with a pod to
    fit, ``fit_after`` with both."""

    outcome: NodeOutcome
    after: NodeOutcome | None = None
    change: NodeChange | None = None
    fit: Fit | None = None
    fit_after: Fit | None = None


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


class _Kind(Struct, gc=False):
    """What nodes share that are equal on all sides but for their names. ``same``: the second side
    is the first; ``severities`` are those of the second's documents; ``fitters`` are empty without a
    pod to fit."""

    planners: list[NodePlanner]
    second: SecondSide | None
    same: bool
    severities: tuple[Severity, ...]
    fitters: list[Fitter]

    def fit(self, side: int, outcome: NodeOutcome, row: NodeRow) -> Fit | None:
        """How many pods fit on a node of a side."""
        return self.fitters[side].fit(outcome, row) if self.fitters else None


class FleetPlanner:
    """Plans the nodes of a cluster. ``factories`` are one or two sides; ``fit`` is what is to fit."""

    def __init__(
        self, cluster: Cluster, factories: Sequence[NodeFactory], fit: FitRequest | None = None
    ) -> None:
        self._cluster = cluster
        self._factories = factories
        self._choosing = [one for one in factories[1:] if not one.is_for_all]
        self._fit = fit
        self.templates = TemplateStore()
        self._shapes = ShapeStore()
        self._nodes: dict[str, NodePlanner] = {}
        self._kinds: dict[tuple[int, ...], _Kind] = {}
        self._seconds: dict[tuple[int, int], SecondSide] = {}

    @property
    def compared(self) -> int:
        """How many pairs of templates were compared."""
        return self._shapes.count

    def results(self, names: Iterable[str]) -> Iterator[NodeResult]:
        """The nodes of these names."""
        for name in names:
            yield self._result(name)

    def _result(self, name: str) -> NodeResult:
        bundled = self._cluster.bundled.get(name)
        if bundled is not None:
            if not bundled.nodes:
                return self._broken(name, list(bundled.problems))
            found = [FoundNode(one, 0, bundled.problems) for one in bundled.nodes]
            return self._planned(name, found[0], self._made(found), lambda: bundled.problems)
        row = self._cluster.nodes[name]
        try:
            first = self._factories[0].of(row)
            # a side that chooses nobody by labels has the kinds of the first, or fewer
            kinds = first.kind, *[one.equal(row).kind for one in self._choosing]
            kind = self._kinds.get(kinds)
            if kind is None:
                found = [first, *[one.of(row) for one in self._factories[1:]]]
                kind = self._kinds[kinds] = self._made(found)
        except BadInputs as error:
            rows = [_unread(one, row.where) for one in error.faults]
            return self._broken(name, rows)
        return self._planned(name, first, kind, lambda: self._factories[1].of(row).problems)

    def _planner(self, node: Node) -> NodePlanner:
        """The planner of nodes that are equal to this one, on both sides."""
        key = node_key(node)
        planner = self._nodes.get(key)
        if planner is None:
            planner = NodePlanner(node, self._cluster.shapes.pods, self.templates)
            self._nodes[key] = planner
        return planner

    def _made(self, found: Sequence[FoundNode]) -> _Kind:
        """What is shared by nodes like this one on all sides."""
        planners = [self._planner(one.node) for one in found]
        fitters = [] if self._fit is None else [Fitter(one, self._fit) for one in planners]
        if len(found) == 1:
            return _Kind(planners, None, False, (), fitters)
        pair = id(planners[0]), id(planners[1])
        second = self._seconds.get(pair)
        if second is None:
            second = self._seconds[pair] = SecondSide(planners[0], planners[1], self._shapes)
        same = planners[0] is planners[1] and found[0].problems == found[1].problems
        severities = tuple([one.severity for one in found[1].problems])
        return _Kind(planners, second, same, severities, fitters)

    def _planned(self, name: str, found: FoundNode, kind: _Kind, told: Told) -> NodeResult:
        groups = self._cluster.groups(name)
        second = kind.second
        whole = second is not None and second.is_exact
        first = kind.planners[0].plan(name, groups, found.problems, whole)
        row = self._cluster.nodes[name]
        fit = kind.fit(0, first.outcome, row)
        if second is None:
            return NodeResult(first.outcome, fit=fit)
        if kind.same:
            change = unchanged(kind.planners[0], first, groups)
            return NodeResult(first.outcome, first.outcome, change, fit, fit)
        if whole:
            after, change = second.whole(first, groups, told)
        else:
            after, change = second.of(first, groups, kind.severities, told)
        return NodeResult(first.outcome, after, change, fit, kind.fit(1, after, row))

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
    problems: ProblemTable = cluster.problems
    nodes: list[NodeResult] = []
    for one in results:
        outcome = one.outcome
        problems.add_all(outcome.problems, outcome.name)
        after = None if one.after is None else _counted(one.after)
        nodes.append(replace(one, outcome=_counted(outcome), after=after))
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
        len(cluster.used),
        "" if fit is None else fit.pod.key,
        () if fit is None else _ignored(cluster, fit),
    )


def _counted(outcome: NodeOutcome) -> NodeOutcome:
    """The outcome with the number of its problems instead of them."""
    count = outcome.problem_count + len(outcome.problems)
    return replace(outcome, problem_count=count, problems=())


def _ignored(cluster: Cluster, fit: FitRequest) -> tuple[str, ...]:
    """What is not considered of the pod and of the nodes."""
    if not cluster.bundled:
        return fit.ignored
    wanted = {SELECTOR: bool(fit.labels), AFFINITY: fit.affinity is not None, TAINTS: True}
    return (*fit.ignored, *(name for name, is_wanted in wanted.items() if is_wanted))


def _input_rows(cluster: Cluster) -> Iterator[tuple[Problem, str | None]]:
    """What is to be said of the input as a whole."""
    for name, count in cluster.homeless().items():
        pods = "1 pod is" if count == 1 else f"{count} pods are"
        message = f"{pods} on a node that the input lacks"
        hint = "fetch both: kubectl get nodes,pods -A -o json"
        yield Problem("warning", f"node {name}", message, hint), name
    if cluster.skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(cluster.skipped.items()))
        hint = "a fleet is nodes and the pods on them"
        yield Problem("info", "input", f"{kinds} skipped", hint), None
