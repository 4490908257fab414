"""Groups steps into jobs of systemd: one piece for each unit, waves of independent pieces.

systemd sets all properties of a unit at once and accepts many calls before it answers the first.
Adjacent steps of one cgroup become one piece, values that can be set at creation join it, and
pieces of cgroups that are not ancestors of each other become one wave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from qoslet.core.cgroup.names import parents
from qoslet.core.reconcile.steps import Step, StepKind

Numbered = tuple[int, Step]
"""A step with its number in the list."""


class Piece(Struct, gc=False):
    """Work on one cgroup. ``steps`` are the steps with their numbers in the list, in its order. A
    piece that only creates an ancestor has no steps, and the ``number`` of the first descendant."""

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

    ``at_creation`` says whether a value can be set when its cgroup is created. ``above`` names the
    ancestors to create before a cgroup, topmost first; each is created once.
    """
    result: list[Piece] = []
    made: dict[str, Piece] = {}
    for number, step in enumerate(steps):
        if step.kind == "create":
            for path in above(step.path):
                if path not in made:
                    made[path] = Piece("create", path, number, [])
                    result.append(made[path])
            made[step.path] = Piece("create", step.path, number, [(number, step)])
            result.append(made[step.path])
            continue
        piece = made.get(step.path)
        if step.kind == "set" and piece is not None and _joins(step, piece, at_creation):
            piece.steps.append((number, step))
            continue
        last = result[-1] if result else None
        if last is not None and last.kind == step.kind == "set" and last.path == step.path:
            last.steps.append((number, step))
        else:
            result.append(Piece(step.kind, step.path, number, [(number, step)]))
        if step.kind == "remove":
            made.pop(step.path, None)
    return result


def _joins(step: Step, piece: Piece, at_creation: Callable[[Step], bool]) -> bool:
    """Whether a value can be set with the creation: only the first of its file."""
    return at_creation(step) and all(step.file != earlier.file for _, earlier in piece.steps)


def waves(work: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Adjacent pieces whose cgroups are not ancestors of each other: they may run at once."""
    wave: list[Piece] = []
    paths: set[str] = set()
    inner: set[str] = set()
    for piece in work:
        above = (*parents(piece.path), "/")
        if piece.path in inner or not paths.isdisjoint((*above, piece.path)):
            yield wave
            wave, paths, inner = [], set(), set()
        wave.append(piece)
        paths.add(piece.path)
        inner.update(above)
    if wave:
        yield wave


def runs(steps: Sequence[Numbered], by_property: Callable[[Step], bool]) -> list[list[Numbered]]:
    """Adjacent values for one call, each file once; a value that is no property has its own."""
    calls: list[list[Numbered]] = []
    for number, step in steps:
        last = calls[-1] if calls else []
        joins = bool(last) and by_property(step) and by_property(last[0][1])
        if joins and all(step.file != earlier.file for _, earlier in last):
            last.append((number, step))
        else:
            calls.append([(number, step)])
    return calls
