"""Files below one mounted hierarchy, opened without following a link.

Every path is walked from a descriptor of the mount, one component at a time, each opened with
O_NOFOLLOW. Directory descriptors are kept for a while, so that the files of a group cost one
``openat`` each.
"""

from __future__ import annotations

import os
from _weakrefset import WeakSet  # without the rest of ``weakref``, which nobody needs here
from collections.abc import Callable, Iterator
from errno import EEXIST, ENODEV, ENOENT
from functools import lru_cache
from typing import ClassVar, Protocol, TypeVar

from qoslet.core.cgroup.names import is_at_or_below
from qoslet.host.linux.descriptors import EXHAUSTED, kept_at_most

KEPT = 128
"""Directory descriptors that a driver keeps for each hierarchy: those of fifty pods that come at once."""
FEW = 8
"""Those that a reader keeps: it looks at a group and goes on."""

LEAF_LINKS = 2
"""Links of a group without groups below: its name and its own dot."""

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_TRUNC
_CHUNK = 65536
_LONGEST = 1000
"""Characters of a path that the kernel takes at once: 4096 bytes."""
ONE_READ = 448
"""Bytes. A value is shorter, and Python keeps so few without asking for memory; a read that gives
fewer gave all."""

T = TypeVar("T")


@lru_cache(maxsize=4096)
def checked(path: str) -> str:
    """``path`` if it is one from a hierarchy's root, as in ``/a/b``; the root itself is ``/``.

    Returns it without a slash at the end, so the root is empty. Raises ValueError for empty
    components, ``.``, ``..`` and NUL.
    """
    if path == "/":
        return ""
    first, *parts = path.split("/")
    if first or not parts:
        raise ValueError(f"{path!r} does not begin with /")
    for part in parts:
        if part in ("", ".", "..") or "\0" in part:
            raise ValueError(f"{path!r} is not a plain path")
    return path


@lru_cache(maxsize=1024)
def file_name(name: str) -> str:
    """``name`` if it is one component. Raises ValueError."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} is not a file name")
    return name


def parent(path: str) -> str:
    """The path above a checked one; the root's is the root."""
    return path.rpartition("/")[0]


def read_file(descriptor: int) -> str:
    """An open file of the kernel, mostly in one read: one that gives little gave all."""
    data = os.read(descriptor, ONE_READ)
    if len(data) == ONE_READ:
        data += read_rest(descriptor)
    return data.decode("utf-8", "replace")


def read_all(descriptor: int) -> str:
    """The rest of an open file."""
    return read_rest(descriptor).decode("utf-8", "replace")


def read_rest(descriptor: int) -> bytes:
    """The bytes of an open file that are not read yet."""
    chunks = []
    while chunk := os.read(descriptor, _CHUNK):
        chunks.append(chunk)
    return b"".join(chunks)


class MountedTree:
    """One hierarchy at its mount point. Paths are checked ones; all methods raise OSError.

    ``keeps`` is how many descriptors of groups stay open.
    A kept descriptor of a group that was removed and made again answers ENOENT; then the path is
    walked anew, once. So it is where descriptors are short, after all objects have closed theirs.
    """

    _all: ClassVar[WeakSet[MountedTree]] = WeakSet()

    def __init__(self, point: str, keeps: int = KEPT) -> None:
        self.point = point
        self._keeps = keeps
        self._mount: int | None = None
        self._kept: dict[str, int] = {}
        self._all.add(self)

    def __del__(self) -> None:
        # a number that nobody knows any more would stay open
        self.close()

    def fd(self, path: str) -> int:
        """A descriptor (O_PATH) of the group's directory, owned by this object and good until
        the next call."""
        found = self._kept.get(path)
        if found is not None:
            return found
        return self._retry(self._walk, path)

    def _walk(self, path: str) -> int:
        """Open ``path`` from the nearest directory that is open."""
        if self._mount is None:
            self._mount = os.open(self.point, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        above, before = self._nearest(path), len(self._kept)
        at = self._kept[above] if above else self._mount
        for name in filter(None, path[len(above) :].split("/")):
            above = f"{above}/{name}"
            at = os.open(name, _DIRECTORY, dir_fd=at)
            self._kept[above] = at
            while len(self._kept) > self._keeps and self._close_oldest(above):
                pass
        self._trim(path, before)
        return at

    def _nearest(self, path: str) -> str:
        """Which path at or above is open; empty for the mount."""
        if path.count("/") > len(self._kept):
            # whoever is in a group may nest others without end
            return max(
                (one for one in self._kept if is_at_or_below(path, one)), key=len, default=""
            )
        while path and path not in self._kept:
            path = parent(path)
        return path

    def _trim(self, path: str, before: int) -> None:
        """Close the oldest descriptors but that of ``path``, then those of the others, until as
        many are kept as the process may; no more than ``before`` are as many as there were."""
        if len(self._kept) <= before:
            return
        most = kept_at_most()
        if len(self._all) * KEPT <= most:
            return
        while (kept := sum(len(tree._kept) for tree in self._all)) > most:
            if not self._close_oldest(path):
                break
        if kept > most:
            for tree in self._all - {self}:
                tree.close()

    def _close_oldest(self, path: str) -> bool:
        """Close the oldest descriptor; False where that is the one of ``path``."""
        oldest = next(iter(self._kept), path)
        if oldest == path:
            return False
        os.close(self._kept.pop(oldest))
        return True

    def _retry(self, work: Callable[[str], T], path: str) -> T:
        """``work``, once more with nothing kept where a kept descriptor may have been stale."""
        try:
            return work(path)
        except OSError as error:
            if error.errno in EXHAUSTED:
                give_up_kept()
            elif error.errno not in (ENOENT, ENODEV) or not self._kept:
                raise
        self.close()
        return work(path)

    def close(self) -> None:
        """Close every descriptor; the next call opens what it needs."""
        for descriptor in self._kept.values():
            os.close(descriptor)
        self._kept.clear()
        if self._mount is not None:
            os.close(self._mount)
            self._mount = None

    def forget(self, path: str) -> None:
        """Close the descriptor of a group."""
        found = self._kept.pop(path, None)
        if found is not None:
            os.close(found)

    def mkdir(self, path: str) -> bool:
        """Make a group whose parent exists; False if it is there already."""
        above, _, name = path.rpartition("/")

        def work(_: str) -> bool:
            try:
                os.mkdir(name, 0o755, dir_fd=self.fd(above))
            except OSError as error:
                if error.errno != EEXIST:
                    raise
                self.fd(path)
                return False
            self._forget_below(path)
            return True

        return self._retry(work, path)

    def _forget_below(self, path: str) -> None:
        """Close what is kept of an earlier group of this name: on v1 one may have been renamed."""
        self.forget(path)
        below = f"{path}/"
        for kept in [one for one in self._kept if one.startswith(below)]:
            self.forget(kept)

    def rmdir(self, path: str) -> bool:
        """Remove a group; False if there is none."""
        above, _, name = path.rpartition("/")
        self.forget(path)
        try:
            self._retry(lambda _: os.rmdir(name, dir_fd=self.fd(above)), path)
        except FileNotFoundError:
            return False
        return True

    def open(self, path: str, file: str, flags: int) -> int:
        """A file of a group, open; the caller closes it."""
        if file == ".":
            # A kept directory opens even if it was removed and made again: ask the one above.
            self.forget(path)
        kept = self._kept.get(path)
        if kept is not None:
            try:
                return os.open(file, flags, dir_fd=kept)
            except OSError as error:
                if error.errno not in (ENOENT, ENODEV, *EXHAUSTED):
                    raise
        return self._retry(lambda group: os.open(file, flags, dir_fd=self.fd(group)), path)

    def open_to_read(self, path: str, file: str) -> int:
        """The same, for reading."""
        return self.open(path, file, _READ)

    def open_to_write(self, path: str, file: str) -> int:
        """The same, for writing."""
        return self.open(path, file, _WRITE)

    def read(self, path: str, file: str) -> str:
        """The text of a file, without the newline at its end."""
        descriptor = self.open_to_read(path, file)
        try:
            return read_all(descriptor).rstrip("\n")
        finally:
            os.close(descriptor)

    def write(self, path: str, file: str, value: str) -> None:
        """Write a value at once. An empty one is a newline: the kernel ignores no bytes."""
        descriptor = self.open(path, file, _WRITE)
        try:
            os.write(descriptor, value.encode() or b"\n")
        finally:
            os.close(descriptor)

    def directory(self, path: str) -> int:
        """A group's directory, open for reading, never one that was removed meanwhile; the caller
        closes it."""
        try:
            return self._directory(path)
        except OSError as error:
            if error.errno not in EXHAUSTED:
                raise
        give_up_kept()
        return self._directory(path)

    def _directory(self, path: str) -> int:
        if not path:
            return os.open(self.point, _LISTED)
        above, _, name = path.rpartition("/")
        known = not above or above in self._kept
        try:
            return os.open(name, _LISTED | os.O_NOFOLLOW, dir_fd=self.fd(above))
        except OSError as error:
            # a directory that was removed and made again has none below it while it is kept
            stale = known and error.errno in (ENOENT, ENODEV) and self._facts(path) is not None
            if not stale:
                raise
        self.close()
        return os.open(name, _LISTED | os.O_NOFOLLOW, dir_fd=self.fd(above))

    def identity(self, path: str) -> int | None:
        """The inode of a group, None where there is none."""
        facts = self._facts(path)
        return None if facts is None else facts.st_ino

    def _facts(self, path: str) -> os.stat_result | None:
        """What the kernel says of a group by its name, None where there is none."""
        mount = self.fd("") if self._mount is None else self._mount
        try:
            if len(path) < _LONGEST:
                return os.stat(path[1:] or ".", dir_fd=mount, follow_symlinks=False)
            above, _, name = path.rpartition("/")
            return os.stat(name, dir_fd=self.fd(above), follow_symlinks=False)
        except FileNotFoundError:
            return None

    def inode(self, path: str) -> int:
        """The inode of a group that was just made."""
        return os.stat(self.fd(path)).st_ino

    def below(self, path: str) -> dict[str, int]:
        """The group and all below it with their inodes; empty where it is absent."""
        top = self._facts(path)
        if top is None:
            return {}
        found = {path: top.st_ino}
        waiting = [path] if top.st_nlink != LEAF_LINKS else []
        while waiting:
            group = waiting.pop()
            try:
                descriptor = self.directory(group)
            except FileNotFoundError:
                continue
            prefix = f"{group}/"
            try:
                with os.scandir(descriptor) as entries:
                    # no call for each entry: there are as many as groups on the node
                    for one in entries:
                        if not one.is_dir(follow_symlinks=False):
                            continue
                        try:
                            facts = one.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue
                        below = prefix + one.name
                        found[below] = facts.st_ino
                        if facts.st_nlink != LEAF_LINKS:
                            waiting.append(below)
            finally:
                os.close(descriptor)
        return found

    def _entries(self, path: str) -> Iterator[os.DirEntry[str]]:
        """The groups directly below; none where the group is gone."""
        try:
            descriptor = self.directory(path)
        except FileNotFoundError:
            return
        try:
            with os.scandir(descriptor) as entries:
                yield from (one for one in entries if one.is_dir(follow_symlinks=False))
        finally:
            os.close(descriptor)

    def children(self, path: str) -> list[str]:
        """The paths of the groups directly below, sorted; none where the group is gone."""
        names = [one.name for one in self._entries(path)]
        return [f"{path}/{name}" for name in sorted(names)]


class KeptFiles(Protocol):
    """Keeps descriptors for speed, besides those of trees."""

    def give_up(self) -> None:
        """Close them."""


KEPT_FILES: WeakSet[KeptFiles] = WeakSet()


def give_up_kept() -> None:
    """Close every descriptor of this process that is only kept for speed."""
    for tree in list(MountedTree._all):
        tree.close()
    for keeper in list(KEPT_FILES):
        keeper.give_up()


def open_retrying(name: str, flags: int, directory: int) -> int:
    """``name`` in an open directory; where descriptors are short, once more after those that are
    only kept are closed. Raises OSError."""
    try:
        return os.open(name, flags, dir_fd=directory)
    except OSError as error:
        if error.errno not in EXHAUSTED:
            raise
    give_up_kept()
    return os.open(name, flags, dir_fd=directory)
