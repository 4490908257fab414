"""Every rule by its id: the source it stands on and how to say it with its numbers.

A rule function registers itself where it is written (``@rule``), so the arithmetic, the source
and the sentence stand in one place. ``Setting.rule`` and the published schema name these ids.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class Rule(Struct, frozen=True):
    """``because`` takes the setting's inputs and returns one line; ``source`` cites."""

    id: str
    source: str
    because: Callable[..., str]


RULES: dict[str, Rule] = {}


def rule(id: str, source: str) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Register the sentence of a rule under ``id``."""

    def register(because: Callable[..., str]) -> Callable[..., str]:
        RULES[id] = Rule(id, source, because)
        return because

    return register
