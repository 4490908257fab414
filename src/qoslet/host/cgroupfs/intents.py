"""What steps are going to do, as entries of the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from qoslet.core.reconcile.journal import CreateIntent, Entry, Removed, Set
from qoslet.core.reconcile.steps import Step
from qoslet.host.linux.openat import parent

Identity = Callable[[str], int | None]
"""The inode of a group; None where there is none. Raises ValueError for what is no plain path."""


def intents(
    steps: Sequence[Step],
    befores: Mapping[int, str],
    unmade: Callable[[str], list[str]],
    identity: Identity,
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
                found += making(chain, there, new, identity)
                there.update(dict.fromkeys(chain, True))
            case "remove":
                found.append(Removed(step.path))
                there[step.path] = False
    return found


def making(
    chain: Iterable[str], there: Mapping[str, bool], new: set[str], identity: Identity
) -> list[Entry]:
    """Those of ``chain`` that are not there are going to be made; ``there`` is what the steps before
    come to, ``new`` what they make."""
    found: list[Entry] = []
    try:
        for path in chain:
            exists = there.get(path)
            if exists is None:
                # a group that is not there has none below it
                exists = parent(path) not in new and identity(path) is not None
            if not exists:
                found.append(CreateIntent(path))
                new.add(path)
    except ValueError:
        return []  # its step is refused
    return found
