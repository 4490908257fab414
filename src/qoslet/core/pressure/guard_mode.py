"""What the guard of memory.high may do, and what it may where nobody says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from qoslet.core.versions.kubernetes import MemoryQosVariant

Mode = Literal["off", "observe", "act"]
MODES: tuple[Mode, ...] = ("off", "observe", "act")

WayToEnd = tuple[Literal["end", "evict", "none"], str]
"""How a container is ended that has to be, and why so."""


def default_mode(variant: MemoryQosVariant) -> Mode:
    """The mode if none is configured: ``act`` with the variant ``qoslet``, ``observe`` with the
    others."""
    if variant == "off":
        return "off"
    return "act" if variant == "qoslet" else "observe"
