"""Flags of a kubelet inside documents of those who start it.

Source: cmd/kubelet/app/options/options.go: a flag stands above the configuration, one of a map adds
to what the same flag said before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from qoslet.core.node.command_line.kubelet_flags import WITHOUT_RESOURCES
from qoslet.core.node.faults import Faults, close_to, kind_of, place, shown
from qoslet.core.node.flags import FLAG_ROWS, decode
from qoslet.core.problem import Problem

Fields = dict[str, tuple[Any, str]]
Argument = tuple[Any, Any, str]
"""Name, value and place of a flag; whatever stands where they are to be."""


class Arguments(Struct):
    """What flags say: fields of the KubeletConfiguration, the node's name, and what has no
    effect."""

    fields: Fields = {}
    name: tuple[str, str] | None = None
    problems: list[Problem] = []


def read_arguments(
    faults: Faults, arguments: Iterable[Argument], where: str, refused_by: str = "its program"
) -> Arguments:
    """The flags that stand at ``where``; ``refused_by`` takes only texts."""
    found = Arguments()
    rows = {name: row for row in FLAG_ROWS for name in row.names if row.config is not None}
    idle: list[str] = []
    for name, text, at in arguments:
        if not (isinstance(name, str) and isinstance(text, str)):
            message = f"must be a text, not {kind_of(text if isinstance(name, str) else name)}"
            found.problems.append(no_effect(at, message, f"quote it: {refused_by} refuses it"))
            continue
        row = rows.get(f"--{name.lstrip('-')}")
        if row is not None and row.config is not None:
            value = decode(faults, row, text)
            if value is not None:
                before = found.fields.get(row.config, (None, ""))[0]
                if isinstance(before, Mapping) and isinstance(value, Mapping):
                    value = {**before, **value}
                found.fields[row.config] = (value, f"{where}.{row.names[0][2:]}")
        elif name.lstrip("-") in WITHOUT_RESOURCES:
            idle.append(name.lstrip("-"))
            if idle[-1] == "hostname-override":
                found.name = (text, at)
        else:
            near = close_to(name, (*(known[2:] for known in rows), *WITHOUT_RESOURCES))
            message = f"{shown(name)} is not a flag of a kubelet"
            found.problems.append(no_effect(at, message, near or "remove it"))
    if idle:
        message = f"{', '.join(sorted(set(idle)))}: nothing about resources"
        found.problems.append(Problem("info", place(where), message, ""))
    return found


def no_effect(where: str, message: str, hint: str) -> Problem:
    """That something at ``where`` is passed over."""
    return Problem("warning", place(where), f"{message} and has no effect", hint)
