"""Swap of a guest, for as long as a scene lasts, and how fast pods may read its disk."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FILE = Path("/var/tmp/zoo-swap")
ZSWAP = Path("/sys/module/zswap/parameters/enabled")
MIB = 1 << 20


def lacks(kind: str) -> bool:
    """Whether this kernel was built without a kind of swap."""
    return kind == "zswap" and not ZSWAP.exists()


@contextmanager
def swap(kind: str, amount: int) -> Iterator[None]:
    """``zram``, ``file`` or ``zswap`` (before a file) of so many MiB; no swap for an empty kind."""
    if not kind:
        yield
        return
    device = _zram(amount) if kind == "zram" else _file(amount)
    subprocess.run(["mkswap", device], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["swapon", device], check=True)
    if kind == "zswap":
        ZSWAP.write_text("Y")
    try:
        yield
    finally:
        if kind == "zswap":
            ZSWAP.write_text("N")
        subprocess.run(["swapoff", device], check=True)
        FILE.unlink(missing_ok=True)
        if kind == "zram":
            _reset()


@contextmanager
def zram(amount: int) -> Iterator[Path]:
    """A device in memory of so many MiB."""
    yield _zram(amount)
    _reset()


def _zram(amount: int) -> Path:
    subprocess.run(["modprobe", "zram"], check=True)
    Path("/sys/block/zram0/disksize").write_text(f"{amount}M")
    return Path("/dev/zram0")


def _reset() -> None:
    # udev opens the device for a moment once it is no swap any more
    for pause in (0.1, 0.5, 2.0, 5.0):
        with suppress(OSError):
            Path("/sys/block/zram0/reset").write_text("1")
            return
        time.sleep(pause)
    Path("/sys/block/zram0/reset").write_text("1")


def _file(amount: int) -> Path:
    with FILE.open("wb") as file:
        file.writelines(bytes(MIB) for _ in range(amount))
    FILE.chmod(0o600)
    return FILE


def slow_disk(root: str, limit: str) -> None:
    """Let all below a cgroup use the disk of ``/var/tmp`` within a limit, as ``io.max`` takes it."""
    top = Path("/sys/fs/cgroup")
    (top / "cgroup.subtree_control").write_text("+io")
    disk = os.stat("/var/tmp").st_dev
    line = f"{os.major(disk)}:{os.minor(disk)} {limit}"
    (top / root.strip("/") / "io.max").write_text(line)
