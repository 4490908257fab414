"""The scenes in which rows of the zoo are played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tests.live.memory.zoo.hogs import (
    AGAIN,
    HIDDEN,
    HOGS,
    LAZY,
    MIXED,
    ON_DISK,
    PRIORITIES,
    QUIET,
    SMALL_HOG,
    SWAPPED,
    SWAPPER,
    WALKER,
)
from tests.live.memory.zoo.load import CROWDED_SECONDS, STALLED_SECONDS, Load, hog
from tests.live.memory.zoo.loads import CRASHES, FIFTY, PLAIN, STALLS, TEN, TOGETHER
from tests.live.memory.zoo.programs import BESIDE, COMPUTING, SLOW_DISK, SLOW_WRITES

_BOUND_ELSEWHERE: Final = (
    *("sendfile", "splice", "dd", "core-dumps", "scattered-writes", "scattered-beside-60"),
    *("idle-priority", "datagrams", "loop-device-beside-80", "grows-beside-io-uring"),
    *("grows-beside-backups", "streams-beside-pinned"),
)
"""Those whom a limit, a disk or the scheduler holds up as memory.high does."""
_IN_A_RUNTIME: Final = ("burst", "burst-over", "reader", "pod-limit-over", "sendfile", "splice")
KILLED_AFTER: Final = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
"""Seconds after the start of stalls at which an agent is killed: before, while and after it decides."""
LATE_SECONDS: Final = 25.0
"""Seconds for which nobody decides about stalls."""


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
    Scene(
        "node, MAP_SHARED, guard off", (HOGS["MAP_SHARED"],), NODE, QUIET, seconds=90, guard="off"
    ),
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
    # by then each has been begun three times, and waits for the fourth
    Scene("ten crash loops", CRASHES, FORMS["1.22"], at_once=10, bound=CROWDED_SECONDS, seconds=70),
    Scene("stalls in a pod", TOGETHER, FORMS["1.22"], at_once=2, seconds=40),
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
    Scene("node, beside lazy", LAZY, NODE, QUIET, at_once=2, seconds=90),
    Scene("node, by priority", PRIORITIES, NODE, QUIET, at_once=3, seconds=90),
    Scene("node, hogs in turn", (*HOGS.values(), *AGAIN), NODE, QUIET, seconds=120),
    Scene("swap, zram", (WALKER, SWAPPER), (*NODE, *SWAPPING), at_once=2, swap=("zram", SWAP)),
    Scene("swap, zram, other loads", SWAPPED, (*NODE, *SWAPPING), at_once=4, swap=("zram", SWAP)),
    *(
        Scene(f"swap, {kind}", ON_DISK, (*NODE, *SWAPPING), at_once=2, swap=(kind, DISK_SWAP))
        for kind in ("file", "zswap")
    ),
    Scene(
        "swap, zram, guard off",
        (WALKER, SWAPPER),
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
