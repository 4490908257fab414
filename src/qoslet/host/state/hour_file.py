"""When something was done within the last hour, so that the next agent counts it, too.

One line a time, in seconds of CLOCK_MONOTONIC: the file ends with the boot, as that clock does. Its
name is that of no state folder, since a root has each % escaped.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from qoslet.host.linux.descriptors import owned
from qoslet.host.state.folder import escaped

_BYTES = 4096


class HourFile:
    """``name`` is what is counted, below the state directory ``state`` for the cgroup root ``root``."""

    def __init__(self, state: str, root: str, name: str) -> None:
        self._path = f"{state}/{name}%{escaped(root)}"

    def load(self) -> list[float]:
        """The times, the earliest first; none where the file is absent or damaged."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            return sorted(float(line) for line in os.read(descriptor, _BYTES).splitlines())
        except (OSError, ValueError):
            return []
        finally:
            os.close(descriptor)

    def save(self, times: Sequence[float]) -> None:
        """Keep these times. Where that fails, only this agent knows of them."""
        new = f"{self._path}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(OSError):
            with owned(os.open(new, flags, 0o600)) as descriptor:
                os.write(descriptor, "".join(f"{at:.3f}\n" for at in times).encode())
            os.replace(new, self._path)

    def forget(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            os.unlink(self._path)
