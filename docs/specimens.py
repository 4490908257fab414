"""One example sentence for each rule that a small set of pods meets, over releases and nodes."""

from __future__ import annotations


def sentences() -> dict[str, str]:
    """Rule id to a derivation with numbers put in."""
    return {}
