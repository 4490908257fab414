"""Every rule by its id: the source it stands on and how to say it with its numbers.

A rule function registers itself where it is written (``@rule``), so the arithmetic, the source
and the sentence stand in one place. ``Setting.rule`` and the published schema name these ids.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol

from msgspec import Struct


class Rule(Struct, frozen=True):
    """``because`` takes the setting's inputs and returns one line; ``source`` cites."""

    id: str
    source: str
    because: Callable[..., str]


MODULES = ("cpu", "hugetlb", "memory", "oci", "oom", "pids", "swap", "windows")
"""The modules of this package that register rules."""
BESIDE = ("qoslet.core.managers.cpu_manager", "qoslet.core.managers.memory_manager")
"""The modules elsewhere that do."""


class _Rules(dict[str, Rule]):
    """The rules of the modules that are imported; asking for another one imports the others."""

    def __missing__(self, id: str) -> Rule:
        # most rules are in the module that their id begins with
        family = id.partition(".")[0]
        if family in MODULES:
            import_module(f"{__package__}.{family}")
        if id not in self:
            register_all()
        if id not in self:
            raise KeyError(id)
        return self[id]


RULES: dict[str, Rule] = _Rules()


def register_all() -> None:
    """Import every module of rules. A plan needs few of them; whoever says reasons or lists the
    rules needs all."""
    for name in (*(f"{__package__}.{one}" for one in MODULES), *BESIDE):
        import_module(name)


class Ruled(Protocol):
    """What came from a rule, with the numbers that went into it."""

    @property
    def rule(self) -> str:
        """The rule's id."""

    @property
    def inputs(self) -> tuple[object, ...]:
        """Its numbers."""


class Reasoned:
    """What can say why it is so."""

    __slots__ = ()

    @property
    def because(self: Ruled) -> str:
        """The derivation in one line, with the numbers put in."""
        return RULES[self.rule].because(*self.inputs)

    @property
    def source(self: Ruled) -> str:
        """The document or code that the rule stands on."""
        return RULES[self.rule].source


def rule(id: str, source: str) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Register the sentence of a rule under ``id``."""

    def register(because: Callable[..., str]) -> Callable[..., str]:
        RULES[id] = Rule(id, source, because)
        return because

    return register
