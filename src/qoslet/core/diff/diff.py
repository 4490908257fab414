"""Two plans to the values in which they differ, and what each means for who runs there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from qoslet.core.diff.aspects import CPU_SHARE, OOM_SCORE, SWAP, Aspect, aspect_of
from qoslet.core.diff.cpu_shares import cpu_shares
from qoslet.core.diff.pairs import Pair, pairs
from qoslet.core.diff.workload_hints import WorkloadHint, hints
from qoslet.core.problem import Problem, Severity
from qoslet.core.resources.cgroup_tree import Cgroup, Plan, Setting

Direction = Literal["worse", "better", "same"]

_WEIGHTS = ("cpu.shares", "cpu.weight", "cpu.idle")
_NOTABLE = 0.01 * (1 + 1e-9)
"""The part of a CPU share by which it must change to be more or less: weights are whole numbers. A little more, so
that exactly a hundredth is the same in whatever order the floats were multiplied."""


class DiffValue(Struct, frozen=True):
    """A value of one side as it is written, as it is read back, and the rule that made it."""

    written: str
    applied: str
    rule: str | None

    def differs(self, other: DiffValue) -> bool:
        """Whether it is another value, whatever the rule."""
        return (self.written, self.applied) != (other.written, other.applied)

    def beside(self, other: DiffValue | None) -> str:
        """The value as people tell it from the other side's."""
        same = other is not None and self.written == other.written
        return self.applied if same else self.written


class Change(Struct, frozen=True):
    """One value that differs. ``cgroup`` is that of the first side where it has it; ``file`` None:
    the whole cgroup appears, goes or moves. ``aspect`` groups what means the same."""

    name: str
    cgroup: Cgroup | None
    file: str | None
    before: DiffValue | None
    after: DiffValue | None
    severity: Severity
    direction: Direction
    aspect: str
    meaning: str


class Share(Struct, frozen=True):
    """The part of all pods' CPU that a pod or container gets when all compete, on both sides."""

    name: str
    cgroup: Cgroup
    before: float
    after: float

    @property
    def direction(self) -> Direction:
        """Whether it loses, but for what rounding makes of weights."""
        if abs(self.after - self.before) <= _NOTABLE * self.before:
            return "same"
        return _compared(self.before, self.after)


class Diff(Struct, frozen=True):
    """What differs between two plans, in the order of the first. ``warnings`` are those that only
    the second has; its errors are among ``changes``."""

    before: Plan
    after: Plan
    changes: tuple[Change, ...]
    shares: tuple[Share, ...]
    hints: tuple[WorkloadHint, ...] = ()
    warnings: tuple[Problem, ...] = ()

    @property
    def worse(self) -> int:
        """How many changes take something away, or cannot stand."""
        return sum(change.severity != "info" for change in self.changes)

    @property
    def better(self) -> int:
        """How many changes give something."""
        return sum(change.direction == "better" for change in self.changes)

    def above(self, allowed: Severity | Literal["none"]) -> bool:
        """Whether a change is graver than what is allowed."""
        order = ("none", "info", "warning", "error")
        return any(order.index(one.severity) > order.index(allowed) for one in self.changes)

    def __repr__(self) -> str:
        """The difference in one short line."""
        return f"Diff(changes={len(self.changes)}, worse={self.worse}, better={self.better})"


def diff(before: Plan, after: Plan) -> Diff:
    """Every value in which two plans differ, and every error and warning that only the second has."""
    found = pairs(before, after)
    left, right = cpu_shares(before), cpu_shares(after)
    changes = list(new_errors(before, after))
    shares: list[Share] = []
    for pair in found:
        share = _share(pair, left, right)
        changes += changes_of(pair, share)
        if share is not None and pair.cgroup.pod is not None and share.direction != "same":
            shares.append(share)
    warnings = tuple(_new_rows(before, after, "warning"))
    return Diff(before, after, tuple(changes), tuple(shares), tuple(hints(before, after)), warnings)


def new_errors(before: Plan, after: Plan) -> Iterator[Change]:
    """The errors that only the second plan has."""
    for row in _new_rows(before, after, "error"):
        hint = f" ({row.hint})" if row.hint else ""
        meaning = f"{row.where}: {row.message}{hint}"
        yield Change("/", None, None, None, None, "error", "worse", "stands", meaning)


def _new_rows(before: Plan, after: Plan, severity: Severity) -> Iterator[Problem]:
    """The rows of that severity that only the second plan has."""
    known = {_told(row) for row in before.problems}
    for row in after.problems:
        if row.severity == severity and _told(row) not in known:
            yield row


def _told(row: Problem) -> tuple[str, str]:
    return row.where, row.message


def _share(pair: Pair, left: Mapping[str, float], right: Mapping[str, float]) -> Share | None:
    if pair.before is None or pair.after is None:
        return None
    before, after = left.get(pair.before.name), right.get(pair.after.name)
    if before is None or after is None:
        return None
    return Share(pair.name, pair.before, before, after)


def _compared(before: float, after: float, better: str | None = "more") -> Direction:
    """Whether the second side has more of what is good."""
    if before == after or better is None:
        return "same"
    more = after > before
    return "better" if more == (better == "more") else "worse"


def changes_of(pair: Pair, share: Share | None) -> list[Change]:
    """What differs between two cgroups; ``share`` is the CPU that they get."""
    before, after = pair.before, pair.after
    if before is None or after is None:
        return [_whole(pair)]
    moved = [_moved(pair, before, after)] if pair.moved else []
    left, right = _values(before), _values(after)
    texts, others = (
        {"cpuset.cpus": cpus, **{file: value.applied for file, value in side.items()}}
        for side, cpus in zip((left, right), pair.cpus, strict=True)
    )
    rows = []
    for file in sorted({*left, *right}):
        one, other = left.get(file), right.get(file)
        if one is None or other is None or one.differs(other):
            rows.append(_Row(pair, file, one, other, texts, others).change(share))
    return moved + rows


def deciding(pair: Pair) -> Pair:
    """A pair of cgroups without what decides about none of its changes, but for their texts: names,
    rules, and values that are the same. Many pairs of a cluster are equal then."""
    before, after = pair.before, pair.after
    if before is None or after is None:
        return Pair(before and _BLANK, after and _BLANK, "")
    left, right = before.by_file, after.by_file
    kept: set[str] = set()
    for file in left.keys() | right.keys():
        one, other = left.get(file), right.get(file)
        if not (one and other and one.is_like(other)):
            kept.update((file, *aspect_of(file).reads))
    same = before.oom_score_adj == after.oom_score_adj
    scores = (None, None) if same else (before.oom_score_adj, after.oom_score_adj)
    files = sorted(kept)
    first, second = (
        Cgroup("", "pod", _bare(side, files), oom_score_adj=score)
        for side, score in zip((left, right), scores, strict=True)
    )
    return Pair(first, second, "", pair.moved, pair.cpus, pair.can_swap)


_BLANK = Cgroup("", "pod", ())


def _bare(side: Mapping[str, Setting], files: Sequence[str]) -> tuple[Setting, ...]:
    """The values of files, without their rules."""
    found = [side[file] for file in files if file in side]
    return tuple([Setting(one.file, one.value, "", (), "kubelet", one.applied) for one in found])


def _whole(pair: Pair) -> Change:
    cgroup = pair.cgroup
    what = "appears" if pair.before is None else "goes"
    return Change(
        pair.name, cgroup, None, None, None, "info", "same", "cgroups", f"the cgroup {what}"
    )


def _moved(pair: Pair, before: Cgroup, after: Cgroup) -> Change:
    meaning = f"the cgroup is {after.name} instead of {before.name}"
    left, right = DiffValue(before.name, before.name, None), DiffValue(after.name, after.name, None)
    return Change(pair.name, before, None, left, right, "info", "same", "cgroups", meaning)


def _values(cgroup: Cgroup) -> dict[str, DiffValue]:
    """The values of a cgroup by file, and its processes' OOM score."""
    found = {one.file: DiffValue(one.value, one.applied, one.rule) for one in cgroup.settings}
    if cgroup.oom_score_adj is not None:
        score = str(cgroup.oom_score_adj)
        found[OOM_SCORE] = DiffValue(score, score, cgroup.oom_rule)
    return found


class _Row(Struct, frozen=True):
    """One file of a cgroup that both sides have."""

    pair: Pair
    file: str
    before: DiffValue | None
    after: DiffValue | None
    left: Mapping[str, str]
    right: Mapping[str, str]

    def change(self, share: Share | None) -> Change:
        if self.file in _WEIGHTS:
            aspect, direction, meaning = CPU_SHARE, *self._weight(share)
            loses = True
        else:
            found = aspect_of(self.file)
            aspect, loses = found.id, found.loses
            direction, meaning = self._measured(found)
        if self.after is None and (instead := self._instead(aspect)):
            direction, meaning = "same", f"{instead} takes its place"
        severity: Severity = "warning" if direction == "worse" and loses else "info"
        return Change(
            self.pair.name,
            self.pair.before,
            self.file,
            self.before,
            self.after,
            severity,
            direction,
            aspect,
            meaning,
        )

    def _instead(self, aspect: str) -> str:
        """The file of the same aspect that only the other side writes."""
        for file in sorted(self.right.keys() - self.left.keys()):
            if (CPU_SHARE if file in _WEIGHTS else aspect_of(file).id) == aspect != "other":
                return file
        return ""

    def _weight(self, share: Share | None) -> tuple[Direction, str]:
        if share is None:
            return "same", "it does not compete with the others for CPU"
        about = "of the pods' CPU when all compete"
        if share.direction == "same":
            return "same", f"{_percent(share.after)} {about}, as before"
        before, after = percents(share.before, share.after)
        return share.direction, f"{after} {about}, before {before}"

    def _measured(self, aspect: Aspect) -> tuple[Direction, str]:
        before, after = aspect.measure(self.left), aspect.measure(self.right)
        if before is None or after is None:
            return "same", self._plain()
        shown = aspect.show(after)
        if before == after:
            return "same", f"{aspect.title}: {shown}, as before"
        meaning = f"{aspect.title}: {shown}, before {aspect.show(before)}"
        if aspect.id == SWAP and not self.pair.can_swap:
            return "same", f"{meaning}; the node has no swap"
        return _compared(before, after, aspect.better), meaning

    def _plain(self) -> str:
        if self.before is None:
            return "written on the second side only"
        if self.after is None:
            return "written on the first side only"
        return "another value"


def percents(before: float, after: float) -> tuple[str, str]:
    """Two shares as people write them, with the digits that tell them apart."""
    texts = ("", "")
    for more in range(4):
        texts = _percent(before, more), _percent(after, more)
        if texts[0] != texts[1]:
            break
    return texts


def _percent(part: float, more: int = 0) -> str:
    return f"{part * 100:.{more + (part < 0.1)}f}%"
