"""What an update of a container's resources sends, as a plain map like those in pod records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_UNLIMITED = {"cpu_quota": -1, "memory_limit_in_bytes": -1}
_DEFAULTS = {
    "memory.high": "max",
    "memory.low": "0",
    "memory.max": "max",
    "memory.min": "0",
    "memory.oom.group": "0",
    "memory.swap.max": "max",
}
_NEVER = ("oom_score_adj",)
"""Fields that no runtime changes while the process runs."""


def resources_change(had: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The resources to send so that a container changes from ``had`` to ``wanted``: the complete set, or
    nothing if they are equal. A runtime keeps the values that a message leaves out, so a value that is
    no longer wanted is sent as "not limited"."""
    if _plain(had) == _plain(wanted):
        return {}
    block = _plain(wanted)
    for field, value in _UNLIMITED.items():
        if had.get(field) and not wanted.get(field):
            block[field] = value
    gone = had.get("unified", {}).keys() - wanted.get("unified", {}).keys()
    entries = {file: _DEFAULTS[file] for file in gone if file in _DEFAULTS}
    if entries or "unified" in block:
        block["unified"] = {**entries, **block.get("unified", {})}
    return block


def _plain(block: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that an update can change."""
    return {field: value for field, value in block.items() if field not in _NEVER}
