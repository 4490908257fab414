"""Where images, tools and logs are kept between runs, safe for two runs at once."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


class VmError(Exception):
    """A guest cannot be had; the message says what to do."""


class Unavailable(VmError):
    """A system that nobody can have at the moment, for a reason outside this machine."""


def cache() -> Path:
    """The cache's directory: $QOSLET_CACHE, or .cache/vm of the checkout."""
    return Path(os.environ.get("QOSLET_CACHE") or REPO / ".cache" / "vm").resolve()


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Holds the lock of that name; the kernel lets go of it with the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _taken(path: Path) -> int | None:
    """The lock's open descriptor, or nothing where somebody holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _free(path: Path) -> bool:
    descriptor = _taken(path)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is not None


@contextmanager
def slot(count: int, waiting: Callable[[], None]) -> Iterator[None]:
    """One of so many places for guests of this cache; more of them only make each other late."""
    told = False
    while True:
        for number in range(count):
            descriptor = _taken(cache() / "slots" / f"{number}.lock")
            if descriptor is not None:
                try:
                    yield
                finally:
                    os.close(descriptor)
                return
        if not told:
            waiting()
            told = True
        time.sleep(0.5)


def drop(directory: Path) -> None:
    """Removes a directory of the cache with its lock, unless somebody uses it."""
    lock = directory.with_name(directory.name + ".lock")
    if _free(lock):
        shutil.rmtree(directory, ignore_errors=True)
        lock.unlink(missing_ok=True)


@contextmanager
def workplace(name: str) -> Iterator[Path]:
    """A directory for this process alone; what killed processes left is removed first."""
    base = cache() / "work"
    base.mkdir(parents=True, exist_ok=True)
    with locked(cache() / "work.lock"):
        for left in base.iterdir():
            if left.is_dir():
                drop(left)
        place = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base))
        place.chmod(0o755)
        holder = locked(place.with_name(place.name + ".lock"))
        holder.__enter__()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        place.with_name(place.name + ".lock").unlink(missing_ok=True)
        holder.__exit__(None, None, None)
