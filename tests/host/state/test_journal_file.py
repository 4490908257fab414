"""Claiming a root: one run at a time, dead runs cleaned, strangers refused."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qoslet.core.reconcile.journal import (
    Created,
    CreateIntent,
    Header,
    ParsedJournal,
    Removed,
    Set,
    read,
)
from qoslet.errors import CannotDo
from qoslet.host.state.folder import AGENT_SOCKET, escaped
from qoslet.host.state.journal_file import RESERVED, JournalFile, claim
from qoslet.host.state.resume import open_journal
from qoslet.host.state.root_lock import enter, leave

ROOT = "/qoslet"
BOOT = "b1"


class Groups:
    """Groups made of values: path to inode, and who is inside."""

    hierarchy = "v1"

    def __init__(self, **inodes: int) -> None:
        self.inodes = {f"/{name.replace('_', '/')}": inode for name, inode in inodes.items()}
        self.pids: dict[str, set[int]] = {}
        self.immortal = False
        self.stuck = ""
        self.renamed: set[str] = set()

    def identity(self, path: str) -> int | None:
        return self.inodes.get(path)

    def identifies(self, path: str) -> bool:
        return path in self.inodes and path not in self.renamed

    def below(self, path: str) -> list[str]:
        return sorted(self.inodes, key=lambda group: (-group.count("/"), group))

    def members(self, path: str) -> set[int]:
        return self.pids.get(path, set())

    def kill(self, path: str) -> bool:
        if not self.immortal:
            self.pids.clear()
        return not self.immortal

    def discard(self, path: str) -> str | None:
        assert not any(other.startswith(f"{path}/") for other in self.inodes)
        if path == self.stuck:
            return "it is busy"
        del self.inodes[path]
        return None


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


@contextmanager
def claimed(state: str, tree: Groups | None = None, root: str = ROOT) -> Iterator[JournalFile]:
    journal = claim(root, tree or Groups(), state=state, boot=BOOT)
    try:
        yield journal
    finally:
        journal.close(gone=True)


def said(state: str) -> ParsedJournal:
    return read(Path(state, escaped(ROOT), "journal").read_bytes())


def left(state: str, *entries: Created | CreateIntent | Removed | Set, boot: str = BOOT) -> None:
    """What a run that was killed leaves."""
    journal = claim(ROOT, Groups(), state=state, boot=boot)
    journal.record(entries)
    journal.close(gone=False)


def test_entries_are_on_disk_at_once_and_only_ours_to_read(state: str) -> None:
    with claimed(state) as journal:
        journal.record([CreateIntent("/qoslet")])
        journal.record([Created("/qoslet", 4), Set("/qoslet", "pids.max", None, "7")])
        found = said(state)
        assert found.header == Header(BOOT, "v1", ROOT, os.getpid())
        assert len(found.entries) == 3
        folder = Path(state, "qoslet")
        assert [path.stat().st_mode & 0o777 for path in (Path(state), folder)] == [0o700] * 2
        assert (folder / "journal").stat().st_mode & 0o777 == 0o600
    assert not (folder / "journal").exists()


class FullDisk:
    """``os.write`` on a file system on which nothing but the reserve is free."""

    def __init__(self, folder: Path, error: int) -> None:
        self.reserve = folder / "reserve"
        self.error = error
        self.write = os.write

    def __call__(self, descriptor: int, data: bytes) -> int:
        if self.reserve.exists():
            self.fail()
        return self.write(descriptor, data)

    def fail(self, *_: object) -> None:
        raise OSError(self.error, os.strerror(self.error))


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_file_system_gives_the_reserve(
    state: str, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    folder = Path(state, escaped(ROOT))
    with claimed(state) as journal:
        assert (folder / "reserve").stat().st_blocks * 512 >= RESERVED
        monkeypatch.setattr(os, "write", FullDisk(folder, error))
        journal.record([CreateIntent("/qoslet")])
        assert len(said(state).entries) == 1
        monkeypatch.undo()
        journal.rewrite()
        assert (folder / "reserve").exists()
    assert not folder.exists()


def test_the_next_agent_starts_on_a_full_file_system(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(state, Created("/qoslet", 4))
    folder = Path(state, escaped(ROOT))
    assert (folder / "reserve").exists()
    full = FullDisk(folder, errno.ENOSPC)
    pwrite = os.pwrite

    def sign(descriptor: int, data: bytes, at: int) -> int:
        if full.reserve.exists():
            full.fail()
        return pwrite(descriptor, data, at)

    monkeypatch.setattr(os, "write", full)
    monkeypatch.setattr(os, "pwrite", sign)
    monkeypatch.setattr(os, "posix_fallocate", full.fail)
    with claimed(state, Groups(qoslet=4)) as journal:
        journal.record([CreateIntent("/qoslet")])
        assert (folder / "lock").read_text() == f"{os.getpid()} run\n"


def test_the_next_agent_takes_the_reserve_as_it_is(state: str) -> None:
    left(state, Created("/qoslet", 4))
    reserve = Path(state, escaped(ROOT), "reserve")
    # held open, its number is given to no other file
    with reserve.open() as before, claimed(state, Groups(qoslet=4)):
        assert os.path.samestat(os.fstat(before.fileno()), reserve.stat())


@pytest.mark.parametrize("before", [f"{10**9} release\n", ""])
def test_a_lock_names_no_one_but_its_owner(
    state: str, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    left(state, Created("/qoslet", 4))
    lock = Path(state, escaped(ROOT), "lock")
    lock.write_text(before)
    with claimed(state, Groups(qoslet=4)):
        assert lock.read_text() == f"{os.getpid()} run\n"
    left(state, Created("/qoslet", 4))
    lock.write_text(before)
    monkeypatch.setattr(os, "pwrite", FullDisk(lock.parent, errno.ENOSPC).fail)
    with claimed(state, Groups(qoslet=4)):
        assert lock.read_text() == ""


def test_a_second_run_on_the_root_is_told_who_has_it(state: str) -> None:
    with claimed(state), pytest.raises(CannotDo) as caught, claimed(state):
        pass
    assert f"(process {os.getpid()})" in str(caught.value)
    assert "another --cgroup-root" in caught.value.hint
    with claimed(state):
        pass


@pytest.mark.parametrize("other", ["/qoslet/inner", "/qoslet/a/b"])
def test_roots_that_overlap_exclude_each_other(state: str, other: str) -> None:
    for one, two in ((ROOT, other), (other, ROOT)):
        with claimed(state, root=one), pytest.raises(CannotDo, match="overlaps"):
            claim(two, Groups(), state=state, boot=BOOT)
    with claimed(state), claimed(state, root="/qoslet-other"):
        pass


@pytest.mark.parametrize("kind", ["keeper", "cri"])
@pytest.mark.parametrize("other", ["/qoslet/inner", "/qoslet/a/b"])
def test_no_root_overlaps_one_whose_pods_wait_for_an_agent(
    state: str, other: str, kind: str
) -> None:
    for one, two in ((ROOT, other), (other, ROOT)):
        pods = Path(state, escaped(one), kind)
        (pods / "uid").mkdir(parents=True)
        for above in (pods.parent.parent, pods.parent):
            above.chmod(0o700)
        with pytest.raises(CannotDo, match=f"{one} overlaps and has pods") as caught:
            claim(two, Groups(), state=state, boot=BOOT)
        assert f"release --cgroup-root {one}" in caught.value.hint
        with claimed(state, root=one):
            pass
        folder, lock = enter(two, state, releasing=True)
        leave(folder, two)
        os.close(lock)
        os.close(folder)
        (pods / "uid").rmdir()
        with claimed(state, root=two):
            pass


@pytest.mark.parametrize(("root", "slices"), [("/a", "/a.slice"), ("/a/b", "/a.slice/a-b.slice")])
def test_a_root_whose_pods_the_other_driver_started_is_refused(
    state: str, root: str, slices: str
) -> None:
    for one, two, driver in ((root, slices, "cgroupfs"), (slices, root, "systemd")):
        pods = Path(state, escaped(one), "keeper")
        (pods / "uid").mkdir(parents=True)
        for folder in (pods.parent.parent, pods.parent):
            folder.chmod(0o700)
        with pytest.raises(CannotDo, match=f"started with the {driver} driver, in {one}"):
            claim(two, Groups(), state=state, boot=BOOT)
        (pods / "uid").rmdir()
        with claimed(state, root=two):
            pass


def test_a_lock_ends_with_its_process(state: str) -> None:
    code = """
import sys
from tests.host.state.test_journal_file import Groups, claim
journal = claim("/qoslet", Groups(), state=sys.argv[1], boot="b1")
print(flush=True)
sys.stdin.read()
"""
    run = subprocess.Popen(
        [sys.executable, "-c", code, state],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.stdout is not None
    run.stdout.readline()
    with pytest.raises(CannotDo, match=rf"another qoslet runs here \(process {run.pid}\)"):
        claim(ROOT, Groups(), state=state, boot=BOOT)
    run.kill()
    run.communicate()
    with claimed(state):
        pass


def test_a_foreign_tree_is_refused_and_stays(state: str) -> None:
    tree = Groups(qoslet=4, qoslet_a=5)
    for _ in range(2):
        with pytest.raises(CannotDo) as caught, claimed(state, tree):
            pass
        assert caught.value.where == ROOT
        assert "no qoslet journal has it" in caught.value.message
        assert "--cgroup-root" in caught.value.hint
    assert len(tree.inodes) == 2


def test_a_tree_that_was_renamed_in_one_hierarchy_stays_ours(state: str) -> None:
    left(state, Created("/qoslet", 4), Created("/qoslet/a", 5))
    tree = Groups(qoslet=40, qoslet_a=50)
    tree.renamed = {"/qoslet", "/qoslet/a"}
    journal = open_journal(ROOT, tree, state=state, boot=BOOT, verb="run")
    assert journal.ledger.cgroups == {"/qoslet": ("made", 40), "/qoslet/a": ("made", 50)}
    journal.close(gone=False)
    tree.renamed.clear()
    tree.inodes["/qoslet/a"] = 51
    journal = open_journal(ROOT, tree, state=state, boot=BOOT, verb="run")
    assert journal.ledger.cgroups == {"/qoslet": ("made", 40)}, "somebody made it anew"
    journal.close(gone=False)


def test_what_a_dead_run_left_is_killed_and_removed(state: str) -> None:
    left(
        state,
        Created("/qoslet", 4),
        CreateIntent("/qoslet/a"),
        Created("/qoslet/a", 5),
        CreateIntent("/qoslet/b"),
    )
    tree = Groups(qoslet=4, qoslet_a=5, qoslet_b=9)
    tree.pids = {"/qoslet/a": {77, 78}}
    with claimed(state, tree) as journal:
        assert not tree.inodes
        assert not tree.pids
        line = (
            f"removed 3 cgroups and ended 2 processes that a previous run (process {os.getpid()})"
        )
        assert journal.notes == [f"{ROOT}: {line} left"]
        assert said(state).entries == ()


def test_the_socket_of_an_agent_that_was_killed_goes_with_its_folder(state: str) -> None:
    with claimed(state), socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(Path(state, escaped(ROOT), AGENT_SOCKET)))
    assert os.listdir(state) == []
