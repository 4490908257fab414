"""The state of the CPU and memory managers on disk, in the state folder of a root."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress

from qoslet.core.managers.checkpoint import MOST
from qoslet.core.managers.state_files import FILES
from qoslet.errors import CannotDo
from qoslet.host.state.folder import MANAGER_COPIES


class StateFiles:
    """Files of one folder; what did not change since it was written is not written again."""

    def __init__(self, folder: str, names: Sequence[str]) -> None:
        self._folder = folder
        self._names = names
        self._last: dict[str, bytes] = {}

    def read(self) -> dict[str, bytes]:
        """What there is, by name. Raises ``CannotDo`` for a file that is none of ours to trust:
        no plain file, another user's, too long, or not to be read."""
        found = {}
        for name in self._names:
            content = self._read(f"{self._folder}/{name}")
            if content is not None:
                found[name] = content
        self._last = dict(found)
        return found

    def _read(self, path: str) -> bytes | None:
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                what = os.fstat(file.fileno())
                content = file.read(MOST + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unfit(path, f"cannot be read: {error.strerror}") from error
        if not stat.S_ISREG(what.st_mode) or what.st_uid != os.geteuid():
            raise _unfit(path, "is not a regular file of this user")
        if len(content) > MOST:
            raise _unfit(path, f"holds more than {MOST} bytes")
        return content

    def remove(self) -> None:
        """Remove what is there, whatever it is. Raises OSError."""
        for name in self._names:
            with suppress(FileNotFoundError):
                os.unlink(f"{self._folder}/{name}")
        self._last = {}

    def write(self, contents: Mapping[str, bytes]) -> bool:
        """Keep ``contents``, each file whole at any time; whether anything was written. A file
        that is not among them goes. Raises OSError where it cannot be written."""
        changed = False
        for name in self._names:
            content = contents.get(name)
            if content == self._last.get(name):
                continue
            path = f"{self._folder}/{name}"
            if content is None:
                with suppress(FileNotFoundError):
                    os.unlink(path)
                self._last.pop(name, None)
            else:
                _replace(path, content)
                self._last[name] = content
            changed = True
        return changed


class ManagerFiles(StateFiles):
    """Those of the managers, each with a copy, which counts where the first is missing, or with
    ``copies``."""

    def __init__(self, folder: str, *, copies: bool = False) -> None:
        super().__init__(folder, (*FILES, *MANAGER_COPIES))
        self._copies = copies

    def read(self) -> dict[str, bytes]:
        """What there is, by name. Raises ``CannotDo`` as above."""
        found = super().read()
        ends = (".copy", "") if self._copies else ("", ".copy")
        kept = {
            name: [found[f"{name}{end}"] for end in ends if f"{name}{end}" in found]
            for name in FILES
        }
        if self._copies:
            self._last = {}
        return {name: contents[0] for name, contents in kept.items() if contents}

    def write(self, contents: Mapping[str, bytes]) -> bool:
        """Keep ``contents`` and copies of them."""
        return super().write(
            {**contents, **{f"{name}.copy": one for name, one in contents.items()}}
        )


def _replace(path: str, content: bytes) -> None:
    new = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(new)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(new, flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def _unfit(path: str, message: str) -> CannotDo:
    return CannotDo(message, where=path, hint="find out who created it, then remove it")
