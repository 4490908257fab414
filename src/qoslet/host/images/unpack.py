"""The layers of an image, put on top of each other in one directory of ours.

Nothing is opened by a path: every step is one name in a directory that is open, so neither ``..``
nor a link leads out; a link in the middle of a path is followed as the container would see it, from
the directory as its root. Devices are never made. Source: OCI image-spec layer.md (whiteouts);
containerd archive/tar.go.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice

from qoslet.host.images.budget import Budget
from qoslet.host.images.tar import CHUNK, Entry, TarReader

WHITEOUT, OPAQUE, AUFS = ".wh.", ".wh..wh..opq", ".wh..wh."
DEEPEST = 128
"""Directories inside each other."""
MOST_LINKS = 40
"""Symbolic links on the way to one name, as in the kernel."""
LARGEST_ID = 2**32 - 2
BATCH = 4096
"""Names of a directory that are read at a time."""
MOST_TOLD = 100
"""Devices that were left out and are told."""

_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KEPT_XATTRS = ("security.capability", "user.")
_FOREIGN_XATTRS = ("user.overlay.",)

Path = tuple[str, ...]


class Unpacker:
    """Unpacks into the directory that is open as ``root``, which nobody else uses. ``left_out``
    are the first devices below ``/dev`` that were not made: a container has its own there."""

    def __init__(self, root: int, budget: Budget) -> None:
        self._root = root
        self._budget = budget
        self._added: set[int] = set()
        self._cleared: set[int] = set()
        self.left_out: list[str] = []

    def layer(self, read: Callable[[int], bytes]) -> None:
        """Put one layer on top, and read its archive to the end. Raises ValueError with the name
        that is wrong, OSError."""
        self._added, self._cleared = set(), set()
        reader = TarReader(read, self._budget)
        for entry in reader.entries():
            self._budget.spend(entry.size)
            try:
                self._put(entry, reader.data())
            except (ValueError, OSError) as error:
                wrong = error.strerror if isinstance(error, OSError) else str(error)
                raise ValueError(f"{entry.name[:200]!r}: {wrong}") from error
        while data := read(CHUNK):
            self._budget.spend(len(data))

    def _put(self, entry: Entry, data: Iterator[bytes]) -> None:
        """One entry."""
        path = parts(entry.name)
        if not path:
            if entry.kind != "5":
                raise ValueError("is no directory, and it is the root")
            _dress(self._root, entry)
            return
        name = path[-1]
        with _Way(self._root, self._budget) as way:
            way.go(path[:-1], make=True)
            if name.startswith(WHITEOUT):
                self._hide(way, name)
                return
            self._make(way, name, entry, data)
            self._note((*way.path, name))

    def _note(self, path: Path) -> None:
        """What this layer has, and what it lies in. Hashes, for a layer of some megabytes can have
        gigabytes of long paths."""
        while path and (mark := hash(path)) not in self._added:
            self._added.add(mark)
            path = path[:-1]

    def _hide(self, way: _Way, name: str) -> None:
        """A whiteout: what an earlier layer has there is gone."""
        if name == OPAQUE:
            here = hash(way.path)
            names = () if here in self._cleared else _names(way.at)
            self._cleared.add(here)
            for one in names:
                self._budget.spend(steps=1)
                if hash((*way.path, one)) not in self._added:
                    remove(way.at, one)
        elif not name.startswith(AUFS):
            hidden = name.removeprefix(WHITEOUT)
            if hidden in ("", ".", ".."):
                raise ValueError("hides no name")
            remove(way.at, hidden)

    def _make(self, way: _Way, name: str, entry: Entry, data: Iterator[bytes]) -> None:
        """What the entry is, in place of what is there."""
        at = way.at
        match entry.kind:
            case "5":
                _directory(at, name)
                self._open_and_dress(at, name, entry)
            case "0":
                remove(at, name)
                self._file(at, name, entry, data)
            case "1":
                self._link(at, name, entry)
            case "2":
                _checked_link(entry.link)
                remove(at, name)
                os.symlink(entry.link, name, dir_fd=at)
                os.chown(name, *_owner(entry), dir_fd=at, follow_symlinks=False)
            case "6":
                remove(at, name)
                os.mkfifo(name, 0o600, dir_fd=at)
                os.chown(name, *_owner(entry), dir_fd=at, follow_symlinks=False)
                os.chmod(name, entry.mode & 0o777, dir_fd=at)
            case "3" | "4":
                if way.path[:1] != ("dev",):
                    raise ValueError("is a device, which is never made")
                if len(self.left_out) < MOST_TOLD:
                    self.left_out.append(entry.name)
            case _:
                raise ValueError(f"is of the unknown type {entry.kind!r}")

    def _open_and_dress(self, at: int, name: str, entry: Entry) -> None:
        """Give a directory its owner and mode."""
        opened = os.open(name, _DIR, dir_fd=at)
        try:
            _dress(opened, entry)
        finally:
            os.close(opened)

    def _file(self, at: int, name: str, entry: Entry, data: Iterator[bytes]) -> None:
        """A regular file."""
        opened = os.open(name, _NEW, 0o600, dir_fd=at)
        try:
            for piece in data:
                view = memoryview(piece)
                while view:
                    view = view[os.write(opened, view) :]
            _dress(opened, entry)
        finally:
            os.close(opened)

    def _link(self, at: int, name: str, entry: Entry) -> None:
        """Another name for what is in the image already."""
        target = parts(entry.link)
        if not target:
            raise ValueError("links to the root")
        with _Way(self._root, self._budget) as way:
            way.go(target[:-1], make=False)
            found = os.lstat(target[-1], dir_fd=way.at)
            if stat.S_ISDIR(found.st_mode):
                raise ValueError(f"links to the directory {entry.link!r}")
            here = _lstat(at, name)
            if here is not None and (here.st_dev, here.st_ino) == (found.st_dev, found.st_ino):
                return
            remove(at, name)
            os.link(target[-1], name, src_dir_fd=way.at, dst_dir_fd=at, follow_symlinks=False)


class _Way:
    """Directories that are open, from the root to ``at``; ``path`` are their names. What is gone
    and made is spent from ``budget``."""

    def __init__(self, root: int, budget: Budget) -> None:
        self._root = root
        self._budget = budget
        self._open: list[int] = []
        self.path: Path = ()

    def __enter__(self) -> _Way:
        return self

    def __exit__(self, *_: object) -> None:
        self._up_to(0)

    @property
    def at(self) -> int:
        """The directory that was reached."""
        return self._open[-1] if self._open else self._root

    def go(self, names: Path, *, make: bool) -> None:
        """Go on from the root along ``names``; with ``make`` directories that are absent are
        made. Raises ValueError, OSError."""
        ahead, links = list(reversed(names)), 0
        while ahead:
            name = ahead.pop()
            self._budget.spend(steps=1)
            if name == "..":
                self._up_to(max(0, len(self._open) - 1))
                continue
            found = _lstat(self.at, name)
            if found is None and make:
                self._budget.spend(entries=1)
                os.mkdir(name, 0o755, dir_fd=self.at)
                os.chmod(name, 0o755, dir_fd=self.at)
            elif found is not None and stat.S_ISLNK(found.st_mode):
                links += 1
                if links > MOST_LINKS:
                    raise ValueError("too many symbolic links on the way")
                target = os.readlink(name, dir_fd=self.at)
                if target.startswith("/"):
                    self._up_to(0)
                ahead += reversed([one for one in target.split("/") if one not in ("", ".")])
                if len(ahead) > 4 * DEEPEST:
                    raise ValueError("the way is too long")
                continue
            self._into(name)

    def _into(self, name: str) -> None:
        """One directory down."""
        if len(self._open) >= DEEPEST:
            raise ValueError(f"more than {DEEPEST} directories deep")
        self._open.append(os.open(name, _DIR, dir_fd=self.at))
        self.path = (*self.path, name)

    def _up_to(self, depth: int) -> None:
        """Back to so many directories below the root."""
        for descriptor in self._open[depth:]:
            os.close(descriptor)
        del self._open[depth:]
        self.path = self.path[:depth]


def parts(name: str) -> Path:
    """The names of a path in an archive, which counts from the root however it begins. Raises
    ValueError where it goes up, or cannot be a path."""
    if "\0" in name or len(name) > 4096:
        raise ValueError("is no path")
    found = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in found:
        raise ValueError("has a '..'")
    return found


def remove(at: int, name: str) -> None:
    """Remove what is there, if anything is; links are not followed."""
    found = _lstat(at, name)
    if found is None:
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=at)
        return
    opened = os.open(name, _DIR, dir_fd=at)
    try:
        for one in _names(opened):
            remove(opened, one)
    finally:
        os.close(opened)
    os.rmdir(name, dir_fd=at)


def _names(at: int) -> Iterator[str]:
    """The names in a directory, which may be removed meanwhile; there may be millions."""
    with os.scandir(at) as found:
        while batch := [one.name for one in islice(found, BATCH)]:
            yield from batch


def _lstat(at: int, name: str) -> os.stat_result | None:
    """What a name is, None where it is not there."""
    try:
        return os.lstat(name, dir_fd=at)
    except FileNotFoundError:
        return None


def _directory(at: int, name: str) -> None:
    """A directory; one that is there stays with all in it."""
    found = _lstat(at, name)
    if found is not None and not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=at)
        found = None
    if found is None:
        os.mkdir(name, 0o700, dir_fd=at)


def _checked_link(target: str) -> None:
    """Raise ValueError for what no link can have."""
    if not target or "\0" in target or len(target) > 4095:
        raise ValueError("is a link that leads nowhere")


def _owner(entry: Entry) -> tuple[int, int]:
    """User and group. Raises ValueError for those that do not exist."""
    if entry.uid > LARGEST_ID or entry.gid > LARGEST_ID:
        raise ValueError(f"belongs to {entry.uid}:{entry.gid}, which cannot be")
    return entry.uid, entry.gid


def _dress(opened: int, entry: Entry) -> None:
    """Owner, attributes, mode and time; the owner first, for it takes set-user-ID away."""
    os.fchown(opened, *_owner(entry))
    for name, value in entry.xattrs:
        if name.startswith(_KEPT_XATTRS) and not name.startswith(_FOREIGN_XATTRS):
            os.setxattr(opened, name, value)
    os.fchmod(opened, entry.mode & 0o7777)
    moment = min(entry.mtime, 2**33)
    os.utime(opened, (moment, moment))


def read_inside(root: int, path: Path, most: int) -> bytes:
    """The beginning of a file in a tree, its path followed as from inside. Raises OSError,
    ValueError where it is no file."""
    budget = Budget(0, 4 * DEEPEST)
    for _ in range(MOST_LINKS):
        with _Way(root, budget) as way:
            way.go(path[:-1], make=False)
            found = os.lstat(path[-1], dir_fd=way.at)
            if stat.S_ISREG(found.st_mode):
                opened = os.open(path[-1], _FILE, dir_fd=way.at)
                with os.fdopen(opened, "rb") as file:
                    return file.read(most)
            if not stat.S_ISLNK(found.st_mode):
                raise ValueError("is no file")
            target = os.readlink(path[-1], dir_fd=way.at)
            base = () if target.startswith("/") else (*path[:-1],)
            path = (*base, *(one for one in target.split("/") if one not in ("", ".")))
            if not path:
                break
    raise ValueError("leads nowhere")
