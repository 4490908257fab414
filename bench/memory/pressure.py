"""From the first sign of memory pressure to the end of the hog and to relief: qoslet beside the
kernel alone, systemd-oomd and oomd, on the same load.

In a guest: ``make vm-run SYSTEM=trixie-peers CMD='python3 -m bench.memory.pressure'``. Prints a table and
writes ``/out/pressure.json``. Each is measured as its package ships it, made to watch the pods, and
as tight as it can be set.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.memory.pressed import MIB, PODS, Node, milliseconds, node, until
from tests.live.memory import pulse

LEFT = int(os.environ.get("QOSLET_BENCH_LEFT") or 50)
"""MiB that the hog leaves to the machine."""
LONGEST = 60.0
"""Seconds that a decision is waited for."""
DROP_IN = Path("/run/systemd/oomd.conf.d/bench.conf")


def nobody(_: Node) -> Any:
    """The kernel alone."""
    return nullcontext()


def systemd_oomd(limit: str, seconds: int) -> Callable[[Node], Any]:
    """systemd-oomd with ``ManagedOOMMemoryPressure=kill`` on the group of all pods."""

    @contextmanager
    def runs(made: Node) -> Iterator[None]:
        DROP_IN.parent.mkdir(parents=True, exist_ok=True)
        lines = (
            f"DefaultMemoryPressureLimit={limit}",
            f"DefaultMemoryPressureDurationSec={seconds}s",
        )
        DROP_IN.write_text("\n".join(("[OOM]", *lines, "")))
        call("systemctl", "restart", "systemd-oomd")
        unit = made.kubepods.rpartition("/")[2]
        call("systemctl", "set-property", "--runtime", unit, "ManagedOOMMemoryPressure=kill")
        try:
            yield
        finally:
            sys.stderr.write(call("oomctl"))
            call("systemctl", "stop", "systemd-oomd.service", "systemd-oomd.socket")

    return runs


def oomd(threshold: int, seconds: int, interval: int) -> Callable[[Node], Any]:
    """oomd with the detectors and the action of its own example, on the pods."""

    @contextmanager
    def runs(made: Node) -> Iterator[None]:
        watched = {"cgroup": made.kubepods}
        pressure = {"resource": "memory", "threshold": str(threshold), "duration": str(seconds)}
        tiers = [f"{made.kubepods}/*-{name}.slice/*" for name in ("besteffort", "burstable")]
        pods = ",".join([*tiers, f"{made.kubepods}/*-pod*"])
        rules = {
            "name": "pods",
            "detectors": [
                [
                    "pressure",
                    {"name": "pressure_above", "args": {**watched, **pressure}},
                    {"name": "memory_reclaim", "args": {**watched, "duration": "10"}},
                ]
            ],
            "actions": [{"name": "kill_by_memory_size_or_growth", "args": {"cgroup": pods}}],
        }
        config = made.folder / "oomd.json"
        config.write_text(json.dumps({"rulesets": [rules]}))
        with (made.folder / "oomd.log").open("w") as log:
            words = ["/usr/bin/oomd", "--config", str(config), "--interval", str(interval)]
            process = subprocess.Popen(words, stdout=log, stderr=log)
            try:
                yield
            finally:
                process.terminate()
                process.wait(20)
        sys.stderr.write("".join((made.folder / "oomd.log").read_text().splitlines(True)[-15:]))

    return runs


WHO: dict[str, tuple[str, Callable[[Node], Any]]] = {
    "qoslet": ("act", nobody),
    "systemd-oomd, as shipped (60 %, 30 s)": ("off", systemd_oomd("60%", 30)),
    "systemd-oomd, tight (1 %, 1 s)": ("off", systemd_oomd("1%", 1)),
    "oomd, as shipped (60, 30 s, every 5 s)": ("off", oomd(60, 30, 5)),
    "oomd, tight (1, 1 s, every 1 s)": ("off", oomd(1, 1, 1)),
    "the kernel alone": ("off", nobody),
}


def call(*words: str) -> str:
    """A command; what it said."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        sys.stderr.write(f"{' '.join(words)}: {done.stdout}{done.stderr}\n")
    return done.stdout


def measure(guard: str, peer: Callable[[Node], Any]) -> dict[str, Any]:
    """One load under one policy; ``QOSLET_BENCH_DISK`` is what pods may read in a second."""
    Path("/proc/sys/vm/drop_caches").write_text("3")
    with node("--guard", guard) as made:
        made.warm(10.0)
        disk = os.environ.get("QOSLET_BENCH_DISK")
        if disk:
            unit, limit = made.kubepods.rpartition("/")[2], f"IOReadBandwidthMax=/dev/vda {disk}"
            call("systemctl", "set-property", "--runtime", unit, limit)
        with peer(made):
            begun = time.monotonic()
            made.put("hog", ["hog", str(LEFT), "8"])
            until(lambda: made.rows()[-1]["left"][0], 120)
            until(lambda: _times(made).onset is not None, 300)
            until(lambda: _over(_times(made)), LONGEST)
            time.sleep(2.0)
            return report(made, begun)


def _over(times: pulse.Times) -> bool:
    return times.gone is not None and times.relief is not None


def _times(made: Node) -> pulse.Times:
    return pulse.times(made.rows())


def report(made: Node, begun: float) -> dict[str, Any]:
    """What came of it; seconds after the onset."""
    rows = made.rows()
    times = pulse.times(rows)
    assert times.onset is not None, "the hog did not make the node short of memory"

    def after(at: float | None) -> float | None:
        return None if at is None or times.onset is None else round(at - times.onset, 2)

    ahead = rows[0]["wall"] - rows[0]["at"]
    decided = [
        line.split()[0]
        for line in made.said()
        if "evicting " in line and "/hog: memory is short" in line
    ]
    ended = [
        name for at, name in enumerate(PODS) if rows[0]["left"][at] and not rows[-1]["left"][at]
    ]
    over = times.relief if times.relief is not None else rows[-1]["at"]
    return {
        "decision": after(datetime.fromisoformat(decided[0]).timestamp() - ahead)
        if decided
        else None,
        "gone": after(times.gone),
        "relief": after(times.relief),
        "innocent": ended,
        "waited": round(rows[-1]["at"] - times.onset, 1),
        "least_mib": times.least // MIB,
        "full": None if times.full is None else round(times.full, 2),
        "oom_kills": call("sh", "-c", "grep -w oom_kill /proc/vmstat").split()[-1],
        "before": {name: milliseconds(made.took(name), 0, begun) for name in ("b", "g")},
        "short": {name: milliseconds(made.took(name), times.onset, over) for name in ("b", "g")},
        "said": made.said(),
    }


def main() -> int:
    """Measure all; those named on the command line, if any are."""
    found: dict[str, Any] = {"kernel": os.uname().release, "machine": _machine(), "runs": {}}
    for name, (guard, peer) in WHO.items():
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        row = found["runs"][name] = measure(guard, peer)
        print(f"{name}: {json.dumps({key: row[key] for key in row if key != 'said'})}", flush=True)
        if os.path.isdir("/out"):
            Path("/out/pressure.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


def _machine() -> str:
    with open("/proc/meminfo", encoding="ascii") as file:
        return f"{os.cpu_count()} CPUs, {int(file.readline().split()[1]) >> 10} MiB, no swap"


if __name__ == "__main__":
    sys.exit(main())
