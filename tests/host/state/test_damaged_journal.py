"""Journals that are torn, of another boot, linked, or cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from qoslet.core.reconcile.journal import (
    AGENT,
    GUESTS,
    Adopted,
    Created,
    CreateIntent,
    Header,
    Removed,
    Set,
    beginning,
    lines,
)
from qoslet.errors import CannotDo
from qoslet.host.state import journal_file, root_lock
from qoslet.host.state.damaged import damage
from qoslet.host.state.folder import escaped, unescaped
from qoslet.host.state.journal_file import claim
from qoslet.host.state.moved import is_named
from qoslet.host.state.resume import damaged_journals, open_journal
from tests.host.state.test_journal_file import BOOT, ROOT, Groups, claimed, left, said, state

__all__ = ["state"]


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_torn_tail_is_tolerated(state: str, cut: int) -> None:
    left(state, Created("/qoslet", 4), CreateIntent("/qoslet/a"), Created("/qoslet/a", 5))
    path = Path(state, "qoslet", "journal")
    path.write_bytes(path.read_bytes()[:-cut])
    tree = Groups(qoslet=4, qoslet_a=5)
    with claimed(state, tree):
        assert not tree.inodes


def test_a_group_made_anew_by_another_is_not_ours(state: str) -> None:
    left(state, Created("/qoslet", 4))
    tree = Groups(qoslet=44)
    with pytest.raises(CannotDo, match="no qoslet journal has it"):
        claim(ROOT, tree, state=state, boot=BOOT)
    assert tree.inodes


def test_a_strangers_group_in_our_tree_is_named(state: str) -> None:
    left(state, Created("/qoslet", 4), Created("/qoslet/a", 5))
    tree = Groups(qoslet=4, qoslet_a=5, qoslet_x=6)
    with pytest.raises(CannotDo, match=r"1 cgroup in this tree .* such as /qoslet/x"):
        claim(ROOT, tree, state=state, boot=BOOT)
    assert len(tree.inodes) == 3
    del tree.inodes["/qoslet/x"]
    with claimed(state, tree):
        assert not tree.inodes


def test_a_journal_of_another_boot_is_put_aside_and_never_used(state: str) -> None:
    left(state, Created("/qoslet", 4), boot="b0/../x")
    tree = Groups(qoslet=4)
    with pytest.raises(CannotDo, match="no qoslet journal has it"):
        claim(ROOT, tree, state=state, boot=BOOT)
    with claimed(state) as journal:
        assert journal.notes == [f"{ROOT}: ignoring a journal of another boot"]
        assert Path(state, "qoslet", "journal.b0x").exists()
        assert said(state).entries == ()


def test_a_journal_of_another_hierarchy_counts_as_another_boots(state: str) -> None:
    left(state, Created("/qoslet", 4))
    tree = Groups(qoslet=4)
    tree.hierarchy = "v2"
    with pytest.raises(CannotDo, match="no qoslet journal has it"):
        claim(ROOT, tree, state=state, boot=BOOT)


def test_rubbish_is_put_aside(state: str) -> None:
    left(state)
    Path(state, "qoslet", "journal").write_bytes(b"\0\xff" * 99)
    with claimed(state):
        assert Path(state, "qoslet", "journal.unreadable").exists()


def test_what_cannot_be_ended_is_said_and_the_journal_stays(state: str) -> None:
    left(state, Created("/qoslet", 4))
    tree = Groups(qoslet=4)
    tree.pids, tree.immortal = {"/qoslet": {77}}, True
    with pytest.raises(CannotDo, match="cannot kill"):
        claim(ROOT, tree, state=state, boot=BOOT)
    tree.immortal, tree.stuck = False, "/qoslet"
    with pytest.raises(CannotDo, match="it is busy"):
        claim(ROOT, tree, state=state, boot=BOOT)
    tree.stuck = ""
    with claimed(state, tree):
        assert not tree.inodes


@pytest.mark.parametrize("place", ["", "qoslet"])
def test_a_link_is_no_state_directory(tmp_path: Path, state: str, place: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if place:
        Path(state).mkdir(mode=0o700)
    Path(state, place).symlink_to(elsewhere)
    with pytest.raises(CannotDo, match="is a link, or no directory"):
        claim(ROOT, Groups(), state=state, boot=BOOT)
    assert not list(elsewhere.iterdir())


def test_a_linked_journal_is_not_followed(tmp_path: Path, state: str) -> None:
    left(state)
    victim = tmp_path / "victim"
    victim.write_bytes(lines([Header(BOOT, "v1", ROOT, 1), Created("/qoslet", 4)]))
    path = Path(state, "qoslet", "journal")
    path.unlink()
    path.symlink_to(victim)
    with pytest.raises(CannotDo, match="cannot read"):
        claim(ROOT, Groups(qoslet=4), state=state, boot=BOOT)
    assert victim.exists()


@pytest.mark.parametrize(("mode", "has"), [(0o755, "journal"), (0o775, ""), (0o777, "")])
def test_a_directory_open_to_others_is_refused(state: str, mode: int, has: str) -> None:
    Path(state).mkdir()
    if has:
        Path(state, has).mkdir()
    Path(state).chmod(mode)
    with pytest.raises(CannotDo, match=f"mode {mode:04o}") as caught:
        claim(ROOT, Groups(), state=state, boot=BOOT)
    assert caught.value.where == state


def test_an_empty_directory_that_a_kubelet_made_is_taken(state: str) -> None:
    Path(state).mkdir()
    Path(state).chmod(0o755)
    with claimed(state) as journal:
        journal.record([Created("/qoslet", 4)])
        assert Path(state).stat().st_mode & 0o777 == 0o700


def test_a_state_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CannotDo, match="No such file") as caught:
        claim(ROOT, Groups(), state=str(tmp_path / "a" / "b"), boot=BOOT)
    assert caught.value.hint


def test_a_long_journal_is_written_anew(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_file, "LARGEST", 2000)
    with claimed(state) as journal:
        journal.record([Created("/qoslet", 4)])
        for number in range(200):
            journal.record([Set("/qoslet", "cpu.shares", None, str(number))])
        found = said(state)
        assert found.header is not None
        assert found.bad == 0
        assert Path(state, "qoslet", "journal").stat().st_size < 3000
        assert found.entries[0] == Created("/qoslet", 4)
        assert found.entries[-1] == Set("/qoslet", "cpu.shares", None, "199")


def test_a_full_disk_stops_the_writer(state: str) -> None:
    with claimed(state) as journal:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, journal._file)
        os.close(full)
        with pytest.raises(CannotDo, match="No space left"):
            journal.record([CreateIntent("/qoslet")])


def test_what_is_owed_counts_at_once_and_is_written_first(state: str) -> None:
    with claimed(state) as journal:
        journal.record([CreateIntent("/qoslet")])
        journal.record_later([Created("/qoslet", 4), Created("/qoslet/a", 5)])
        assert journal.ledger.is_owned("/qoslet/a", 5)
        assert said(state).entries == (CreateIntent("/qoslet"),)
        for entry in (Removed("/qoslet/a", done=True), CreateIntent("/qoslet/b")):
            journal.record([entry])
        assert said(state).entries == (
            CreateIntent("/qoslet"),
            Created("/qoslet", 4),
            Created("/qoslet/a", 5),
            Removed("/qoslet/a", done=True),
            CreateIntent("/qoslet/b"),
        )
        journal.record_later([Created("/qoslet/b", 6)])
        journal.rewrite()
        journal.record([Created("/qoslet/c", 7)])
        assert said(state).entries == tuple(Created(f"/qoslet{one}", inode) for one, inode in (
            ("", 4), ("/b", 6), ("/c", 7)
        ))  # fmt: skip


@pytest.mark.parametrize("root", ["/a", "/a/b", "/a%2Fb", "/a%b"])
def test_roots_have_names_of_their_own(root: str) -> None:
    assert "/" not in escaped(root)
    assert unescaped(escaped(root)) == root


def test_a_root_that_is_left_leaves_no_directory(state: str) -> None:
    with claimed(state) as journal:
        assert sorted(os.listdir(f"{state}/qoslet")) == ["journal", "lock", "reserve"]
        journal.record([Created("/qoslet", 4)])
    assert os.listdir(state) == []
    left(state, Created("/qoslet", 4))
    assert sorted(os.listdir(f"{state}/qoslet")) == ["journal", "lock", "reserve"]
    with pytest.raises(CannotDo), claimed(state, Groups(other=7), root="/other"):
        pass
    with pytest.raises(CannotDo), claimed(state, root="/qoslet/a"), claimed(state):
        pass
    assert os.listdir(state) == ["qoslet"], "nor does one who was refused"


def test_a_lock_that_was_removed_before_it_was_held_does_not_count(state: str) -> None:
    os.mkdir(state, 0o700)
    top = os.open(state, os.O_RDONLY)
    os.mkdir(f"{state}/qoslet", 0o700)
    folder = os.open(f"{state}/qoslet", os.O_RDONLY)
    lock = root_lock._locked(ROOT, folder)
    assert lock is not None
    assert is_named("qoslet/lock", top, lock)
    root_lock.leave(folder, ROOT)
    assert not is_named("qoslet/lock", top, lock), "held, and nobody else would meet it"
    assert root_lock._locked(ROOT, folder) is None, "nothing can be made where it was"
    with claimed(state):
        assert not is_named("qoslet/lock", top, lock), "another one is there"
    for descriptor in (lock, folder, top):
        os.close(descriptor)


RACE = """
import os, sys
from qoslet.errors import CannotDo
from qoslet.host.state import root_lock as rootlock
from tests.host.state.test_journal_file import Groups, claim
state, mark = sys.argv[1:]
alone = 0
while alone < 150:
    try:
        journal = claim("/qoslet", Groups(), state=state, boot="b1")
    except CannotDo as error:
        assert "another qoslet runs here" in str(error), error
        continue
    os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    alone += 1
    os.unlink(mark)
    journal.close(gone=True)
print(alone)
"""


def test_of_many_that_enter_and_leave_a_root_one_has_it_at_a_time(
    tmp_path: Path, state: str
) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", RACE, state, str(tmp_path / "mark")]
    runs = [
        subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    said = [run.communicate(timeout=100) for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], [err for _, err in said]
    assert [int(out) for out, _ in said] == [150, 150, 150]
    assert os.listdir(state) == []


KUBEPODS = "/kubepods"
GUEST_LINES = [
    *beginning(Header(BOOT, "v1", KUBEPODS, 1, verb=AGENT)),
    Adopted(KUBEPODS, 4),
    Set(KUBEPODS, "cpu.shares", "2", "102"),
    Set(KUBEPODS, "pids.max", "max", "9"),
]


def guests(state: str, spoil: Callable[[Path], object]) -> Path:
    """A killed agent's journal of a kubelet's tree after ``spoil``."""
    folder = Path(state, "kubepods")
    folder.mkdir(mode=0o700, parents=True)
    Path(state).chmod(0o700)
    (folder / "journal").write_bytes(lines(GUEST_LINES))
    spoil(folder / "journal")
    return folder


def to_directory(path: Path) -> None:
    path.unlink()
    (path / "inner").mkdir(parents=True)


def without(number: int) -> Callable[[Path], object]:
    def spoil(path: Path) -> None:
        text = path.read_bytes().splitlines(keepends=True)
        text[number] = b"x" + text[number][1:]
        path.write_bytes(b"".join(text))

    return spoil


@pytest.mark.parametrize("verb", [None, AGENT])
@pytest.mark.parametrize(
    ("spoil", "restorable"),
    [
        (lambda path: path.write_bytes(b"garbage\n"), 0),
        (lambda path: path.write_bytes(b"garbage"), 0),
        (lambda path: path.write_bytes(b""), 0),
        (to_directory, 0),
        (without(3), 1),
    ],
    ids=["garbage", "torn garbage", "empty", "directory", "one line"],
)
def test_a_damaged_journal_of_a_kubelets_tree_stays_until_a_person_removes_it(
    state: str, spoil: Callable[[Path], object], restorable: int, verb: str | None
) -> None:
    folder = guests(state, spoil)
    tree = Groups(kubepods=4)
    assert damaged_journals(KUBEPODS, state) == [f"{folder}/journal"]
    for _ in range(2):
        journal = open_journal(KUBEPODS, tree, state=state, boot=BOOT, verb=verb)
        assert (len(journal.ledger.files), journal.verb in GUESTS) == (restorable, True)
        restorable = 0
        kept = damaged_journals(KUBEPODS, state)
        assert kept == [f"{folder}/journal.damaged"]
        journal.close(gone=True)
        assert [one.name for one in folder.iterdir()] == ["journal.damaged"]
    wrong = damage(kept)
    assert wrong is not None
    assert (wrong.exit_code, wrong.where) == (3, kept[0])


def test_a_second_damaged_journal_is_kept_beside_the_first(state: str) -> None:
    folder = guests(state, without(3))
    (folder / "journal.damaged").write_bytes(b"old")
    open_journal(KUBEPODS, Groups(kubepods=4), state=state, boot=BOOT, verb=None).close(gone=True)
    assert sorted(one.name for one in folder.iterdir()) == ["journal.damaged", "journal.damaged.2"]
    assert (folder / "journal.damaged").read_bytes() == b"old"


def test_a_torn_last_line_of_an_agents_journal_lacks_nothing(state: str) -> None:
    guests(state, lambda path: path.write_bytes(path.read_bytes()[:-5]))
    journal = open_journal(KUBEPODS, Groups(kubepods=4), state=state, boot=BOOT, verb=None)
    assert (list(journal.ledger.files), damaged_journals(KUBEPODS, state)) == (
        [(KUBEPODS, "cpu.shares")],
        [],
    )
    journal.close(gone=True)
    assert not Path(state, "kubepods").exists()
