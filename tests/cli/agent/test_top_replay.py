"""``qoslet top --replay``: moments of a recording, printed."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from qoslet import schema
from qoslet.app.top.replayed_top import ReplayedTop
from qoslet.core.recording.moment import Series
from tests.cli.fixtures import run
from tests.core.recording.examples import moment, recording, row

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A minute of one container that uses a CPU more with each moment."""
    rows = (row("/pods", "node"), row("/pods/a\x1b[2J", "container"))
    moments, used = [], 0
    for number in range(13):
        used += 5_000_000 * number
        values = {"memory.current": (number + 1) * MIB, "cpu.usage_usec": used}
        series = (Series("/pods", 1, values), Series("/pods/a\x1b[2J", 2, values))
        moments.append(moment(5.0 * number, *series, rows=rows))
    (tmp_path / "r").write_bytes(recording(*moments))
    return tmp_path


@pytest.mark.parametrize(
    ("at", "number"),
    [
        ((), 12),
        (("--at", "-30s"), 6),
        (("--at=-30s",), 6),
        (("--at", "-1m"), 0),
        (("--at", "+14s"), 2),
        (("--at", "13:46:55"), 3),
        (("--at", "1970-01-12T13:46:51Z"), 2),
        (("--at", "1970-01-12T14:46:51+01:00"), 2),
    ],
)
def test_a_moment_is_printed(folder: Path, at: tuple[str, ...], number: int) -> None:
    done = run("top", "--replay", "r", *at, "-o", "json", folder=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    published = json.loads(schema.text("top"))
    rows = {**published["properties"]["cgroups"], "$defs": published["$defs"]}
    jsonschema.validate(document["cgroups"], rows)
    (pods, container) = document["cgroups"]
    assert container["memoryBytes"] == (number + 1) * MIB
    assert pods["cpuCores"] == (number or None)
    assert document["recordedAt"].startswith("1970-01-12T13:4")


def test_the_table_says_which_moment_and_no_name_reaches_the_terminal(folder: Path) -> None:
    done = run("top", "--replay", "r", "--at", "-30s", folder=folder)
    assert done.returncode == 0
    assert "1970-01-12T13:47:10.000Z · 0:00:30 of 0:01:00" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--replay", "absent"), "absent: does not exist"),
        (("--replay", "r", "--at", "later"), "is not a time such as"),
        (
            ("--replay", "r", "--at", "13:46"),
            "from 1970-01-12T13:46:40.000Z to 1970-01-12T13:47:40",
        ),
        (("--replay", "r", "--at", "-2h"), "is not a time in the recording"),
        (("--replay", "r", "--speed", "0"), "must be 0.001 to 100000"),
        (("--replay", "r", "-f", "x.yaml"), "cannot be given with"),
        (("--at", "-3s"), "needs --replay"),
        (("--replay", "notes"), "is not a recording"),
        (("--replay", "empty"), "holds no moment"),
    ],
)
def test_bad_input_is_one_line(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    (folder / "notes").write_text("hello")
    (folder / "empty").write_bytes(b"qoslet recording 1\n")
    done = run("top", *arguments, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_it_plays_seeks_and_stops_at_the_ends(folder: Path) -> None:
    top = ReplayedTop(str(folder / "r"), 10.0, lambda _: None)

    def shown() -> int:
        found = top.look()[0].memory
        assert found is not None
        return found // MIB - 1

    assert [shown() for _ in range(8)] == [0, 2, 4, 6, 8, 10, 12, 12]
    top.seek(-30)
    assert [shown(), shown()] == [6, 8]
    top.seek(1)
    assert shown() == 9
    top.seek(float("inf"))
    assert shown() == 12
    top.seek(float("-inf"))
    assert shown() == 0
