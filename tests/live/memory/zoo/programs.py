"""Rows of the zoo: what runtimes, servers, builds and tools do, and what the kernel keeps for them."""

from __future__ import annotations

from typing import Final

from tests.live.memory.zoo.load import Load, hog

SERVERS: Final = (
    Load("marking-threads", ("marked", 90, 4), "finishes"),
    Load("scavenger", ("scavenged", 60, 28), "goes on"),
    Load("snapshot", ("snapshot", 44, 2), "finishes"),
    Load("backends", ("backends", 48, 7), "finishes"),
    Load("make-8", ("jobs", 16, 8), "goes on"),
    Load("leak", ("leak", 70, 24), "killed"),
    Load("script", ("spawns", 75), "goes on"),
    Load("idle-priority", ("idle-priority", 90, 2), "finishes"),
    Load("deep-stack", ("recursion", 88), "finishes"),
    Load("thread-stacks", ("stacks", 95, 2), "finishes"),
    Load("mlockall-fork", ("locked-forks", 42, 3), "finishes", capable=True),
    Load("collapsed", ("collapsed", 88), "finishes"),
    Load("killed-inside", ("killed-inside", 90, 1500), "finishes"),
    Load("vfork", ("borrowed", 90), "finishes"),
    Load(
        "fed-by-sibling",
        ("feeds", 88),
        "finishes",
        volume=True,
        containers=2,
        sibling=("fed", 88),
    ),
)
DISKS: Final = (
    Load("copy-into-volume", ("copied-in", 88), "finishes", volume=True),
    Load("copy-into-volume-over", ("copied-in", 110), "killed", volume=True),
    Load("growing-file", ("regrown", 73, 5), "goes on", volume=True),
    Load("unpacked", ("unpacked", 8, 2), "untouched"),
    Load("logs", ("logs", 60, 40), "untouched"),
    Load("scattered-writes", ("scattered", 200), "untouched"),
    Load("scattered-beside-60", ("scattered", 100, 60), "untouched"),
    Load("journal", ("journal", 60, 60), "untouched"),
    Load("pipeline", ("pipeline", 60, 100), "untouched"),
    Load("read-ahead", ("ahead", 85, 100), "goes on"),
    Load("proxy", ("proxied", 60, 100), "untouched"),
    Load("private-file", ("private-file", 88), "finishes"),
    Load("deep-folders", ("trees", 40000), "ends", limit=24, volume=True),
    Load("deep-folders-disk", ("trees", 10000, 1), "finishes", limit=24),
    Load("attributes", ("attributes", 600, 10), "ends", limit=24, volume=True),
    Load("own-tmpfs", ("own-tmpfs", 88), "finishes", capable=True, volume=True),
    Load("overlay", ("overlay", 88), "finishes", capable=True, volume=True),
    Load("inspected", ("inspected", 60, 20), "untouched"),
)
OBJECTS: Final = (
    Load("epoll", ("epolls", 20, 10), "ends", limit=24),
    Load("eventfds", ("eventfds", 60, 10), "ends", limit=24),
    Load("timers", ("timers", 60, 10), "ends", limit=24),
    Load("message-queues", ("queues", 60, 28), "ends", capable=True),
    Load("keys", ("keys", 1000, 20), "ends", limit=24),
    Load("netlink", ("netlinks", 40, 85), "ends", capable=True),
    Load("socket-garbage", ("garbage", 400, 60), "ends"),
    Load("aio-rings", ("aio-rings", 16, 20), "ends", limit=24),
    Load("perf-rings", ("perf-rings", 20, 88), "ends", capable=True),
    Load("pending-signals", ("pending", 100, 10), "ends", limit=24),
)
TRICKS: Final = (
    Load("fallocated", ("fallocated", 88), "finishes", volume=True),
    Load("populated-at-once", ("at-once", 88), "finishes"),
    Load("one-read", ("zeroed", 88), "finishes"),
    Load("address-space-locked", ("locked-out", 88), "finishes"),
    Load("process-madvise", ("advised", 88), "finishes"),
    Load("madv-free-beside", ("refreshed", 88, 40), "finishes"),
    Load("leaderless", ("leaderless", 88), "finishes"),
    Load("traced", ("traced", 86), "finishes"),
    Load("beside-frozen", ("beside-frozen", 48, 40), "finishes"),
    Load("beside-protected", ("beside-protected", 70, 20), "finishes"),
    Load("crumbs", ("crumbs", 180, 400), "finishes"),
    Load("drip", ("drip", 74, 12), "finishes"),
    Load("loop-device", ("looped", 60, 40), "untouched"),
    Load("loop-device-beside-80", ("looped", 60, 80), "goes on"),
    Load("huge-tmpfs", ("own-tmpfs", 84, 1), "finishes", capable=True, volume=True),
    Load("never-killed", ("spared", 110), "evicted", capable=True),
    Load("mapped-beside-72", ("mapped", 12, 72), "goes on"),
    Load("init", ("burst", 90), "finishes", containers=2, sibling=("burst", 60), first="init"),
    Load(
        "sidecar",
        ("settle", 88, 60),
        "goes on",
        containers=2,
        sibling=("quiet", 20),
        first="sidecar",
    ),
    Load("reader-5-percent", ("reader", 60), "left alone", limit=48, cpu="50m"),
    Load("writer-5-percent", ("writer", 60), "left alone", limit=48, cpu="50m"),
)
"""What hides memory from whoever counts it, takes it in one call, or has next to no CPU."""
HIDDEN: Final = {
    "locked file": hog("hog-locked-file", "locked-file-hog", 1500, capable=True),
    "file in pipes": hog("hog-file-in-pipes", "spliced-hog", 1500, capable=True),
    "fleeting": Load("hog-fleeting", ("fleeting-hog", 1500, 1200), "evicted", limit=0, request=0),
}
"""What the kernel counts as page cache, and cannot take back; and what is gone when somebody looks."""
