"""What steps are going to do, as entries of the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from qoslet.core.reconcile.journal import CreateIntent, Entry, Removed, Set
from qoslet.core.reconcile.steps import Step
from qoslet.host.linux.openat import parent

Exists = Callable[[str], bool]
"""Whether there is a group. Raises ValueError for what is no plain path."""


def intents(
    steps: Sequence[Step],
    befores: Mapping[int, str],
    unmade: Callable[[str], list[str]],
    exists: Exists,
) -> list[Entry]:
    """The entries of ``steps``. ``befores`` are the values that they replace, by step number;
    ``unmade`` gives the groups down to one that are not known to exist."""
    found: list[Entry] = []
    there: dict[str, bool] = {}
    new: set[str] = set()
    for number, step in enumerate(steps):
        match step.kind:
            case "set":
                found.append(Set(step.path, step.file, befores.get(number), step.value))
            case "create":
                chain = [*unmade(parent(step.path)), step.path]
                found += making(chain, there, new, exists)
                there.update(dict.fromkeys(chain, True))
            case "remove":
                found.append(Removed(step.path))
                there[step.path] = False
    return found


def making(
    chain: Iterable[str], there: Mapping[str, bool], new: set[str], exists: Exists
) -> list[Entry]:
    """Those of ``chain`` that are not there are going to be made; ``there`` is what the steps before
    come to, ``new`` what they make."""
    found: list[Entry] = []
    try:
        for path in chain:
            known = there.get(path)
            if known is None:
                # a group that is not there has none below it
                known = parent(path) not in new and exists(path)
            if not known:
                found.append(CreateIntent(path))
                new.add(path)
    except ValueError:
        return []  # its step is refused
    return found
