"""Followed directories that go, move, are replaced or linked, and files that a person names."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from qoslet.core.problem import ProblemCode
from qoslet.errors import FaultCode
from tests.host.files.followed import POD, Opening, folder, opened, rows, said, told, write

__all__ = ["folder", "opened"]


def test_a_directory_goes_and_comes_again(opened: Opening, folder: Path) -> None:
    write(folder / "a.yaml", "one")
    files = opened(folder)
    files.changes()
    for _ in range(3):
        shutil.rmtree(folder)
        assert told(files) == {}, "its pods stay"
        assert rows(files) == [f"error {folder}: does not exist"]
        assert [row.code for row in files.rows()] == [ProblemCode.UNREAD]
        folder.mkdir()
        write(folder / "a.yaml", "again")
        assert told(files) == {"a.yaml": "again"}
        write(folder / "a.yaml", "more")
        assert told(files) == {"a.yaml": "more"}
        assert rows(files) == []


def test_the_directories_above_go_and_come_again(opened: Opening, tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    write(deep / "a.yaml", "one")
    files = opened(deep)
    files.changes()
    shutil.rmtree(tmp_path / "a")
    assert told(files) == {}
    for made in (tmp_path / "a", tmp_path / "a" / "b", deep):
        made.mkdir()
        assert told(files) == {}
        assert len(rows(files)) == 1
    write(deep / "a.yaml", "two")
    assert told(files) == {"a.yaml": "two"}


@pytest.mark.parametrize("only", [False, True], ids=["directory", "file"])
def test_a_directory_that_is_moved_away_keeps_its_files(
    opened: Opening, folder: Path, only: bool
) -> None:
    """Unmounted, renamed, or its parent is gone: nobody has removed a file from it."""
    write(folder / "a.yaml", "one")
    files = opened(folder / "a.yaml" if only else folder)
    files.changes()
    away = folder.with_name("away")
    for place in (folder, folder.parent / "other"):
        os.rename(folder, away)
        place.touch()
        if place != folder:
            os.rename(place, folder)
        assert "gone" not in told(files).values()
        assert rows(files) or only
        folder.unlink()
        assert "gone" not in told(files).values()
        os.rename(away, folder)
        assert set(told(files).values()) <= {"one"}
        assert rows(files) == []
    (folder / "a.yaml").unlink()
    assert told(files) == {"a.yaml": "gone"}


def test_an_empty_directory_in_place_of_another_is_a_fault(opened: Opening, folder: Path) -> None:
    """What is seen where a mount goes: the directory below it."""
    write(folder / "a.yaml", "one")
    files = opened(folder)
    files.changes()
    os.rename(folder, folder.with_name("away"))
    folder.mkdir(mode=0o755)
    for _ in range(2):
        assert told(files) == {}
        assert rows(files) == [f"error {folder}: is another directory now, and empty"]
        files.wake()
    write(folder / "b.yaml", "two")
    assert told(files) == {"a.yaml": "gone", "b.yaml": "two"}
    (folder / "b.yaml").unlink()
    assert told(files) == {"b.yaml": "gone"}, "removed from the same directory"
    assert rows(files) == []


@pytest.mark.parametrize("text", ["", "\n \n", "# half\n", "---\n", "---\n# a\n---\n", "\ufeff"])
def test_a_file_that_says_nothing_is_a_fault(opened: Opening, folder: Path, text: str) -> None:
    write(folder / "a.yaml", "one")
    files = opened(folder)
    files.changes()
    (folder / "a.yaml").write_text(text)
    assert told(files) == {"a.yaml": "fault: is empty"}
    write(folder / "a.yaml", "one")
    assert told(files) == {"a.yaml": "one"}


def test_a_directory_is_replaced_at_once(opened: Opening, folder: Path) -> None:
    write(folder / "a.yaml", "old")
    files = opened(folder)
    files.changes()
    other = folder.with_name("other")
    other.mkdir()
    write(other / "b.yaml", "new")
    os.rename(folder, folder.with_name("away"))
    os.rename(other, folder)
    assert told(files) == {"a.yaml": "gone", "b.yaml": "new"}
    write(folder / "c.yaml", "later")
    assert told(files) == {"c.yaml": "later"}


def test_a_directory_behind_a_link_changes_with_the_link(opened: Opening, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "a.yaml", name)
    link = tmp_path / "link"
    link.symlink_to("one")
    files = opened(link)
    assert told(files) == {"a.yaml": "one"}
    (tmp_path / "new").symlink_to("two")
    os.rename(tmp_path / "new", link)
    assert told(files) == {"a.yaml": "two"}
    write(tmp_path / "two" / "a.yaml", "three")
    assert told(files) == {"a.yaml": "three"}


# --- links ------------------------------------------------------------------------------------


def test_a_mounted_configmap_changes_by_one_link(opened: Opening, folder: Path) -> None:
    def version(number: int) -> None:
        inside = folder / f"..{number}"
        inside.mkdir()
        for name in ("a", "b"):
            (inside / f"{name}.yaml").write_text(POD.format(f"{name}{number}"))
        (folder / "..data_tmp").symlink_to(inside.name)
        os.rename(folder / "..data_tmp", folder / "..data")
        if number:
            shutil.rmtree(folder / f"..{number - 1}")

    version(0)
    for name in ("a.yaml", "b.yaml"):
        (folder / name).symlink_to(f"..data/{name}")
    files = opened(folder)
    assert told(files) == {"a.yaml": "a0", "b.yaml": "b0"}
    for number in range(1, 5):
        version(number)
        assert told(files) == {"a.yaml": f"a{number}", "b.yaml": f"b{number}"}
        assert told(files) == {}


def test_what_a_link_leads_to_is_watched(opened: Opening, folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    write(store / "real", "one")
    (folder / "a.yaml").symlink_to(store / "real")
    files = opened(folder)
    assert told(files) == {"a.yaml": "one"}
    write(store / "real", "two")
    assert told(files) == {"a.yaml": "two"}
    (store / "real").unlink()
    assert told(files) == {"a.yaml": "fault: is a dangling link"}
    write(store / "real", "three")
    assert told(files) == {"a.yaml": "three"}
    write(folder / "a.yaml", "four")
    assert told(files) == {"a.yaml": "four"}
    write(store / "real", "five")
    assert told(files) == {}


# --- files, standard input --------------------------------------------------------------------


def test_a_file_that_a_person_names_is_watched(opened: Opening, tmp_path: Path) -> None:
    path, other = tmp_path / "pod.anything", tmp_path / "other.yaml"
    write(path, "one")
    files = opened(path)
    (change,) = files.changes()
    assert (said(change), change.given, change.file) == ("one", True, str(path))
    write(other, "other")
    assert told(files) == {}
    write(path, "two")
    assert told(files) == {path.name: "two"}
    path.unlink()
    assert told(files) == {path.name: "gone"}
    write(path, "three")
    assert told(files) == {path.name: "three"}
    os.chmod(path, 0o666)
    assert told(files) == {path.name: "three"}


def test_a_file_of_the_working_directory_is_watched(
    opened: Opening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.yaml", "one")
    files = opened("a.yaml")
    assert told(files) == {"a.yaml": "one"}
    write(tmp_path / "a.yaml", "two")
    assert told(files) == {"a.yaml": "two"}


def test_a_path_that_is_not_there_is_a_fault(opened: Opening, tmp_path: Path) -> None:
    files = opened(tmp_path / "nothing")
    assert told(files) == {}
    assert [str(fault) for fault in files.faults] == [
        f"{tmp_path}/nothing: does not exist (check the path)"
    ]


def test_standard_input_is_read_once(opened: Opening) -> None:
    files = opened("-", stdin=POD.format("piped").encode())
    assert told(files) == {"stdin": "piped"}
    assert told(files) == {}
    assert rows(files) == []


def test_paths_keep_their_order(opened: Opening, folder: Path, tmp_path: Path) -> None:
    write(folder / "b.yaml", "b")
    write(tmp_path / "a.yaml", "a")
    files = opened(tmp_path / "a.yaml", "-", folder, stdin=POD.format("x").encode())
    assert [change.order[0] for change in files.changes()] == [0, 1, 2]


# --- without inotify, and when it loses events ------------------------------------------------


def test_the_next_agent_knows_an_empty_directory_in_place_of_another(
    opened: Opening, folder: Path
) -> None:
    """A mount that went while no agent ran, or that an agent saw go before it ended."""
    write(folder / "a.yaml", "one")
    first = opened(folder)
    first.changes()
    kept = first.directories
    assert list(kept) == [str(folder)]
    away = folder.with_name("away")
    os.rename(folder, away)
    folder.mkdir(mode=0o755)
    first.wake()
    assert told(first) == {}
    for known in (kept, first.directories):
        files = opened(folder, earlier=known)
        assert told(files) == {}
        assert rows(files) == [f"error {folder}: is another directory now, and empty"]
        assert [one.fault_code for one in files.faults] == [FaultCode.REPLACED]
        assert files.directories == known
    folder.rmdir()
    os.rename(away, folder)
    files.wake()
    assert told(files) == {"a.yaml": "one"}
    (folder / "a.yaml").unlink()
    assert rows(opened(folder, earlier=kept)) == [], "removed from the same directory"
    assert rows(opened(folder)) == []


def test_a_list_without_items_in_the_new_directory_ends_its_pods(
    opened: Opening, folder: Path
) -> None:
    write(folder / "a.yaml", "one")
    first = opened(folder)
    first.changes()
    os.rename(folder, folder.with_name("away"))
    folder.mkdir(mode=0o755)
    files = opened(folder, earlier=first.directories)
    assert told(files) == {}
    write(folder / "none.yaml", "none")
    assert told(files) == {"none.yaml": "none"}
    assert rows(files) == []


def test_a_directory_below_that_only_an_earlier_agent_knows_is_a_fault(
    opened: Opening, folder: Path
) -> None:
    """With ``-R`` an agent that starts while it is gone would not miss it."""
    below = folder / "below"
    below.mkdir(mode=0o755)
    write(folder / "a.yaml", "one")
    write(below / "b.yaml", "two")
    first = opened(folder, below)
    first.changes()
    os.rename(below, folder.with_name("away"))
    files = opened(folder, earlier=first.directories)
    assert told(files) == {"a.yaml": "one"}
    assert rows(files) == [f"error {below}: does not exist"]
    assert [one.fault_code for one in files.faults] == [FaultCode.REPLACED]
    assert files.directories == {str(folder): first.directories[str(folder)], str(below): (0, 0)}
    os.rename(folder.with_name("away"), below)
    files.wake()
    assert told(files) == {"b.yaml": "two"}
    assert rows(files) == []
    assert files.directories == first.directories
