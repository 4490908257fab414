"""Every rule by its id: its source, and the function that makes its sentence.

``@rule`` registers a sentence beside its arithmetic. ``Setting.rule`` and the published schema use
these ids.
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
"""Modules of other packages that register rules."""


class _Rules(dict[str, Rule]):
    """The rules of the imported modules; a missing id imports the others."""

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
    """Import every module of rules. A plan needs few of them; sentences and lists need all."""
    for name in (*(f"{__package__}.{module}" for module in MODULES), *BESIDE):
        import_module(name)


class Ruled(Protocol):
    """Has the id of a rule and its inputs."""

    @property
    def rule(self) -> str:
        """The rule's id."""

    @property
    def inputs(self) -> tuple[object, ...]:
        """The inputs of its sentence."""


class Reasoned:
    """Adds the sentence and the source of the rule."""

    __slots__ = ()

    @property
    def because(self: Ruled) -> str:
        """The derivation in one line, with the numbers."""
        return RULES[self.rule].because(*self.inputs)

    @property
    def source(self: Ruled) -> str:
        """The document or code that the rule comes from."""
        return RULES[self.rule].source


def rule(id: str, source: str) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Register the sentence of a rule under ``id``."""

    def register(because: Callable[..., str]) -> Callable[..., str]:
        RULES[id] = Rule(id, source, because)
        return because

    return register
