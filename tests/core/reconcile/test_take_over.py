"""What a plugin has set comes into the agent's journal only while the file holds it."""

from __future__ import annotations

from qoslet.core.cgroup.observed import ObservedCgroup
from qoslet.core.reconcile.journal import JournalState, Set
from qoslet.core.reconcile.take_over import taken_over

PATH = "/kubepods/poda/c1"
HIGH, LOW = Set(PATH, "memory.high", None, "8192"), Set(PATH, "memory.low", "4096", "8193")


def journal(*entries: Set) -> JournalState:
    made = JournalState()
    made.add(entries)
    return made


def observed(**values: str) -> dict[str, ObservedCgroup]:
    found = {name.replace("_", "."): value for name, value in values.items()}
    return {PATH: ObservedCgroup(PATH, 7, found)}


def test_a_file_that_holds_it_is_taken_over_with_what_was_before() -> None:
    plugin = journal(HIGH, LOW)
    seen = observed(memory_high="8192", memory_low="8192")
    assert taken_over(JournalState(), plugin, seen, 4096) == [HIGH, LOW]
    assert taken_over(journal(HIGH), plugin, seen, 4096) == [LOW]


def test_what_is_gone_or_anothers_is_left() -> None:
    plugin = journal(HIGH, LOW)
    assert taken_over(JournalState(), plugin, {}, 4096) == []
    assert taken_over(JournalState(), plugin, observed(memory_high="max"), 4096) == []
    assert taken_over(JournalState(), JournalState(), observed(memory_high="8192"), 4096) == []
