"""What memory values are worth under their ancestors: protection, and the limit that binds first.

``memory.min`` and ``memory.low`` are handed down: no group keeps more than its ancestors hold for
it; where children claim more than their parent has, each gets a share by what it uses of its
claim; where they claim less, ``memory_recursiveprot`` hands the rest to those that use more than
they claim. Source: mm/page_counter.c effective_protection, page_counter_calculate_protection;
Documentation/admin-guide/cgroup-v2.rst "Memory Interface Files".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from qoslet.core.memsample import NO_LIMIT, MemorySample

PAGE = 4096

LimitFile = Literal["memory.high", "memory.max"]


class Claim(Struct, frozen=True, gc=False):
    """One group: its path, what it uses, and its own values. Bytes; ``NO_LIMIT`` is no limit."""

    path: str
    usage: int
    min: int = 0
    low: int = 0
    high: int = NO_LIMIT
    max: int = NO_LIMIT


class Binding(Struct, frozen=True, gc=False):
    """A limit on a group or above it. ``room`` is what may still be used below it, in bytes."""

    path: str
    file: LimitFile
    limit: int
    room: int


class Worth(Struct, frozen=True, gc=False):
    """What a group really has. ``hard`` bytes are never reclaimed, ``soft`` only where nothing
    else is left; ``binds`` is the limit that is reached first, None where there is none."""

    hard: int
    soft: int
    binds: Binding | None = None

    @property
    def protected(self) -> int:
        """Bytes that reclaim leaves alone as long as it finds others."""
        return max(self.hard, self.soft)


def claim_of(sample: MemorySample) -> Claim:
    """One look at a group as a claim; files that the kernel does not have claim nothing."""
    high, most = sample.high, sample.max
    return Claim(
        sample.path,
        sample.current,
        sample.min or 0,
        sample.low or 0,
        NO_LIMIT if high is None else high,
        NO_LIMIT if most is None else most,
    )


def effective(
    usage: int, parent_usage: int, setting: int, parent: int, siblings: int, recursive: bool
) -> int:
    """The effective protection of one group, in the unit of its arguments.

    ``parent`` is the parent's effective protection, ``siblings`` the sum over the parent's
    children of what each uses within its setting.
    """
    protected = min(usage, setting)
    if siblings > parent:
        return protected * parent // siblings
    if recursive and parent > siblings and parent_usage > siblings and usage > protected:
        spare = (parent - siblings) * (usage - protected) // (parent_usage - siblings)
        return protected + spare
    return protected


def solve(
    claims: Iterable[Claim], *, recursive: bool, page: int = PAGE, root: str = ""
) -> dict[str, Worth]:
    """What each group's values are worth, by path.

    ``recursive``: the hierarchy is mounted with ``memory_recursiveprot``. ``root`` is the group
    that is short of memory, the node's own root unless told: what it and those above it claim
    protects nothing inside. Ancestors that are not among the claims protect nothing; a group
    that uses nothing has nothing to protect.
    """
    tree = _Tree(claims, page)
    found: dict[str, Worth] = {}
    effective_of: dict[str, tuple[int, int]] = {}
    binds: dict[str, Binding | None] = {}
    for path in tree.order:
        claim = tree.given.get(path)
        first = binds[path] = nearer(claim, binds.get(path.rpartition("/")[0]))
        if not _below(path, root):
            continue
        kept = tree.protection(path, effective_of, recursive, root)
        effective_of[path] = kept
        if claim is not None:
            found[path] = Worth(kept[0] * page, kept[1] * page, first)
    return found


class Short(Struct, frozen=True, gc=False):
    """A group that holds less than its children claim, in bytes."""

    path: str
    file: str
    held: int
    claimed: int


def short(claims: Iterable[Claim], *, page: int = PAGE) -> dict[tuple[str, str], Short]:
    """The groups that hold less than their children claim and use, by path and file."""
    tree = _Tree(claims, page)
    found: dict[tuple[str, str], Short] = {}
    for path in tree.order:
        for file, held, claimed in tree.holds(path):
            if held < claimed:
                found[path, file] = Short(path, file, held * page, claimed * page)
    return found


def nearer(claim: Claim | None, above: Binding | None) -> Binding | None:
    """The limit that leaves least room: one of the group, or the one found for those above it. Of
    equal ones the nearest."""
    if claim is None:
        return above
    file: LimitFile = "memory.high" if claim.high <= claim.max else "memory.max"
    limit = min(claim.high, claim.max)
    if limit >= NO_LIMIT:
        return above
    room = max(0, limit - claim.usage)
    if above is not None and above.room < room:
        return above
    return Binding(claim.path, file, limit, room)


def _below(path: str, root: str) -> bool:
    return path != root and path.startswith(f"{root.rstrip('/')}/")


def parents(path: str) -> Iterator[str]:
    """The paths above a path, the nearest first, without the root."""
    above = path.rpartition("/")[0]
    while above:
        yield above
        above = above.rpartition("/")[0]


class _Tree:
    """Claims in pages, with the groups between them that nobody named."""

    def __init__(self, claims: Iterable[Claim], page: int) -> None:
        self.given = {claim.path: claim for claim in claims}
        self._page = page
        unnamed = {
            above for path in self.given for above in parents(path) if above not in self.given
        }
        self._usage = {path: claim.usage // page for path, claim in self.given.items()}
        self.order = sorted((*self.given, *unnamed), key=lambda path: path.count("/"))
        self._children: dict[str, list[str]] = {}
        for path in self.order:
            self._children.setdefault(path.rpartition("/")[0], []).append(path)
        for path in reversed(self.order):
            if path in unnamed:
                self._usage[path] = sum(self._usage[one] for one in self._children[path])
        self._claimed: dict[str, tuple[int, int]] = {}

    def _settings(self, path: str) -> tuple[int, int]:
        claim = self.given.get(path)
        return (0, 0) if claim is None else (claim.min // self._page, claim.low // self._page)

    def _within(self, parent: str) -> tuple[int, int]:
        """What the children of a group use within their settings."""
        if parent not in self._claimed:
            hard = soft = 0
            for path in self._children[parent]:
                usage, (least, low) = self._usage[path], self._settings(path)
                hard += min(usage, least)
                soft += min(usage, low)
            self._claimed[parent] = hard, soft
        return self._claimed[parent]

    def holds(self, path: str) -> Iterator[tuple[str, int, int]]:
        """File, setting and what the children use within theirs, in pages."""
        if path in self._children:
            yield from zip(
                ("memory.min", "memory.low"),
                self._settings(path),
                self._within(path),
                strict=True,
            )

    def protection(
        self, path: str, above: Mapping[str, tuple[int, int]], recursive: bool, root: str
    ) -> tuple[int, int]:
        """Effective hard and soft protection in pages."""
        usage, settings = self._usage[path], self._settings(path)
        parent = path.rpartition("/")[0]
        if not usage:
            return 0, 0
        if parent == root:
            return settings
        all_of, within = self._usage[parent], self._within(parent)
        kept = above[parent]
        return (
            effective(usage, all_of, settings[0], kept[0], within[0], recursive),
            effective(usage, all_of, settings[1], kept[1], within[1], recursive),
        )
