"""Problems of many nodes: the same one of several is one row."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from qoslet.core.problem import GRAVEST_FIRST, Problem, Severity

ROWS_KEPT = 5000
"""Different rows that are kept; more are counted."""


class FleetProblem(Struct, gc=False):
    """A problem, the first node that has it, and how often it occurs."""

    problem: Problem
    node: str | None
    count: int = 1


class ProblemTable:
    """The problems in the order in which they first came. ``dropped`` counts those that were not
    kept."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], FleetProblem] = {}
        self.counts: dict[Severity, int] = {"error": 0, "warning": 0, "info": 0}
        self.dropped = 0

    def add(self, problem: Problem, node: str | None = None) -> None:
        """One problem; ``node`` is the name of the node that has it."""
        self.counts[problem.severity] += 1
        # broken documents are named one by one
        place = problem.where if problem.severity == "error" else ""
        key = (place, problem.message, problem.hint)
        known = self._rows.get(key)
        if known is not None:
            known.count += 1
        elif len(self._rows) < ROWS_KEPT:
            self._rows[key] = FleetProblem(problem, node)
        else:
            self.dropped += 1

    def add_all(self, problems: Iterable[Problem], node: str) -> None:
        """All problems of a node."""
        for problem in problems:
            self.add(problem, node)

    @property
    def total(self) -> int:
        """How many problems there are."""
        return sum(self.counts.values())

    def rows(self) -> list[FleetProblem]:
        """The gravest first."""
        return sorted(
            self._rows.values(), key=lambda one: GRAVEST_FIRST.index(one.problem.severity)
        )
