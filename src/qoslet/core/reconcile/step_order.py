"""The order of steps before a driver performs them.

Every prefix of the order is safe. Surplus cgroups without processes are removed first, children
before parents. CPU lists are widened parents first and narrowed children first; cgroups are created
parents first. Then limits are raised parents first and lowered children first, because the kernel
refuses children that exceed their parents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import cpu_list, cpu_numbers, joined
from qoslet.core.cgroup.names import is_below
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.reconcile.drift import Difference
from qoslet.core.reconcile.limit_shrink import SWAP_TOTAL, Shrink, eased, takes_back
from qoslet.core.reconcile.steps import Step

T = TypeVar("T")

_NO_LIMIT = float("inf")
_LISTS = ("cpuset.cpus", "cpuset.mems")
PERIOD, _QUOTA = "cpu.cfs_period_us", "cpu.cfs_quota_us"
_DEFAULT_PERIOD = "100000"
_IDLE = "cpu.idle"
_WEIGHT_OF_IDLE = "cpu.weight", "0"
"""What an idle cgroup reads; it comes with cpu.idle, and cannot be written."""
_LEADING = (SWAP_TOTAL, _IDLE)
"""Files that others of the cgroup depend on: memory+swap may never be smaller than memory, and an idle
cgroup takes no weight. Source: kernel/sched/fair.c sched_group_set_shares."""
_MAY_BE_FIXED = ("memory.oom.group",)
"""Files that a service manager can set only at creation: written last, as they may be refused."""


def magnitude(file: str, text: str | None) -> float:
    """How much a value allows; unlimited and unknown are infinite."""
    if text is None or text in ("max", "-1", ""):
        return _NO_LIMIT
    if file == "cpu.max":
        quota, _, period = text.partition(" ")
        return _NO_LIMIT if quota == "max" else int(quota) / int(period or _DEFAULT_PERIOD)
    try:
        return -int(text) if file == _IDLE else int(text)
    except ValueError:
        return len(text)


def raises(difference: Difference) -> bool:
    """Whether the planned value allows more than the one found."""
    file = difference.file
    return magnitude(file, difference.wanted) > magnitude(file, difference.found)


def partition(items: Iterable[T], matches: Callable[[T], bool]) -> tuple[list[T], list[T]]:
    """The items that match, then those that do not, both in their order."""
    found: tuple[list[T], list[T]] = [], []
    for item in items:
        found[not matches(item)].append(item)
    return found


def ordered(
    differences: Sequence[Difference], observed: Observed, shrink: Shrink = "converge"
) -> list[Step]:
    """The steps that fix the differences in a safe order; hard memory limits below the usage as
    ``shrink`` says."""
    differences, _ = eased(differences, observed, shrink)
    removals = _removals(differences, observed)
    gone = {step.path for step in removals}
    staying = [d.path for d in differences if d.verdict == "surplus" and d.path not in gone]
    values = [d for d in differences if d.file and (d.file, d.wanted) != _WEIGHT_OF_IDLE]
    lists, values = partition(values, lambda d: d.file in _LISTS)
    bandwidth, values = partition(values, lambda d: d.file in (PERIOD, _QUOTA))
    changes = [*map(_change, values), *_bandwidth(bandwidth, observed, staying)]
    last, changes = partition(changes, lambda change: change.file in _MAY_BE_FIXED)
    raising, lowering = partition(changes, lambda change: change.raises)
    steps = removals + _lists(lists, observed, gone) + _creates(differences, lists)
    for change in _raised(raising) + _lowered(lowering) + _raised(last):
        steps += change.steps
    if shrink != "converge":
        return steps
    return [replace(s, gently=True) if _is_tight(s, observed) else s for s in steps]


def _is_tight(step: Step, observed: Observed) -> bool:
    """Whether a step lowers a limit below the usage."""
    return step.kind == "set" and takes_back(step.file, step.value, observed.cgroups.get(step.path))


def _creates(differences: Sequence[Difference], lists: Sequence[Difference]) -> list[Step]:
    """New cgroups, each with its CPU lists: on v1 children start with a copy of them."""
    steps = []
    for new in sorted((d for d in differences if d.verdict == "absent"), key=_from_above):
        steps.append(Step("create", new.path, why=new.why))
        steps += [_step(d) for d in lists if d.path == new.path and d.found is None]
    return steps


def _lists(rows: Sequence[Difference], observed: Observed, gone: Collection[str]) -> list[Step]:
    """CPU and node lists of existing cgroups. On v1 a child's list is a subset of its parent's. So
    lists are widened parents first, keeping what descendants still use, then narrowed children
    first."""
    steps = []
    for file in _LISTS:
        changes = [d for d in rows if d.file == file]
        lists = {
            path: cpu_numbers(cgroup.values[file])
            for path, cgroup in observed.cgroups.items()
            if changes and path not in gone and cgroup.values.get(file)
        }
        steps += _moved(file, lists, _list_targets(changes, lists))
    return steps


def _list_targets(
    changes: Sequence[Difference], lists: Mapping[str, frozenset[int]]
) -> dict[str, tuple[frozenset[int], str]]:
    """The target list of each cgroup, with the reason. An unplanned cgroup keeps the part of its
    list that its nearest changing ancestor has, and gets what its descendants want."""
    wanted = {d.path: (cpu_numbers(cpu_list(d.wanted or "")), d.why) for d in changes}
    targets = {d.path: wanted[d.path] for d in changes if d.found is not None}
    for path, current in lists.items():
        if path in wanted:
            continue
        new, why = current, ""
        nearest = max((other for other in wanted if is_below(path, other)), key=len, default=None)
        if nearest is not None and not current <= wanted[nearest][0]:
            most, why = wanted[nearest]
            new = current & most or most
        for descendant, (numbers, reason) in wanted.items():
            if is_below(descendant, path) and not numbers <= new:
                new, why = new | numbers, reason
        if new != current:
            targets[path] = new, why
    return targets


def _moved(
    file: str,
    lists: Mapping[str, frozenset[int]],
    targets: Mapping[str, tuple[frozenset[int], str]],
) -> list[Step]:
    """The writes of one file in an order that the kernel accepts."""
    widened, narrowed = [], []
    for path in sorted(targets, key=_depth):
        new, why = targets[path]
        old = lists.get(path, frozenset())
        used = any(is_below(other, path) and not current <= new for other, current in lists.items())
        if not new <= old:
            wider = joined(old | new if used else new)
            widened.append(Step("set", path, file, wider, why=why))
        if new <= old or used:
            narrowed.append(Step("set", path, file, joined(new), why=why))
    return widened + narrowed[::-1]


def _depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _from_above(difference: Difference) -> tuple[int, str]:
    return difference.depth, difference.path


class _Change(Struct, frozen=True, gc=False):
    """Steps of one cgroup that belong together; ``raises``: they allow more."""

    path: str
    depth: int
    raises: bool
    file: str
    steps: tuple[Step, ...]


def _step(difference: Difference) -> Step:
    return Step(
        "set", difference.path, difference.file, difference.wanted or "", why=difference.why
    )


def _change(difference: Difference) -> _Change:
    file = difference.file
    steps = (_step(difference),)
    return _Change(difference.path, difference.depth, raises(difference), file, steps)


def _bandwidth(
    rows: Iterable[Difference], observed: Observed, staying: Collection[str]
) -> Iterable[_Change]:
    """Quota and period of a v1 cgroup as one change. A period changes under "no quota", because the
    kernel may refuse the ratio of any other intermediate state. A ratio below that of a surplus
    child that is ``staying`` is not written yet."""
    by_path: dict[str, dict[str, Difference]] = {}
    for row in rows:
        by_path.setdefault(row.path, {})[row.file] = row
    for path, files in by_path.items():
        cgroup = observed.cgroups.get(path)
        values = cgroup.values if cgroup is not None else {}
        quota_row, period_row = files.get(_QUOTA), files.get(PERIOD)
        old_quota, old_period = values.get(_QUOTA, "-1"), values.get(PERIOD, _DEFAULT_PERIOD)
        new_quota = (quota_row.wanted if quota_row else None) or old_quota
        new_period = (period_row.wanted if period_row else None) or old_period
        if any(
            _ratio(new_quota, new_period) < _ratio_of(observed.cgroups[surplus]) < _NO_LIMIT
            for surplus in staying
            if is_below(surplus, path)
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


def _ratio_of(cgroup: ObservedCgroup) -> float:
    values = cgroup.values
    return _ratio(values.get(_QUOTA, "-1"), values.get(PERIOD, _DEFAULT_PERIOD))


def _ratio(quota: str, period: str) -> float:
    limit = magnitude(_QUOTA, quota)
    return limit if limit == _NO_LIMIT else limit / int(period)


def _raised(changes: list[_Change]) -> list[_Change]:
    """Parents first; within a group what others depend on before them."""
    return sorted(changes, key=lambda c: (c.depth, c.path, c.file not in _LEADING))


def _lowered(changes: list[_Change]) -> list[_Change]:
    """Children first; within a group what others depend on after them."""
    return sorted(changes, key=lambda c: (-c.depth, c.path, c.file in _LEADING))


def _removals(differences: Sequence[Difference], observed: Observed) -> list[Step]:
    """Surplus cgroups without processes in their subtrees, deepest first."""
    surplus = [d.path for d in differences if d.verdict == "surplus"]
    busy = {path for path in surplus if observed.cgroups[path].pids}
    blocked = {path for path in surplus if any(b == path or is_below(b, path) for b in busy)}
    free = [path for path in surplus if path not in blocked]
    free.sort(key=lambda path: (-path.count("/"), path))
    return [Step("remove", path, why="not planned") for path in free]
