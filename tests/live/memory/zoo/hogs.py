"""Rows of the zoo that fill a node or its swap, and who runs beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.live.memory.zoo.load import Load, hog

QUIET: Final = (
    Load("quiet-big", ("quiet", 120), "untouched", limit=0, request=0),
    *(Load(f"quiet-be{n}", ("quiet", 20), "untouched", limit=0, request=0) for n in range(3)),
    *(Load(f"quiet-bu{n}", ("quiet", 24), "untouched", limit=64, request=32) for n in range(5)),
    *(Load(f"quiet-g{n}", ("quiet", 24), "untouched", limit=40, request=40) for n in range(2)),
)
"""Among the neighbours of a hog."""
HOGS: Final = {
    "MAP_SHARED": hog("hog-shared", "shared-hog", 1500),
    "memfd": hog("hog-memfd", "memfd-hog", 1500),
    "SysV": hog("hog-sysv", "sysv-hog", 1500),
    "pipes": hog("hog-pipes", "pipes-hog", 1300, capable=True),
    "sockets": hog("hog-sockets", "sockets-hog", 1300),
    "memory volume": hog("hog-volume", "volume-hog", 1400, volume=True),
    "anonymous": hog("hog-anonymous", "hog", 1500),
    "Burstable above its request": hog("hog-burstable", "hog", 1500, request=32),
}
HIDDEN: Final = {
    "locked file": hog("hog-locked-file", "locked-file-hog", 1500, capable=True),
    "file in pipes": hog("hog-file-in-pipes", "spliced-hog", 1500, capable=True),
    "SysV kept": hog("hog-sysv-kept", "sysv-kept-hog", 1500),
    "fleeting": Load("hog-fleeting", ("fleeting-hog", 1500, 1200), "evicted", limit=0, request=0),
}
"""What the kernel counts as page cache, and cannot take back; what outlives its process; what is gone when
somebody looks."""
SMALL_HOG: Final = hog("hog-small", "hog", 540)
AGAIN: Final = (
    Load("hog-in-a-moment", ("hog", 1500, 2), "evicted", limit=0, request=0),
    Load("hog-by-and-by", ("hog", 1500, 25), "evicted", limit=0, request=0),
    Load("stops-in-time", ("brim", 104, 130), "untouched", limit=0, request=0),
)
LAZY: Final = (
    HOGS["anonymous"],
    Load("lazy-beside-hog", ("lazy", 30, 300), "untouched", limit=0, request=0),
)
"""A hog beside one that gave its memory back: the kernel takes that, and nobody's end frees it."""
MIXED: Final = (
    HOGS["anonymous"],
    Load("stall-on-node", ("settle", 88, 20), "finishes", high="72Mi"),
    Load("reader-on-node", ("reader", 150), "untouched", high="72Mi"),
    Load("fork-bomb-on-node", ("forks", 256, 400), "killed", high="72Mi"),
)
"""A hog beside stalls of others, of which each is answered for itself."""
PRIORITIES: Final = (
    Load("important", ("hog", 560, 20), "untouched", limit=0, request=0, priority=1000),
    Load("above-request", ("hog", 560, 20), "evicted", limit=0, request=32),
    Load("within-request", ("hog", 560, 20), "untouched", limit=0, request=540),
)
"""Too much for the node together, and enough without the one that a kubelet would evict."""
WALKER: Final = Load("swap-walker", ("walker", 240), "untouched", limit=200, request=190)
SWAPPER: Final = Load(
    "swap-at-high", ("walker", 110), "untouched", limit=400, request=390, high="80Mi"
)
ON_DISK: Final = (replace(WALKER, words=("walker", 212)), SWAPPER)
SWAPPED: Final = (
    Load("volume-walker", ("volume-walker", 110), "untouched", 400, 390, "80Mi", volume=True),
    Load("noise-walker", ("noise-walker", 110), "untouched", limit=400, request=390, high="80Mi"),
    Load("heap-in-swap", ("collected", 110, 6), "finishes", limit=400, request=390, high="80Mi"),
    Load("prefork-in-swap", ("prefork", 70, 8), "untouched", limit=400, request=390, high="80Mi"),
)
"""What goes to swap beside plain anonymous memory, and pages that nothing compresses."""
