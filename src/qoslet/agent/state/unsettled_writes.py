"""Which differences another process has made: the value that was written last is there no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from qoslet.core.reconcile.drift import Difference
    from qoslet.core.reconcile.journal import JournalState, Key
    from qoslet.core.reconcile.steps import Outcome, Step

_NOTED = 5
"""So many are named, the others counted."""


class UnsettledWrites:
    """The files whose last write is in the journal and has not succeeded: it was not reached, failed,
    is pending, or was made in a cgroup that another process has ended. All other values of the journal were in the kernel, but for the last one of a file
    with values ``before``: the agent before may have ended or failed between journal and kernel."""

    def __init__(self, before: Mapping[Key, tuple[str | None, ...]]) -> None:
        self._before = dict(before)
        self._keys: set[Key] = set()

    def begin(self, steps: Sequence[Step], journal: JournalState) -> None:
        """These are about to be written; what the journal no longer has is forgotten."""
        self._keys &= journal.files.keys()
        self._keys.update((step.path, step.file) for step in steps if step.kind == "set")

    def settle(self, outcomes: Sequence[Outcome]) -> None:
        """What came of them."""
        for one in outcomes:
            if one.error is None and not one.pending:
                key = (one.step.path, one.step.file)
                self._keys.discard(key)
                self._before.pop(key, None)

    def forget(self, path: str, journal: JournalState) -> None:
        """Another process has ended this cgroup: nothing of the journal is in what stands there next."""
        self._keys.update((path, file) for file in journal.names.get(path, ()))

    def changed(
        self, rows: Sequence[Difference], journal: JournalState, compared: Collection[str]
    ) -> list[str]:
        """A line for each value that another process changed in the cgroups that were ``compared``. A
        new plan, an override and a limit that is lowered in parts want another value than the last."""
        found = [row for row in rows if self._is_changed(row, journal)]
        self._keep_differing(rows, compared)
        lines = [
            f"{row.path}/{row.file}: another process changed {row.wanted!r} to {row.found!r};"
            " writing it again"
            for row in found[:_NOTED]
        ]
        more = len(found) - _NOTED
        return [*lines, f"another process changed {more} more values"] if more > 0 else lines

    def _keep_differing(self, rows: Sequence[Difference], compared: Collection[str]) -> None:
        """The last value of a file without a difference has reached the kernel."""
        if self._before:
            differing = {(row.path, row.file) for row in rows}
            for key in [one for one in self._before if one[0] in compared]:
                if key not in differing:
                    del self._before[key]

    def _is_changed(self, row: Difference, journal: JournalState) -> bool:
        key = (row.path, row.file)
        if row.verdict != "differs" or key in self._keys:
            return False
        before = self._before.get(key, ())
        if row.found in before or None in before:
            return False
        known = journal.files.get(key)
        return known is not None and known[1] == row.wanted
