"""The journal of the plugin: there before a value is set, whole after a crash, one plugin at a time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from qoslet.core.reconcile.journal import Released, Removed, Set
from qoslet.errors import CannotDo
from qoslet.host.nri import plugin_journal
from qoslet.host.nri.plugin_journal import (
    PluginJournal,
    is_plugin_running,
    journal_path,
    read_plugin_journal,
)

ROOT = "/a/kubepods"
PATH = f"{ROOT}/podu1/c1"
HIGH = Set(PATH, "memory.high", None, "1048576")
LOW = Set(PATH, "memory.low", None, "4096")


@pytest.fixture(name="state")
def state_directory(tmp_path: Path) -> str:
    place = tmp_path / "state"
    place.mkdir(mode=0o700)
    return str(place)


def test_what_is_recorded_is_read_also_after_a_crash(state: str) -> None:
    journal = PluginJournal(ROOT, state)
    journal.record([HIGH, LOW])
    path = Path(journal_path(ROOT, state))
    assert path.stat().st_mode & 0o777 == 0o600
    found = read_plugin_journal(ROOT, state)
    assert found.files == {
        (PATH, "memory.high"): (None, "1048576"),
        (PATH, "memory.low"): (None, "4096"),
    }
    journal.close()
    with path.open("ab") as file:
        file.write(b'00000000 ["set","/x","y",null,"torn')
    again = PluginJournal(ROOT, state)
    assert again.values_of(PATH) == {"memory.high": None, "memory.low": None}
    assert again.paths() == [PATH]
    again.record([Released(PATH, "memory.low"), Set(PATH, "memory.high", None, "2097152")])
    assert read_plugin_journal(ROOT, state).files == {(PATH, "memory.high"): (None, "2097152")}
    again.record([Removed(PATH, done=True)])
    again.close()
    assert os.listdir(path.parent) == [], "a journal that names nothing goes"


def test_one_plugin_runs_at_a_time(state: str) -> None:
    assert not is_plugin_running(ROOT, state)
    first = PluginJournal(ROOT, state)
    assert is_plugin_running(ROOT, state)
    with pytest.raises(CannotDo, match="another qoslet nri runs here"):
        PluginJournal(ROOT, state)
    other = PluginJournal("/b/kubepods", state)
    other.close()
    first.record([HIGH])
    first.close()
    assert not is_plugin_running(ROOT, state)
    second = PluginJournal(ROOT, state)
    assert second.paths() == [PATH]
    second.close()


def test_a_journal_that_was_removed_is_there_again(state: str) -> None:
    journal = PluginJournal(ROOT, state)
    journal.record([HIGH])
    shutil.rmtree(Path(state) / "a%2Fkubepods")
    journal.record([LOW])
    assert len(read_plugin_journal(ROOT, state).files) == 2
    os.unlink(journal_path(ROOT, state))
    journal.record([Set(PATH, "memory.min", None, "1")])
    assert len(read_plugin_journal(ROOT, state).files) == 3
    journal.close()


def test_it_stays_small(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_journal, "LARGEST", 20_000)
    journal = PluginJournal(ROOT, state)
    for number in range(2000):
        path = f"{ROOT}/podu1/c{number}"
        journal.record([Set(path, "memory.high", None, "4096")])
        journal.record([Removed(path, done=True)])
    assert os.path.getsize(journal_path(ROOT, state)) < 21_000
    assert journal.paths() == []
    journal.close()


def test_a_journal_of_another_boot_or_tree_names_nothing(state: str) -> None:
    journal = PluginJournal(ROOT, state)
    journal.record([HIGH])
    journal.close()
    path = Path(journal_path(ROOT, state))
    other = Path(journal_path("/c/kubepods", state))
    other.parent.mkdir(mode=0o700)
    other.write_bytes(path.read_bytes())
    assert read_plugin_journal("/c/kubepods", state).files == {}
    assert read_plugin_journal("/none", state).files == {}
    path.write_bytes(b"\x00\xff junk\n" * 9)
    assert read_plugin_journal(ROOT, state).files == {}


def test_without_room_nothing_is_recorded(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = PluginJournal(ROOT, state)
    journal.record([HIGH])
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[: len(data) // 2]))
    with pytest.raises(CannotDo, match="No space left"):
        journal.record([LOW])
    assert journal.values_of(PATH) == {"memory.high": None}
    monkeypatch.undo()
    journal.record([LOW])
    assert set(read_plugin_journal(ROOT, state).files) == {
        (PATH, "memory.high"),
        (PATH, "memory.low"),
    }
    journal.close()


def test_a_folder_that_others_can_open_is_refused(state: str) -> None:
    os.chmod(state, 0o775)
    with pytest.raises(CannotDo, match="mode 0775"):
        PluginJournal(ROOT, state)
