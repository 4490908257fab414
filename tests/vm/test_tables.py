"""The parts of the guests' machinery that need no guest: rows, verdicts, what is kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.paths import REPO
from tests.vm import cache, packages, table
from tests.vm.guest import Job, Left
from tests.vm.image import unfit
from tests.vm.matrix import chosen, report
from tests.vm.plugin import hierarchies
from tests.vm.systems import ALL, FLOORS, SHORT, SUITES
from tests.vm.table import Row

REPORT = """<testsuites><testsuite>
<testcase classname="tests.live.test_a" name="test_x[cgroupfs-v1]" time="1.5">
  <properties><property name="compared" value="7"/></properties></testcase>
<testcase classname="tests.live.test_a" name="test_y" time="1">
  <properties><property name="driver" value="cgroupfs"/></properties>
  <failure message="assert 1 == 2&#10; +  more">long</failure></testcase>
<testcase classname="tests.live.test_a.TestIt" name="test_systemd_z" time="0">
  <skipped message="of v2; this guest has v1"/></testcase>
<testcase classname="tests.contract.test_b" name="test_w" time="0">
  <error message="Traceback (most recent call last):&#10; File&#10;OSError: no&#10;')">x</error></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    report_file = tmp_path / "junit.xml"
    report_file.write_text(REPORT)
    return table.read("deb", report_file)


def test_a_report_is_counted_by_suite_and_driver(rows):
    assert [row.cells() for row in rows] == [
        ("deb", "any", "contract/b", "-", "1", "-", "-", "-", ""),
        ("deb", "cgroupfs", "live/a", "1", "1", "-", "7", "2", ""),
        ("deb", "systemd", "live/a", "-", "-", "1", "-", "-", "of v2; this guest has v1"),
    ]
    assert rows[0].faults == [
        "tests.contract.test_b.test_w: Traceback (most recent call last): ... OSError: no"
    ]
    assert rows[1].faults == ["tests.live.test_a.test_y: assert 1 == 2"]


def test_what_passed_when_it_was_run_once_more_has_passed(tmp_path):
    case = '<testcase classname="tests.live.test_a" name="test_{}">{}</testcase>'
    fault = '<failure message="slow"/>'
    first = "".join(case.format(name, fault) for name in "xyz")
    again = case.format("x", "") + case.format("y", fault) + case.format("z", "<skipped/>")
    (tmp_path / "junit.xml").write_text(f"<testsuite>{first}</testsuite>")
    (tmp_path / "again.xml").write_text(f"<testsuite>{again}</testsuite>")
    (row,) = table.read("deb", tmp_path / "junit.xml")
    assert (row.passed, row.failed) == (1, 2)
    assert row.note == "passed when run once more"


def test_a_driver_with_a_floor_must_compare(rows):
    assert table.judge(rows, {"cgroupfs": 7, "systemd": None}) == []
    assert table.judge(rows, {"cgroupfs": 8}) == [
        "cgroupfs: compared 7 values, 8 at least are wanted"
    ]
    assert table.judge(rows, {"systemd": 0}) == ["no test of systemd passed"]


def test_a_suite_that_ran_in_no_system_is_named(rows):
    assert table.nowhere(rows) == []
    assert table.nowhere([Row("a", "any", "live/x", skipped=2), Row("a", "any", "-")]) == ["live/x"]


def test_both_forms_of_a_table_hold_every_cell(rows):
    for form in (
        table.plain(rows),
        table.markdown_head() + table.markdown_rows(rows, "2026-11-24 abc"),
    ):
        assert all(cell in form for row in rows for cell in row.cells())
    assert len({line.index("live/a") for line in table.plain(rows).splitlines()[2:]}) == 1


@pytest.mark.parametrize(
    ("fixtures", "name", "wanted"),
    [
        (["v1"], "test_values", {"v1"}),
        ([], "test_a[cgroupfs-v2]", {"v2"}),
        ([], "test_the_simulated_v1_kernel", {"v1"}),
        (["v1"], "test_v2_after_v1", {"v1", "v2"}),
        (["root"], "test_env1_and_v10", set()),
    ],
)
def test_a_test_names_its_hierarchy(fixtures, name, wanted):
    assert hierarchies(fixtures, name) == wanted


def test_systems_are_chosen_by_name():
    assert chosen([], SHORT) == list(SHORT)
    assert [system.name for system in chosen(["sid"], SHORT)] == ["sid"]
    with pytest.raises(cache.VmError, match="no system woody"):
        chosen(["woody"], SHORT)
    assert len(ALL) == len(
        {(one.suite, one.hierarchy, one.words, one.only) for one in ALL.values()}
    )
    assert set(FLOORS) == {"cgroupfs", "systemd"}


def test_a_verdict_is_printed_with_its_table(rows, capsys):
    from tests.vm.matrix import Result

    assert report([Result("deb", rows[1:2], [])])
    assert "1 systems: 1 passed, 1 failed, 7 values compared" in capsys.readouterr().out
    assert not report([Result("deb", rows[1:2], ["it is off"])])
    assert "FAILED deb: it is off" in capsys.readouterr().out


def test_a_page_keeps_the_rows_of_systems_that_did_not_run(rows):
    other = [Row("other (v2)", "any", "live/run", passed=2)]
    page = (
        "words\n\n" + table.markdown_head() + table.markdown_rows([*rows, *other], "2026-11-24 abc")
    )
    kept = table.by_system(page)
    assert kept["other"] == table.markdown_rows(other, "2026-11-24 abc")
    assert set(kept) == {"other", *(row.system.split()[0] for row in rows)}


def test_a_guest_that_left_nothing_shows_its_console(tmp_path):
    (tmp_path / "console.log").write_text("one\r\n\r\nKernel panic\r\n")
    assert "Kernel panic" in Left(tmp_path, None, 1.0).why()
    assert Job("run", {}, None).seconds is None


def test_a_guest_has_booted_once_its_job_says_so(tmp_path):
    left = Left(tmp_path, None, 1.0)
    assert not left.booted
    (tmp_path / "output.log").write_text("")
    assert not left.booted
    (tmp_path / "output.log").write_text("sid has booted\r\n")
    assert left.booted


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("I: one\nE: Unable to satisfy dependencies. Two:\n x\n", "E: Unable to satisfy"),
        ("The following packages have unmet dependencies:\n udev : Depends", "The following"),
        ("dpkg: dependency problems prevent configuration of udev:\n", "dpkg: dependency"),
        ("E: Failed to fetch http://mirror/x.deb  Connection timed out\n", None),
        ("mount: /sys: permission denied\n", None),
    ],
)
def test_an_archive_that_does_not_fit_together_is_told_from_a_mirror_that_fails(log, said):
    found = unfit(log)
    assert (found or "").startswith(said or "")
    assert bool(found) == bool(said)


def test_guests_get_what_users_have_and_pytest():
    text = packages.pinned()
    names = {line.split("==")[0] for line in text.splitlines() if "==" in line}
    assert {"msgspec", "pyyaml", "pytest", "hypothesis"} <= names
    assert "mypy" not in names
    assert text.count("--hash=") > len(names)


def test_what_a_killed_run_left_is_removed_and_what_another_uses_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("QOSLET_CACHE", str(tmp_path))
    left = tmp_path / "work" / "old-1"
    left.mkdir(parents=True)
    with cache.workplace("one") as one:
        assert not left.exists()
        (one / "file").write_text("x")
        with cache.workplace("two") as two:
            assert two != one
            assert (one / "file").exists()
            cache.drop(one)
            assert one.exists()
    assert [path.name for path in (tmp_path / "work").iterdir()] == []


def test_guests_of_one_cache_wait_for_room(tmp_path, monkeypatch):
    monkeypatch.setenv("QOSLET_CACHE", str(tmp_path))
    told = []
    first = cache.slot(1, lambda: told.append("first"))
    first.__enter__()

    def waiting():
        told.append("second")
        first.__exit__(None, None, None)

    with cache.slot(2, lambda: told.append("another")), cache.slot(1, waiting):
        assert told == ["second"]


def test_guests_leave_out_what_the_live_tests_of_the_machine_showed() -> None:
    here, alike = "tests/live/agent/test_bundle.py", "tests/live/agent/test_agent.py"

    def runs(name: str, module: str, live: str, *, whole: bool = False) -> bool:
        words = ALL[name].suites(whole=whole, live=live)
        return module in words if ALL[name].only else f"--ignore={module}" not in words

    assert [runs("bookworm", here, live) for live in ("", "v1", "v2")] == [True, False, True]
    [blocks] = [word for word in ALL["bookworm"].suites(whole=False, live="v1") if "::" in word]
    assert blocks.startswith("--deselect=tests/live/oci/test_convert.py::")
    assert blocks not in ALL["bookworm"].suites(whole=False)
    assert [runs("trixie", here, live) for live in ("", "v1", "v2")] == [True, True, False]
    assert [runs("trixie-agent", alike, live) for live in ("", "v1", "v2")] == [True, False, False]
    assert runs("bookworm", here, "v1", whole=True), "the long matrix has all"
    assert runs("trixie-agent", alike, "v1", whole=True)


def test_live_tests_are_where_machines_and_guests_look_for_them() -> None:
    folders = {
        str(path.parent.relative_to(REPO))
        for path in (REPO / "tests").rglob("test_*.py")
        if "mark.live" in path.read_text()
    }
    assert folders
    assert [name for name in folders if not name.startswith(SUITES)] == []
    lines = (REPO / "Makefile").read_text().splitlines()
    (live,) = [line for line in lines if line.startswith("LIVE =")]
    assert all(suite in live for suite in SUITES)


def test_what_boots_systems_installs_the_tools_that_this_needs():
    """guest.py has assertions rewritten here by pytest, which the users' packages lack."""
    rules = re.findall(
        r"(?m)^([\w-]+):.*\$\(VENV\)/(\w+)\.stamp.*\n(?:\t.*\n)*?\t.*-m tests\.vm ",
        (REPO / "Makefile").read_text(),
    )
    assert {name for name, _ in rules} == {"test-vm", "test-vm-full", "vm-run", "vm-shell", "zoo"}
    assert {stamp for _, stamp in rules} == {"dev"}
