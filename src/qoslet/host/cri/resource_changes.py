"""What an update of a container's resources sends; needs no message of the CRI, as records do not."""

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
"""Of a process that runs: no runtime changes it."""


def resources_change(had: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The resources that an update sends so that a container that has ``had`` gets ``wanted``: the
    complete set; empty where nothing differs. A runtime keeps what a message leaves out, so what is
    not planned any more is sent as the value that means "not limited"."""
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
    """Without what cannot be changed."""
    return {field: value for field, value in block.items() if field not in _NEVER}
