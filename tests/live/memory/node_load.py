"""Loads that make a node short of memory, and who takes its pulse: a program for itself.

``python3 -ISs pressing.py KIND WORD...``, amounts in MiB:

- ``hog LEFT STEP``: takes memory in steps until so much can be had on the machine, and again
  whenever it is more;
- ``hold AMOUNT``: takes so much and goes through it again and again;
- ``hide AMOUNT``: takes so much in a file in memory that no process maps;
- ``serve FILE SIZE HELD LOG``: holds some memory, reads all over a file (made where it is not) and
  writes down when, and how long each 25 reads took: a line of two numbers, in seconds;
- ``stream FILE SIZE``: reads a file of holes from end to end again and again;
- ``pulse LOG GROUP...``: writes down ten times a second what can be had, the waiting, reclaim and
  whether anybody is left in each group, in a locked memory of its own: a line of JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import time

MIB = 1 << 20
BLOCK = 1 << 16
PAUSE = 0.05


def kibibytes(name: str) -> int:
    """A line of /proc/meminfo."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(f"{name}:"))


def hog(left: int, step: int) -> None:
    """Take memory."""
    held = []
    while True:
        while kibibytes("MemAvailable") > (left + step) << 10:
            held.append(os.urandom(4096) * (step * MIB // 4096))
            time.sleep(PAUSE)
        time.sleep(PAUSE)


def hold(amount: int) -> None:
    """Take memory and use it."""
    held = []
    for _ in range(0, amount, 8):
        held.append(bytearray(os.urandom(4096) * 2048))
        time.sleep(PAUSE)
    while held:
        for one in held:
            one[::4096] = bytes(2048)
            time.sleep(0.01)


def hide(amount: int) -> None:
    """Take memory that the kernel's OOM killer does not count as the process's."""
    target = os.memfd_create("hidden")
    for _ in range(0, amount, 8):
        os.write(target, os.urandom(4096) * 2048)
        time.sleep(PAUSE)
    while True:
        time.sleep(PAUSE)


def serve(file: str, size: int, amount: int, log: str) -> None:
    """Be one who needs its page cache."""
    if not os.path.exists(file) or os.path.getsize(file) != size * MIB:
        with open(file, "wb") as new:
            new.writelines(os.urandom(MIB) for _ in range(size))
            os.fsync(new.fileno())
    held = [os.urandom(4096) * 256 for _ in range(amount)]
    source = os.open(file, os.O_RDONLY)
    os.posix_fadvise(source, 0, 0, os.POSIX_FADV_RANDOM)
    buffer = bytearray(BLOCK)
    for at in range(0, size * MIB, BLOCK):
        os.preadv(source, [buffer], at)
    with open(log, "w", buffering=1, encoding="ascii") as out:
        while held:
            begun = time.monotonic()
            for _ in range(25):
                os.preadv(source, [buffer], random.randrange(size * MIB // BLOCK) * BLOCK)
            out.write(f"{begun:.3f} {time.monotonic() - begun:.5f}\n")
            time.sleep(PAUSE)


def stream(file: str, size: int) -> None:
    """Fill page cache that nobody needs."""
    source = os.open(file, os.O_RDWR | os.O_CREAT)
    os.ftruncate(source, size * MIB)
    buffer = bytearray(MIB)
    while True:
        for at in range(0, size * MIB, MIB):
            os.preadv(source, [buffer], at)


def pulse(log: str, groups: list[str]) -> None:
    """Take it until killed."""
    ctypes.CDLL(None).mlockall(3)
    with open(log, "w", buffering=1, encoding="ascii") as out:
        while True:
            out.write(json.dumps(look(groups)) + "\n")
            time.sleep(0.1)


def look(groups: list[str]) -> dict[str, object]:
    """Everything once."""
    some, full = waited()
    reclaim = {"scanned": 0, "stolen": 0, "refaults": 0}
    for line in text("/proc/vmstat").splitlines():
        name, _, value = line.partition(" ")
        if name in ("pgscan_kswapd", "pgscan_direct"):
            reclaim["scanned"] += int(value)
        elif name in ("pgsteal_kswapd", "pgsteal_direct"):
            reclaim["stolen"] += int(value)
        elif name == "workingset_refault_file":
            reclaim["refaults"] += int(value)
    return {
        "at": time.monotonic(),
        "wall": time.time(),
        "total": kibibytes("MemTotal") << 10,
        "available": kibibytes("MemAvailable") << 10,
        "some": some,
        "full": full,
        **reclaim,
        "left": ["populated 1" in text(f"{group}/cgroup.events") for group in groups],
    }


def waited() -> tuple[int | None, int | None]:
    """Microseconds in which some and all waited for memory; None without PSI."""
    lines = text("/proc/pressure/memory").splitlines()
    totals = {line.split()[0]: int(line.rpartition("total=")[2]) for line in lines}
    return totals.get("some"), totals.get("full")


def text(path: str) -> str:
    """A small file, empty where it cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def main(kind: str, *words: str) -> None:
    """Do what the words say."""
    match kind:
        case "hog":
            hog(int(words[0]), int(words[1]))
        case "hold":
            hold(int(words[0]))
        case "hide":
            hide(int(words[0]))
        case "serve":
            serve(words[0], int(words[1]), int(words[2]), words[3])
        case "stream":
            stream(words[0], int(words[1]))
        case "pulse":
            pulse(words[0], list(words[1:]))


if __name__ == "__main__":
    main(*sys.argv[1:])
