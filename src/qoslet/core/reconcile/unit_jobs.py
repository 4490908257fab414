"""Steps as the work of a service manager: one piece for each unit, pieces that may go together.

Systemd sets all properties of a unit at once and takes many calls before it answers the first, so
steps are gathered: neighbours of the same group become one piece, values that can be given at
creation join it, and pieces of groups that are not above each other make one wave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from qoslet.core.reconcile.steps import Step, StepKind

Numbered = tuple[int, Step]
"""A step with its number in the list."""


class Piece(Struct, gc=False):
    """Work on one group. ``steps`` are the steps with their numbers in the list, in its order;
    a piece that only makes what others stand in has none, and ``number`` of the first of those."""

    kind: StepKind
    path: str
    number: int
    steps: list[Numbered]


def pieces(
    steps: Sequence[Step],
    at_creation: Callable[[Step], bool],
    above: Callable[[str], Sequence[str]],
) -> list[Piece]:
    """The pieces, in the order of their first steps.

    ``at_creation`` says whether a value can be given when its group is made. ``above`` names
    the groups that must be made before a group, from above; each is made once.
    """
    found: list[Piece] = []
    made: dict[str, Piece] = {}
    for number, step in enumerate(steps):
        if step.kind == "create":
            for path in above(step.path):
                if path not in made:
                    made[path] = Piece("create", path, number, [])
                    found.append(made[path])
            made[step.path] = Piece("create", step.path, number, [(number, step)])
            found.append(made[step.path])
            continue
        piece = made.get(step.path)
        if step.kind == "set" and piece is not None and _joins(step, piece, at_creation):
            piece.steps.append((number, step))
            continue
        last = found[-1] if found else None
        if last is not None and last.kind == step.kind == "set" and last.path == step.path:
            last.steps.append((number, step))
        else:
            found.append(Piece(step.kind, step.path, number, [(number, step)]))
        if step.kind == "remove":
            made.pop(step.path, None)
    return found


def _joins(step: Step, piece: Piece, at_creation: Callable[[Step], bool]) -> bool:
    """Whether a value may be given with the creation: only the first of its file."""
    return at_creation(step) and all(step.file != one.file for _, one in piece.steps)


def waves(work: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Neighbouring pieces that do not stand above each other: they may be done at once."""
    wave: list[Piece] = []
    paths: set[str] = set()
    inner: set[str] = set()
    for piece in work:
        ancestors = _ancestors(piece.path)
        if piece.path in inner or not paths.isdisjoint((*ancestors, piece.path)):
            yield wave
            wave, paths, inner = [], set(), set()
        wave.append(piece)
        paths.add(piece.path)
        inner.update(ancestors)
    if wave:
        yield wave


def runs(steps: Sequence[Numbered], by_property: Callable[[Step], bool]) -> list[list[Numbered]]:
    """Neighbouring values that go into one call, each file once; a value for a file alone."""
    found: list[list[Numbered]] = []
    for number, step in steps:
        last = found[-1] if found else []
        joins = bool(last) and by_property(step) and by_property(last[0][1])
        if joins and all(step.file != one.file for _, one in last):
            last.append((number, step))
        else:
            found.append([(number, step)])
    return found


def _ancestors(path: str) -> list[str]:
    parts = path.split("/")[1:] if path != "/" else []
    return ["/" + "/".join(parts[:count]) for count in range(len(parts))]
