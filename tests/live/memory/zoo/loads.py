"""Rows of the zoo by the kind of memory that a load takes, and all that any variant is tried with."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.live.memory.zoo.load import Load
from tests.live.memory.zoo.programs import (
    COMPANY,
    CYCLES,
    DISKS,
    HELD,
    KEPT,
    OBJECTS,
    ODD,
    SERVERS,
    TIES,
    TRICKS,
    TURNS,
)

ANONYMOUS: Final = (
    Load("burst", ("burst", 90), "finishes"),
    Load("burst-over", ("burst", 110), "killed"),
    Load("slow", ("slow", 90, 120), "finishes"),
    Load("settle", ("settle", 88, 8), "finishes"),
    Load("oscillate", ("oscillate", 60, 30), "finishes"),
    Load("touch-again", ("again", 90, 6), "finishes"),
    Load("heap", ("heap", 90), "finishes"),
    Load("doubling", ("doubling", 88), "finishes"),
    Load("remapped", ("remapped", 90), "finishes"),
    Load("huge-pages-transparent", ("huge", 90), "finishes"),
    Load("populate", ("inside", 90), "finishes"),
    Load("copy-on-write", ("copied", 88), "finishes"),
    Load("processes", ("many", 88, 4), "finishes"),
    Load("processes-over", ("many", 120, 4), "killed"),
    Load("fork-bomb", ("forks", 256, 400), "killed"),
    Load("madv-free", ("freed", 90, 60), "untouched"),
    Load("madv-free-kept", ("lazy", 30, 100), "untouched"),
    Load("madv-dontneed", ("dropped", 90, 60), "untouched"),
    Load("madv-cold", ("cold", 110, 60), "killed"),
    Load("madv-pageout", ("paged-out", 90, 10), "finishes"),
    Load("mlock", ("locked", 90), "finishes", capable=True),
    Load("mlock-over", ("locked", 110), "killed", capable=True),
    Load("stopped", ("stopped", 77, 10), "left alone"),
    Load("opted-out", ("burst", 90), "left alone", guard="off"),
    Load("no-limit", ("burst", 150), "finishes", limit=0, high="64Mi"),
    Load("pod-limit", ("burst", 90), "finishes", limit=0, pod_limit=96),
    Load("pod-limit-shared", ("burst", 44), "finishes", limit=0, pod_limit=96, containers=2),
    Load("managed-heap", ("managed", 72, 16), "finishes"),
    Load("starved", ("burst", 90), "finishes", cpu="200m"),
    Load("resized", ("slow", 90, 120), "finishes", limit=80, resized=128),
    Load("two-containers", ("burst", 46), "finishes", limit=48, containers=2),
    Load("eight-containers", ("burst", 22), "finishes", limit=24, request=4, containers=8),
)
SHARED: Final = (
    Load("shared-map", ("shared-map", 90), "finishes"),
    Load("memfd", ("memfd", 90), "finishes"),
    Load("sysv", ("sysv", 90), "finishes"),
    Load("posix-shm", ("posix", 90), "finishes"),
    Load("volume", ("volume", 90), "finishes", volume=True),
    Load("volume-over", ("volume", 110), "killed", volume=True),
)
FILES: Final = (
    Load("reader", ("reader", 150), "untouched"),
    Load("readers", ("reader", 60), "untouched", limit=48, containers=3),
    Load("mixture", ("mixture", 20, 85), "finishes"),
    Load("reader-beside-60", ("reader", 30, 60), "untouched"),
    Load("reader-beside-90", ("reader", 20, 90), "goes on"),
    Load("mapped-file", ("mapped", 120), "untouched"),
    Load("mapped-beside-60", ("mapped", 12, 60), "untouched"),
    Load("writer", ("writer", 150), "untouched"),
    Load("writer-fsync", ("writer", 150, 1), "untouched"),
    Load("dirty-map", ("dirty-map", 120), "untouched"),
    Load("sendfile", ("sent", 150, 100), "killed"),
    Load("splice", ("spliced", 8, 100), "killed", capable=True),
    Load("mlock-file", ("locked-file", 16, 90), "killed", capable=True),
    Load("volume-files-empty", ("volume-files", 60, 0), "killed", limit=24, volume=True),
    Load("volume-files-small", ("volume-files", 60, 100), "killed", limit=24, volume=True),
    Load("disk-files", ("disk-files", 5, 100), "finishes", limit=24),
    Load("negative-dentries", ("misses",), "untouched", limit=24),
)
KERNEL: Final = (
    Load("pipes", ("pipes", 80), "finishes", capable=True),
    Load("pipes-over", ("pipes", 120), "killed", capable=True),
    Load("unix-sockets", ("sockets", 90), "ends"),
    Load("tcp-sockets", ("tcp", 120), "ends"),
    Load("descriptors", ("descriptors", 80), "ends", limit=24),
    Load("idle-sockets", ("idle-sockets", 30), "ends", limit=24),
    Load("page-tables", ("page-tables", 90), "finishes"),
    Load("page-tables-over", ("page-tables", 120), "killed"),
    Load("mappings", ("mappings", 30, 6), "killed", limit=24),
    Load("tasks", ("tasks", 900), "killed", limit=24),
    Load("io-uring", ("rings", 90), "ends"),
    Load("hugetlb", ("huge-pages", 16, 60), "finishes"),
)
GROWTH: Final = (
    Load("backwards", ("backwards", 90), "finishes"),
    Load("shuffled", ("shuffled", 90, 12), "finishes"),
    Load("thread-arenas", ("threads", 90, 16), "finishes"),
    Load("fork-chain", ("chain", 90, 9), "finishes"),
    Load("killed-while-stalled", ("dying", 88, 6), "finishes"),
    Load("sleeps-and-starts", ("starts", 68, 20), "finishes"),
    Load("grows-among-readers", ("crowd", 20, 85), "finishes"),
    Load("stalls-beside-work", ("beside-work", 90), "finishes"),
    Load(
        "stalls-beside-sibling", ("burst", 90), "finishes", containers=2, sibling=("settle", 30, 8)
    ),
    Load("pod-limit-over", ("settle", 60, 20), "killed", limit=0, pod_limit=96, containers=2),
    Load("tiny", ("burst", 13), "finishes", limit=16, request=4),
    Load("large", ("burst", 940), "finishes", limit=1024, request=64),
    Load("between-pages", ("burst", 90), "finishes", high="80000001"),
    Load("volume-holes", ("sparse", 90), "finishes", volume=True),
    Load("volume-punched", ("punched", 60, 28), "finishes", volume=True),
)
PINNED: Final = (
    Load("vmsplice", ("vmspliced", 20, 90), "killed", capable=True),
    Load("vmsplice-file", ("file-vmspliced", 16, 100), "killed", capable=True),
    Load("vmsplice-beside-work", ("beside-pinned", 8, 100), "killed", capable=True),
    Load("tee", ("teed", 12, 100), "killed", capable=True),
    Load("sendfile-unix", ("sent-unix", 16, 100), "killed", capable=True),
    Load("passed-memfds", ("passed", 70, 20), "finishes"),
    Load("io-uring-buffers", ("registered", 30, 60), "finishes", capable=True),
    Load("open-files", ("open-files", 30, 10), "ends", limit=24),
)
PLAIN: Final = (
    *(*ANONYMOUS, *GROWTH, *COMPANY, *CYCLES, *HELD, *SHARED, *FILES, *PINNED, *KERNEL),
    *(*SERVERS, *DISKS, *OBJECTS, *TRICKS, *TURNS, *KEPT, *TIES, *ODD),
)
"""Loads that any variant is tried with, four at a time."""
TEN: Final = tuple(
    Load(f"stall-{number}", ("settle", 44, 3), "finishes", limit=48) for number in range(10)
)
CRASHES: Final = tuple(
    Load(f"crash-{number}", ("burst", 60), "killed", limit=48, restarts=True)
    for number in range(10)
)
"""Each stalls and is killed at its limit whenever it is begun again."""
BOTH: Final = Load(
    "both-containers",
    ("settle", 44, 150),
    "goes on",
    limit=48,
    containers=2,
    sibling=("settle", 44, 150),
)
TOGETHER: Final = (BOTH, replace(BOTH, name="sidecar-and-container", first="sidecar"))
"""Pods of which two containers stall at once."""
FIFTY: Final = tuple(
    Load(f"minute-{number}", ("together", 22, 60), "finishes", limit=24, request=4)
    for number in range(50)
)

STALLS: Final = (*TEN[:3], Load("stall-and-quiet", ("hog", 86, 3), "goes on"))
