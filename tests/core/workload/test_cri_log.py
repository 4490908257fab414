"""Log entries as kubelets read them: whole lines, long ones in parts, the end without a newline."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.workload.cri_log import LONGEST, LogEntry, entries, last, parse, path_of

AT = b"2016-10-06T00:17:09.669794202Z"


def read(text: bytes) -> list[LogEntry]:
    """The entries of a log that ends in a newline."""
    assert text == b"" or text.endswith(b"\n")
    found = [parse(line) for line in text.split(b"\n")[:-1]]
    assert None not in found, text
    return [one for one in found if one is not None]


def joined(found: list[LogEntry]) -> bytes:
    """What was printed."""
    return b"".join(one.text + (b"" if one.partial else b"\n") for one in found)


def test_the_example_of_the_cri() -> None:
    text, rest = entries(AT, b"stdout", b"The content of the log entry 1\n")
    assert text == AT + b" stdout F The content of the log entry 1\n"
    assert rest == b""


def test_a_line_that_is_not_over_waits_for_its_rest() -> None:
    text, rest = entries(AT, b"stderr", b"one\n\ntwo")
    assert [(e.text, e.partial) for e in read(text)] == [(b"one", False), (b"", False)]
    text, rest = entries(AT, b"stderr", rest + b" more\n")
    assert read(text) == [LogEntry(AT, b"stderr", False, b"two more")]
    assert rest == b""
    assert read(last(AT, b"stderr", b"end")) == [LogEntry(AT, b"stderr", True, b"end")]
    assert last(AT, b"stderr", b"") == b""


@pytest.mark.parametrize("length", [LONGEST - 1, LONGEST, LONGEST + 1, 3 * LONGEST, 50_000])
def test_long_lines_come_in_parts_of_16_kib(length: int) -> None:
    text, rest = entries(AT, b"stdout", b"x" * length + b"\nshort\n")
    found = read(text)
    assert rest == b""
    assert [e.partial for e in found[:-2]] == [True] * ((length - 1) // LONGEST)
    assert not found[-1].partial
    assert not found[-2].partial
    assert all(len(e.text) <= LONGEST for e in found)
    assert joined(found) == b"x" * length + b"\nshort\n"


@given(st.lists(st.binary(max_size=3 * LONGEST) | st.just(b"\n" * 5), max_size=6))
def test_nothing_is_lost_or_made_up_however_it_arrives(pieces: list[bytes]) -> None:
    log, rest = b"", b""
    for piece in pieces:
        text, rest = entries(AT, b"stdout", rest + piece)
        assert len(rest) < LONGEST
        log += text
    found = read(log + last(AT, b"stdout", rest))
    assert joined(found) == b"".join(pieces)
    assert all(len(e.text) <= LONGEST for e in found)


@pytest.mark.parametrize(
    "line",
    [b"", b"text", AT, AT + b" stdout", AT + b" stdout F", AT + b" stdin F x", b"x stdout F y",
     AT + b" stdout G x", b"torn" + AT + b" stdout F x"],
)  # fmt: skip
def test_what_is_no_entry_is_none(line: bytes) -> None:
    assert parse(line) is None


def test_tags_may_be_followed_by_others_and_times_come_as_runtimes_write_them() -> None:
    for at in (b"2016-10-06T00:17:09.66Z", b"2016-10-06T00:17:09.669794202+02:00"):
        assert parse(at + b" stdout P:x:y  a b ") == LogEntry(at, b"stdout", True, b" a b ")


def test_directories_are_a_kubelets_and_fit_a_file_name() -> None:
    assert path_of("default/web", "u-1") == "default_web_u-1"
    long = path_of(f"{'n' * 63}/{'p' * 253}", "0" * 36)
    assert len(long) == 255
    assert long.endswith(f"_{'0' * 36}")


def test_long_uids_have_directories_of_their_own() -> None:
    names = {path_of("default/web", uid + "0" * 251) for uid in "ab"}
    assert len(names) == 2
    assert all(len(name) <= 255 and name.startswith("default_web_") for name in names)
    (place,) = {
        name.rpartition("_")[2] for name in names if path_of("default/web", "a" + "0" * 251) == name
    }
    assert path_of("default/web", place) in names, "it is found by what its name says"
