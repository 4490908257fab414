"""Lines for a surface: each once, the last of them."""

from __future__ import annotations

from qoslet.core.notes import MOST, Notes


def test_a_line_is_kept_once():
    notes = Notes()
    assert [notes.keep(line) for line in ("a", "b", "a")] == [True, True, False]
    assert notes == ["a", "b"]


def test_only_the_last_lines_are_kept():
    notes = Notes()
    for number in range(MOST + 2):
        notes.keep(str(number))
    assert (len(notes), notes[0]) == (MOST, "2")
    assert notes.keep("0"), "it may be said anew"
