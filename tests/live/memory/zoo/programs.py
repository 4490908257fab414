"""Rows of the zoo: what runtimes, servers, builds and tools do, and what the kernel keeps for them."""

from __future__ import annotations

from typing import Final

from tests.live.memory.zoo.load import Load

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
