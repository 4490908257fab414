"""Effective memory protection of cgroups, and the limit that each one reaches first.

An ancestor's ``memory.min`` and ``memory.low`` bound those below it. If children claim more than
their parent protects, each gets a share in proportion to what it uses of its claim. If they claim
less, ``memory_recursiveprot`` gives the rest to children that use more than they claim.
Source: mm/page_counter.c effective_protection, page_counter_calculate_protection;
Documentation/admin-guide/cgroup-v2.rst "Memory Interface Files".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from qoslet.core.cgroup.interface_files import PROTECTION, UNLIMITED
from qoslet.core.cgroup.names import is_below, parents

if TYPE_CHECKING:
    from qoslet.core.memory.sample import MemorySample

PAGE = 4096

LimitFile = Literal["memory.high", "memory.max", "memory.limit_in_bytes"]


class Protection(Struct, frozen=True, gc=False):
    """A cgroup's path, usage and own settings, in bytes."""

    path: str
    usage: int
    min: int = 0
    low: int = 0
    high: int = UNLIMITED
    max: int = UNLIMITED


class Binding(Struct, frozen=True, gc=False):
    """A limit on a cgroup or above it. ``room`` bytes may still be used below it."""

    path: str
    file: LimitFile
    limit: int
    room: int


class EffectiveMemory(Struct, frozen=True, gc=False):
    """What a cgroup effectively has. ``hard`` bytes are never reclaimed, ``soft`` only if nothing
    else is left; ``binds`` is the limit that is reached first, None without any."""

    hard: int
    soft: int
    binds: Binding | None = None

    @property
    def protected(self) -> int:
        """Bytes that reclaim leaves alone as long as it finds others."""
        return max(self.hard, self.soft)


def protection_of(sample: MemorySample) -> Protection:
    """A sample as settings; a file that the kernel does not have is 0 or no limit."""
    high, most = sample.high, sample.max
    return Protection(
        sample.path,
        sample.current,
        sample.min or 0,
        sample.low or 0,
        UNLIMITED if high is None else high,
        UNLIMITED if most is None else most,
    )


def effective_protection(
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


def effective_memory(
    claims: Iterable[Protection], *, recursive: bool, page: int = PAGE, root: str = ""
) -> dict[str, EffectiveMemory]:
    """The effective memory of each cgroup, by path.

    ``recursive``: the hierarchy is mounted with ``memory_recursiveprot``. ``root`` is the cgroup
    that is short of memory, by default the node's root: its own settings and those above it
    protect nothing inside. Ancestors without settings protect nothing. A cgroup that uses nothing
    has nothing to protect.
    """
    return ProtectionTree(claims, page).solve(recursive=recursive, root=root)


class Overcommit(Struct, frozen=True, gc=False):
    """A cgroup that protects less than its children ask for, in bytes."""

    path: str
    file: str
    held: int
    claimed: int


class ProtectionLoss(Struct, frozen=True, gc=False):
    """A setting that protects less than it says, in bytes. ``value`` is the setting, ``used`` the
    usage within it, ``kept`` what reclaim leaves of that. ``cut`` is the topmost ancestor that
    protects less than its children claim; None if there is none."""

    file: str
    value: int
    used: int
    kept: int
    cut: Overcommit | None


def tightest_limit(claim: Protection | None, above: Binding | None) -> Binding | None:
    """The limit that leaves the least room: one of the cgroup, or ``above``, the tightest of its
    ancestors. Of two equal limits the nearer one."""
    if claim is None:
        return above
    file: LimitFile = "memory.high" if claim.high <= claim.max else "memory.max"
    limit = min(claim.high, claim.max)
    if limit >= UNLIMITED:
        return above
    room = max(0, limit - claim.usage)
    if above is not None and above.room < room:
        return above
    return Binding(claim.path, file, limit, room)


class _Below(Struct, gc=False):
    """Usage of a cgroup's children, and their usage within their settings, in pages."""

    usage: int = 0
    hard: int = 0
    soft: int = 0


class AncestorState(Struct, frozen=True, gc=False):
    """What descendants need of a cgroup: its effective protection in pages (None outside of the
    cgroup that is short of memory) and the tightest limit."""

    kept: tuple[int, int] | None = None
    binds: Binding | None = None


_NOTHING = AncestorState()
_NOT_THERE = (0, 0, 0)


class ProtectionTree:
    """The settings of cgroups, which may change, and the ancestors between them. A change costs
    time in proportion to the depth of the path, not to the number of cgroups."""

    def __init__(self, claims: Iterable[Protection] = (), page: int = PAGE) -> None:
        self._given = {claim.path: claim for claim in claims}
        self._page = page
        self._below: dict[str, _Below] = {}
        unnamed = {above for path in self._given for above in parents(path)} - self._given.keys()
        for path in sorted((*self._given, *unnamed), key=lambda known: -known.count("/")):
            self._changed(path, _NOT_THERE, upwards=False)

    def __contains__(self, path: object) -> bool:
        """Whether a path has settings."""
        return path in self._given

    def is_protected(self, path: str) -> bool:
        """Whether a cgroup or one above it asks for protection."""
        return any(any(self._settings(at)) for at in (path, *parents(path)))

    def __iter__(self) -> Iterator[str]:
        """The paths that have settings."""
        return iter(self._given)

    def put(self, claim: Protection) -> None:
        """Set or replace the settings of a path."""
        if self._given.get(claim.path) != claim:
            before = self._part(claim.path)
            self._given[claim.path] = claim
            self._changed(claim.path, before)

    def drop(self, path: str) -> None:
        """Remove the settings of a path, if there are any."""
        if path in self._given:
            before = self._part(path)
            del self._given[path]
            self._changed(path, before)

    def _changed(self, path: str, before: tuple[int, int, int], *, upwards: bool = True) -> None:
        """Update the sums of the ancestors of a cgroup whose part was ``before``; without
        ``upwards`` those of its parent alone."""
        after = self._part(path)
        while path and after != before:
            parent = path.rpartition("/")[0]
            old = self._part(parent) if upwards else _NOT_THERE
            below = self._below.get(parent)
            if below is None:
                below = self._below[parent] = _Below()
            below.usage += after[0] - before[0]
            below.hard += after[1] - before[1]
            below.soft += after[2] - before[2]
            if not (below.usage or below.hard or below.soft):
                del self._below[parent]
            if not upwards:
                return
            path, before, after = parent, old, self._part(parent)

    def _part(self, path: str) -> tuple[int, int, int]:
        """What a group uses, and uses within its settings."""
        claim = self._given.get(path)
        if claim is None:
            return self._usage(path), 0, 0
        page = self._page
        usage, least, low = claim.usage // page, claim.min // page, claim.low // page
        return usage, min(usage, least), min(usage, low)

    def _usage(self, path: str) -> int:
        claim = self._given.get(path)
        if claim is not None:
            return claim.usage // self._page
        below = self._below.get(path)
        return 0 if below is None else below.usage

    def _settings(self, path: str) -> tuple[int, int]:
        claim = self._given.get(path)
        return (0, 0) if claim is None else (claim.min // self._page, claim.low // self._page)

    def effective(
        self,
        path: str,
        *,
        recursive: bool,
        root: str = "",
        known: dict[str, AncestorState] | None = None,
    ) -> EffectiveMemory | None:
        """The effective memory of a cgroup; None if it has no settings or is not below ``root``.
        ``known`` caches the state of ancestors between calls."""
        if path not in self._given or not is_below(path, root):
            return None
        states = {} if known is None else known
        unknown, at = [path], path.rpartition("/")[0]
        while at and at not in states:
            unknown.append(at)
            at = at.rpartition("/")[0]
        above = states.get(at, _NOTHING)
        for cgroup in reversed(unknown):
            binds = tightest_limit(self._given.get(cgroup), above.binds)
            inside = root == "" or is_below(cgroup, root)
            kept = self._protection(cgroup, above.kept, recursive) if inside else None
            above = states[cgroup] = AncestorState(kept, binds)
        hard, soft = above.kept or (0, 0)
        return EffectiveMemory(hard * self._page, soft * self._page, above.binds)

    def solve(self, *, recursive: bool, root: str = "") -> dict[str, EffectiveMemory]:
        """``effective`` of all cgroups that have one, by path."""
        known: dict[str, AncestorState] = {}
        solved = (
            (path, self.effective(path, recursive=recursive, root=root, known=known))
            for path in self
        )
        return {path: effective for path, effective in solved if effective is not None}

    def _protection(
        self, path: str, above: tuple[int, int] | None, recursive: bool
    ) -> tuple[int, int]:
        """Effective hard and soft protection in pages under the parent's, ``above``; None if the
        parent is the cgroup that is short of memory."""
        usage, (least, low) = self._usage(path), self._settings(path)
        if not usage:
            return 0, 0
        if above is None:
            return least, low
        parent = path.rpartition("/")[0]
        all_of, below = self._usage(parent), self._below[parent]
        return (
            effective_protection(usage, all_of, least, above[0], below.hard, recursive),
            effective_protection(usage, all_of, low, above[1], below.soft, recursive),
        )

    def losses(self, path: str, effective: EffectiveMemory) -> tuple[ProtectionLoss, ...]:
        """The settings of a cgroup that protect less than they say, as far as they are used."""
        claim, result = self._given[path], []
        kept = (effective.hard, effective.protected)
        for file, value, kept_bytes in zip(PROTECTION, (claim.min, claim.low), kept, strict=True):
            used = min(value, claim.usage) // self._page * self._page
            if kept_bytes < used:
                short = [cut for at in parents(path) for cut in self._short(at) if cut.file == file]
                cut = short[-1] if short else None
                result.append(ProtectionLoss(file, value, used, kept_bytes, cut))
        return tuple(result)

    def overcommits(self) -> Iterator[Overcommit]:
        """The cgroups that protect less than their children ask for and use."""
        return (shortage for path in self._below if path for shortage in self._short(path))

    def _short(self, path: str) -> Iterator[Overcommit]:
        below = self._below.get(path, _Below())
        settings = self._settings(path)
        for file, protected, claimed in zip(
            PROTECTION, settings, (below.hard, below.soft), strict=True
        ):
            if protected < claimed:
                yield Overcommit(path, file, protected * self._page, claimed * self._page)
