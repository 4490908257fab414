"""Rows of the zoo: what runtimes, servers, builds and tools do, and what the kernel keeps for them."""

from __future__ import annotations

from typing import Final

from tests.live.memory.zoo.load import Load

COMPANY: Final = (
    Load("grows-beside-streams", ("streams", 85, 2), "finishes"),
    Load("grows-beside-stream", ("streams", 85, 1), "finishes"),
    Load("grows-beside-maps", ("maps", 85, 2), "finishes"),
    Load("grows-beside-backups", ("backups", 85, 2), "ends"),
    Load("grows-beside-programs", ("begins", 85, 2), "finishes"),
    Load("grows-beside-spool", ("spools", 85, 2), "finishes"),
    Load("backup-beside-50", ("backup", 50), "untouched"),
    Load("database", ("database", 40, 100), "untouched"),
    Load("build", ("compiles", 16, 3), "untouched"),
    Load("nested", ("nested", 90), "finishes"),
    Load("leaves-by-itself", ("leaves", 90, 1800), "finishes"),
    Load("tiny-8", ("burst", 7), "finishes", limit=8, request=4),
    Load("tiny-24", ("burst", 23), "finishes", limit=24, request=4),
    Load("starved-1ms", ("burst", 20), "finishes", limit=24, request=4, cpu="10m"),
    Load("resized-down", ("slow", 72, 120), "finishes", limit=128, resized=80),
)
CYCLES: Final = (
    Load("collected-heap", ("collected", 90, 5), "finishes"),
    Load("sawtooth", ("sawtooth", 74, 6), "goes on"),
    Load("prefork", ("prefork", 60, 8), "goes on"),
    Load("behind-a-mutex", ("serial", 90, 12), "finishes"),
    Load("userfault", ("userfault", 90), "finishes"),
    Load("mergeable", ("mergeable", 90), "finishes"),
    Load("signals", ("signals", 90), "finishes"),
    Load("fsync-storm", ("fsyncs", 60, 8), "untouched"),
    Load("grows-beside-fsyncs", ("fsyncs-beside", 85, 4), "finishes"),
    Load("direct-reader", ("direct", 85, 60), "goes on"),
    Load("nested-memory", ("nested-memory", 90), "finishes"),
    Load("own-high", ("nested-memory", 60, 40), "left alone"),
)
HELD: Final = (
    Load("bpf-maps", ("bpf-maps", 90), "ends", capable=True),
    Load("inotify", ("watches", 12, 10), "ends", limit=24),
    Load("zombies", ("zombies", 1200), "ends", limit=24),
    Load("locks", ("locks", 200, 20), "ends", limit=24),
)
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
    Load("loop-device-beside-80", ("looped", 60, 80), "as alone"),
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
TURNS: Final = (
    Load("pauses", ("pauses", 70, 6), "finishes"),
    Load("beats", ("beats", 70, 20), "finishes"),
    Load("stop-and-go", ("stop-and-go", 88, 300), "finishes"),
    Load("hundred-threads", ("thread-maps", 86, 100), "finishes"),
    Load("copying-collector", ("copying", 44, 500), "goes on"),
    Load("core-dumps", ("dumps", 60), "goes on"),
    Load(
        "written-by-sibling",
        ("written", 88),
        "finishes",
        volume=True,
        containers=2,
        sibling=("writes-there", 88),
    ),
    Load("service-manager", ("manager", 88, 11), "finishes"),
    Load("wanders", ("wanders", 70, 16), "finishes"),
    Load("direct-writer", ("direct-writer", 85, 60), "goes on"),
    Load("dd", ("blocks", 40, 44), "as alone"),
    Load("beside-real-time", ("beside-fifo", 40), "finishes", limit=48, capable=True),
    Load("beside-execs", ("stormed", 85, 2), "finishes"),
    Load("as-one", ("many", 120, 4), "killed", as_one=True),
    Load("own-file-server", ("served", 60, 100), "goes on", volume=True),
    Load("restarts-at-limit", ("burst", 110), "killed", restarts=True),
)
KEPT: Final = (
    Load("descriptor-tables", ("descriptor-tables", 24, 10), "ends", limit=48),
    Load("many-groups", ("many-groups", 100, 10), "ends", limit=48),
    Load("seccomp-filters", ("filters", 60, 10), "ends", limit=48),
    Load("sysv-messages", ("messages", 60, 28), "ends"),
    Load("sysv-semaphores", ("semaphores", 60, 28), "ends"),
    Load("mounts", ("mounts", 5, 18), "ends", limit=24),
    Load("network-namespaces", ("networks", 30, 10), "ends", limit=24),
    Load("terminals", ("terminals", 600, 10), "ends", limit=24),
    Load("packet-rings", ("packet-rings", 60, 28), "ends", capable=True),
    Load("datagrams", ("datagrams", 60, 60), "ends", capable=True),
    Load("inotify-events", ("events", 40, 10), "ends", limit=24),
)
"""What the kernel keeps for many processes, and what nobody takes out of it."""
TIES: Final = (
    Load("own-file-server-tight", ("served", 74, 100), "goes on", volume=True),
    Load("own-file-reader", ("reads-served", 60, 100), "goes on", volume=True),
    Load("supervised", ("supervised", 88), "finishes"),
    Load("written-into", ("posted", 88), "finishes"),
    Load("io-uring-writes", ("ring-writes", 60, 60), "untouched"),
    Load("grows-beside-io-uring", ("ring-writes", 80, 60), "as alone"),
    Load("real-time", ("real-time", 88), "finishes", capable=True),
    Load("volume-links", ("links", 60), "killed", limit=24, volume=True),
    Load("volume-removed-files", ("deleted", 88), "finishes", volume=True),
    # the kernel kills below the container: a runtime calls it OOMKilled, however it ended
    Load("nested-limit", ("nested-limit", 44, 40), "ends"),
    Load("zero-copy", ("zero-copy", 40, 80), "ends"),
    Load(
        "four-beside-a-reader",
        ("burst", 22),
        "goes on",
        limit=0,
        pod_limit=96,
        containers=5,
        sibling=("reader", 30),
    ),
    Load("one-of-four", ("burst", 46), "finishes", limit=48, containers=4, sibling=("burst", 30)),
    Load("as-one-stalled", ("many", 88, 4), "finishes", as_one=True),
    Load("nested-threads", ("nested-threads", 88), "finishes"),
    Load("streams-beside-pinned", ("streams-beside-pinned", 20, 64), "ends", capable=True),
    Load("mostly-stopped", ("mostly-stopped", 86, 150), "finishes"),
)
"""What waits for another part of itself, and what takes memory where nobody looks."""
ODD: Final = (
    Load("heirs", ("heirs", 88, 4), "finishes"),
    Load("heirs-over", ("heirs", 120, 4), "killed"),
    Load("buried", ("buried", 88, 8), "finishes"),
    Load("covered", ("covered", 88, 4), "finishes", capable=True),
    Load("unmeasured", ("unmeasured", 88), "finishes"),
    Load("reclaims-itself", ("reclaims-itself", 88), "finishes"),
    Load("debugger", ("debugger", 48, 20), "finishes"),
    Load("tides", ("tides", 80, 12), "finishes"),
    Load("everything", ("everything", 66, 10), "finishes", capable=True),
    Load("handed-over", ("handed-over", 88, 4), "finishes"),
    Load("watchdog", ("watchdog", 88, 4000), "finishes"),
    Load("lowers-itself", ("lowers-itself", 88, 40), "finishes"),
    Load("killed-jobs", ("killed-jobs", 70, 16), "finishes"),
    Load("beside-names", ("beside-names", 80, 4), "finishes", volume=True),
    Load("high-of-a-mib", ("settle", 88, 4), "finishes", high="1Mi"),
    Load("high-below-request", ("settle", 94, 4), "finishes", request=90, high="40Mi"),
    Load("limit-10", ("burst", 9), "finishes", limit=10, request=4),
)
"""What changes its own cgroup, leaves memory behind, or stands beside what comes and goes."""
BESIDE: Final = (
    Load("stall-beside", ("settle", 88, 8), "finishes"),
    Load("still-beside-stall", ("quiet", 40), "untouched"),
    Load("reader-beside-stall", ("reader", 150), "untouched"),
    Load("opted-out-beside-stall", ("burst", 90), "left alone", guard="off"),
    Load("fork-bomb-beside-stall", ("forks", 256, 400), "killed"),
)
"""A stall, and who must not suffer from it or hold up its answer."""

COMPUTING: Final = (
    Load("computes", ("spins", 0, 4), "untouched", cpu="2000m"),
    Load("light-beside-computing", ("burst", 29), "finishes", limit=32),
    Load("light-settles-beside-computing", ("settle", 14, 3), "finishes", limit=16, request=4),
)
"""Those who have next to no CPU beside a pod that has all of it."""

SLOW_DISK: Final = (
    Load("slow-database", ("database", 40, 100), "untouched"),
    Load("slow-database-at-max", ("database", 92, 100), "untouched", high="max"),
    Load("grows-on-slow-disk", ("mixture", 20, 85), "finishes"),
)
"""Tasks that wait for a disk: the kernel counts that as waiting for memory where pages come back."""
SLOW_WRITES: Final = (
    Load("slow-writer", ("writer", 150), "untouched"),
    # how long one waits for the disk is the disk's
    Load("slow-fsyncs", ("fsyncs", 60, 8), "left alone"),
    Load("grows-beside-slow-writes", ("fsyncs-beside", 85, 4), "finishes"),
)
"""Dirty pages that leave memory no faster than the disk takes them."""
