"""Files of a volume, replaced all at once: who reads them sees all old or all new ones.

``..data`` is a link to the directory that holds them, and what containers open are links through
it: renaming another link over it replaces everything. What a writer that was killed left behind goes
with the next one. Only we write there; nothing is followed.

Source: kubelet volume/util/atomic_writer.go, volume_linux.go (fsGroup of read-only volumes).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence

from qoslet.core.workload.folders.types import VolumeFile
from qoslet.host.linux.descriptors import owned

DATA = "..data"
_NEW = "..data_tmp"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def write_payload(path: str, files: Sequence[VolumeFile], group: int | None) -> bool:
    """Make the volume at ``path`` hold these files and no others; returns whether it changed.
    ``group`` may read them. Raises OSError."""
    with owned(os.open(path, _DIRECTORY)) as at:
        current = current_directory(at)
        changed = not current or not _holds(at, current, files, group)
        if changed:
            current = _replace(at, files, group)
        _link(at, {one.path.split("/")[0] for one in files}, current)
        for name in os.listdir(at):
            if name.startswith("..") and name not in (DATA, current):
                _remove(at, name)
    return changed


def current_directory(at: int) -> str:
    """The name of the directory that ``..data`` of an open volume leads to; empty without one.
    Raises ValueError where it leads elsewhere."""
    try:
        name = os.readlink(DATA, dir_fd=at)
    except FileNotFoundError:
        return ""
    if "/" in name or not name.startswith("..") or len(name) < 3:
        raise ValueError(f"{DATA} leads to {name!r}")
    return name


def _replace(at: int, files: Sequence[VolumeFile], group: int | None) -> str:
    """Write the files into a directory of their own and let ``..data`` lead to it."""
    name = time.strftime("..%Y_%m_%d_%H_%M_%S.", time.gmtime()) + os.urandom(5).hex()
    os.mkdir(name, 0o700, dir_fd=at)
    with owned(os.open(name, _DIRECTORY, dir_fd=at)) as new:
        for one in files:
            _write(new, one, group)
        _own(new, 0o755, group)
    _unlink(_NEW, at)
    os.symlink(name, _NEW, dir_fd=at)
    os.rename(_NEW, DATA, src_dir_fd=at, dst_dir_fd=at)
    return name


def _write(root: int, one: VolumeFile, group: int | None) -> None:
    """One file, with the directories above it."""
    *above, leaf = one.path.split("/")
    at = os.dup(root)
    try:
        for part in above:
            try:
                os.mkdir(part, 0o700, dir_fd=at)
            except FileExistsError:
                pass
            inner = os.open(part, _DIRECTORY, dir_fd=at)
            os.close(at)
            at = inner
            _own(at, 0o755, group)
        with owned(os.open(leaf, _CREATE, 0o600, dir_fd=at)) as file:
            data = one.data
            while data:
                data = data[os.write(file, data) :]
            _own(file, one.mode, group)
    finally:
        os.close(at)


def _own(descriptor: int, mode: int, group: int | None) -> None:
    """Permission bits as wanted; a group may read, and enter directories."""
    if group is not None:
        os.fchown(descriptor, -1, group)
    os.fchmod(descriptor, _mode(mode, group, stat.S_ISDIR(os.fstat(descriptor).st_mode)))


def _mode(mode: int, group: int | None, directory: bool) -> int:
    if group is None:
        return mode
    return mode | (0o2550 if directory else 0o440)


def _holds(at: int, name: str, files: Sequence[VolumeFile], group: int | None) -> bool:
    """Whether a directory holds these files, and no others."""
    wanted = {one.path: one for one in files}
    try:
        root = os.open(name, _DIRECTORY, dir_fd=at)
    except FileNotFoundError:
        return False
    with owned(root):
        if not _is_as(os.fstat(root), 0o755, group, directory=True):
            return False
        found = dict(_found(root, ""))
        return found.keys() == wanted.keys() and all(
            _is_as(facts, wanted[path].mode, group, directory=False) and data == wanted[path].data
            for path, (facts, data) in found.items()
        )


def _is_as(facts: os.stat_result, mode: int, group: int | None, *, directory: bool) -> bool:
    right = stat.S_IMODE(facts.st_mode) == _mode(mode, group, directory)
    return right and (group is None or facts.st_gid == group)


def _found(at: int, above: str) -> Iterator[tuple[str, tuple[os.stat_result, bytes]]]:
    """The files below an open directory of ours."""
    for name in os.listdir(at):
        with owned(os.open(name, _READ, dir_fd=at)) as inner:
            facts = os.fstat(inner)
            if stat.S_ISDIR(facts.st_mode):
                yield from _found(inner, f"{above}{name}/")
            else:
                yield f"{above}{name}", (facts, _read(inner))


def _read(descriptor: int) -> bytes:
    chunks = []
    while chunk := os.read(descriptor, 1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)


def _link(at: int, names: set[str], current: str) -> None:
    """What containers open: a link for each top name, and no others."""
    for name in names:
        target = f"{DATA}/{name}"
        try:
            if os.readlink(name, dir_fd=at) == target:
                continue
        except OSError:
            pass
        _unlink(name, at)
        os.symlink(target, name, dir_fd=at)
    for name in os.listdir(at):
        if not name.startswith("..") and name not in names:
            _unlink(name, at)


def _unlink(name: str, at: int) -> None:
    try:
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:
        pass


def _remove(at: int, name: str) -> None:
    """Remove a directory of ours or a link that nobody needs, without another name meanwhile."""
    try:
        inner = os.open(name, _DIRECTORY, dir_fd=at)
    except OSError:
        _unlink(name, at)
        return
    with owned(inner):
        for one in os.listdir(inner):
            _remove(inner, one)
    os.rmdir(name, dir_fd=at)
