"""The zoo's parts that need no guest: what a row says of a load, and the page that keeps rows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.live.memory.zoo.build import COMPILERS, HERE, build
from tests.live.memory.zoo.drive import chosen
from tests.live.memory.zoo.judge import Watched, result
from tests.live.memory.zoo.load import Load
from tests.live.memory.zoo.loads import PLAIN
from tests.live.memory.zoo.meddle import MEDDLING
from tests.live.memory.zoo.pods import manifest
from tests.live.memory.zoo.scenes import SCENES
from tests.vm.zoo import HEADS, _row, merged, rows_from, rows_of, write_page

BURST = Load("burst", ("burst", 90), "finishes")
OVER = Load("over", ("burst", 110), "killed")
READER = Load("reader", ("reader", 150), "untouched")
WRITES = Load("loop", ("looped", 60, 80), "as alone")
DONE = "burst.c0 90 1 0 2.50 0 0.90 0.00 0.10 12 0 0 90"
LIVES = "reader.c0 900 0 0 40.00 1 0.10 0.20 0.30 400 0 0 77"
GONE = "over.c0 95 0 0 6.00 0 1.00 2.00 0.10 12 9 1 96"


def faults(load, line, ended=(), answers=()):
    return result("1.22", 3.0, load, [Watched.of(line)], dict(ended), answers).faults


def test_each_row_says_what_an_operator_expects_and_there_are_forty():
    names = [load.name for load in PLAIN]
    assert len(names) == len(set(names)) >= 40
    assert len({scene.name for scene in SCENES}) == len(SCENES)


def test_containers_of_an_image_see_what_a_process_does():
    """Their watcher finds them by PID and cgroup, in the files in which they count."""
    (load,) = (one for one in PLAIN if one.name == "volume")
    spec = json.loads(manifest(load, "/program", "/run/zoo", "zoo"))["spec"]
    (container,) = spec["containers"]
    assert spec["hostPID"]
    assert container["securityContext"] == {"privileged": True}
    mounted = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert mounted == {"scratch": "/scratch", "progress": "/run/zoo", "disk": "/var/tmp"}
    assert {one["name"] for one in spec["volumes"]} == {*mounted}
    plain = json.loads(manifest(load, "/program", "/run/zoo"))["spec"]
    assert "hostPID" not in plain
    assert "image" not in plain["containers"][0]


def test_whoever_meddles_is_known():
    assert {scene.meddled for scene in SCENES if scene.meddled} == {*MEDDLING} - {"resizes"}


def test_scenes_are_chosen_by_name_or_by_its_first_words():
    assert [one.name for one in chosen(["1.22"])] == ["1.22"]
    assert len(chosen(["node"])) == len([one for one in SCENES if one.neighbours]) - 1
    (scene,) = chosen(["1.22:sendfile,burst"])
    assert [load.name for load in scene.loads] == ["burst", "sendfile"]
    assert chosen([]) == list(SCENES)
    for words in ("none", "1.22:none"):
        with pytest.raises(SystemExit, match="none"):
            chosen([words])


def test_what_is_as_expected_has_no_fault():
    assert faults(BURST, DONE, {"c0": "Completed"}, ["lift"]) == ()
    assert faults(OVER, GONE, {"c0": "OOMKilled"}, ["lift"]) == ()
    assert faults(READER, LIVES) == ()
    hog = Load("hog", ("hog", 1500, 10), "evicted", 0, 0)
    assert faults(hog, GONE, {"c0": "Evicted"}, ["end"]) == ()
    assert faults(WRITES, LIVES) == faults(WRITES, GONE, {"c0": "OOMKilled"}, ["limit"]) == ()


@pytest.mark.parametrize(
    ("load", "line", "ended", "answers", "fault"),
    [
        (BURST, LIVES, {}, [], "running, expected: finishes"),
        (BURST, DONE.replace(" 0.90", " 3.10"), {}, [], "no step for 3.1 s at memory.high, 3 s"),
        (OVER, DONE, {"c0": "Completed"}, [], "finished, expected: killed"),
        (READER, LIVES, {}, ["lift", "lift"], "decided: lift, lift"),
        (READER, GONE, {"c0": "Evicted"}, [], "evicted, expected: untouched"),
        (READER, GONE, {"c0": "Error"}, [], "ended: Error, expected: untouched"),
        (WRITES, GONE, {"c0": "Error"}, [], "ended: Error, expected: as alone"),
        (WRITES, GONE, {"c0": "Evicted"}, ["evict"], "evicted, expected: as alone"),
        (BURST, "burst.c0 9 2 28 1 0 0 0 0 0 0 0 9", {"c0": "Error"}, [], "failed with errno 28"),
    ],
)
def test_what_is_not_is_said(load, line, ended, answers, fault):
    (found,) = faults(load, line, ended, answers)
    assert found.startswith(fault)


def test_a_fault_says_for_how_long_there_was_no_cpu():
    """The kernel counts for how long a thread could have run and had no CPU."""
    starved = DONE.replace(" 0.90", " 9.00")
    (fault,) = faults(BURST, f"{starved} 6.50", {"c0": "Completed"}, ["limit"])
    assert fault == "no step for 9.0 s at memory.high (6.5 s of it without a CPU), 3 s at most"
    (fault,) = faults(BURST, f"{starved} 0.10", {"c0": "Completed"}, ["limit"])
    assert fault == "no step for 9.0 s at memory.high, 3 s at most"


def test_a_pod_without_steps_did_not_start():
    row = result("1.22", 3.0, BURST, [], {}, [])
    assert row.faults == ("did not start, expected: finishes",)


def test_the_slowest_container_of_a_pod_counts():
    slow = Watched.of(DONE.replace(" 0.90", " 2.00"))
    assert result("1.22", 3.0, BURST, [Watched.of(DONE), slow], {}, []).at_high == 2.0


def test_a_load_that_is_left_alone_may_hang():
    alone = Load("opted-out", ("burst", 90), "left alone", guard="off")
    hangs = LIVES.replace(" 0.10 0.20", " 39.00 0.20")
    assert faults(alone, hangs) == ()
    assert faults(alone, hangs, answers=["lift"]) == ("decided: lift",)


def row(system, load, seen):
    parts = [Watched.of(DONE)]
    made = result("1.22", 3.0, Load(load, ("burst", 90), "finishes"), parts, {}, ["lift"])
    return _row(system, seen, [made.document()])


def test_the_page_keeps_what_did_not_run(tmp_path: Path):
    page = tmp_path / "page.md"
    write_page(
        [row("sid-zoo (Linux 7.2)", "a", "old"), row("trixie-zoo (Linux 6.12)", "a", "old")], page
    )
    write_page(
        [row("trixie-zoo (Linux 6.13)", "a", "new"), row("trixie-zoo (Linux 6.13)", "b", "new")],
        page,
    )
    assert [(one["system"], one["load"], one["seen"]) for one in rows_of(page.read_text())] == [
        ("trixie-zoo (Linux 6.13)", "a", "new"),
        ("trixie-zoo (Linux 6.13)", "b", "new"),
        ("sid-zoo (Linux 7.2)", "a", "old"),
    ]
    assert merged("", []) == []
    text = page.read_text()
    assert re.search(
        r"\| burst 90 \| 96 \| finishes \| 1 \| finished \| 0\.9 \| - \| 0\.1 \| lift \|", text
    )
    assert all(line.count("|") == len(HEADS) + 1 for line in text.splitlines() if line[:1] == "|")


def test_a_load_that_was_played_several_times_has_its_median_and_worst():
    lines = [GONE, GONE.replace(" 1.00", " 4.00"), GONE.replace(" 1.00", " 2.00")]
    ends = [{"c0": "OOMKilled"}, {}, {"c0": "OOMKilled"}]
    documents = [
        result("1.22", 3.0, OVER, [Watched.of(line)], ended, ["limit"]).document()
        for line, ended in zip(lines, ends, strict=True)
    ]
    (found,) = rows_from("trixie-zoo (Linux 6.12)", "new", documents)
    assert (found["times"], found["at high"], found["at max"]) == ("3", "2.0 / 4.0", "2.0 / 2.0")
    assert (found["outcome"], found["decided"]) == ("killed (2 of 3); running (1 of 3)", "limit")
    assert "no step for 4.0 s at memory.high, 3 s at most (1 of 3)" in found["fault"]


def test_rows_stand_in_the_order_of_the_zoo():
    label = "trixie-zoo (Linux 6.12)"
    names = ["of-former-times", "reader", "burst"]
    assert [one["load"] for one in merged("", [row(label, name, "new") for name in names])] == [
        *("burst", "reader", "of-former-times"),
    ]


def test_neighbours_are_counted_unless_something_happened_to_them(tmp_path: Path):
    (scene,) = chosen(["node, SysV"])

    def documents(innocent):
        rows = [result(scene.name, 3.0, scene.loads[0], [Watched.of(GONE)], {"c0": "Evicted"}, [])]
        for load in scene.neighbours:
            ends = {"c0": "Evicted"} if load.name == innocent else {}
            rows.append(result(scene.name, 3.0, load, [Watched.of(LIVES)], ends, []))
        return [row.document() for row in rows]

    page = tmp_path / "page.md"
    write_page(rows_from("sid-zoo (Linux 7.2)", "old", documents("quiet-g0")), page)
    hog, innocent = rows_of(page.read_text())
    assert hog["outcome"] == "evicted; 10 neighbours untouched"
    assert (innocent["load"], innocent["fault"]) == ("quiet-g0", "evicted, expected: untouched")
    write_page(rows_from("sid-zoo (Linux 7.2)", "new", documents("")), page)
    (hog,) = rows_of(page.read_text())
    assert hog["outcome"] == "evicted; 11 neighbours untouched"


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C compiler")
def test_every_row_names_a_load_of_the_program(tmp_path: Path):
    program = build(tmp_path)
    assert program is not None
    listed = subprocess.run([program, "list"], capture_output=True, text=True, check=True).stdout
    loads = [load for scene in SCENES for load in (*scene.loads, *scene.neighbours)]
    words = {one[0] for load in loads for one in (load.words, load.sibling) if one}
    assert words == set(listed.split())
    assert all(source.stat().st_size for source in HERE.glob("*.c"))
