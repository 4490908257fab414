"""What the plugin set in containers, on disk before the runtime is told: the agent and ``release`` take
it over from there.

It is beside the journal of the kubelet's tree, in the same form. One process at a time writes it.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from errno import ENOSPC

from qoslet.core.reconcile.journal import (
    AGENT,
    Entry,
    Header,
    JournalState,
    beginning,
    lines,
    read,
)
from qoslet.errors import CannotDo
from qoslet.host.linux.descriptors import owned
from qoslet.host.linux.procfs import this_boot
from qoslet.host.state.folder import PLUGIN_JOURNAL, PLUGIN_LOCK, escaped
from qoslet.host.state.journal_file import contents, same_place
from qoslet.host.state.moved import is_named
from qoslet.host.state.own_files import open_lock, put_in_place, unlink
from qoslet.host.state.root_lock import cannot, private_folder

LARGEST = 1 << 20
"""Bytes after which it is written again without what no longer counts."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def header_of(root: str) -> Header:
    """The header of a plugin's journal on this boot: plugins set values on cgroup v2 only."""
    return Header(this_boot(), "v2", root, os.getpid(), verb=AGENT)


def read_plugin_journal(root: str, state: str) -> JournalState:
    """What a plugin has set below a root, by its journal below the directory ``state``; nothing where
    there is none, or it is of another boot. Raises CannotDo."""
    found = JournalState()
    try:
        folder = os.open(f"{state}/{escaped(root)}", _FOLDER)
    except FileNotFoundError:
        return found
    except OSError as error:
        raise cannot("cannot read the journal of the plugin", error, state) from error
    with owned(folder):
        _take(found, folder, root)
    return found


def journal_path(root: str, state: str) -> str:
    """Where the journal of the plugin of a root is, below the directory ``state``."""
    return f"{state}/{escaped(root)}/{PLUGIN_JOURNAL}"


def is_plugin_running(root: str, state: str) -> bool:
    """Whether a plugin has the lock of a root."""
    try:
        lock = os.open(f"{state}/{escaped(root)}/{PLUGIN_LOCK}", _OLD)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _take(state: JournalState, folder: int, root: str) -> None:
    parsed = read(contents(folder, PLUGIN_JOURNAL))
    if parsed.header is not None and same_place(parsed.header, header_of(root)):
        state.add(parsed.entries)


class PluginJournal:
    """Open until ``close``; to be used from several threads."""

    def __init__(self, root: str, state: str) -> None:
        """Raises CannotDo where another plugin runs below this root, or the state directory is not
        ours alone."""
        self.root = root
        self.state = JournalState()
        self._directory = state
        self._writing = threading.Lock()
        self._file = self._lock = self._folder = -1
        self._size = 0
        try:
            while self._lock < 0:
                self._enter()
            _take(self.state, self._folder, root)
            self._rewrite()
        except BlockingIOError:
            self.close()
            hint = "one plugin sets the values of a node"
            raise CannotDo("another qoslet nri runs here", where=root, hint=hint) from None
        except OSError as error:
            self.close()
            raise cannot("cannot write the journal of the plugin", error, root) from error

    def _enter(self) -> None:
        """Take the lock; one whose file is removed meanwhile does not count. Raises CannotDo,
        OSError."""
        folder = private_folder(self.root, self._directory)
        if self._folder >= 0:
            os.close(self._folder)
        self._folder = folder
        try:
            lock = open_lock(PLUGIN_LOCK, folder)
        except FileNotFoundError:
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_named(PLUGIN_LOCK, folder, lock):
                self._lock, lock = lock, -1
        finally:
            if lock >= 0:
                os.close(lock)

    def paths(self) -> list[str]:
        """The cgroups in which something was set."""
        with self._writing:
            return list(self.state.names)

    def values_of(self, path: str) -> dict[str, str | None]:
        """The files of a cgroup that were set, with what they would hold otherwise."""
        with self._writing:
            files = self.state.files
            return {file: files[path, file][0] for file in self.state.names.get(path, ())}

    def record(self, entries: Sequence[Entry]) -> None:
        """Append entries in one write. Raises CannotDo; then nothing may be set."""
        data = lines(entries)
        with self._writing:
            try:
                self._make_room(len(data))
                written = os.write(self._file, data)
                if written != len(data):
                    os.ftruncate(self._file, self._size)
                    raise OSError(ENOSPC, os.strerror(ENOSPC))
            except OSError as error:
                raise cannot("cannot write the journal of the plugin", error, self.root) from error
            self._size += written
            self.state.add(entries)

    def _make_room(self, length: int) -> None:
        """Write the file again where it is long, or was removed. Raises CannotDo, OSError."""
        if not is_named(PLUGIN_JOURNAL, self._folder, self._file):
            os.close(self._folder)
            self._folder = -1
            self._folder = private_folder(self.root, self._directory)
            self._rewrite()
        elif self._size + length > LARGEST:
            self._rewrite()

    def _rewrite(self) -> None:
        """Write what counts into a new file, which takes the place of the old. Raises OSError."""
        data = lines([*beginning(header_of(self.root)), *self.state.entries()])
        new = f"{PLUGIN_JOURNAL}.new"
        file = os.open(new, _NEW, 0o600, dir_fd=self._folder)
        try:
            if os.write(file, data) != len(data):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            put_in_place(new, PLUGIN_JOURNAL, self._folder)
        except BaseException:
            os.close(file)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size = file, len(data)

    def close(self) -> None:
        """Let go; a journal that names nothing is removed."""
        if self._lock >= 0 and self._file >= 0 and not self.state.files:
            with suppress(OSError):
                unlink(PLUGIN_JOURNAL, self._folder)
                unlink(PLUGIN_LOCK, self._folder)
        for descriptor in (self._file, self._lock, self._folder):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = self._folder = -1
