"""A fleet as a document: ``kind: Fleet`` of ``qoslet/v1``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from qoslet.core.fleet.change import RATIOS
from qoslet.core.quantity import canonical, from_int, from_milli
from qoslet.render.documents import API_VERSION, Document
from qoslet.render.units import rounded, size

if TYPE_CHECKING:
    from qoslet.core.fleet.change import NodeChange
    from qoslet.core.fleet.fit import Fit
    from qoslet.core.fleet.outcome import Amounts, NodeOutcome
    from qoslet.core.fleet.plan import Fleet, NodeResult
    from qoslet.core.fleet.problems import FleetProblem

STATES = ("ok", "warning", "error", "broken")
AMOUNTS = ("capacity", "allocatable", "schedulable", "enforced", "requested")


def counted(number: int, what: str) -> str:
    """So many of something."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def grave(result: NodeResult) -> tuple[int, int]:
    """The place of a node among those that need a look first, on whichever side that is."""
    sides = result.outcome, result.after or result.outcome
    return -max(STATES.index(one.state) for one in sides), result.outcome.at_requests or 0


def outcome_text(result: NodeResult, arrow: str) -> str:
    """What becomes of a node, on both sides where they differ."""
    state, after = result.outcome.state, result.after
    return state if after is None or after.state == state else f"{state} {arrow} {after.state}"


def fit_texts(result: NodeResult, arrow: str) -> tuple[str, str]:
    """How many pods fit and what binds, on both sides where they differ; empty where it is not known."""
    fits = [one for one in (result.fit, result.fit_after) if one is not None]
    columns = [str(one.count) for one in fits], [one.binding for one in fits]
    count, binding = (f" {arrow} ".join(dict.fromkeys(column)) for column in columns)
    return count, binding


def other_outcomes(nodes: Sequence[NodeResult]) -> str:
    """How many nodes have which outcome on the other side; empty where it is that of the first."""
    found = [(one.outcome.state, (one.after or one.outcome).state) for one in nodes]
    if all(before == after for before, after in found):
        return ""
    counts = {state: sum(after == state for _, after in found) for state in STATES}
    return ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)


def requested_part(outcomes: Sequence[NodeOutcome], name: str) -> tuple[int, int, str]:
    """How much of a resource is requested, of how much that the scheduler counts with, and the part
    that this is; empty where there is none."""
    asked = sum(one.requested.get(name, 0) for one in outcomes)
    left = sum(one.schedulable.get(name, 0) for one in outcomes)
    return asked, left, f"{asked * 100 // left}%" if left else ""


def text_of(name: str, amount: int) -> str:
    """An amount of a resource as a quantity."""
    if name == "cpu":
        return canonical(from_milli(amount))
    plain = name == "pods" or name == "pid" or "/" in name
    return canonical(from_int(amount, "DecimalSI" if plain else "BinarySI"))


def brief(name: str, amount: int) -> str:
    """The same for the eye: bytes in whole Mi, and no millicores beside tens of cores."""
    if name != "cpu":
        return size(rounded(amount))
    return text_of(name, amount) if amount < 10_000 else f"{amount / 1000:.1f}".removesuffix(".0")


def fleet_document(fleet: Fleet) -> Document:
    """The whole answer, as ``qoslet fleet -o json`` prints it."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Fleet",
        "nodes": [_node(one) for one in fleet.nodes],
        "totals": totals(fleet),
        "problems": [_problem(one) for one in fleet.problems],
        "moreProblems": fleet.dropped,
    }


def totals(fleet: Fleet) -> Document:
    """The sums of all nodes."""
    planned = [one.outcome for one in fleet.nodes]
    found: Document = {
        "nodes": len(planned),
        "pods": fleet.pods,
        "unscheduled": fleet.unscheduled,
        "ended": fleet.ended,
        "problems": fleet.problem_count,
        "shapes": fleet.shapes,
        "outcomes": {state: sum(one.state == state for one in planned) for state in STATES},
        **{name: _texts(_sum(getattr(one, name) for one in planned)) for name in AMOUNTS},
        "throttled": sum(one.throttled for one in planned),
        "overcommitted": sum(one.overcommitted for one in planned),
    }
    changes = [one.change for one in fleet.nodes if one.change is not None]
    if changes:
        found["changes"] = _sums(changes)
    fits = [one.fit for one in fleet.nodes if one.fit is not None]
    if fits:
        whole = {"pod": fleet.fit_pod, **_fits(fits), "notConsidered": list(fleet.fit_ignored)}
        others = [one.fit_after for one in fleet.nodes if one.fit_after is not None]
        found["fit"] = {**whole, "after": _fits(others)} if others else whole
    return found


def _fits(fits: list[Fit]) -> Document:
    binding: dict[str, int] = {}
    for one in fits:
        binding[one.binding] = binding.get(one.binding, 0) + 1
    return {
        "count": sum(one.count for one in fits),
        "nodes": sum(one.count > 0 for one in fits),
        "bindingResources": dict(sorted(binding.items())),
    }


def _sum(every: Iterable[Amounts]) -> dict[str, int]:
    found: dict[str, int] = {}
    for amounts in every:
        for name, amount in amounts.items():
            found[name] = found.get(name, 0) + amount
    return found


def _texts(amounts: Amounts) -> dict[str, str]:
    return {name: text_of(name, amount) for name, amount in amounts.items()}


def _sums(changes: list[NodeChange]) -> Document:
    return {
        "worse": sum(one.worse for one in changes),
        "better": sum(one.better for one in changes),
        "changed": sum(one.changed for one in changes),
        "podsWithLessCpu": sum(one.pods_with_less_cpu for one in changes),
        "podsWithMoreCpu": sum(one.pods_with_more_cpu for one in changes),
        "cpuRatios": [
            {"below": bound, "pods": sum(one.ratios[at] for one in changes)}
            for at, bound in enumerate([*RATIOS, None])
        ],
    }


def _node(result: NodeResult) -> Document:
    outcome = result.outcome
    found: Document = {"name": outcome.name, "outcome": outcome.state, "pods": outcome.pods}
    found["problems"] = outcome.problem_count
    if outcome.state != "broken":
        found |= _planned(outcome)
    if result.after is not None:
        after: Document = {"outcome": result.after.state, **_planned(result.after)}
        found["after"] = after | (
            {} if result.fit_after is None else {"fit": _fit(result.fit_after)}
        )
    if result.change is not None:
        found["changes"] = _sums([result.change])
        found["changes"].pop("cpuRatios")  # type: ignore[attr-defined]
    if result.fit is not None:
        found["fit"] = _fit(result.fit)
    return found


def _fit(fit: Fit) -> Document:
    return {"count": fit.count, "bindingResource": fit.binding}


def _planned(outcome: NodeOutcome) -> Document:
    return {
        "kubernetes": outcome.kubernetes,
        "hierarchy": None if outcome.hierarchy == "windows" else outcome.hierarchy,
        **{name: _texts(getattr(outcome, name)) for name in AMOUNTS},
        "throttled": outcome.throttled,
        "protection": {
            "claimed": _texts(outcome.claimed),
            "held": _texts(outcome.held),
            "overcommitted": outcome.overcommitted,
        },
        "evictionMargin": {
            "atRequests": _bytes(outcome.at_requests),
            "atLimits": _bytes(outcome.at_limits),
            "podsWithoutLimit": outcome.unlimited,
        },
    }


def _bytes(amount: int | None) -> str | None:
    return None if amount is None else text_of("memory", amount)


def _problem(row: FleetProblem) -> Document:
    problem = row.problem
    return {
        "severity": problem.severity,
        "where": problem.where,
        "message": problem.message,
        "hint": problem.hint,
        "node": row.node,
        "count": row.count,
    }
