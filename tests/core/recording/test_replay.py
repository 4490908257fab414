"""What a policy would have done on recordings of real kernels' stalls, and on shortages."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from qoslet import schema
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.recording.moment import Moment, RecordedRow, Series
from qoslet.core.recording.recording import Recording
from qoslet.core.recording.replay.policy import ReplayPolicy, settings, with_settings
from qoslet.core.recording.replay.result import ReplayResult
from qoslet.core.recording.replay.run import replay
from qoslet.core.recording.values import STAT, memory_sample, node_series
from qoslet.core.status.node_top import PlannedRow
from qoslet.errors import BadInput
from qoslet.render.documents.replay import replay_document
from qoslet.render.text.live.replay import draw
from tests.core.pressure.test_throttle_stall import STALLS
from tests.core.recording.examples import SESSION, recording
from tests.paths import DATA

MIB, GIB = 1 << 20, 1 << 30
TRACES = sorted((DATA / "stalls").glob("*/*.jsonl"))
POD, APP = "/pods/u1", "/pods/u1/app"


def planned(path: str, level: str, qos: str = "Burstable", **fields: object) -> RecordedRow:
    row = PlannedRow(path, path, level, path, "", 0, qos, memory_request=64 * MIB)  # type: ignore[arg-type]
    container = "app" if level == "container" else ""
    uid = "" if level == "node" else path.split("/")[2]
    pod = f"default/{uid}" if uid else ""
    return RecordedRow(row, uid, pod, container, **fields)  # type: ignore[arg-type]


def series_of(sample: MemorySample, path: str) -> Series:
    """The numbers of a sample, as the recorder reads them."""
    found = {
        "memory.current": sample.current,
        "memory.high": sample.high,
        "memory.max": sample.max,
        "memory.swap.current": sample.swap,
        "memory.swap.max": sample.swap_max,
        "cpu.usage_usec": sample.usage_usec,
        "cpu.user_usec": sample.user_usec,
        **{f"stat.{name}": sample.stat.get(name) for name in STAT},
        **{f"events.{name}": count for name, count in sample.events.items()},
        **{f"local.{name}": count for name, count in sample.local.items()},
    }
    if sample.pressure is not None:
        one = sample.pressure
        found |= {
            "memory.pressure.some.avg10": round(one.some_avg10 * 100),
            "memory.pressure.some.total": one.some_total,
            "memory.pressure.full.avg10": round(one.full_avg10 * 100),
            "memory.pressure.full.total": one.full_total,
        }
    return Series(path, 7, {name: value for name, value in found.items() if value is not None})


def trace(file: Path, available: int, every: int = 1) -> Recording:
    """A recording of a container that does what a recorded one did, on a node with so much memory."""
    rows = (planned("/pods", "node"), planned(POD, "pod"), planned(APP, "container"))
    moments = []
    for line in file.read_text().splitlines()[1::every]:
        row = json.loads(line)["sample"]
        sample = msgspec.convert({"path": APP, "identity": 7, **row}, MemorySample)
        node = NodeMemory(sample.at, 16 * GIB, available, available, 0, 4 * GIB)
        above = {"memory.current": sample.current}
        series = (
            node_series(node),
            Series("/pods", 1, above),
            Series(POD, 2, above),
            series_of(sample, APP),
        )
        found = {one.path: one for one in series}
        moments.append(Moment(1e6 + sample.at, sample.at, found, rows, frozenset(found)))
    return Recording([("r", recording(*moments))])


@pytest.mark.parametrize("file", TRACES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_only_real_stalls_are_answered(file: Path) -> None:
    poor = replay(trace(file, 100 * MIB), ReplayPolicy("act"))
    rich = replay(trace(file, 12 * GIB), ReplayPolicy("act"))
    assert not rich.kills
    if file.stem not in STALLS:
        assert (poor.kills, poor.stalls, rich.stalls) == ((), (), ())
        return
    assert poor.stalls
    assert all(stall.relief is not None for stall in rich.stalls)
    assert {stall.relieved_by for stall in rich.stalls} <= {"raise", "limit"}


def stalled(available: int = 100 * MIB) -> Recording:
    (file,) = [one for one in TRACES if one.parent.name == "6.12" and one.stem == "stalled-kep"]
    return trace(file, available)


def test_a_kill_of_what_stays_stalled_is_not_false() -> None:
    result = replay(stalled(), ReplayPolicy("act"))
    (kill,) = result.kills
    assert (kill.path, kill.pod, kill.container) == (APP, "default/u1", "app")
    assert (kill.outcome, kill.is_false, kill.cause) == ("stalled", False, "stall")
    assert result.stalls[0].relieved_by == "end"
    assert "end" in {one.answer for one in result.decisions}


def test_a_kill_of_what_gets_on_later_is_false() -> None:
    """The stall ends by itself: the container frees what it holds."""
    read = stalled()
    moments = list(read.moments())
    last = moments[-1]
    for number in range(1, 8):
        sample = memory_sample(last.series[APP], 0.0)
        assert sample is not None
        values = {**last.series[APP].values, "memory.current": sample.current // 2}
        series = {**last.series, APP: Series(APP, 7, values)}
        at = last.at + number
        moments.append(Moment(1e6 + at, at, series, last.rows, last.fresh))
    result = replay(Recording([("r", recording(*moments))]), ReplayPolicy("act"))
    (kill,) = result.kills
    assert (kill.outcome, kill.is_false) == ("progressed", True)
    assert kill.after is not None
    assert kill.after > 0
    assert result.false_kills == 1
    assert result.stalls[0].end is not None


def test_a_recorder_that_looks_every_twenty_seconds_shows_a_stall() -> None:
    moments = []
    for one in stalled().moments():
        app = one.series[APP]
        values = {
            name: 40 * value if name.endswith((".total", ".high", "_usec")) else value
            for name, value in app.values.items()
        }
        values["memory.high"] = app.values["memory.high"]
        series = {**one.series, APP: Series(APP, 7, values)}
        moments.append(msgspec.structs.replace(one, at=one.at * 40, series=series))
    slow = msgspec.structs.replace(SESSION, interval=20.0)
    result = replay(Recording([("r", recording(*moments, session=slow))]), ReplayPolicy("act"))
    assert result.stalls


def test_observe_only_tells_and_off_does_nothing() -> None:
    watched = replay(stalled(), ReplayPolicy("observe"))
    assert (watched.kills, watched.stalls[0].relief) == ((), None)
    assert {one.mode for one in watched.decisions} == {"observe"}
    quiet = replay(stalled(), ReplayPolicy("off"))
    assert (quiet.kills, quiet.stalls, quiet.decisions) == ((), (), ())


def test_a_pod_decides_for_itself() -> None:
    moments = [
        msgspec.structs.replace(
            one,
            rows=tuple(
                msgspec.structs.replace(row, guard="off" if row.uid else "") for row in one.rows
            ),
        )
        for one in stalled().moments()
    ]
    result = replay(Recording([("r", recording(*moments))]), ReplayPolicy("act"))
    assert (result.kills, result.stalls) == ((), ())


def test_more_patience_decides_later() -> None:
    usual = replay(stalled(), ReplayPolicy("act"))
    calm = with_settings(ReplayPolicy("act"), ["agreeing-comparisons=5"])
    later = replay(stalled(), calm)
    assert later.kills[0].seconds > usual.kills[0].seconds


def shortage(killed_at: int | None = None, recovers_at: int | None = None) -> Recording:
    """A node that runs out of memory: one pod within its request, one far above it."""
    rows = (planned("/pods", "node"), planned("/pods/small", "pod"), planned("/pods/hog", "pod"))
    moments = []
    for number in range(30):
        is_short = number > 4 and (recovers_at is None or number < recovers_at)
        available = 60 * MIB if is_short else 4 * GIB
        node = NodeMemory(
            float(number), 8 * GIB, available, available, scanned=100_000 * number, stolen=0
        )
        series = [
            node_series(node),
            Series("/pods", 1, {"memory.current": 3 * GIB}),
            Series("/pods/small", 2, {"memory.current": 32 * MIB, "stat.anon": 32 * MIB}),
        ]
        if killed_at is None or number < killed_at:
            series.append(Series("/pods/hog", 3, {"memory.current": 3 * GIB, "stat.anon": 3 * GIB}))
        found = {one.path: one for one in series}
        moments.append(Moment(1e6 + number, float(number), found, rows, frozenset(found)))
    return Recording([("r", recording(*moments))])


@pytest.mark.parametrize(
    ("moments", "outcome"),
    [
        (shortage(), "stalled"),
        (shortage(killed_at=20), "gone"),
        (shortage(recovers_at=20), "progressed"),
    ],
)
def test_the_pod_above_its_request_goes_where_the_node_is_short(
    moments: Recording, outcome: str
) -> None:
    result = replay(moments, ReplayPolicy("act"))
    assert [(kill.pod, kill.cause, kill.outcome) for kill in result.kills] == [
        ("default/hog", "shortage", outcome)
    ]


def test_what_was_evicted_counts_once_though_the_recording_still_has_it() -> None:
    rows = tuple(planned(f"/pods/{name}", "pod") for name in ("a", "b"))
    moments = []
    for number in range(30):
        node = NodeMemory(float(number), 8 * GIB, 60 * MIB, 0, scanned=100_000 * number, stolen=0)
        values = {"memory.current": 500 * MIB, "stat.anon": 500 * MIB}
        series = [node_series(node), *(Series(one.row.path, 3, values) for one in rows)]
        found = {one.path: one for one in series}
        moments.append(Moment(1e6 + number, float(number), found, rows, frozenset(found)))
    result = replay(Recording([("r", recording(*moments))]), ReplayPolicy("act"))
    assert [kill.pod for kill in result.kills] == ["default/a", "default/b"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("patience=1", "unknown setting 'patience'"),
        ("patience_seconds=soon", "'soon' is not a number"),
        ("patience_seconds=nan", "'nan' is not a number"),
        ("patience_seconds", "'' is not a number"),
        ("min_step_bytes=1.5", "'1.5' is not a whole number"),
        ("patience_seconds=-1", "'-1' is not a number"),
    ],
)
def test_settings_are_checked(row: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        with_settings(ReplayPolicy(), [row])


def test_every_setting_can_be_set() -> None:
    for name, value in settings(ReplayPolicy()).items():
        other = with_settings(ReplayPolicy(), [f"{name}={value + 1}"])
        assert settings(other)[name] == value + 1


@pytest.mark.parametrize("read", [stalled(), shortage(), stalled(12 * GIB)])
def test_the_document_is_as_its_schema_says_and_the_table_is_text(read: Recording) -> None:
    policy = with_settings(ReplayPolicy("act"), ["patience_seconds=0.5"])
    result = replay(read, policy)
    document = {**replay_document(read, policy, result), "node": {}}
    published = json.loads(schema.text("replay"))
    published["properties"]["node"] = {}
    jsonschema.validate(json.loads(json.dumps(document)), published)
    text = "\n".join(draw(read, policy, result))
    assert f"{len(result.kills)} kill" in text
    assert "guard act, patience_seconds 0.5" in text


def test_hostile_names_are_text() -> None:
    moments = [
        msgspec.structs.replace(
            one, rows=tuple(msgspec.structs.replace(row, pod="\x1b[2J\u202e/x") for row in one.rows)
        )
        for one in stalled().moments()
    ]
    read = Recording([("r", recording(*moments, session=SESSION))])
    result: ReplayResult = replay(read, ReplayPolicy("act"))
    assert result.kills
    assert not {"\x1b", "\u202e"} & set("".join(draw(read, ReplayPolicy("act"), result)))
