"""Files as another process sees them: below its root, and never outside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from errno import EINVAL, ENOSYS
from types import TracebackType
from typing import IO, Self

from qoslet.core.cgroup.names import is_at_or_below
from qoslet.host.files.manifests import check_file
from qoslet.host.linux.descriptors import owned
from qoslet.host.linux.open_in_root import open_folder_in_root, open_in_root

LONGEST_FILE = 3 << 20
"""Bytes of a file that are read: a kubelet's configuration has some kilobytes."""
MOST_FILES = 1000
"""Files of a directory and those below it."""
_DEEPEST = 32


class TooLarge(OSError):
    """A file or a directory beyond its bound."""


class ProcessFiles:
    """The files of the process at ``folder`` (``/proc/PID``), to be used as a context.

    Where its root is hidden from this user, or the kernel cannot keep a path below it (before
    5.6) and it is our own, paths are opened as they are.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._root = -1
        self.newest: tuple[float, str] = (0.0, "")
        """When the youngest of the files that were read was written, in seconds since the epoch, and
        its path."""
        try:
            self._root = os.open(f"{folder}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except PermissionError:
            self.hidden = True
        else:
            self.hidden = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._root >= 0:
            os.close(self._root)

    def absolute(self, path: str) -> str:
        """A path of the process from its root. Raises OSError where that takes its working
        directory and this is hidden."""
        if path.startswith("/"):
            return path
        here = os.readlink(f"{self._folder}/cwd")
        root = os.readlink(f"{self._folder}/root").rstrip("/")
        if root and is_at_or_below(here, root):
            here = here[len(root) :]
        return os.path.normpath(f"{here}/{path}")

    def read(self, path: str) -> bytes:
        """A regular file's content. Raises OSError."""
        with self._open(path) as file:
            data = file.read(LONGEST_FILE + 1)
            self.newest = max(self.newest, (os.fstat(file.fileno()).st_mtime, path))
        if len(data) > LONGEST_FILE:
            raise TooLarge(EINVAL, f"is more than {LONGEST_FILE >> 20} MiB", path)
        return data

    def _open(self, path: str) -> IO[bytes]:
        if self._root >= 0:
            try:
                return open_in_root(self._root, path)
            except OSError as error:
                if error.errno != ENOSYS or not self._is_ours():
                    raise
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        file = os.fdopen(opened, "rb")
        try:
            check_file(path, opened)
        except Exception as error:
            file.close()
            raise OSError(EINVAL, "is not a file", path) from error
        return file

    def _is_ours(self) -> bool:
        there, here = os.fstat(self._root), os.stat("/")
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def walk(self, path: str) -> Iterator[str]:
        """The files at ``path`` and below, each directory in the order of its names; a link to a
        directory is not entered, as filepath.WalkDir of Go does. Raises OSError."""
        for count, found in enumerate(self._walk(path.rstrip("/") or "/", 0)):
            if count == MOST_FILES:
                raise TooLarge(EINVAL, f"has more than {MOST_FILES} files", path)
            yield found

    def _walk(self, path: str, depth: int) -> Iterator[str]:
        if depth > _DEEPEST:
            raise TooLarge(EINVAL, f"is nested more than {_DEEPEST} deep", path)
        with owned(self._open_folder(path)) as opened, os.scandir(opened) as entries:
            rows = sorted((one.name, one.is_dir(follow_symlinks=False)) for one in entries)
        for name, is_folder in rows:
            below = f"{path.rstrip('/')}/{name}"
            if is_folder:
                yield from self._walk(below, depth + 1)
            else:
                yield below

    def _open_folder(self, path: str) -> int:
        if self._root >= 0:
            try:
                return open_folder_in_root(self._root, path)
            except OSError as error:
                if error.errno != ENOSYS or not self._is_ours():
                    raise
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
