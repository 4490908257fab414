"""Pods on disk, so that who keeps containers may end and another take them up.

One directory for each pod with its record and its pipes. A process is known by its number
together with its start time and the boot, so a reused number is never taken for it.

Source: proc(5) /proc/PID/stat field 22.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from errno import ENOSPC
from typing import Generic, TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct

from qoslet.core.workload.life import Life
from qoslet.core.workload.lifecycle import Ending
from qoslet.core.workload.process_spec import PodSpec
from qoslet.host.containers.log_files import make_private, remove_tree
from qoslet.host.linux.descriptors import owned

FORMAT = 1
RECORD, COPY = "pod.json", "pod.copy"
"""A record, and the same once more for a time when it is damaged."""

_SUM = b',"crc":"%08x"}'
_INTO = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class MainProcess(Struct, frozen=True):
    """A main process. ``start`` is in clock ticks since the boot, ``oom_before`` what the
    group's counter of OOM kills said before it."""

    pid: int
    start: int
    oom_before: int


class ContainerTimes(Struct, frozen=True, omit_defaults=True):
    """When a container was started and ended last, in wall-clock seconds."""

    started: float | None = None
    finished: float | None = None


class PodRecord(Struct, frozen=True, omit_defaults=True):
    """A pod as it is kept. Times in ``lives`` and ``ending`` are those of the boot's monotonic
    clock, ``created`` is in wall-clock seconds. ``digest`` is the one that its ``RuntimePod``
    has. ``namespaces`` are those of ``processes``; empty: not known."""

    format: int
    boot: str
    spec: PodSpec
    digest: str
    cgroups: dict[str, str]
    lives: dict[str, Life]
    processes: dict[str, MainProcess] = {}
    times: dict[str, ContainerTimes] = {}
    ending: Ending | None = None
    created: float = 0.0
    namespaces: str = ""


R = TypeVar("R", bound=PodRecord)


class RecordFolder(Generic[R]):
    """The records below ``folder``, which only its owner can read. ``boot`` is the boot's id,
    ``kind`` what is kept."""

    def __init__(self, folder: str, boot: str, kind: type[R]) -> None:
        self.folder = folder
        self.boot = boot
        self._kind = kind

    def place(self, uid: str) -> str:
        """The directory of a pod, made if it is absent. Raises OSError."""
        path = f"{self.folder}/{uid}"
        make_private(path)
        return path

    def save(self, record: R) -> None:
        """Write a record into its two files, of which one is whole at any time: what was there
        before, or the new one. Raises OSError."""
        place = self.place(record.spec.uid)
        data = msgspec.json.encode(record)
        data = data[:-1] + _SUM % crc32(data)
        for name in (COPY, RECORD) if _is_whole(f"{place}/{RECORD}") else (RECORD, COPY):
            _overwrite(f"{place}/{name}", data)

    def absent(self, uids: Iterable[str]) -> list[str]:
        """The pods among ``uids`` that have no record here."""
        return [uid for uid in uids if not os.path.exists(f"{self.folder}/{uid}/{RECORD}")]

    def drop(self, uid: str) -> None:
        """Remove a pod's directory."""
        remove_tree(f"{self.folder}/{uid}")

    def load(self) -> tuple[list[R], list[str]]:
        """The records of this boot, and a line for each that cannot be used: it is removed, and
        what it kept is found by its groups."""
        found: list[R] = []
        bad: list[str] = []
        for uid in _names(self.folder):
            try:
                found.append(self._one(uid, bad))
            except (OSError, ValueError, msgspec.MsgspecError) as error:
                bad.append(f"{self.folder}/{uid}: unusable record: {error}")
                self.drop(uid)
        return found, bad

    def _one(self, uid: str, notes: list[str]) -> R:
        """A record, checked; a line where its copy counts."""
        folder = f"{self.folder}/{uid}"
        try:
            record = _read(f"{folder}/{RECORD}", self._kind)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            try:
                record = _read(f"{folder}/{COPY}", self._kind)
            except (OSError, ValueError, msgspec.MsgspecError):
                raise error from None
            notes.append(f"{folder}/{RECORD}: cannot be read ({error}): its copy counts")
        if record.boot != self.boot:
            raise ValueError("of another boot")
        if record.format != FORMAT:
            raise ValueError(f"of format {record.format}, this is {FORMAT}")
        names = {launch.name for launch in record.spec.launches}
        if record.spec.uid != uid or not names == record.lives.keys() == record.cgroups.keys():
            raise ValueError("its parts are inconsistent")
        return record

    def close(self) -> None:
        """Remove the directory if nothing is in it."""
        with suppress(OSError):
            os.rmdir(self.folder)


class ProcessRecords(RecordFolder[PodRecord]):
    """The records of plain processes."""

    def __init__(self, folder: str, boot: str) -> None:
        super().__init__(folder, boot, PodRecord)


def _overwrite(path: str, data: bytes) -> None:
    """Write into a file, which keeps its place on the disk. Raises OSError; then it may be
    damaged."""
    with owned(os.open(path, _INTO, 0o600)) as descriptor:
        if os.write(descriptor, data) != len(data):
            raise OSError(ENOSPC, os.strerror(ENOSPC), path)
        os.ftruncate(descriptor, len(data))


def read_record(folder: str) -> PodRecord:
    """The record in a pod's directory. Raises OSError, ``msgspec.MsgspecError``."""
    return read_kind(folder, PodRecord)


def records_below(folder: str, kind: type[R]) -> Iterator[R]:
    """The records in a folder that can be read, whoever keeps the pods."""
    for uid in _names(folder):
        with suppress(OSError, msgspec.MsgspecError):
            yield read_kind(f"{folder}/{uid}", kind)


def read_kind(folder: str, kind: type[R]) -> R:
    """The same, of a runtime that keeps more; its copy where it is damaged. Raises OSError,
    ``msgspec.MsgspecError``."""
    try:
        return _read(f"{folder}/{RECORD}", kind)
    except (OSError, msgspec.MsgspecError) as error:
        try:
            return _read(f"{folder}/{COPY}", kind)
        except (OSError, msgspec.MsgspecError):
            raise error from None


def _read(path: str, kind: type[R]) -> R:
    """A record as it was written. Raises OSError, ``msgspec.MsgspecError``."""
    return msgspec.json.decode(_checked(path), type=kind)


def _checked(path: str) -> bytes:
    """The text of a record whose checksum is right. Raises OSError, ``msgspec.DecodeError``."""
    with os.fdopen(os.open(path, _OLD), "rb") as file:
        data = file.read()
    own = data[-len(_SUM % 0) :]
    whole = data[: -len(own)] + b"}"
    # earlier versions wrote none
    if own.startswith(_SUM[:8]) and own != _SUM % crc32(whole):
        raise msgspec.DecodeError("the checksum does not match")
    return data


def _is_whole(path: str) -> bool:
    """Whether a record is there as it was written."""
    try:
        return _checked(path).endswith(b"}")
    except (OSError, msgspec.DecodeError):
        return False


def _names(folder: str) -> list[str]:
    """The directories in a folder."""
    try:
        with os.scandir(folder) as entries:
            return sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))
    except OSError:
        return []


def start_time(pid: int) -> int | None:
    """When a process was started, in clock ticks since the boot; None if there is none."""
    return _stat(pid, 22)


def parent_of(pid: int) -> int:
    """The number of a process's parent; 0 if there is none."""
    return _stat(pid, 4) or 0


def _stat(pid: int, number: int) -> int | None:
    """A field of /proc/PID/stat as proc(5) numbers them, beyond the name, which may hold spaces."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[number - 3])
    except (OSError, ValueError, IndexError):
        return None


def same_process(proc: MainProcess) -> int | None:
    """A pidfd of the process if it still is that one; the caller closes it."""
    try:
        descriptor = os.pidfd_open(proc.pid)
    except OSError:
        return None
    if start_time(proc.pid) != proc.start:
        os.close(descriptor)
        return None
    return descriptor
