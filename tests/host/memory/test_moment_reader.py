"""The numbers of cgroups for a recording, read from directories that look like a hierarchy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from qoslet.core.recording.moment import NODE, RecordedRow
from qoslet.core.recording.values import memory_sample
from qoslet.core.status.node_top import PlannedRow
from qoslet.host.memory.moment_reader import QUIET_SECONDS, MomentReader

POD, APP = "/pods/u1", "/pods/u1/app"


def rows() -> tuple[RecordedRow, ...]:
    return tuple(
        RecordedRow(PlannedRow(path, path, level, path, "", 0), uid=uid)  # type: ignore[arg-type]
        for path, level, uid in (("/pods", "qos", ""), (POD, "pod", "u1"), (APP, "container", "u1"))
    )


class Times:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def times() -> Times:
    return Times()


def make(root: Path, path: str, **files: str) -> None:
    folder = root / path.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "cpu.stat": "usage_usec 1000\nuser_usec 900\nthrottled_usec 7",
        "memory.current": "4096",
        "memory.high": "max",
        "memory.stat": "anon 4096\nfile 0\nunknown 9",
        "memory.pressure": "some avg10=1.25 avg60=0.00 avg300=0.00 total=5\n"
        "full avg10=0.50 avg60=0.00 avg300=0.00 total=3",
        **{name.replace("_", "."): text for name, text in files.items()},
    }
    for name, text in texts.items():
        (folder / name).write_text(text + "\n")


def reader(root: Path, times: Times) -> MomentReader:
    return MomentReader("v2", str(root), clock=times, wall=lambda: 1_700_000_000.0)


def test_a_pod_that_did_nothing_is_left_alone_for_a_while(tmp_path: Path, times: Times) -> None:
    for path in ("/pods", POD, APP):
        make(tmp_path, path)
    one = reader(tmp_path, times)
    assert one.read(rows()).fresh == {NODE, "/pods", POD, APP}
    make(tmp_path, APP, memory_current="8192")
    times.now += 5
    moment = one.read(rows())
    assert moment.fresh == {NODE, "/pods"}
    assert moment.series[APP].values["memory.current"] == 4096
    assert one.quiet == 2
    make(tmp_path, POD, cpu_stat="usage_usec 1001")
    times.now += 5
    assert one.read(rows()).series[APP].values["memory.current"] == 8192
    times.now += QUIET_SECONDS
    assert one.read(rows()).fresh == {NODE, "/pods", POD, APP}


def test_a_pod_near_its_limits_is_always_read(tmp_path: Path, times: Times) -> None:
    for path in ("/pods", POD, APP):
        make(tmp_path, path, memory_high="4096")
    one = reader(tmp_path, times)
    for _ in range(3):
        assert APP in one.read(rows()).fresh
        times.now += 1


def test_a_recreated_pod_is_read_though_its_numbers_are_the_same(
    tmp_path: Path, times: Times
) -> None:
    for path in ("/pods", POD, APP):
        make(tmp_path, path)
    one = reader(tmp_path, times)
    before = one.read(rows()).series[POD].identity
    (tmp_path / "pods" / "u1").rename(tmp_path / "old")
    for path in (POD, APP):
        make(tmp_path, path)
    times.now += 1
    moment = one.read(rows())
    assert POD in moment.fresh
    assert moment.series[POD].identity != before


def test_what_is_absent_has_no_series_and_no_numbers(tmp_path: Path, times: Times) -> None:
    make(tmp_path, "/pods")
    one = reader(tmp_path, times)
    assert set(one.read(rows()).series) == {NODE, "/pods"}
    for path in (POD, APP):
        make(tmp_path, path)
    values = one.read(rows()).series[APP].values
    assert "memory.max" not in values
    assert "stat.unknown" not in values
    shutil.rmtree(tmp_path / "pods" / "u1")
    times.now += 1
    assert set(one.read(rows()).series) == {NODE, "/pods"}
    one.close()


def test_the_guard_reads_the_same_numbers_of_a_recording(tmp_path: Path, times: Times) -> None:
    for path in ("/pods", POD, APP):
        make(tmp_path, path)
    sample = memory_sample(reader(tmp_path, times).read(rows()).series[APP], 100.0)
    assert sample is not None
    assert (sample.current, sample.usage_usec, sample.user_usec) == (4096, 1000, 900)
    assert sample.stat == {"anon": 4096, "file": 0}
    assert sample.pressure is not None
    assert (sample.pressure.some_avg10, sample.pressure.full_total) == (1.25, 3)
