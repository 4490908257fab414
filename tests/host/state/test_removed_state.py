"""What is removed of a state folder while its agent lives comes again, and nobody else gets in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from qoslet.core.reconcile.journal import Created
from qoslet.errors import CannotDo
from qoslet.host.state.folder import has_logs_of
from qoslet.host.state.journal_file import JournalFile, claim
from qoslet.host.state.resume import open_journal, read_journal
from tests.host.state.test_journal_file import BOOT, ROOT, Groups, claimed, left, said
from tests.host.state.test_journal_file import state as state

FILES = ["journal", "lock", "reserve"]


def agent(state: str) -> JournalFile:
    """An agent with a group."""
    journal = open_journal(ROOT, Groups(), state=state, boot=BOOT, verb="run")
    journal.record([Created(ROOT, 4)])
    return journal


def refused(state: str, root: str = ROOT) -> str:
    with pytest.raises(CannotDo, match="another qoslet runs") as caught:
        claim(root, Groups(), state=state, boot=BOOT)
    return str(caught.value)


def test_a_second_run_is_refused_where_the_lock_was_removed(state: str) -> None:
    with claimed(state) as journal:
        os.unlink(f"{state}/qoslet/lock")
        refused(state)
        assert "overlaps" in refused(state, "/qoslet/inner")
        assert journal.mend() == [f"{state}/qoslet: the lock was removed: it is there again"]
        assert f"(process {os.getpid()})" in refused(state), "it is named again"
        assert journal.mend() == []


def test_two_cannot_have_a_root_by_removing_its_lock_in_turns(state: str) -> None:
    with claimed(state) as journal:
        for _ in range(3):
            os.unlink(f"{state}/qoslet/lock")
            refused(state)
            os.unlink(f"{state}/qoslet/lock") if os.path.exists(f"{state}/qoslet/lock") else None
            journal.mend()
        refused(state)
    with claimed(state):
        pass


def removed(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def replaced(path: Path) -> None:
    path.rename(path.with_name("aside"))
    path.write_text("other\n")


@pytest.mark.parametrize("how", [removed, emptied, cut, replaced])
def test_a_journal_is_written_again(state: str, how: Callable[[Path], None]) -> None:
    journal = agent(state)
    before = said(state)
    how(Path(state, "qoslet", "journal"))
    (line,) = journal.mend()
    assert "written again" in line
    assert said(state).entries == before.entries
    assert said(state).header == before.header
    assert journal.mend() == []
    journal.record([Created(f"{ROOT}/a", 5)])
    assert len(said(state).entries) == len(before.entries) + 1
    journal.close(gone=True)


def test_a_journal_that_was_only_read_so_far_is_written_again(state: str) -> None:
    agent(state).close(gone=False)
    before = said(state).entries
    journal = open_journal(ROOT, Groups(qoslet=4), state=state, boot=BOOT, verb="run")
    assert journal.mend() == []
    os.unlink(f"{state}/qoslet/journal")
    assert len(journal.mend()) == 1
    assert said(state).entries == before
    journal.close(gone=True)


def test_a_folder_that_is_removed_is_made_again(state: str) -> None:
    journal = agent(state)
    before = said(state).entries
    shutil.rmtree(f"{state}/qoslet")
    lines = journal.mend()
    assert [line.rpartition(": ")[2] for line in lines] == [
        "made again",
        "it is there again",
        "it is written again",
    ]
    assert said(state).entries == before
    assert sorted(os.listdir(f"{state}/qoslet")) == FILES
    assert os.stat(f"{state}/qoslet").st_mode & 0o777 == 0o700
    refused(state)
    journal.close(gone=True)
    assert os.listdir(state) == []


def test_a_folder_that_is_moved_is_moved_back(state: str) -> None:
    journal = agent(state)
    os.rename(f"{state}/qoslet", f"{state}/away")
    assert journal.mend() == [f"{state}/qoslet: was moved to {state}/away: moved back"]
    assert sorted(os.listdir(f"{state}/qoslet")) == FILES
    refused(state)
    journal.close(gone=True)


def test_who_comes_while_a_folder_is_moved_is_told_where_it_is(state: str) -> None:
    left(state, Created(ROOT, 4))
    os.rename(f"{state}/qoslet", f"{state}/away")
    with pytest.raises(CannotDo, match=f"was moved to {state}/away") as caught:
        read_journal(ROOT, Groups(qoslet=4), state=state, boot=BOOT)
    assert f"mv {state}/away {state}/qoslet" in str(caught.value.hint)
    os.rename(f"{state}/away", f"{state}/qoslet")
    ledger, _ = read_journal(ROOT, Groups(qoslet=4), state=state, boot=BOOT)
    assert ledger.is_owned(ROOT, 4)


def test_an_agent_that_has_lost_its_root_stops_and_says_so(state: str) -> None:
    """One of an earlier version locks no folder: it got in."""
    import fcntl

    journal = agent(state)
    shutil.rmtree(f"{state}/qoslet")
    os.mkdir(f"{state}/qoslet", 0o700)
    with open(f"{state}/qoslet/lock", "w") as lock:
        lock.write("4711\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CannotDo, match=r"as the lock was removed \(process 4711\)"):
            journal.mend()


def test_who_meets_a_release_is_told_to_wait_for_it(state: str) -> None:
    kept = agent(state)
    os.makedirs(f"{state}/qoslet/keeper/u1")
    assert "stop it to go on with them" in refused(state)
    kept.close(gone=False)
    release = open_journal(ROOT, Groups(qoslet=4), state=state, boot=BOOT, verb=None)
    told = refused(state)
    assert f"(process {os.getpid()})" in told
    assert "it is a release; wait until it has ended" in told
    release.close(gone=False)
    kept = open_journal(ROOT, Groups(qoslet=4), state=state, boot=BOOT, verb="run")
    assert "release" not in refused(state)
    kept.close(gone=False)


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        ("/q/kubepods/burstable/podu-1", True),
        ("/q.slice/q-kubepods.slice/q-kubepods-podu_1.slice", True),
        ("/q/kubepods/burstable/podu-2", False),
        ("/q/kubepods", False),
    ],
)
def test_logs_tell_whose_pods_a_tree_has(tmp_path: Path, path: str, ours: bool) -> None:
    (tmp_path / "default_web_u-1").mkdir()
    assert has_logs_of(str(tmp_path), ["/q", path]) is ours
    assert not has_logs_of(str(tmp_path / "none"), [path])


def test_a_folder_that_is_a_link_or_others_says_the_safe_step(state: str) -> None:
    folder = Path(state, "qoslet")
    away = folder.with_name("away")
    away.mkdir(mode=0o700, parents=True)
    away.parent.chmod(0o700)
    folder.symlink_to("away")
    for attempt in (
        lambda: claim(ROOT, Groups(), state=state, boot=BOOT),
        lambda: agent(state),
    ):
        with pytest.raises(CannotDo) as caught:
            attempt()
        assert caught.value.hint == "pods may run by it: move the directory back to this path"
    folder.unlink()
    away.rename(folder)
    folder.chmod(0o777)
    with pytest.raises(CannotDo) as caught:
        agent(state)
    assert f"chmod 0700 {folder}" in caught.value.hint
    assert "remove" not in caught.value.hint


@pytest.mark.parametrize("name", ["lock", "journal"])
def test_a_directory_in_the_place_of_a_file_gives_way(state: str, name: str) -> None:
    journal = agent(state)
    path = Path(state, "qoslet", name)
    path.unlink()
    (path / "full").mkdir(parents=True)
    (line,) = journal.mend()
    assert line.startswith(f"{state}/qoslet: the {name} was removed")
    assert path.is_file()
    assert journal.mend() == []
    refused(state)
    journal.close(gone=False)
    path.unlink()
    path.mkdir()
    again = agent(state)
    assert path.is_file()
    again.close(gone=True)
