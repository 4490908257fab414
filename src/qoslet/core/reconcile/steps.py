"""What will be done, as values: described, ordered, and only then performed by a driver.

The order makes every prefix safe. Groups that are not planned go first, children before parents,
once nothing runs in them: nothing has to fit around them. CPU lists are widened parents first and
narrowed children first; groups are made parents first. Then limits are raised parents first and
lowered children first, so that no child is ever allowed more than the kernel lets it have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import cpu_list, cpu_numbers, joined
from qoslet.core.cgroup.names import is_below
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.reconcile.drift import Difference
from qoslet.core.reconcile.limit_shrink import SWAP_TOTAL, Shrink, eased, takes_back

StepKind = Literal["create", "set", "attach", "remove"]


class Step(Struct, frozen=True, gc=False):
    """One change of one group. ``path`` is concrete, from the hierarchy's root.

    ``file`` and ``value`` belong to ``set``; ``pid`` to ``attach``. ``why`` is the rule or the
    difference that asks for it. ``gently``: a memory limit below what is in use, so page cache is
    taken back first, and it is not written where it does not fit then.
    """

    kind: StepKind
    path: str
    file: str = ""
    value: str = ""
    pid: int = 0
    why: str = ""
    gently: bool = False

    def command(self) -> str:
        """The step as what is done to the hierarchy: ``mkdir``, ``write`` or ``rmdir``."""
        match self.kind:
            case "create":
                return f"mkdir {self.path}"
            case "remove":
                return f"rmdir {self.path}"
            case "attach":
                return f"write {self.path}/cgroup.procs = {self.pid}"
        return f"write {self.path}/{self.file} = {self.value}"

    def describe(self) -> str:
        """The step as a person would say it."""
        match self.kind:
            case "set":
                return f"set {self.path}/{self.file} = {self.value}"
            case "attach":
                return f"move process {self.pid} into {self.path}"
            case _:
                return f"{self.kind} {self.path}"


class Outcome(Struct, frozen=True, gc=False):
    """What came of a step. ``before`` is the value that a ``set`` replaced, None if unknown;
    ``error`` is None if it worked; ``errno_name`` such as ``EBUSY`` where the kernel refused.
    ``pending``: it is being done, or waits for one that is; what came of it is told later."""

    step: Step
    before: str | None = None
    error: str | None = None
    errno_name: str | None = None
    pending: bool = False


_LISTS = ("cpuset.cpus", "cpuset.mems")
_PERIOD, _QUOTA = "cpu.cfs_period_us", "cpu.cfs_quota_us"
_DEFAULT_PERIOD = "100000"
_MAY_BE_FIXED = ("memory.oom.group",)
"""Files that a service manager gives a group once: they may be refused, and hold up no other."""


def magnitude(file: str, text: str | None) -> float:
    """How much a value allows; unlimited and unknown are infinite."""
    if text is None or text in ("max", "-1", ""):
        return inf
    if file == "cpu.max":
        quota, _, period = text.partition(" ")
        return inf if quota == "max" else int(quota) / int(period or _DEFAULT_PERIOD)
    try:
        return int(text)
    except ValueError:
        return len(text)


def ordered(
    differences: Sequence[Difference], observed: Observed, shrink: Shrink = "converge"
) -> list[Step]:
    """The steps that end the differences, each prefix of them safe; hard memory limits below
    what is in use as ``shrink`` says."""
    differences, _ = eased(differences, observed, shrink)
    removals = _removals(differences, observed)
    gone = {step.path for step in removals}
    staying = [d.path for d in differences if d.verdict == "surplus" and d.path not in gone]
    values = [d for d in differences if d.file]
    lists = [d for d in values if d.file in _LISTS]
    steps = removals + _lists(lists, observed, gone) + _creates(differences, lists)
    values = [d for d in values if d.file not in _LISTS]
    bandwidth = [d for d in values if d.file in (_PERIOD, _QUOTA)]
    others = [d for d in values if d.file not in (_PERIOD, _QUOTA)]
    changes = [_change(d) for d in others] + list(_bandwidth(bandwidth, observed, staying))
    last = [change for change in changes if change.file in _MAY_BE_FIXED]
    changes = [change for change in changes if change.file not in _MAY_BE_FIXED]
    raises = [change for change in changes if change.raises]
    lowers = [change for change in changes if not change.raises]
    for change in _swap_first(raises) + _swap_last(lowers) + _swap_first(last):
        steps += change.steps
    if shrink != "converge":
        return steps
    return [replace(one, gently=True) if _is_tight(one, observed) else one for one in steps]


def _is_tight(step: Step, observed: Observed) -> bool:
    """Whether a step lowers a limit below what is in use."""
    return step.kind == "set" and takes_back(step.file, step.value, observed.cgroups.get(step.path))


def _creates(differences: Sequence[Difference], lists: Sequence[Difference]) -> list[Step]:
    """New groups, each with its CPU lists: on v1 the groups below begin with a copy of them."""
    steps = []
    for new in sorted((d for d in differences if d.verdict == "absent"), key=_from_above):
        steps.append(Step("create", new.path, why=new.why))
        steps += [_step(d) for d in lists if d.path == new.path and d.found is None]
    return steps


def _lists(rows: Sequence[Difference], observed: Observed, gone: Collection[str]) -> list[Step]:
    """CPU and node lists of groups that exist. On v1 a child's list is a part of its parent's,
    so parents first get what is new, keeping what groups below still use, then, children first,
    each loses what is not planned."""
    steps = []
    for file in _LISTS:
        changes = [d for d in rows if d.file == file]
        lists = {
            path: cpu_numbers(one.values[file])
            for path, one in observed.cgroups.items()
            if changes and path not in gone and one.values.get(file)
        }
        steps += _moved(file, lists, _list_targets(changes, lists))
    return steps


def _list_targets(
    changes: Sequence[Difference], lists: Mapping[str, frozenset[int]]
) -> dict[str, tuple[frozenset[int], str]]:
    """The list that each group is to have, with why. One without a plan keeps what is left of
    its own under the nearest group above that changes, and gets what those below want."""
    wanted = {d.path: (cpu_numbers(cpu_list(d.wanted or "")), d.why) for d in changes}
    targets = {d.path: wanted[d.path] for d in changes if d.found is not None}
    for path, own in lists.items():
        if path in wanted:
            continue
        new, why = own, ""
        over = max((one for one in wanted if is_below(path, one)), key=len, default=None)
        if over is not None and not own <= wanted[over][0]:
            most, why = wanted[over]
            new = own & most or most
        for under, (numbers, reason) in wanted.items():
            if is_below(under, path) and not numbers <= new:
                new, why = new | numbers, reason
        if new != own:
            targets[path] = new, why
    return targets


def _moved(
    file: str,
    lists: Mapping[str, frozenset[int]],
    targets: Mapping[str, tuple[frozenset[int], str]],
) -> list[Step]:
    """The writes of one file, each a list that the kernel takes at its moment."""
    widened, narrowed = [], []
    for path in sorted(targets, key=_depth):
        new, why = targets[path]
        old = lists.get(path, frozenset())
        used = any(is_below(one, path) and not own <= new for one, own in lists.items())
        if not new <= old:
            widened.append(_list_step(path, file, old | new if used else new, why))
        if new <= old or used:
            narrowed.append(_list_step(path, file, new, why))
    return widened + narrowed[::-1]


def _list_step(path: str, file: str, numbers: Collection[int], why: str) -> Step:
    text = joined(numbers)
    return Step("set", path, file, text, why=why)


def _depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _from_above(difference: Difference) -> tuple[int, str]:
    return difference.depth, difference.path


class _Change(Struct, frozen=True, gc=False):
    """Steps of one group that belong together, and whether they allow more."""

    path: str
    depth: int
    raises: bool
    file: str
    steps: tuple[Step, ...]


def _step(difference: Difference) -> Step:
    return Step(
        "set",
        difference.path,
        difference.file,
        difference.wanted or "",
        why=difference.why,
    )


def _change(difference: Difference) -> _Change:
    file = difference.file
    more = magnitude(file, difference.wanted) > magnitude(file, difference.found)
    return _Change(difference.path, difference.depth, more, file, (_step(difference),))


def _bandwidth(
    rows: Iterable[Difference], observed: Observed, staying: Collection[str]
) -> Iterable[_Change]:
    """Quota and period of a v1 group as one change. A period that changes under a quota passes
    through "no quota", because every other way has a ratio that the kernel may refuse. A group
    waits with a share below that of a surplus group in it that is ``staying``."""
    groups: dict[str, dict[str, Difference]] = {}
    for row in rows:
        groups.setdefault(row.path, {})[row.file] = row
    for path, files in groups.items():
        seen = observed.cgroups.get(path)
        values = seen.values if seen is not None else {}
        quota_row, period_row = files.get(_QUOTA), files.get(_PERIOD)
        old_quota, old_period = values.get(_QUOTA, "-1"), values.get(_PERIOD, _DEFAULT_PERIOD)
        new_quota = (quota_row.wanted if quota_row else None) or old_quota
        new_period = (period_row.wanted if period_row else None) or old_period
        if any(
            _ratio(new_quota, new_period) < _ratio_of(observed.cgroups[one]) < inf
            for one in staying
            if is_below(one, path)
        ):
            continue
        steps = []
        if period_row is not None and new_period != old_period:
            if old_quota != "-1":
                steps.append(Step("set", path, _QUOTA, "-1", why=period_row.why))
            steps.append(_step(period_row))
            if quota_row is None and old_quota != "-1":
                steps.append(Step("set", path, _QUOTA, old_quota, why=period_row.why))
        elif period_row is not None:
            steps.append(_step(period_row))
        if quota_row is not None:
            steps.append(_step(quota_row))
        more = _ratio(new_quota, new_period) > _ratio(old_quota, old_period)
        yield _Change(path, path.count("/"), more, _QUOTA, tuple(steps))


def _ratio_of(group: ObservedCgroup) -> float:
    values = group.values
    return _ratio(values.get(_QUOTA, "-1"), values.get(_PERIOD, _DEFAULT_PERIOD))


def _ratio(quota: str, period: str) -> float:
    limit = magnitude(_QUOTA, quota)
    return limit if limit == inf else limit / int(period)


def _swap_first(changes: list[_Change]) -> list[_Change]:
    """Parents first; within a group memory+swap before memory: it may never be the smaller."""
    return sorted(changes, key=lambda c: (c.depth, c.path, c.file != SWAP_TOTAL))


def _swap_last(changes: list[_Change]) -> list[_Change]:
    """Children first; within a group memory+swap after memory."""
    return sorted(changes, key=lambda c: (-c.depth, c.path, c.file == SWAP_TOTAL))


def _removals(differences: Sequence[Difference], observed: Observed) -> list[Step]:
    """Surplus groups without processes anywhere below, deepest first."""
    surplus = [d.path for d in differences if d.verdict == "surplus"]
    busy = {path for path in surplus if observed.cgroups[path].pids}
    blocked = {path for path in surplus if any(b == path or is_below(b, path) for b in busy)}
    free = [path for path in surplus if path not in blocked]
    free.sort(key=lambda path: (-path.count("/"), path))
    return [Step("remove", path, why="not planned") for path in free]
