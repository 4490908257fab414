"""Whose tree it is: one run for each root, its journal on disk, and what a dead run left behind.

The journal lives in /run, where it ends with the boot as cgroups do. Nothing is synced to disk:
a power failure takes the groups along.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from msgspec.structs import replace

from qoslet.core.problem import plural
from qoslet.core.reconcile.journal import (
    Entry,
    Header,
    JournalState,
    Key,
    ParsedJournal,
    Set,
    beginning,
    lines,
    read,
)
from qoslet.errors import CannotDo
from qoslet.host.linux.procfs import this_boot
from qoslet.host.state.folder import DAMAGED, JOURNAL, RESERVE, STATE, UNREADABLE, escaped
from qoslet.host.state.moved import is_named, reopened
from qoslet.host.state.own_files import put_in_place, take_room, unlink
from qoslet.host.state.root_lock import FULL, cannot, enter, leave, locked_again

LARGEST = 4 * 1024 * 1024
"""Bytes after which a journal is written anew, without what no longer counts."""

RESERVED = 1024 * 1024
"""Bytes that are kept free for it: a journal of some hundred pods, twice."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class Owned(Protocol):
    """What claiming needs of the driver."""

    hierarchy: str

    def identity(self, path: str) -> int | None:
        """The inode of a group, None where there is none."""

    def identifies(self, path: str) -> bool:
        """Whether a group is in the hierarchy whose inodes the journal knows, the first of v1."""

    def below(self, path: str) -> list[str]:
        """The group and all below it, children first."""

    def members(self, path: str) -> set[int]:
        """The processes of a group."""

    def kill(self, path: str) -> bool:
        """End all processes of the group and below."""

    def discard(self, path: str) -> str | None:
        """Remove an empty group; what went wrong."""


class JournalFile:
    """An open journal, locked until it is closed. ``notes`` say what claiming did."""

    wants_before = False

    def __init__(self, folder: int, lock: int, header: Header, root: str, path: str = "") -> None:
        self.path = path
        self._folder = folder
        self._lock = lock
        self._header = header
        self._size = 0
        self._file = -1
        self._seen: Mapping[Key, str] = {}
        self._owed: list[Entry] = []
        self.ledger = JournalState()
        self.root = root
        self.notes: list[str] = []

    @property
    def verb(self) -> str:
        """What the tree is of: ``run`` or ``apply``."""
        return self._header.verb

    def begin(self) -> None:
        """Start the file with its header. Raises ``CannotDo``."""
        self._file = self._new(JOURNAL)
        self._append(lines(beginning(self._header)))
        self.reserve()

    def seen(self, values: Mapping[Key, str]) -> None:
        """What stands in files that are about to be written: recorded as the value of before
        where an entry comes without one."""
        self._seen = values

    def record(self, entries: Sequence[Entry]) -> None:
        """Append entries in one write. Raises ``CannotDo``; then nothing may be done."""
        if self._file < 0:
            self.rewrite()
        if self._seen:
            entries = [self._known(entry) for entry in entries]
        self._append(lines([*self._owed, *entries]))
        self._owed.clear()
        self.ledger.add(entries)
        if self._size > LARGEST:
            self.rewrite()

    def record_later(self, entries: Sequence[Entry]) -> None:
        """Entries about what was done already, which could not be recorded: the ledger has them at
        once, the file before the next ones."""
        self.ledger.add(entries)
        self._owed += entries

    def _known(self, entry: Entry) -> Entry:
        """The entry with the value of before, if that is known."""
        if not isinstance(entry, Set) or entry.before is not None:
            return entry
        before = self._seen.get((entry.path, entry.file))
        return entry if before is None else replace(entry, before=before)

    @property
    def folder(self) -> int:
        """The directory that it is in."""
        return self._folder

    def read(self) -> ParsedJournal:
        """What a journal says that is there already."""
        return read(contents(self._folder))

    def discard(self) -> None:
        """Remove a journal that is there, and a new one that was not finished."""
        unlink(JOURNAL, self._folder)
        unlink(f"{JOURNAL}.new", self._folder)

    def archive(self, header: Header | None) -> bool:
        """Put a journal aside that says nothing about this boot; whether there was one."""
        return _archive(self._folder, header)

    def forget_aside(self) -> None:
        """Remove a journal that was put aside because it could not be read."""
        unlink(f"{JOURNAL}.{UNREADABLE}", self._folder)

    def mend(self) -> list[str]:
        """Make again what somebody has removed of the state folder, its lock and the journal; lines
        that say so. What cannot be made now is tried again with the next call. Raises ``CannotDo``
        where another process has the root now."""
        if self._folder < 0 or not self.path:
            return []
        try:
            self._folder, moved = reopened(self.path, self._folder)
            self._lock, removed = locked_again(self.root, self._folder, self._lock)
        except OSError as error:
            return [f"{self.path}: cannot be made again: {error.strerror}"]
        if removed:
            self.reserve()
        lines = [moved, removed]
        try:
            if not self._is_whole():
                self.rewrite()
                lines.append("the journal was removed or cut: it is written again")
        except (CannotDo, OSError) as error:
            lines.append(str(error))
        return [f"{self.path}: {line}" for line in lines if line]

    def _is_whole(self) -> bool:
        """Whether the file on disk is the one that is written to, and has what was written."""
        if self._file >= 0:
            whole = os.fstat(self._file).st_size >= self._size
            return whole and is_named(JOURNAL, self._folder, self._file)
        return not (self.ledger.cgroups or self.ledger.files) or bool(contents(self._folder))

    def reserve(self) -> None:
        """Keep room for what comes next, if there is any."""
        take_room(RESERVE, self._folder, RESERVED)

    def _new(self, name: str) -> int:
        """A new file. Raises ``CannotDo``. A full file system gives its reserve."""
        try:
            try:
                return os.open(name, _NEW, 0o600, dir_fd=self._folder)
            except OSError as error:
                if error.errno not in FULL or not self._has_reserve():
                    raise
            return os.open(name, _NEW, 0o600, dir_fd=self._folder)
        except OSError as error:
            raise cannot("cannot create the journal", error, self.root) from error

    def _append(self, data: bytes) -> None:
        """Write all of it or raise ``CannotDo``. A full file system gives its reserve."""
        try:
            written = self._written(data)
            if written < len(data) and self._has_reserve():
                written += self._written(data[written:])
        except OSError as error:
            raise cannot("cannot write the journal", error, self.root) from error
        self._size += written
        if written != len(data):
            # The torn line must not swallow the next one.
            os.write(self._file, b"\n")
            raise CannotDo("the journal's file system is full", where=self.root)

    def _written(self, data: bytes) -> int:
        """How many bytes were appended. Raises OSError."""
        try:
            return os.write(self._file, data)
        except OSError as error:
            if error.errno not in FULL or not self._has_reserve():
                raise
        return os.write(self._file, data)

    def _has_reserve(self) -> bool:
        """Whether there was a reserve, which is used now."""
        try:
            os.unlink(RESERVE, dir_fd=self._folder)
        except OSError:
            return False
        return True

    def rewrite(self) -> None:
        """Replace the file, or begin it, by the shortest one that says the same."""
        data = lines([*beginning(self._header), *self.ledger.entries()])
        try:
            unlink(f"{JOURNAL}.new", self._folder)
        except OSError as error:
            raise cannot("cannot create the journal", error, self.root) from error
        new = self._new(f"{JOURNAL}.new")
        old, self._file, self._size = self._file, new, 0
        try:
            self._append(data)
            put_in_place(f"{JOURNAL}.new", JOURNAL, self._folder)
        except (CannotDo, OSError):
            os.close(new)
            self._file, self._size = old, 0
            raise
        self._owed.clear()
        if old >= 0:
            os.close(old)
        self.reserve()

    def close(self, *, gone: bool) -> None:
        """Give the root free. ``gone``: nothing is left of it, so the journal goes too; without
        one, so does its directory."""
        if self._folder < 0:
            return
        if gone:
            unlink(JOURNAL, self._folder)
            for name in os.listdir(self._folder):
                if name.startswith(f"{JOURNAL}.") and not name.startswith(DAMAGED):
                    unlink(name, self._folder)
        elif self._owed and self._file >= 0:
            with suppress(CannotDo, OSError):
                self._append(lines(self._owed))
        leave(self._folder, self.root)
        for descriptor in (self._file, self._lock, self._folder):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = self._folder = -1


def claim(root: str, tree: Owned, *, state: str = STATE, boot: str | None = None) -> JournalFile:
    """Make ``root`` ours alone and clean what a dead run of ours left there.

    Raises ``CannotDo`` where another run has it, where a tree stands that the journal does not
    name, or where the state directory cannot be trusted. ``boot`` is the boot's id: the
    kernel's if None.
    """
    journal, header = locked(root, tree.hierarchy, state=state, boot=boot)
    try:
        _succeed(journal, tree, header)
        journal.begin()
    except BaseException:
        journal.close(gone=False)
        raise
    return journal


def locked(
    root: str,
    hierarchy: str,
    *,
    state: str,
    boot: str | None = None,
    verb: str = "run",
    driver: str = "cgroupfs",
    releasing: bool = False,
) -> tuple[JournalFile, Header]:
    """The lock of a root, with a journal that is not begun yet and the header that it gets.

    Raises ``CannotDo`` where another process has it or an overlapping root, and where the state
    directory cannot be trusted.
    """
    folder, lock = enter(root, state, verb, releasing=releasing)
    header = Header(boot or this_boot(), hierarchy, root, os.getpid(), verb=verb, driver=driver)
    return JournalFile(folder, lock, header, root, f"{state}/{escaped(root)}"), header


def same_place(one: Header | None, other: Header) -> bool:
    """Whether two journals speak about the same groups."""
    return one is not None and (one.boot, one.hierarchy, one.root) == (
        other.boot,
        other.hierarchy,
        other.root,
    )


def _succeed(journal: JournalFile, tree: Owned, header: Header) -> None:
    """Deal with the journal of a run before us and with the tree that stands now."""
    old = journal.read()
    valid = same_place(old.header, header)
    ledger = JournalState()
    if valid:
        ledger.add(old.entries)
    standing = tree.below(header.root)
    if standing:
        refuse_foreign(tree, header.root, standing, ledger, valid)
        if old.header is not None and old.header.verb == "apply":
            hint = f"qoslet release --cgroup-root {header.root} removes it"
            raise CannotDo("qoslet apply has created this tree", where=header.root, hint=hint)
        journal.notes.append(_clean(tree, header.root, standing, old.header))
    if not valid and journal.archive(old.header):
        journal.notes.append(f"{header.root}: ignoring a journal of another boot")
    journal.discard()


def contents(folder: int, name: str = JOURNAL) -> bytes:
    """The bytes of the journal; none where no file is there. Raises ``CannotDo``."""
    try:
        with open(os.open(name, _OLD, dir_fd=folder), "rb") as file:
            return file.read()
    except (FileNotFoundError, IsADirectoryError):
        return b""
    except OSError as error:
        raise cannot("cannot read the journal", error, name) from error


def _archive(folder: int, header: Header | None) -> bool:
    """Put a journal aside that says nothing about this boot; whether there was one."""
    # The boot id comes from a file: it must not become a path.
    name = "".join(char for char in (header.boot if header else "") if char.isalnum())
    try:
        os.rename(JOURNAL, f"{JOURNAL}.{name or UNREADABLE}", src_dir_fd=folder, dst_dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def refuse_foreign(
    tree: Owned, root: str, standing: Sequence[str], ledger: JournalState, valid: bool
) -> None:
    """Raise ``CannotDo`` if anything that stands is not what the journal names."""
    foreign = [path for path in standing if not ledger.is_owned(path, tree.identity(path) or 0)]
    if not foreign:
        return
    from qoslet.core.cgroup.tree_owner import advice

    count = len(foreign)
    what = "this tree exists, but no qoslet journal has it"
    if valid and root not in foreign:
        what = f"{plural(count, 'cgroup')} in this tree created by another process, such as {foreign[0]}"
    raise CannotDo(
        what,
        where=root,
        hint=advice(root, standing if len(standing) > 1 else tree.below(root)),
    )


def _clean(tree: Owned, root: str, standing: Sequence[str], header: Header | None) -> str:
    """Kill and remove what a dead run left, children first; the line that says so."""
    running = sum(len(tree.members(path)) for path in standing)
    if running and not tree.kill(root):
        raise CannotDo(
            "cannot kill processes that a previous run left",
            where=root,
            hint="see cgroup.procs there and below",
        )
    for path in standing:
        if (wrong := tree.discard(path)) is not None:
            raise CannotDo("cannot remove what a previous run left", where=root, hint=wrong)
    pid = header.pid if header else 0
    return (
        f"{root}: removed {plural(len(standing), 'cgroup')} and ended "
        f"{plural(running, 'process', 'es')} that a previous run (process {pid}) left"
    )
