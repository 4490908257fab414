"""Memory of a guest that no pod holds: what is left is what the pods have."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager as Context
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tests.live.memory.zoo.swaps import zram

HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
SHARED = Path("/dev/shm/zoo-outside")
HUGE_MIB = 2


def outside(kind: str, amount: int, program: Path) -> Context[None]:
    """``process``, ``huge pages``, ``tmpfs`` or ``zram`` of so many MiB; nothing for an empty kind."""
    kinds = {"huge pages": _huge_pages, "tmpfs": _tmpfs, "zram": _zram}
    if not kind:
        return nullcontext()
    return _process(amount, program) if kind == "process" else kinds[kind](amount)


@contextmanager
def _process(amount: int, program: Path) -> Iterator[None]:
    with tempfile.NamedTemporaryFile(dir="/run", prefix="zoo-") as progress:
        process = subprocess.Popen([program, progress.name, "hog", str(amount), "5"])
        try:
            yield
        finally:
            process.kill()
            process.wait(30)


@contextmanager
def _huge_pages(amount: int) -> Iterator[None]:
    before = int(HUGE_PAGES.read_text())
    HUGE_PAGES.write_text(str(before + amount // HUGE_MIB))
    try:
        yield
    finally:
        HUGE_PAGES.write_text(str(before))


@contextmanager
def _tmpfs(amount: int) -> Iterator[None]:
    with SHARED.open("wb") as file:
        file.writelines(bytes(1 << 20) for _ in range(amount))
    try:
        yield
    finally:
        SHARED.unlink()


@contextmanager
def _zram(amount: int) -> Iterator[None]:
    with zram(amount) as device:
        with device.open("wb") as file, Path("/dev/urandom").open("rb") as noise:
            file.writelines(noise.read(1 << 20) for _ in range(amount))
        yield
