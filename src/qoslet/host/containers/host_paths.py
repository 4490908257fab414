"""Paths of the host that pods mount (``hostPath``), checked or created as their type says.

Links are followed as the host's own: the path is the owner's word, no container has a part in it.
Source: kubelet volume/hostpath host_path.go (checkTypeInternal).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping

from qoslet.core.workload.folders.types import HostType, HostVolume
from qoslet.errors import CannotDo
from qoslet.host.linux.descriptors import owned

_CHECKS: Mapping[HostType, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "FileOrCreate": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}

_CREATES: Mapping[HostType, HostType] = {
    "": "DirectoryOrCreate",
    "Directory": "DirectoryOrCreate",
    "File": "FileOrCreate",
}


def host_path(volume: HostVolume) -> str:
    """The path, which is there and of its type. Raises ``CannotDo``, OSError."""
    path = volume.path
    if not os.path.exists(path):
        try:
            _create(volume)
        except OSError as error:
            why = f"hostPath cannot be created: {error.strerror}"
            is_above = isinstance(error, FileNotFoundError)
            hint = "create the directory above it" if is_above else "check what is there"
            raise CannotDo(why, where=path, hint=hint) from error
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        other = _CREATES.get(volume.type)
        hint = f"create it, or use type {other}" if other else "create it"
        raise CannotDo("hostPath does not exist", where=path, hint=hint) from None
    check = _CHECKS.get(volume.type)
    if check is not None and not check[0](mode):
        message = f"hostPath type check failed: it is not a {check[1]}"
        raise CannotDo(message, where=path, hint="change its type, or the path")
    return path


def _create(volume: HostVolume) -> None:
    """Create what may be created."""
    if volume.type == "DirectoryOrCreate":
        os.makedirs(volume.path, 0o755, exist_ok=True)
        os.chmod(volume.path, 0o755)
    elif volume.type == "FileOrCreate":
        with owned(os.open(volume.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)) as file:
            os.fchmod(file, 0o644)
