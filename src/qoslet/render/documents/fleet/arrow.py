"""A fleet as a table of nodes for notebooks: Parquet or an Arrow stream, with pyarrow."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qoslet.errors import CannotDo

if TYPE_CHECKING:
    from qoslet.core.fleet.plan import Fleet, NodeResult

_AMOUNTS = ("capacity", "allocatable", "schedulable", "enforced", "requested")
_UNREQUESTED = ("pid", "pods")
"""What a node has and no pod requests by name."""


def check(form: str) -> None:
    """Raise CannotDo where pyarrow is missing."""
    try:
        import_module("pyarrow")
    except ImportError:
        hint = "pip install 'qoslet[fleet]', or use -o json"
        raise CannotDo("needs pyarrow", where=f"-o {form}", hint=hint) from None


def columns(fleet: Fleet) -> dict[str, list[Any]]:
    """A column for each number of a node, CPU in millicores and all else in units; null where a node
    is broken, or does not say."""
    resources = sorted(
        {name for one in fleet.nodes for field in _AMOUNTS for name in getattr(one.outcome, field)}
    )
    rows = [_row(one, resources) for one in fleet.nodes]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _row(result: NodeResult, resources: list[str]) -> dict[str, Any]:
    outcome = result.outcome
    row: dict[str, Any] = {"name": outcome.name, "outcome": outcome.state, "pods": outcome.pods}
    row["problems"] = outcome.problem_count
    if outcome.state != "broken":
        row |= {"kubernetes": outcome.kubernetes, "hierarchy": outcome.hierarchy}
        for field in _AMOUNTS:
            given = getattr(outcome, field)
            for name in resources:
                unit = "_milli" if name == "cpu" else ""
                is_zero = field == "requested" and name not in _UNREQUESTED
                row[f"{field}_{name}{unit}"] = given.get(name, 0 if is_zero else None)
        row |= {
            "throttled": outcome.throttled,
            "overcommitted": outcome.overcommitted,
            "margin_at_requests": outcome.at_requests,
            "margin_at_limits": outcome.at_limits,
        }
    change, fit = result.change, result.fit
    if change is not None:
        row |= {"worse": change.worse, "better": change.better, "changed": change.changed}
        row["pods_with_less_cpu"] = change.pods_with_less_cpu
        row["pods_with_more_cpu"] = change.pods_with_more_cpu
    if fit is not None:
        row |= {"fit": fit.count, "binding_resource": fit.binding}
    if result.fit_after is not None:
        row |= {"fit_after": result.fit_after.count}
        row["binding_resource_after"] = result.fit_after.binding
    return row


def _empty_type(name: str, found: list[Any]) -> str | None:
    """The type of a column without any value: that of other fleets, so that tables can be joined."""
    if any(one is not None for one in found):
        return None
    return "string" if name.startswith("binding_resource") else "int64"


def table(fleet: Fleet, form: str) -> bytes:
    """The file. Raises CannotDo where pyarrow is missing."""
    check(form)
    arrow = import_module("pyarrow")
    made = arrow.table(
        {
            name: arrow.array(found, _empty_type(name, found))
            for name, found in columns(fleet).items()
        }
    )
    sink = arrow.BufferOutputStream()
    if form == "parquet":
        import_module("pyarrow.parquet").write_table(made, sink)
    else:
        with arrow.ipc.new_stream(sink, made.schema) as writer:
            writer.write_table(made)
    return bytes(sink.getvalue().to_pybytes())
