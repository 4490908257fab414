"""Small files and directories, such as those of /proc and /sys, read whole."""

from __future__ import annotations

import os

_CHUNK = 1 << 14


def text(path: str) -> str | None:
    """The file's text; None where it cannot be read, which is not the same as empty."""
    # half the system calls of ``open``, which asks for size, terminal and place first
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = b""
        while data := os.read(descriptor, _CHUNK):
            found += data
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return found.decode("utf-8", "replace")


def listed(path: str) -> list[str]:
    """The names in a directory, sorted; none where it cannot be read."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def this_boot() -> str:
    """The ID of this boot. Raises OSError."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def process_state(pid: int) -> str:
    """The state of a process, such as ``T`` (proc(5)); empty where it is gone."""
    return (text(f"/proc/{pid}/stat") or "").rpartition(")")[2].lstrip()[:1]
