"""What ``apply`` and ``release`` did, or would do, as lines for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from qoslet.core.cgroup.interface_files import controller
from qoslet.core.problem import plural

if TYPE_CHECKING:
    from qoslet.agent.one_shot import ApplyResult
    from qoslet.core.reconcile.drift import Difference
    from qoslet.core.reconcile.restore import RestorePlan
    from qoslet.core.reconcile.steps import Outcome, Step


SHOWN = 12
"""Rows of a kind that are listed without ``-v``."""


def apply_lines(
    title: str,
    done: ApplyResult,
    lost: Sequence[Difference],
    missing: Mapping[str, str],
    verbose: bool,
) -> list[str]:
    """The pass for people: the steps with ``verbose``, what is off, and one sentence."""
    lines = (
        [_outcome(one, _read_before(one.step, done)) for one in done.outcomes] if verbose else []
    )
    failures = [f"failed: {one.step.describe()}: {one.error}" for one in done.failures]
    lines += _some(failures, verbose)
    explained = {(one.step.path, one.step.file) for one in done.failures}
    waiting = {(one.path, one.file): one.describe() for one in done.before.waiting}
    off = [
        _left(waiting.get((row.path, row.file)), row, done)
        for row in done.remaining
        if (row.path, row.file) not in explained
    ]
    lines += _some(off, verbose)
    lines += _lost(lost, missing)
    if done.before.skipped:
        count = plural(len(done.before.skipped), "container")
        lines.append(f"skipped {count}: no ID yet, the runtime creates their cgroups")
    return [*lines, f"{title}: {_sentence(done, len(lost))}"]


def _sentence(done: ApplyResult, lost: int) -> str:
    counts = [
        f"{plural(done.done('create'), 'cgroup')} created",
        f"{plural(done.done('set'), 'value')} written",
        f"{plural(done.done('remove'), 'cgroup')} removed",
    ]
    left = len(done.remaining) + lost
    verdict = f"{plural(left, 'difference')} left" if left else "the tree is as planned"
    return f"{', '.join(counts)}; {verdict}"


def _outcome(one: Outcome, read: str | None = None) -> str:
    """A step. In cgroups of ours the journal has no value before it; ``read`` was found there."""
    mark = "failed" if one.error is not None else "done"
    before = one.before if one.before is not None else read
    was = f" (was {before})" if before is not None else ""
    return f"{mark}: {one.step.describe()}{was}"


def _read_before(step: Step, done: ApplyResult) -> str | None:
    """What a file was found with before the pass."""
    seen = done.before.observed.cgroups.get(step.path)
    return None if seen is None or not step.file else seen.values.get(step.file)


def _left(waiting: str | None, row: Difference, done: ApplyResult) -> str:
    if row.verdict == "absent" and waiting is None:
        return f"missing: cgroup {row.path} (apply does not create it)"
    return f"differs: {waiting or _off(row, done)}"


def _off(row: Difference, done: ApplyResult) -> str:
    """One difference that is left, with what it waits for."""
    match row.verdict:
        case "surplus":
            seen = done.before.observed.cgroups.get(row.path)
            pids = ", ".join(map(str, seen.pids[:5])) if seen is not None and seen.pids else ""
            why = f"it has processes ({pids})" if pids else "it is in use"
            return f"{row.path} is no longer planned, but {why}"
        case "unread":
            return f"{row.path}/{row.file} cannot be read, planned is {row.wanted}"
    return f"{row.path}/{row.file} is {row.found}, planned is {row.wanted} ({row.why})"


def _lost(lost: Sequence[Difference], missing: Mapping[str, str]) -> list[str]:
    """Values that cannot be written here, by controller."""
    counts = Counter(controller(row.file) for row in lost)
    return [
        f"unavailable: {name}: {plural(counts[name], 'value')} cannot be written: {missing[name]}"
        for name in sorted(counts)
    ]


def _some(lines: list[str], verbose: bool) -> list[str]:
    """The first ones, and how many more there are."""
    if verbose or len(lines) <= SHOWN:
        return lines
    return [*lines[:SHOWN], f"... and {len(lines) - SHOWN} more (-v lists them)"]


def release_lines(
    title: str, what: RestorePlan, outcomes: Sequence[Outcome], verbose: bool, ended: bool = False
) -> list[str]:
    """The undoing for people; ``ended``: pods were, before it."""
    lines = [_outcome(one) for one in outcomes] if verbose else []
    lines += [f"note: {text}" for text in what.notes]
    if what.refusals:
        lines += _some([f"refused: {row.message}" for row in what.refusals], verbose)
        forced = all(row.kind == "written" for row in what.refusals)
        hint = "; --force keeps values that another process changed" if forced else ""
        count = plural(len(what.refusals), "reason")
        done = "the pods are stopped, the cgroups left" if ended else "nothing done"
        return [*lines, f"{title}: {done}, for {count}{hint}"]
    lines += [
        f"{'left' if row.before is not None else 'removed with its cgroup'}: {row.message}"
        for row in what.left
    ]
    lines += [f"failed: {one.step.describe()}: {one.error}" for one in outcomes if one.error]
    return [*lines, f"{title}: {_undone(what, outcomes)}"]


def _undone(what: RestorePlan, outcomes: Sequence[Outcome]) -> str:
    done = Counter(one.step.kind for one in outcomes if one.error is None)
    if not what.steps and not what.left:
        return "nothing to undo"
    counts = f"{plural(done['set'], 'value')} restored, {plural(done['remove'], 'cgroup')} removed"
    if what.left:
        counts += f", {plural(len(what.left), 'value')} left"
    left = len(what.steps) - sum(done.values())
    return f"{counts}; {plural(left, 'step')} left, run it again" if left else counts
