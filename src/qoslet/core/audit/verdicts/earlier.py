"""Values that pods keep from the configuration under which they were created: a restart of the kubelet
with another one does not write them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import groupby

from msgspec import Struct

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.finding import Doubt
from qoslet.core.audit.verdicts.other_configurations import (
    Differing,
    OtherConfiguration,
    other_configurations,
)
from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.interface_files import PROTECTION, released
from qoslet.core.plan.plan import plan as planned
from qoslet.core.resources.cgroup_tree import Cgroup, Setting

_LEAST = 2
"""How many cgroups have to tell the same, all there are or those of a pod: one alone may be a change
by hand."""
_LEAST_IN_A_ROW = 3
"""How many, created one after the other, where others have what is planned; and how many cgroups
have it that were created later, where the oldest one alone differs."""

_QUOTAS = ("cpu.max", "cpu.cfs_quota_us")


class _Row(Struct, frozen=True):
    """A cgroup in the order of creation: the kernel gives identities in this order."""

    identity: int
    path: str
    uid: str
    is_earlier: bool | None
    """None: it has neither what is planned nor what was."""
    files: frozenset[str]
    """Those of which another configuration plans another value."""
    has_quota: bool
    """Whether a limit of CPU time tells of it, not a period alone."""


class _Earlier(Struct, frozen=True):
    """What an earlier configuration left: the cgroups that have its values, by path and file.
    ``doubt``: too few tell of it."""

    told: str
    places: frozenset[tuple[str, str]]
    doubt: Doubt | None
    is_partial: bool = False
    """Others have what is planned where it would have left another value: one without them tells more."""


class EarlierConfiguration:
    """What the pods of an audit have from an earlier configuration."""

    def __init__(self, context: AuditContext) -> None:
        self._context = context
        self._known: dict[str, tuple[_Earlier, ...]] = {}
        self._limited = set[tuple[str, str]]()
        """Paths and files in which another configuration plans a limit."""

    def left_by(self, cgroup: Cgroup, file: str) -> str | None:
        """What left a value of a pod or container, as the end of the sentence "left by …"; None: no
        earlier configuration that is known."""
        return next((one.told for one in self._of(cgroup, file) if one.doubt is None), None)

    def doubt_of(self, cgroup: Cgroup, file: str) -> Doubt | None:
        """What may have left a value that too few cgroups have to tell."""
        return next((one.doubt for one in self._of(cgroup, file)), None)

    def contradicts(self, cgroup: Cgroup, file: str, found: str) -> bool:
        """Whether no limit was left: there is none in what was found, or the pod has one which the present
        configuration does not write, and an earlier one would have left with another value. Nor was the
        protection of a planned file, where no policy gives so much."""
        if self._context.is_own:
            return False
        if file in PROTECTION:
            return next(self._of(cgroup, file), None) is None
        if file not in _QUOTAS or _is_unlimited(found):
            return file in _QUOTAS
        told = next(self._of(cgroup, file), None)
        return told is None and (cgroup.path, file) in self._limited

    def _of(self, cgroup: Cgroup, file: str) -> Iterator[_Earlier]:
        if cgroup.pod is None or self._context.is_own:
            return
        if file not in self._known:
            explanations = self._explanations(file)
            self._known[file] = tuple(sorted(explanations, key=lambda one: one.is_partial))
        for one in self._known[file]:
            if (cgroup.path, file) in one.places:
                yield one

    def _explanations(self, file: str) -> Iterator[_Earlier]:
        explained = set[str]()
        for other in other_configurations(self._context.node, file, list(self._differing(file))):
            every = list(self._rows(other))
            having, is_sure = _evidence(other, every)
            if not having:
                continue
            doubt = _doubt(other, every, having, explained)
            if is_sure:
                explained |= doubt.having
            places = ((row.path, file) for row in having for file in row.files)
            yield _Earlier(
                doubt.told, frozenset(places), None if is_sure else doubt, bool(doubt.lacking)
            )

    def _differing(self, file: str) -> Iterator[Differing]:
        """What is planned in a file of pods and containers, where something else was found. On v1 quota
        and period are two files of one limit. A period may be left where no limit is planned."""
        files = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if "cfs" in file else (file,)
        for cgroup in self._context.plan.cgroups:
            live = self._context.live.cgroups.get(cgroup.path or "")
            if cgroup.pod is None or live is None:
                continue
            settings = cgroup.settings
            if files[0] in _QUOTAS and cgroup.level != "sandbox":
                unset = (one for one in files if one not in cgroup.applied)
                settings += tuple(
                    Setting(one, self._fresh(one), "", (), "runtime") for one in unset
                )
            for one in settings:
                found = live.values.get(one.file) if one.file in files else None
                if found is not None and not self._same(one.file, one.applied, found):
                    yield one, found

    def _rows(self, other: OtherConfiguration) -> Iterator[_Row]:
        """The cgroups in which another configuration plans other values."""
        plan, live = self._context.plan, self._context.live.cgroups
        then = planned([one.pod for one in plan.pods], other.node)
        values = {one.name: one.applied for one in then.cgroups}
        for cgroup in plan.cgroups:
            group = live.get(cgroup.path or "")
            if cgroup.pod is None or group is None or cgroup.level == "sandbox":
                continue
            now, before = cgroup.applied, values.get(cgroup.name, {})
            states, files, has_quota = set[bool | None](), set[str](), False
            for file in other.files:
                fresh = self._fresh(file)
                here, there = now.get(file, fresh), before.get(file, fresh)
                found = group.values.get(file)
                if found is None or self._same(file, here, there):
                    continue
                is_then, is_now = self._same(file, there, found), self._same(file, here, found)
                states.add(is_then if is_then or is_now else None)
                files.add(file)
                has_quota |= file in _QUOTAS and not _is_unlimited(found)
                if not self._same(file, there, fresh):
                    self._limited.add((group.path, file))
            if states:
                yield _Row(
                    group.identity,
                    group.path,
                    cgroup.pod.uid,
                    states.pop() if len(states) == 1 else None,
                    frozenset(files),
                    has_quota,
                )

    def _fresh(self, file: str) -> str:
        return released(file, self._context.node.hierarchy) or ""

    def _same(self, file: str, wanted: str, found: str) -> bool:
        return same(file, wanted, found, self._context.node.host.page_size)


def _is_unlimited(quota: str) -> bool:
    return quota.startswith(("max", "-1"))


def _evidence(other: OtherConfiguration, every: list[_Row]) -> tuple[list[_Row], bool]:
    """The rows that have the values of another configuration, and whether they are enough to be sure of it."""
    rows = [row for row in every if row.is_earlier is not None]
    earlier = [row for row in rows if row.is_earlier]
    if other.is_for_all and len(earlier) < len(rows):
        # with the age of the kubelet those of all older pods still tell
        return earlier if len(earlier) >= _LEAST_IN_A_ROW else [], False
    is_sure = other.keeps_limits and _tells_period(rows)
    found = earlier if is_sure else _left_rows(every)
    return found or earlier, bool(found)


def _doubt(
    other: OtherConfiguration, every: list[_Row], having: list[_Row], explained: Collection[str]
) -> Doubt:
    """What speaks for another configuration, and against it. ``explained``: pods of which one is sure."""
    uids = frozenset(row.uid for row in having)
    count = "the pod was" if len(uids) == 1 else f"{len(uids)} pods were"
    others = [row for row in every if row.is_earlier is None]
    differing = frozenset(row.uid for row in others)
    first = min(row.identity for row in having)
    follows = len(differing) >= _LEAST_IN_A_ROW and differing.issubset(explained)
    return Doubt(
        told=f"{other.told}, in force when {count} created",
        having=uids,
        lacking=frozenset(row.uid for row in every if row.is_earlier is False),
        differing=differing,
        is_default=other.is_default,
        follows=follows and all(row.identity < first for row in others),
    )


def _tells_period(rows: list[_Row]) -> bool:
    """Whether a limit has the numbers of another period, which nobody writes by hand, or the newest cgroups
    have the period alone, as containers that restarted under it."""
    earlier = [row for row in rows if row.is_earlier]
    if any(row.has_quota for row in earlier):
        return True
    first = min((row.identity for row in earlier), default=0)
    return all(row.is_earlier for row in rows if row.identity >= first)


def _left_rows(every: list[_Row]) -> list[_Row]:
    """The rows that an earlier configuration left, of those that have its values or what is planned: all of
    them, some in a row, whole pods, or the oldest cgroup."""
    every.sort(key=lambda row: row.identity)
    rows = [row for row in every if row.is_earlier is not None]
    earlier = [row for row in rows if row.is_earlier]
    if len(earlier) == len(rows):
        return earlier if len(earlier) >= _LEAST else []
    counts = Counter(row.uid for row in rows)
    others = {row.uid for row in rows if not row.is_earlier}
    found = list[_Row]()
    for is_earlier, some in groupby(rows, key=lambda row: row.is_earlier):
        run = list(some) if is_earlier else []
        if len(run) >= _LEAST_IN_A_ROW:
            found += run
        else:
            found += [one for one in run if counts[one.uid] >= _LEAST and one.uid not in others]
    is_alone = len(earlier) == 1 and every[0].is_earlier and every[0].uid not in others
    return earlier if is_alone and len(rows) > _LEAST_IN_A_ROW else found
