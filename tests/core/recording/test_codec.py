"""Recordings as bytes: what is encoded comes back, whatever is torn or flipped is told."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.core.recording import varints
from qoslet.core.recording.codec import DamagedFrame, Decoder, Encoder
from qoslet.core.recording.frames import FIRST_LINE, Frame, Gap, format_of, frame, scan, whole
from qoslet.core.recording.moment import Moment, RecordedRow, Series
from qoslet.core.recording.recording import Recording
from qoslet.errors import BadInput
from tests.core.recording.examples import SESSION, SyntheticNode, moment, recording, row

HOSTILE = "\x1b]0;x\x07 ../../'\"$(reboot)\n\u202e\U0001f4a9"

_names = st.sampled_from(["memory.current", "stat.anon", "events.high", "x", HOSTILE])
_values = st.dictionaries(_names, st.integers(-(1 << 70), 1 << 70), max_size=4)
_paths = st.sampled_from(["", "/a", "/a/b", "/a/c", f"/{HOSTILE}"])
_series = st.lists(
    st.builds(Series, _paths, st.integers(0, 3), _values),
    max_size=5,
    unique_by=lambda one: one.path,
)
_rows = st.lists(
    st.builds(
        row, st.sampled_from(["/a", "/a/b", "/a/c", "/d", f"/{HOSTILE}"]), uid=st.sampled_from("uv")
    ),
    max_size=6,
    unique_by=lambda one: one.key,
)


@dataclass(frozen=True)
class Step:
    series: list[Series]
    rows: list[RecordedRow]
    wall: int
    is_key: bool
    skipped: bool


_steps = st.lists(
    st.builds(Step, _series, _rows, st.integers(0, 1 << 42), st.booleans(), st.booleans()),
    min_size=1,
    max_size=8,
)


@given(_steps)
@settings(deadline=None)
def test_what_is_encoded_comes_back(steps: list[Step]) -> None:
    encoder, decoder = Encoder(), Decoder()
    decoder.feed(encoder.session(SESSION))
    for number, one in enumerate(steps):
        series = {each.path: each for each in one.series}
        fresh = frozenset(list(series)[::2] if one.skipped else series)
        given_moment = Moment(one.wall / 1000, float(number), series, tuple(one.rows), fresh)
        payload = encoder.moment(given_moment, key=not number or one.is_key)
        assert decoder.feed(payload) == given_moment
    assert decoder.session == SESSION


@given(st.integers(-(1 << 130), 1 << 130))
def test_changes_of_numbers_come_back(change: int) -> None:
    out = bytearray()
    varints.put(out, varints.folded(change))
    assert varints.take(bytes(out), 0) == (varints.folded(change), len(out))
    assert varints.unfolded(varints.folded(change)) == change


def made() -> bytes:
    node = SyntheticNode(1, 1)
    return recording(*(node.moment(5.0 * number) for number in range(4)))


def test_a_tail_that_is_torn_at_any_byte_is_cut() -> None:
    data = made()
    frames = [one for one in scan(data) if isinstance(one, Frame)]
    before = frames[-2].end
    for end in range(before, len(data)):
        torn = data[:end]
        assert whole(torn) == before
        read = Recording([("r", torn)])
        assert len(read) == 3
        assert bool(read.notes) == (end > before)


def test_flipped_bits_are_told_and_never_a_traceback() -> None:
    data, refused = made(), 0
    for at in range(len(data)):
        for bit in (0, 5):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            try:
                read = Recording([("r", bytes(flipped))])
                found = list(read.moments())
            except BadInput:
                refused += 1
                continue
            assert read.notes
            assert len(found) < 4
    assert refused == 2 * len(FIRST_LINE)


def test_damage_costs_the_moments_up_to_the_next_key_frame() -> None:
    encoder, node = Encoder(), SyntheticNode(1, 1)
    frames = [frame(encoder.session(SESSION))]
    frames += [frame(encoder.moment(node.moment(5.0 * n), key=n % 3 == 0)) for n in range(9)]
    broken = bytearray(frames[5])
    broken[-1] ^= 1
    read = Recording([("r", FIRST_LINE + b"".join([*frames[:5], bytes(broken), *frames[6:]]))])
    assert [one.at for one in read.moments()] == [0.0, 5.0, 10.0, 15.0, 30.0, 35.0, 40.0]
    assert [read.moment(number).at for number in (6, 0, 3, 2)] == [40.0, 0.0, 15.0, 10.0]


@given(st.binary(max_size=200))
def test_any_payload_is_decoded_or_damaged(payload: bytes) -> None:
    decoder = Decoder()
    for kind in (b"H", b"K", b"D", b""):
        try:
            decoder.feed(kind + payload)
        except DamagedFrame:
            continue


@given(st.binary(max_size=300))
def test_any_bytes_are_frames_and_gaps(data: bytes) -> None:
    parts = scan(FIRST_LINE + data)
    assert sum(one.size for one in parts if isinstance(one, Gap)) == len(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is not a recording"),
        (b"qoslet recording x\n", "is not a recording"),
        (b"\x1f\x8b\x08 something else", "is not a recording"),
        (b"qoslet recording 2\nnew", "has format 2, this qoslet reads 1"),
    ],
)
def test_other_files_are_refused_with_one_line(data: bytes, said: str) -> None:
    assert format_of(data) != 1
    with pytest.raises(BadInput, match=said):
        Recording([("r", data)])


def test_a_recreated_cgroup_is_another_series_without_rates() -> None:
    rows = (row("/a"),)
    first = Series("/a", 1, {"cpu.usage_usec": 9_000_000, "memory.current": 4096})
    again = Series("/a", 2, {"cpu.usage_usec": 5_000_000, "memory.current": 8192})
    later = Series("/a", 2, {"cpu.usage_usec": 7_000_000, "memory.current": 8192})
    read = Recording(
        [
            (
                "r",
                recording(
                    *(
                        moment(5.0 * n, one, rows=rows)
                        for n, one in enumerate([first, again, later])
                    )
                ),
            )
        ]
    )
    shown = [read.top(number)[0][0] for number in range(3)]
    assert [one.cpu for one in shown] == [None, None, 0.4]
    assert [one.memory for one in shown] == [4096, 8192, 8192]


def test_a_clock_that_is_set_back_changes_no_rates_and_no_order() -> None:
    rows = (row("/a"),)
    moments = []
    for number, wall in enumerate((5000.0, 5005.0, 1400.0, 1405.0)):
        series = Series("/a", 1, {"cpu.usage_usec": 1_000_000 * number})
        moments.append(Moment(wall, 10.0 + 5 * number, {"/a": series}, rows, frozenset({"/a"})))
    read = Recording([("r", recording(*moments))])
    assert read.seconds == (0.0, 5.0, 10.0, 15.0)
    assert [read.top(number)[0][0].cpu for number in range(4)] == [None, 0.2, 0.2, 0.2]
    assert read.at_wall(1400.0) == 2
    assert read.at_seconds(9.9) == 1


def test_another_boot_begins_without_rates() -> None:
    rows = (row("/a"),)
    one = recording(moment(500.0, Series("/a", 1, {"cpu.usage_usec": 1}), rows=rows))
    other = SESSION.__class__("boot-2", 1.0, 5.0, "v2", 4096, {})
    two = recording(
        moment(900.0, Series("/a", 1, {"cpu.usage_usec": 9_000_000}), rows=rows), session=other
    )
    read = Recording([("r.1", one), ("r", two)])
    assert len(read) == 2
    assert read.top(1)[0][0].cpu is None
    assert (read.session(0).boot, read.session(1).boot) == ("boot-1", "boot-2")


@pytest.mark.parametrize(("busy", "most"), [(10, 1_000_000), (110, 10_000_000)])
def test_an_hour_of_110_pods_is_small(busy: int, most: int) -> None:
    """Measured over two runs of the key frame's length and taken to an hour."""
    node, encoder, sizes = SyntheticNode(110, busy), Encoder(), []
    for number in range(40):
        payload = encoder.moment(node.moment(5.0 * number), key=not number)
        sizes.append(len(frame(payload)))
    hour = 4 * sizes[0] + 716 * sum(sizes[1:]) / 39
    assert hour <= most, f"{hour / 1e6:.2f} MB"
