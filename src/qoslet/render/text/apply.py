"""What ``apply`` and ``release`` did, or would do, as lines for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from qoslet.core.cgroup.interface_files import controller

if TYPE_CHECKING:
    from qoslet.agent.one_shot import ApplyResult
    from qoslet.core.reconcile.drift import Difference
    from qoslet.core.reconcile.restore import RestorePlan
    from qoslet.core.reconcile.steps import Outcome


SHOWN = 12
"""Rows of a kind that are listed without ``-v``."""


def many(count: int, noun: str, ending: str = "s") -> str:
    """``1 group``, ``2 groups``."""
    return f"{count} {noun}{'' if count == 1 else ending}"


def apply_lines(
    title: str,
    done: ApplyResult,
    lost: Sequence[Difference],
    missing: Mapping[str, str],
    verbose: bool,
) -> list[str]:
    """The pass for people: the steps with ``verbose``, what is off, and one sentence."""
    lines = [_outcome(one) for one in done.outcomes] if verbose else []
    failures = [f"failed: {one.step.describe()}: {one.error}" for one in done.failures]
    lines += _some(failures, verbose)
    explained = {(one.step.path, one.step.file) for one in done.failures}
    waiting = {(one.path, one.file): one.describe() for one in done.before.waiting}
    off = [
        f"left: {waiting.get((row.path, row.file)) or _off(row, done)}"
        for row in done.remaining
        if (row.path, row.file) not in explained
    ]
    lines += _some(off, verbose)
    lines += _lost(lost, missing)
    if done.before.skipped:
        count = many(len(done.before.skipped), "container")
        lines.append(f"skipped: {count} without a known id: whoever starts them makes their groups")
    return [*lines, f"{title}: {_sentence(done, len(lost))}"]


def _sentence(done: ApplyResult, lost: int) -> str:
    counts = [
        f"{many(done.done('create'), 'group')} made",
        f"{many(done.done('set'), 'value')} written",
        f"{many(done.done('remove'), 'group')} removed",
    ]
    left = len(done.remaining) + lost
    verdict = f"{many(left, 'difference')} left" if left else "the tree is as planned"
    return f"{', '.join(counts)}; {verdict}"


def _outcome(one: Outcome) -> str:
    mark = "failed" if one.error is not None else "done"
    was = f" (was {one.before})" if one.before is not None else ""
    return f"{mark}: {one.step.describe()}{was}"


def _off(row: Difference, done: ApplyResult) -> str:
    """One difference that is left, with what it waits for."""
    match row.verdict:
        case "absent":
            return f"{row.path} is not there ({row.why or 'group'}); it is not made here"
        case "surplus":
            seen = done.before.observed.cgroups.get(row.path)
            pids = ", ".join(map(str, seen.pids[:5])) if seen is not None and seen.pids else ""
            why = f"processes are in it ({pids})" if pids else "something is in it"
            return f"{row.path} is not planned any more, but {why}"
        case "unread":
            return f"{row.path}/{row.file} cannot be read, {row.wanted} is wanted"
    return f"{row.path}/{row.file} is {row.found}, {row.wanted} is wanted ({row.why})"


def _lost(lost: Sequence[Difference], missing: Mapping[str, str]) -> list[str]:
    """Values that cannot be written here, by controller."""
    counts = Counter(controller(row.file) for row in lost)
    return [
        f"not here: {name}: {many(counts[name], 'value')} cannot be written: {missing[name]}"
        for name in sorted(counts)
    ]


def _some(lines: list[str], verbose: bool) -> list[str]:
    """The first ones, and how many more there are."""
    if verbose or len(lines) <= SHOWN:
        return lines
    return [*lines[:SHOWN], f"... and {len(lines) - SHOWN} more (-v lists them)"]


def release_lines(
    title: str, what: RestorePlan, outcomes: Sequence[Outcome], verbose: bool
) -> list[str]:
    """The undoing for people."""
    lines = [_outcome(one) for one in outcomes] if verbose else []
    lines += [f"note: {text}" for text in what.notes]
    lines += [
        f"{'left' if row.before is not None else 'gone with its group'}: {row.message}"
        for row in what.left
    ]
    if what.refusals:
        lines += _some([f"refused: {row.message}" for row in what.refusals], verbose)
        forced = all(row.kind == "written" for row in what.refusals)
        hint = "; --force lets go of what others have written" if forced else ""
        count = many(len(what.refusals), "reason")
        return [*lines, f"{title}: nothing was done, for {count}{hint}"]
    lines += [f"failed: {one.step.describe()}: {one.error}" for one in outcomes if one.error]
    return [*lines, f"{title}: {_undone(what, outcomes)}"]


def _undone(what: RestorePlan, outcomes: Sequence[Outcome]) -> str:
    done = Counter(one.step.kind for one in outcomes if one.error is None)
    if not what.steps:
        return "nothing of ours stands here"
    counts = f"{many(done['set'], 'value')} restored, {many(done['remove'], 'group')} removed"
    left = len(what.steps) - sum(done.values())
    return f"{counts}; {many(left, 'step')} left, run it again" if left else counts
