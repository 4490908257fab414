"""What other releases, runtimes and variants of Memory QoS would write, as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Axis = Literal["kubernetes", "memoryQos", "runtime"]


class Alternative(Struct, frozen=True):
    """The value in a range of profiles; None if they do not write the file."""

    axis: Axis
    profiles: str
    value: str | None
    current: bool


def grouped(rows: Sequence[tuple[Axis, str, str | None]], now: str) -> list[Alternative]:
    """Adjacent profiles with the same value as one row, such as ``1.22-1.26``."""
    rows_by_value: list[Alternative] = []
    first = last = ""
    for index, (axis, name, value) in enumerate(rows):
        previous = rows[index - 1] if index else None
        ranged = axis == "kubernetes" and name != "design"
        if previous is None or previous[2] != value or (axis == "kubernetes" and not ranged):
            first = name
            rows_by_value.append(Alternative(axis, name, value, name == now))
        else:
            last = name
            before = rows_by_value[-1]
            text = f"{first}-{last}" if ranged else f"{before.profiles}, {name}"
            rows_by_value[-1] = Alternative(axis, text, value, before.current or name == now)
    return rows_by_value
