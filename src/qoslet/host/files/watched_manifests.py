"""Manifest files that come, change and go while they are watched.

A file is read when it is complete: whoever writes it is waited for. Whatever an event may have
missed, a look at every file's identity and times now and then does not.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from errno import EIO
from typing import IO

from qoslet.core.api.documents import Document, FileOrder
from qoslet.core.api.manifest_set import FileChange
from qoslet.core.api.schema import shown
from qoslet.core.problem import Problem
from qoslet.errors import SHORTAGES, BadInput
from qoslet.host.files.given_path import (
    NOWHERE,
    GivenPath,
    empty,
    finished,
    given_path,
    is_gone,
    lost,
    recalled,
    replaced,
    row_of,
    rows_of_busy,
)
from qoslet.host.files.manifest_names import is_manifest, manifest_names
from qoslet.host.files.manifests import stream_documents, unreadable
from qoslet.host.files.stable_read import content, stamp
from qoslet.host.files.trusted_path import check_trusted
from qoslet.host.linux.inotify import Alarm, DirectoryWatch, Inotify, PollingWatch

RESCAN = 10.0
"""Seconds between two looks at every file."""

POLL = 1.0
"""The same where inotify is not to be had."""

SLICE = 0.5
"""Seconds that a call reads at most, and one file: meanwhile the loop gives no sign of life."""

_PASSING = (*SHORTAGES, EIO)
"""Errors that say nothing of a file: the next look reads it again."""

_AGAIN = (0.001, 0.01, 0.1)
"""Seconds after which a file that was being written is tried again."""


class ManifestFiles:
    """The files below some paths. ``changes`` tells each of them once, and again when it is
    another; ``faults`` and ``rows`` what there is to say about the paths.

    ``stdin`` is what ``-`` reads. With ``strict`` a path that another user can change is refused. ``watch`` makes the watch; where it raises OSError files are polled. ``progress`` is called
    after each file that is read. ``earlier`` are ``directories`` of an earlier agent.
    """

    def __init__(
        self,
        paths: Sequence[str],
        clock: Callable[[], float],
        *,
        stdin: IO[bytes] | None = None,
        strict: bool = False,
        watch: Callable[[], DirectoryWatch] = Inotify,
        progress: Callable[[], None] = lambda: None,
        earlier: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        self._clock = clock
        self._progress = progress
        self._stdin = stdin
        self._strict = strict
        self._unwatched = ""
        try:
            self._watch = watch()
        except OSError as error:
            self._watch = self._polled(error)
        self._given = [given_path(number, path) for number, path in enumerate(paths)]
        self._given += recalled(paths, earlier or {}, len(self._given))
        self._whole = [given for given in self._given if not given.only and not given.stream]
        for given in self._whole:
            identity = (earlier or {}).get(given.place)
            if identity is not None:
                given.identity, given.had_files = identity, True
        self._single: dict[tuple[str, str], list[GivenPath]] = {}
        for given in self._given:
            if given.only:
                self._single.setdefault((given.directory, given.only), []).append(given)
        self._alarm, self._later = Alarm(), Alarm()
        self._linked: dict[str, set[int]] = {}
        self._above: set[str] = set()
        self._next_look = clock()
        self._first = True
        self._queue: deque[tuple[FileOrder, bool]] = deque()
        self._changes: list[FileChange] = []
        self._rounds = 0
        # True: by a file's coming alone, it may be written still
        self._dirty: dict[FileOrder, bool] = {
            (given.number, ""): False for given in self._given if given.stream
        }

    def changes(self) -> list[FileChange]:
        """The files that are others than when they were told last.

        The first call reads all of them; a later one reads for ``SLICE`` seconds. What needs
        longer is told by a later call, all of it at once, since a pod may move from one file to
        another; until then ``descriptors`` stay readable.
        """
        until = self._clock() + SLICE
        while self._queue or self._more():
            order, made = self._queue.popleft()
            change = self._read(self._given[order[0]], order[1], made)
            if change is not None:
                self._changes.append(change)
            self._progress()
            if not self._first and self._queue and self._clock() >= until:
                self.wake()
                return []
        self._first, self._rounds = False, 0
        changes, self._changes = self._changes, []
        return changes

    def wake(self, seconds: float = 0.0) -> None:
        """Be readable in ``seconds``; of two times that are not now the last one counts."""
        (self._later if seconds else self._alarm).ring(seconds)

    def _more(self) -> bool:
        """Queue what else is to be told together; whether anything."""
        removed = any(change.documents is None for change in self._changes)
        # the other half of a rename may come a moment later: the pod has only moved
        if self._rounds >= (2 if removed else 1):
            return False
        self._rounds += 1
        self._gather()
        return bool(self._queue)

    def _gather(self) -> None:
        """Queue the files that are to be read."""
        for number in self._take_events():
            self._look(self._given[number])
        now = self._clock()
        if now >= self._next_look:
            self._next_look = now + RESCAN
            for given in self._given:
                self._look(given)
        dirty, self._dirty = self._dirty, {}
        self._alarm.rang()
        self._later.rang()
        if self._strict:
            for number in {number for number, _ in dirty}:
                self._check(self._given[number])
        self._queue.extend(sorted(dirty.items()))

    @property
    def faults(self) -> list[BadInput]:
        """The paths that cannot be read."""
        return [given.fault for given in self._given if given.fault is not None]

    @property
    def directories(self) -> dict[str, tuple[int, int]]:
        """Device and inode of the directories that have manifests, or had them before something
        else took their place, by absolute path."""
        some = (given for given in self._whole if given.had_files)
        return {given.place: given.identity for given in some}

    def rows(self) -> list[Problem]:
        """What keeps files from being read as they are."""
        found = [row_of(given, given.fault) for given in self._given if given.fault is not None]
        if self._unwatched:
            message = f"not watched ({self._unwatched}): polled every {POLL:g} s"
            hint = "raise fs.inotify.max_user_instances or max_user_watches"
            found.append(Problem("warning", "manifests", message, hint))
        for given in self._given:
            found += rows_of_busy(given, self._clock())
        return found

    def follows(self, file: str) -> bool:
        """Whether a file, as it is shown, is among those that are read, or would be if it was there."""
        folder, _, name = file.rpartition("/")
        return any(
            file == _called(given.path)
            if given.only or given.stream
            else is_manifest(name) and folder == shown(given.path).rstrip("/")
            for given in self._given
        )

    def descriptors(self) -> list[int]:
        """Readable when ``changes`` may have something."""
        return [*self._watch.descriptors(), self._alarm.fd, self._later.fd]

    def close(self) -> None:
        """Watch nothing any more."""
        self._watch.close()
        self._alarm.close()
        self._later.close()

    def _polled(self, error: OSError) -> DirectoryWatch:
        self._unwatched = error.strerror or str(error)
        return PollingWatch(POLL)

    def _add(self, directory: str) -> bool:
        """Watch a directory; False where it is not there, or may not be read. What cannot be
        watched otherwise is polled."""
        try:
            self._watch.add(directory)
        except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError):
            return False
        except OSError as error:
            self._watch.close()
            self._watch = self._polled(error)
        return True

    def _take_events(self) -> set[int]:
        """Take the events: files are to be read, and the paths returned to be looked at."""
        looks: set[int] = set()
        everything = range(len(self._given))
        for kind, directory, name in self._watch.events():
            if kind == "lost":
                looks.update(everything)
                continue
            if directory in self._above:
                looks.update(everything)
            looks.update(self._linked.get(directory, ()))
            made = kind == "made"
            for given in self._single.get((directory, name), ()):
                self._touched(given, name, made)
            for given in self._whole:
                if given.directory == directory:
                    if kind == "ended":
                        given.identity = NOWHERE
                    if name and is_manifest(name):
                        self._touched(given, name, made)
                        if given.fault is not None:
                            looks.add(given.number)
                    elif kind == "ended" or not name or given.links:
                        # with links also ..data of a ConfigMap: they may lead to other files
                        looks.add(given.number)
            singles = (given for some in self._single.values() for given in some)
            looks.update(
                one.number
                for one in singles
                if one.directory == directory and (kind == "ended" or one.links)
            )
            if kind == "ended":
                self._above.discard(directory)
        return looks

    def _touched(self, given: GivenPath, name: str, made: bool) -> None:
        """Something happened to a file."""
        self._dirty[given.number, name] = made
        if name in given.busy:
            given.busy[name] = 0

    def _look(self, given: GivenPath) -> None:
        """Compare what is there with what was told."""
        if given.stream:
            return
        there = self._add(given.directory)
        if not there or os.path.islink(given.directory):
            self._watch_above(given.directory)
        for directory in set(given.links.values()):
            self._add(directory)
        try:
            names = self._names(given)
        except BadInput as fault:
            given.fault, given.absent = fault, False
            return
        except (OSError, ValueError) as error:
            given.fault = lost(given) if given.recalled else unreadable(given.path, error)
            given.absent, given.identity = bool(given.only) and is_gone(given.path, error), NOWHERE
            if not given.absent:
                return
            names = []
        else:
            given.fault = replaced(given, names)
            if given.fault is not None:
                return
        for name in (*names, *(given.known.keys() - set(names))):
            found = stamp(given.full(name))
            if found is None or found != given.known.get(name) or name in given.busy:
                self._dirty.setdefault((given.number, name), False)

    def _names(self, given: GivenPath) -> list[str]:
        """The files of a path that are there. Raises OSError, BadInput."""
        if given.only:
            os.lstat(given.path)
            return [given.only]
        return manifest_names(given.directory, self._strict)

    def _check(self, given: GivenPath) -> None:
        """See whether a directory may be read; where not, its files wait for the next look."""
        if given.only or given.stream:
            return
        try:
            check_trusted(given.directory)
        except BadInput as fault:
            given.fault, given.absent = fault, False
        except OSError:
            # reading tells it
            pass

    def _watch_above(self, directory: str) -> None:
        """Watch where ``directory`` will appear."""
        try:
            above = os.path.dirname(os.path.abspath(directory))
        except FileNotFoundError:
            # the working directory was removed: nothing comes there any more
            return
        while not self._add(above) and above != "/":
            above = os.path.dirname(above)
        self._above.add(above)

    def _read(self, given: GivenPath, name: str, made: bool) -> FileChange | None:
        """What a file says; None where there is nothing to tell."""
        path, order = given.full(name), (given.number, name)
        if given.stream:
            return FileChange(
                _called(path), order, tuple(stream_documents(path, self._stdin)), True
            )
        if given.fault is not None and not given.only:
            return None
        tried = given.busy.pop(name, 0)
        documents: tuple[Document | BadInput, ...] | None
        try:
            found, documents = content(path, self._strict, made)
            documents = tuple(map(finished, documents)) or (empty(path),)
        except BlockingIOError:
            self._wait(given, name, tried, made)
            return None
        except BadInput as fault:
            found, documents = stamp(path) or (), (fault,)
        except (OSError, ValueError) as error:
            found, documents = stamp(path) or (), (unreadable(path, error),)
            if getattr(error, "errno", 0) in _PASSING:
                found = ()
            if isinstance(error, IsADirectoryError) or is_gone(path, error):
                documents = None
            elif not os.path.isdir(given.directory):
                self._look(given)
                return None
        given.busy_since.pop(name, None)
        self._follow(given, name, path)
        if documents is not None:
            given.known[name] = found
        elif given.known.pop(name, None) is None:
            return None
        return FileChange(shown(path), order, documents, bool(given.only))

    def _wait(self, given: GivenPath, name: str, tried: int, made: bool) -> None:
        """Try a file again that is being written: its closing is told a moment before the kernel
        counts one writer less. Later tries wait for the next closing, or the next look."""
        given.busy[name] = tried + 1
        given.busy_since.setdefault(name, self._clock())
        if tried < len(_AGAIN):
            self._dirty[given.number, name] = made
            self._alarm.ring(_AGAIN[tried])

    def _follow(self, given: GivenPath, name: str, path: str) -> None:
        """Watch the directory that a link leads into."""
        target = _linked_directory(path)
        before = given.links.pop(name, "")
        if target:
            given.links[name] = target
            self._linked.setdefault(target, set()).add(given.number)
            self._add(target)
        if before and before != target and before not in given.links.values():
            users = self._linked[before]
            users.discard(given.number)
            if not users:
                del self._linked[before]
                if all(before != one.directory for one in self._given):
                    self._watch.drop(before)


def _linked_directory(path: str) -> str:
    """The directory that a link leads into, empty for what is none. A link that a file replaces at
    this moment is none any more, and its event is on the way."""
    try:
        return os.path.dirname(os.path.realpath(path)) if os.path.islink(path) else ""
    except OSError:
        return ""


def _called(path: str) -> str:
    """What a path of the command line is called."""
    return "stdin" if path == "-" else shown(path)
