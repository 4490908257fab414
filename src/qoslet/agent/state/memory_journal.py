"""A journal for what nobody undoes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qoslet.core.reconcile.journal import Entry, JournalState, Key


class MemoryJournal:
    """A journal that ends with the process."""

    wants_before = False

    def __init__(self, ledger: JournalState | None = None) -> None:
        self.ledger = ledger or JournalState()

    def record(self, entries: Sequence[Entry]) -> None:
        """Remember entries."""
        self.ledger.add(entries)

    record_later = record

    def seen(self, values: Mapping[Key, str]) -> None:
        """Nobody undoes what was written here."""

    def rewrite(self) -> None:
        """There is nothing written to shorten."""
