"""Pods as slices through systemd: time and D-Bus calls, beside ``systemd-run`` and ``systemctl``.

``python -m bench.running.systemd [PODS...]`` in a machine whose PID 1 is systemd, as root; so in a guest:
``make vm-run SYSTEM=trixie CMD='python3 -m bench.running.systemd'``. Everything is made below a slice of its
own and removed at the end.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from qoslet.core.cgroup.names import root_path
from qoslet.core.reconcile.steps import Step
from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.mounted import required_mounts
from qoslet.host.systemd.select_driver import systemd_driver

SIZES = (10, 110, 500)
ALONE = 50
"""Pods that are made one by one beside those that are there, and runs of each peer."""

V2 = (("memory.max", "268435456"), ("memory.min", "67108864"), ("cpu.weight", "20"),
      ("cpu.max", "50000 100000"), ("pids.max", "1024"))  # fmt: skip
V1 = (("memory.limit_in_bytes", "268435456"), ("cpu.shares", "512"),
      ("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "50000"), ("pids.max", "1024"))  # fmt: skip
WORDS = {
    "v2": "MemoryMax=256M MemoryMin=64M CPUWeight=20 CPUQuota=50% TasksMax=1024",
    "v1": "MemoryLimit=256M CPUShares=512 CPUQuota=50% TasksMax=1024",
}


class Bench:
    """A driver below a root of its own."""

    def __init__(self) -> None:
        self.hierarchy, where = required_mounts()
        self.root = root_path(f"/qosletbench{secrets.token_hex(3)}", "systemd")
        self.stem = self.root[1:].removesuffix(".slice")
        self.driver = systemd_driver(self.hierarchy, where, self.root)
        self.values = V1 if self.hierarchy == "v1" else V2

    def pod(self, name: str) -> list[Step]:
        """The steps of a pod's slice."""
        path = f"{self.root}/{self.stem}-{name}.slice"
        return [Step("create", path), *(Step("set", path, *pair) for pair in self.values)]

    def do(self, steps: Sequence[Step]) -> tuple[float, int]:
        """Milliseconds and D-Bus calls of steps that all work."""
        calls, begin = self.driver.units.bus.calls, time.perf_counter()
        wrong = [one.error for one in self.driver.perform(steps) if one.error]
        spent = (time.perf_counter() - begin) * 1000
        if wrong:
            raise CannotDo(str(wrong[0]))
        return spent, self.driver.units.bus.calls - calls

    def clear(self) -> None:
        """Remove everything."""
        self.do([Step("remove", path) for path in self.driver.below(self.root)])


def at(sample: Sequence[float], share: float) -> float:
    """The value that ``share`` of the sample stay at or below."""
    return sorted(sample)[min(len(sample) - 1, int(share * len(sample)))]


def spent(*words: str) -> float:
    """Milliseconds of a command."""
    begin = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True)
    return (time.perf_counter() - begin) * 1000


def peers(bench: Bench) -> dict[str, Callable[[int], float]]:
    """What somebody would type for the same slice, by number of the slice."""
    words = WORDS[bench.hierarchy].split()

    def unit(number: int) -> str:
        return f"{bench.stem}-peer{number}.slice"

    return {
        "systemd-run --scope --slice=POD true": lambda number: spent(
            "systemd-run", "--quiet", "--scope", f"--slice={unit(number)}", "true"
        ),
        "systemctl set-property --runtime POD …": lambda number: spent(
            "systemctl", "set-property", "--runtime", unit(number), *words
        ),
    }


def measure(bench: Bench, size: int) -> None:
    """One table row for each way, with ``size`` pods in place."""
    whole, calls = bench.do([step for number in range(size) for step in bench.pod(f"p{number}")])
    print(f"| {size} | qoslet, all at once | {whole / size:.1f} | | {calls / size:.2f} |")
    alone = [bench.do(bench.pod(f"one{number}")) for number in range(ALONE)]
    times = [one for one, _ in alone]
    most = max(calls for _, calls in alone)
    print(f"| {size} | qoslet, one more | {at(times, 0.5):.1f} | {at(times, 0.99):.1f} | {most} |")
    update = [Step("set", bench.root, *pair) for pair in bench.values]
    taken, calls = bench.do(update)
    print(f"| {size} | qoslet, update of the group above | {taken:.1f} | | {calls} |")
    taken, calls = bench.do(update)
    print(f"| {size} | the same again, unchanged | {taken:.1f} | | {calls} |")
    for name, run in peers(bench).items():
        times = [run(number) for number in range(ALONE)]
        print(f"| {size} | `{name}` | {at(times, 0.5):.1f} | {at(times, 0.99):.1f} | |")
    units = [f"{bench.stem}-peer{number}.slice" for number in range(ALONE)]
    spent("systemctl", "stop", *units)
    spent("systemctl", "revert", *units)
    bench.clear()


def main(words: Sequence[str]) -> int:
    """Print a table; the exit code."""
    try:
        bench = Bench()
    except CannotDo as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    version = bench.driver.units.version
    print(f"systemd {version}, cgroup {bench.hierarchy}\n")
    print("| pods in place | what | ms, p50 or mean | ms, p99 | D-Bus calls |")
    print("|---|---|---|---|---|")
    try:
        for size in [int(word) for word in words] or SIZES:
            measure(bench, size)
    finally:
        bench.clear()
        bench.driver.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
