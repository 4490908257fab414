"""Records what groups look like at memory.high, as samples: the test data of the guard.

``python -m tests.live.traces FOLDER`` in a guest with cgroup v2, as root; a file of JSON lines
for each load: a header, then a sample every quarter of a second with how far the load came.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, to_builtins

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.sample import MemorySample, Pressure

MIB = 1 << 20
TOP = Path("/sys/fs/cgroup")
KEEP = (
    *("anon", "file", "shmem", "inactive_file", "active_file", "inactive_anon", "active_anon"),
    *("file_dirty", "file_writeback", "unevictable", "slab_reclaimable", "file_mapped"),
    *("pgscan", "pgsteal", "pgfault", "workingset_activate_file", "workingset_refault_file"),
    *("workingset_refault_anon", "workingset_restore_file", "pgmajfault", "pswpin", "pswpout"),
    *("kernel", "sock", "slab_unreclaimable"),
)


class Load(Struct, frozen=True):
    """A load in a group: its words for ``hogs``, limits in MiB, and whether it may swap.
    ``above`` puts the values of ``high`` and ``max`` on the parent instead."""

    name: str
    words: tuple[str, ...]
    high: int | None
    max: int | None
    seconds: float
    swap: int = 0
    above: bool = False


LOADS = (
    Load("stalled-kep", ("grow", "300"), 243, 256, 25),
    Load("stalled-122", ("grow", "300"), 205, 256, 15),
    Load("stalled-pod", ("grow", "300"), 205, 256, 12, above=True),
    Load("reader", ("read", "200"), 80, 96, 20),
    Load("both", ("both", "90", "200"), 140, 192, 20),
    Load("both-tight", ("both", "90", "200"), 100, 192, 20),
    Load("grower-fits", ("grow", "180", "15"), 200, 256, 16),
    Load("grower-above", ("grow", "240", "15"), 205, 280, 25),
    Load("idle-near", ("idle", "196"), 205, 256, 15),
    Load("swapper", ("fill", "190"), 140, 256, 30, swap=120),
    Load("swap-grower", ("grow", "230"), 160, 256, 25, swap=120),
    Load("swap-full", ("grow", "300"), 160, 256, 25, swap=40),
    Load("sockets", ("sockets", "150", "100"), 77, 96, 30),
    Load("pipes", ("pipes", "12", "100"), 77, 96, 30),
    Load("names", ("names", "400"), 32, 40, 40),
    Load("dirty", ("dirty", "200"), 77, 96, 15),
    Load("small", ("small", "400"), 40, 48, 20),
)


def number(group: Path, file: str) -> int | None:
    """A file with one number; None where there is none."""
    try:
        text = (group / file).read_text().strip()
    except OSError:
        return None
    return UNLIMITED if text == "max" else int(text)


def table(group: Path, file: str) -> dict[str, int]:
    """A file of names and numbers."""
    try:
        return {n: int(v) for n, v in map(str.split, (group / file).read_text().splitlines())}
    except OSError:
        return {}


def pressure(group: Path) -> Pressure | None:
    """PSI of memory; None where the kernel has none."""
    found: dict[str, dict[str, str]] = {}
    try:
        lines = (group / "memory.pressure").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        kind, *words = line.split()
        found[kind] = dict(word.split("=") for word in words)
    if len(found) < 2:
        return None
    some, full = found["some"], found["full"]
    return Pressure(
        float(some["avg10"]), int(some["total"]), float(full["avg10"]), int(full["total"])
    )


def sample(group: Path) -> MemorySample:
    """One look."""
    stat = table(group, "memory.stat")
    return MemorySample(
        path=f"/{group.relative_to(TOP)}",
        at=time.monotonic(),
        identity=group.stat().st_ino,
        current=number(group, "memory.current") or 0,
        high=number(group, "memory.high"),
        max=number(group, "memory.max"),
        low=number(group, "memory.low"),
        min=number(group, "memory.min"),
        peak=number(group, "memory.peak"),
        swap=number(group, "memory.swap.current"),
        swap_max=number(group, "memory.swap.max"),
        stat={name: stat[name] for name in KEEP if name in stat},
        events=table(group, "memory.events"),
        local=table(group, "memory.events.local"),
        pressure=pressure(group),
        usage_usec=table(group, "cpu.stat").get("usage_usec"),
        user_usec=table(group, "cpu.stat").get("user_usec"),
        populated=bool(table(group, "cgroup.events").get("populated")),
    )


def record(load: Load, folder: Path) -> None:
    """Run one load and write down what it looks like."""
    above = TOP / f"qoslet-test-{os.getpid()}-{load.name}"
    group = above / "app"
    above.mkdir()
    (above / "cgroup.subtree_control").write_text("+memory")
    group.mkdir()
    limited = above if load.above else group
    for file, value in (("high", load.high), ("max", load.max)):
        (limited / f"memory.{file}").write_text("max" if value is None else str(value * MIB))
    (limited / "memory.swap.max").write_text(str(load.swap * MIB))
    progress = folder / f"{load.name}.progress"
    command = [sys.executable, "-m", "tests.live.memory.hogs", *load.words]
    with progress.open("wb") as out:
        child = subprocess.Popen(
            command,
            stdout=out,
            preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())) and None,
        )
    header = {"load": load.name, "kernel": os.uname().release, **to_builtins(load)}
    with (folder / f"{load.name}.jsonl").open("w") as out:
        out.write(json.dumps(header) + "\n")
        until = time.monotonic() + load.seconds
        while time.monotonic() < until and child.poll() is None:
            begun = time.monotonic()
            done = progress.read_bytes().split()
            row = {
                "done": int(done[-2]) if len(done) > 1 else 0,
                "sample": to_builtins(sample(group)),
            }
            if load.above:
                row["above"] = to_builtins(sample(above))
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
            time.sleep(max(0.0, begun + 0.25 - time.monotonic()))
        out.write(json.dumps({"ended": child.poll()}) + "\n")
    with suppress(ProcessLookupError):
        child.send_signal(signal.SIGKILL)
    child.wait()
    for left in ("/dev/shm/qoslet-hog-names", "/var/tmp/qoslet-hog-names"):
        shutil.rmtree(left, ignore_errors=True)
    for file in ("high", "max"):
        (limited / f"memory.{file}").write_text("max")
    child.wait()
    progress.unlink()
    for one in (group, above):
        deadline = time.monotonic() + 5
        while one.exists() and time.monotonic() < deadline:
            with suppress(OSError):
                one.rmdir()


def main(folder: Path, names: list[str]) -> None:
    """All of them, or those that are named."""
    (TOP / "cgroup.subtree_control").write_text("+memory")
    for load in LOADS:
        if not names or load.name in names:
            record(load, folder)
            sys.stdout.write(f"{load.name}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
