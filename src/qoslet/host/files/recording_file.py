"""The file of a recording: appended frame by frame, bounded, and for its owner only.

It has two segments at most. Where ``FILE`` has grown to half of its bound, it takes the place of
``FILE.1``, the older half, and begins again: the oldest part is what goes. A frame that could not be
written whole is taken back, and one that a crash left torn is cut at the next start.
"""

from __future__ import annotations

import fcntl
import os
import stat
from typing import NoReturn

from qoslet.core.api.schema import shown
from qoslet.core.recording.frames import FIRST_LINE, frame, whole
from qoslet.core.recording.recording import check
from qoslet.errors import BadInput, CannotDo
from qoslet.host.files.manifests import check_file, open_file, unreadable
from qoslet.host.linux.descriptors import owned

OLDER = ".1"
"""What the name of the older segment ends with."""
MAX_READ = 1 << 30
"""Bytes of a segment that are read, at most."""

_TOO_LARGE = f"is larger than {MAX_READ >> 20} MiB"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class RecordingFile:
    """Appends payloads to ``path``. Not more than one process has it. ``notes`` say what was cut at
    the start. Raises BadInput for a file that is no recording of this format, and CannotDo."""

    def __init__(self, path: str, max_size: int) -> None:
        self.path = path
        self.notes: list[str] = []
        self.size = 0
        self.written = 0
        """Bytes since this process began."""
        self._half = max_size // 2
        self._descriptor = self._opened()
        try:
            self._take_up()
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, payload: bytes) -> None:
        """Write one payload, whole or not at all. Raises CannotDo."""
        self._write(frame(payload))

    @property
    def is_full(self) -> bool:
        """Whether the next segment is due."""
        return self.size >= self._half

    def rotate(self) -> None:
        """Begin again; what was there is the older segment now. Raises CannotDo."""
        try:
            os.rename(self.path, self.path + OLDER)
            old, self._descriptor = self._descriptor, self._opened()
            os.close(old)
            self._lock()
        except OSError as error:
            self._fail(error)
        self.size = 0
        self._write(FIRST_LINE)

    def close(self) -> None:
        """Make what was written last, and close."""
        try:
            os.fdatasync(self._descriptor)
        except OSError:
            pass
        os.close(self._descriptor)

    def _opened(self) -> int:
        where = shown(self.path)
        try:
            return os.open(self.path, _FLAGS, 0o600)
        except (OSError, ValueError) as error:
            for test, called in (
                (os.path.islink, "a symbolic link"),
                (os.path.isdir, "a directory"),
            ):
                if test(self.path):
                    raise BadInput(f"is {called}", where=where, hint="name a file") from None
            reason = error.strerror if isinstance(error, OSError) else str(error)
            message = f"cannot be opened: {reason}"
            raise CannotDo(message, where=where or "FILE", hint="name another file") from error

    def _take_up(self) -> None:
        """Lock the file, and continue after its last whole frame."""
        name = shown(self.path)
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            raise BadInput("is not a regular file", where=name, hint="name a file that can grow")
        self._lock()
        try:
            self._continue(name)
        except OSError as error:
            self._fail(error)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "end that one first, or name another file"
            where = shown(self.path)
            raise CannotDo("another process records to it", where=where, hint=hint) from None

    def _continue(self, name: str) -> None:
        size = os.fstat(self._descriptor).st_size
        if size > MAX_READ:
            raise BadInput(_TOO_LARGE, where=name, hint="name another file")
        data = os.pread(self._descriptor, size, 0)
        torn_first = len(data) < len(FIRST_LINE) and FIRST_LINE.startswith(data)
        if not torn_first:
            check(name, data)
        keep = 0 if torn_first else whole(data)
        os.fchmod(self._descriptor, 0o600)
        if size > keep:
            os.ftruncate(self._descriptor, keep)
            self.notes.append(f"{name}: cut {size - keep} bytes of a frame that was not whole")
        os.lseek(self._descriptor, keep, os.SEEK_SET)
        self.size = keep
        if not keep:
            self._write(FIRST_LINE)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            try:
                os.ftruncate(self._descriptor, self.size)
                os.lseek(self._descriptor, self.size, os.SEEK_SET)
            except OSError:
                pass
            self._fail(error)
        self.size += len(data)
        self.written += len(data)

    def _fail(self, error: Exception) -> NoReturn:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        hint = "what was recorded before stays; free space or name another file"
        message = f"cannot be written: {reason}"
        raise CannotDo(message, where=shown(self.path), hint=hint) from error


def read_segments(path: str) -> list[tuple[str, bytes]]:
    """The segments of a recording with their names, the older one first. Raises BadInput."""
    found = [(shown(path), _content(path))]
    older = path + OLDER
    if os.path.lexists(older):
        found.insert(0, (shown(older), _content(older)))
    return found


def _content(path: str) -> bytes:
    try:
        with owned(open_file(path, False)) as descriptor:
            check_file(path, descriptor, "give a file")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(MAX_READ + 1)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if len(data) > MAX_READ:
        raise BadInput(_TOO_LARGE, where=shown(path))
    return data
