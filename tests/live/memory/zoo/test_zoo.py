"""Rows of the zoo that once hung, or cost an innocent pod its life: each must be as its row says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.memory.zoo import swaps
from tests.live.memory.zoo.build import build
from tests.live.memory.zoo.drive import line_of, play, prepared, say
from tests.live.memory.zoo.scenes import SCENES
from tests.live.systemd.slices import need_guest

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

ROWS = (
    ("1.22", "volume-files-empty,volume-files-small"),
    ("1.22", "burst,reader,opted-out,two-containers"),
    ("1.22", "sendfile,splice,stalls-beside-work,open-files"),
    ("node, MAP_SHARED", ""),
    ("node, pipes", ""),
)
"""A scene, and its loads; all without."""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    need_guest()
    made = build(tmp_path)
    if made is None:
        pytest.skip("no C compiler in this guest")
    return made


@pytest.mark.parametrize(("name", "loads"), ROWS)
def test_v2_zoo(program: Path, name: str, loads: str, record_property) -> None:
    (scene,) = (one for one in SCENES if one.name == name)
    if loads:
        scene = scene.only(loads.split(","))
    with prepared(), swaps.swap(*scene.swap):
        rows = list(play(scene, program, program.parent))
    for row in rows:
        say(line_of(row))
    assert [(row.load.name, row.faults) for row in rows if row.faults] == []
    record_property("compared", len(rows))
