"""The zoo: a row a load, and the scenes in which they are played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tests.live.memory.zoo.load import CROWDED_SECONDS, STALLED_SECONDS, Load, hog
from tests.live.memory.zoo.programs import (
    BESIDE,
    COMPANY,
    COMPUTING,
    CYCLES,
    DISKS,
    HELD,
    HIDDEN,
    KEPT,
    OBJECTS,
    ODD,
    SERVERS,
    SLOW_DISK,
    SLOW_WRITES,
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
    Load("stopped", ("stopped", 80, 10), "left alone"),
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
_BOUND_ELSEWHERE: Final = (
    *("sendfile", "splice", "dd", "core-dumps", "scattered-writes", "scattered-beside-60"),
    *("idle-priority", "datagrams"),
)
"""Those whom a limit, a disk or the scheduler holds up as memory.high does."""
_IN_A_RUNTIME: Final = ("burst", "burst-over", "reader", "pod-limit-over", "sendfile", "splice")
TEN: Final = tuple(
    Load(f"stall-{number}", ("settle", 44, 3), "finishes", limit=48) for number in range(10)
)
FIFTY: Final = tuple(
    Load(f"minute-{number}", ("together", 22, 60), "finishes", limit=24, request=4)
    for number in range(50)
)

STALLS: Final = (*TEN[:3], Load("stall-and-quiet", ("hog", 86, 3), "goes on"))
KILLED_AFTER: Final = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
"""Seconds after the start of stalls at which an agent is killed: before, while and after it decides."""
LATE_SECONDS: Final = 25.0
"""Seconds for which nobody decides about stalls."""

# Among the neighbours of a hog.
QUIET: Final = (
    Load("quiet-big", ("quiet", 120), "untouched", limit=0, request=0),
    *(Load(f"quiet-be{n}", ("quiet", 20), "untouched", limit=0, request=0) for n in range(3)),
    *(Load(f"quiet-bu{n}", ("quiet", 24), "untouched", limit=64, request=32) for n in range(5)),
    *(Load(f"quiet-g{n}", ("quiet", 24), "untouched", limit=40, request=40) for n in range(2)),
)


@dataclass(frozen=True)
class Scene:
    """Loads under one agent with ``options``, ``at_once`` of them; beside ``neighbours``, which run
    all the time. ``swap``: its kind as of ``swaps.swap``, and MiB. ``disk``: a limit of ``io.max`` for
    all pods together on the root's disk; empty: as it is. ``killed_after``: seconds after which the
    agent is killed and begun again, each from the time before, with the guard as ``then`` says. ``stopped``:
    seconds for which the agent is, from one second after the start. ``meddled``: what somebody does to the
    loads, as of ``MEDDLING``. ``outside``: what no pod holds, as of ``outside``, and MiB. ``runtime``: of OCI, or containerd; processes
    without."""

    name: str
    loads: tuple[Load, ...]
    options: tuple[str, ...] = ()
    neighbours: tuple[Load, ...] = ()
    at_once: int = 1
    bound: float = STALLED_SECONDS
    seconds: int = 45
    swap: tuple[str, int] = ("", 0)
    disk: str = ""
    driver: str = "cgroupfs"
    guard: str = "act"
    killed_after: tuple[float, ...] = ()
    then: str = ""
    stopped: float = 0.0
    meddled: str = ""
    outside: tuple[str, int] = ("", 0)
    runtime: str = ""

    def only(self, names: Sequence[str]) -> Scene:
        """The same with some of its loads."""
        unknown = set(names) - {load.name for load in self.loads}
        if unknown:
            raise SystemExit(f"scene {self.name} has no load {', '.join(sorted(unknown))}")
        return replace(self, loads=tuple(load for load in self.loads if load.name in names))


NODE: Final = ("--memory-qos", "qoslet")
SWAPPING: Final = ("--fail-swap-on=false", "--memory-swap-behavior=LimitedSwap")
SWAP: Final = 768
"""MiB: the walker's share by its request is 74 on a guest of 1973, and it needs 40. Of 512 it is 49: the
kernel killed it at its own limits, and nobody had decided anything."""
DISK_SWAP: Final = 448
"""MiB that a guest's disk has free; the walker's share of that is 43."""
_SHARED_HOG = hog("hog-shared", "shared-hog", 1500)
HOGS: Final = {
    "MAP_SHARED": _SHARED_HOG,
    "memfd": hog("hog-memfd", "memfd-hog", 1500),
    "SysV": hog("hog-sysv", "sysv-hog", 1500),
    "pipes": hog("hog-pipes", "pipes-hog", 1300, capable=True),
    "sockets": hog("hog-sockets", "sockets-hog", 1300),
    "memory volume": hog("hog-volume", "volume-hog", 1400, volume=True),
    "anonymous": hog("hog-anonymous", "hog", 1500),
    "Burstable above its request": hog("hog-burstable", "hog", 1500, request=32),
}
SMALL_HOG: Final = hog("hog-small", "hog", 540)
AGAIN: Final = (
    Load("hog-in-a-moment", ("hog", 1500, 2), "evicted", limit=0, request=0),
    Load("hog-by-and-by", ("hog", 1500, 25), "evicted", limit=0, request=0),
    Load("stops-in-time", ("brim", 104, 130), "untouched", limit=0, request=0),
)
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
_WALKER = Load("swap-walker", ("walker", 240), "untouched", limit=200, request=190)
_SWAPPER = Load("swap-at-high", ("walker", 110), "untouched", limit=400, request=390, high="80Mi")
_ON_DISK: Final = (replace(_WALKER, words=("walker", 212)), _SWAPPER)
_SWAPPED: Final = (
    Load("volume-walker", ("volume-walker", 110), "untouched", 400, 390, "80Mi", volume=True),
    Load("noise-walker", ("noise-walker", 110), "untouched", limit=400, request=390, high="80Mi"),
    Load("heap-in-swap", ("collected", 110, 6), "finishes", limit=400, request=390, high="80Mi"),
    Load("prefork-in-swap", ("prefork", 70, 8), "untouched", limit=400, request=390, high="80Mi"),
)
"""What goes to swap beside plain anonymous memory, and pages that nothing compresses."""
FORMS: Final = {
    "1.22": ("--memory-qos", "1.22"),
    "qoslet 0.8": ("--memory-qos", "qoslet", "--memory-throttling-factor", "0.8"),
    "1.27": ("--memory-qos", "1.27"),
    "1.36": ("--memory-qos", "1.36"),
}


def _plain(form: str, loads: tuple[Load, ...], driver: str = "cgroupfs") -> Scene:
    name = form if driver == "cgroupfs" else f"{form}, {driver}"
    return Scene(name, loads, FORMS[form], at_once=4, driver=driver)


SYSTEMD: Final = "systemd"
SCENES: Final = (
    _plain("1.22", PLAIN),
    _plain("qoslet 0.8", PLAIN),
    Scene("1.22, guard off", PLAIN, FORMS["1.22"], at_once=4, guard="off"),
    # each load once under systemd, and once with another variant
    _plain("1.22", PLAIN[1::2], SYSTEMD),
    _plain("qoslet 0.8", PLAIN[::2], SYSTEMD),
    _plain("1.27", PLAIN[::4]),
    _plain("1.27", PLAIN[1::4], SYSTEMD),
    _plain("1.36", PLAIN[2::4]),
    _plain("1.36", PLAIN[3::4], SYSTEMD),
    *(
        Scene(
            f"qoslet 0.8, {runtime}", PLAIN[at::4], FORMS["qoslet 0.8"], at_once=4, runtime=runtime
        )
        for at, runtime in enumerate(("runc", "crun"))
    ),
    # its shim, and what it begins to end a container, are charged to the pod
    Scene(
        "1.22, containerd",
        tuple(load for load in PLAIN if load.name in _IN_A_RUNTIME),
        FORMS["1.22"],
        at_once=3,
        runtime="containerd",
    ),
    Scene("node, MAP_SHARED, guard off", (_SHARED_HOG,), NODE, QUIET, seconds=90, guard="off"),
    Scene(
        "node, file in pipes, guard off",
        (HIDDEN["file in pipes"],),
        NODE,
        QUIET,
        seconds=240,
        guard="off",
    ),
    # what the kernel does at memory.max by itself
    Scene(
        "limit alone",
        tuple(replace(load, high="max") for load in PLAIN if load.name in _BOUND_ELSEWHERE),
        FORMS["1.22"],
        at_once=2,
        guard="off",
    ),
    Scene("ten stalls", TEN, FORMS["1.22"], at_once=10, bound=CROWDED_SECONDS, seconds=60),
    Scene("fifty stalls", FIFTY, FORMS["1.22"], at_once=50, bound=CROWDED_SECONDS, seconds=150),
    Scene("slow disk", SLOW_DISK, FORMS["1.22"], at_once=3, disk="rbps=1536000", seconds=60),
    Scene("slow writes", SLOW_WRITES, FORMS["1.22"], at_once=3, disk="wbps=1536000", seconds=60),
    Scene("beside a stall", BESIDE, FORMS["1.22"], at_once=5, bound=CROWDED_SECONDS, seconds=60),
    *(
        Scene(
            f"agent killed {name}",
            STALLS,
            FORMS["1.22"],
            at_once=4,
            bound=bound,
            killed_after=after,
        )
        for name, bound, after in (
            *(
                (f"after {seconds:g} s", 2 * CROWDED_SECONDS, (seconds,))
                for seconds in KILLED_AFTER
            ),
            ("again and again", 4 * CROWDED_SECONDS, (0.8, 2.5, 2.5, 2.5)),
        )
    ),
    Scene(
        "agent begins late",
        (*STALLS, *BESIDE[1:3]),
        FORMS["1.22"],
        at_once=6,
        bound=LATE_SECONDS + 2 * CROWDED_SECONDS,
        guard="off",
        then="act",
        killed_after=(LATE_SECONDS,),
    ),
    Scene(
        "agent stopped",
        (*STALLS, *BESIDE[1:3]),
        FORMS["1.22"],
        at_once=6,
        bound=LATE_SECONDS + CROWDED_SECONDS,
        stopped=LATE_SECONDS,
    ),
    Scene("agent stopped for 5 s", STALLS, FORMS["1.22"], at_once=4, bound=14.0, stopped=5.0),
    *(
        Scene(f"meddled, {name}", loads, FORMS["1.22"], at_once=4, bound=bound, meddled=name)
        for name, bound, loads in (
            ("limits", STALLED_SECONDS, STALLS),
            ("other writer", 8.0 + CROWDED_SECONDS, STALLS),
            ("nothing left", CROWDED_SECONDS, STALLS[:3]),
            ("pauses", 6.0, STALLS),
            ("ends", CROWDED_SECONDS, STALLS[:3]),
            ("annotations", CROWDED_SECONDS, STALLS),
            ("switched", 2 * CROWDED_SECONDS, STALLS),
            ("permits", 8.0, tuple(replace(one, guard="observe") for one in STALLS)),
        )
    ),
    Scene("beside computing pods", COMPUTING, FORMS["1.22"], at_once=3, seconds=120),
    *(
        Scene(f"node, {kind} outside", (SMALL_HOG,), NODE, QUIET, seconds=150, outside=(kind, mib))
        for kind, mib in (
            *(("process", 900), ("huge pages", 900), ("tmpfs", 900)),
            ("zram", 600),
        )
    ),
    *(Scene(f"node, {name}", (one,), NODE, QUIET, seconds=90) for name, one in HOGS.items()),
    *(Scene(f"node, {name}", (one,), NODE, QUIET, seconds=240) for name, one in HIDDEN.items()),
    Scene("node, hogs at once", tuple(HOGS.values()), NODE, QUIET, at_once=8, seconds=150),
    Scene("node, mixed", MIXED, NODE, QUIET, at_once=4, seconds=90),
    Scene("node, by priority", PRIORITIES, NODE, QUIET, at_once=3, seconds=90),
    Scene("node, hogs in turn", (*HOGS.values(), *AGAIN), NODE, QUIET, seconds=120),
    Scene("swap, zram", (_WALKER, _SWAPPER), (*NODE, *SWAPPING), at_once=2, swap=("zram", SWAP)),
    Scene("swap, zram, other loads", _SWAPPED, (*NODE, *SWAPPING), at_once=4, swap=("zram", SWAP)),
    *(
        Scene(f"swap, {kind}", _ON_DISK, (*NODE, *SWAPPING), at_once=2, swap=(kind, DISK_SWAP))
        for kind in ("file", "zswap")
    ),
    Scene(
        "swap, zram, guard off",
        (_WALKER, _SWAPPER),
        (*NODE, *SWAPPING),
        at_once=2,
        swap=("zram", SWAP),
        guard="off",
    ),
    Scene(
        "QoS cgroup at its limit",
        (
            # the kernel kills it once by itself, and again
            replace(hog("hog-of-class", "hog", 600), restarts=True),
            Load("quiet-beside", ("quiet", 40), "untouched", limit=0, request=0),
        ),
        (*NODE, "--qos-reserved", "memory=100%", "--feature-gates", "QOSReserved=true"),
        (Load("reserving", ("quiet", 24), "untouched", limit=1500, request=1500),),
        at_once=2,
        seconds=60,
    ),
)
