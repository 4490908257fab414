"""The journal as text: whatever is torn or damaged, no good line is lost and no bad one counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.reconcile.journal import (
    Adopted,
    Created,
    CreateIntent,
    Entry,
    Header,
    JournalState,
    ParsedJournal,
    ReadBack,
    Released,
    Removed,
    Set,
    Verified,
    lines,
    read,
)

HEADER = Header("boot", "v1", "/qoslet", 7)
PATHS = st.sampled_from(["/q", "/q/a", "/q/a/b"]) | st.text(max_size=8)
ENTRIES = st.one_of(
    st.builds(CreateIntent, PATHS),
    st.builds(Created, PATHS, st.integers(1, 9)),
    st.builds(Set, PATHS, st.sampled_from(["f", "g"]), st.none() | st.text(max_size=4), st.text()),
    st.builds(Removed, PATHS, st.booleans()),
    st.builds(Released, PATHS, st.sampled_from(["f", "g"])),
    st.builds(Adopted, PATHS, st.integers(1, 9)),
    st.builds(ReadBack, PATHS, st.sampled_from(["f", "g"]), st.text(max_size=4)),
    st.just(Verified()),
)


def ledger(*entries: Entry) -> JournalState:
    made = JournalState()
    made.add(entries)
    return made


def test_a_line_is_a_checksum_and_json() -> None:
    assert lines([Created("/q/ü", 5)]) == '40b1aa9e ["made","/q/ü",5]\n'.encode()


def test_the_removal_of_a_cgroup_whose_name_is_no_text_is_left_out() -> None:
    ours: list[Entry] = [Removed("/q/ü"), Created("/q", 4)]
    assert lines([ours[0], Removed("/q/\udcff"), ours[1]]) == lines(ours)
    with pytest.raises(UnicodeEncodeError):
        lines([Created("/q/\udcff", 5)])


@given(st.lists(ENTRIES))
def test_what_is_written_is_read(entries: list[Entry]) -> None:
    assert read(lines([HEADER, *entries])) == ParsedJournal(HEADER, tuple(entries))


@given(st.lists(ENTRIES, min_size=1), st.data())
def test_a_torn_tail_costs_what_is_torn(entries: list[Entry], data: st.DataObject) -> None:
    whole = lines([HEADER, *entries])
    last = len(lines(entries[-1:]))
    cut = data.draw(st.integers(1, last))
    found = read(whole[:-cut])
    assert found == ParsedJournal(HEADER, tuple(entries[:-1]), int(cut < last))


@given(st.lists(ENTRIES, min_size=1), st.data())
def test_a_changed_byte_costs_its_line(entries: list[Entry], data: st.DataObject) -> None:
    whole = bytearray(lines([HEADER, *entries]))
    start = len(lines([HEADER]))
    place = data.draw(st.integers(start, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    found = read(bytes(whole))
    assert found.header == HEADER
    assert found.bad >= 1
    assert len(found.entries) >= len(entries) - 2
    assert all(entry in entries for entry in found.entries)


@given(st.binary())
def test_any_bytes_are_read(data: bytes) -> None:
    assert read(data).header is None


@pytest.mark.parametrize(
    "data", [b"", b"\n", lines([Created("/q", 1)]), lines([Header("b", "v1", "/q", 1, format=2)])]
)
def test_without_a_header_of_this_format_there_is_none(data: bytes) -> None:
    assert read(data).header is None


@given(st.lists(ENTRIES))
def test_the_shortest_journal_comes_to_the_same(entries: list[Entry]) -> None:
    whole = ledger(*entries)
    short = whole.entries()
    assert ledger(*short) == whole
    assert ledger(*short).entries() == short


def test_the_first_value_before_and_the_last_one_written_count() -> None:
    found = ledger(Set("/q", "f", "1", "2"), Set("/q", "f", "2", "3"))
    assert found.files == {("/q", "f"): ("1", "3")}
    found.add([Removed("/q", done=True)])
    assert found.files == {}


@pytest.mark.parametrize(
    ("entries", "ours"),
    [
        ([], False),
        ([Created("/q", 5)], True),
        ([Created("/q", 6)], False),
        ([CreateIntent("/q")], True),
        ([Created("/q", 6), CreateIntent("/q")], True),
        ([Created("/q", 6), CreateIntent("/q"), Created("/q", 7)], False),
        ([Created("/q", 5), Removed("/q")], True),
        ([Created("/q", 6), Removed("/q")], False),
        ([Created("/q", 5), Removed("/q", done=True)], False),
        ([Created("/q", 5), Removed("/q", done=True), CreateIntent("/q"), Created("/q", 6)], False),
    ],
)
def test_ours_is_what_was_made_and_is_not_gone(entries: list[Entry], ours: bool) -> None:
    assert ledger(*entries).is_owned("/q", 5) is ours


def test_a_file_that_was_left_begins_anew_with_its_next_value() -> None:
    found = ledger(
        Adopted("/s", 5), Set("/s", "f", "0", "1"), Set("/s", "g", "7", "8"), Released("/s", "f")
    )
    assert (found.names, found.files) == ({"/s": {"g"}}, {("/s", "g"): ("7", "8")})
    found.add([Set("/s", "f", "3", "1")])
    assert found.files["/s", "f"] == ("3", "1"), "what stood there meanwhile is from before us"
    assert ledger(*found.entries()) == found
