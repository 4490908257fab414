"""What memory.high does to two kinds of load over time, under each variant of Memory QoS, with and
without the guard.

Build the load where there is a compiler (``cc -static -O2 -o bench/memory/hog bench/memory/hog.c``), then measure in
a guest: ``make vm-run SYSTEM=trixie CMD='python3 -m bench.memory.memqos measure /out/memory-qos.json'``. Names
of cases after the file measure only those and keep the others that the file has. Each case is a pod of
``qoslet run`` on this kernel (root, cgroup v2). ``python -m bench.memory.memqos draw`` makes the pictures of
``README.md`` and ``docs/explanation/memory-qos.md`` from ``bench/results/memory-qos.json``.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.memory.curves import Curve, Results, Sample

MIB = 1 << 20
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench/results/memory-qos.json"
HOG = ROOT / "bench/memory/hog"
TOP = Path("/sys/fs/cgroup")
STEP = 0.2
"""Seconds between two samples of the cgroup."""
PATIENCE = 180.0
"""Seconds within which the container has to be there."""

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: hog, uid: hog, annotations: {{{annotations}}}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      command: ["{hog}", "{load}", "{amount}", "{seconds}"]
      resources: {{requests: {{memory: 16Mi}}, limits: {{memory: {limit}Mi}}}}
"""


class Case(Struct, frozen=True):
    """A process that takes ``amount`` MiB under a limit (MiB), sampled for ``lasts`` seconds.

    ``load``: ``touch`` writes to each page within ``seconds``, ``read`` fills the same memory in one
    system call. ``factor``: the pod's own memory throttling factor.
    """

    name: str
    load: str
    variant: str
    guard: str
    amount: int = 300
    seconds: float = 5.0
    limit: int = 256
    lasts: float = 100.0
    factor: float | None = None


LOADS = ("touch", "read")
VARIANTS = {"1.22": None, "1.27": None, "design": None, "1.36": None, "qoslet": 0.9}
"""The variants that write memory.high, with the factor that the pod asks for."""
GUARDS = {"": "off", " guarded": "act"}

CASES = (
    *(Case(f"{load} 1.37", load, "1.37", "off") for load in LOADS),
    *(
        Case(f"{load} {variant}{suffix}", load, variant, guard, factor=factor)
        for load in LOADS
        for variant, factor in VARIANTS.items()
        for suffix, guard in GUARDS.items()
    ),
    Case("job 1.37", "touch", "1.37", "off", 240, 20.0, 280),
    *(
        Case(f"job 1.22{suffix}", "touch", "1.22", guard, 240, 20.0, 280, factor=0.7)
        for suffix, guard in GUARDS.items()
    ),
)


def number(group: Path, file: str) -> int | None:
    """A file's number; None for ``max`` or where it is gone."""
    try:
        text = (group / file).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def kills(group: Path) -> int:
    """How often the kernel killed in the cgroup; 0 where it is gone."""
    try:
        words = (group / "memory.events").read_text().split()
    except OSError:
        return 0
    return int(words[words.index("oom_kill") + 1])


def hog(folder: Path) -> Path:
    """The load's program in a file that is on disk only.

    So its pages are charged to the container that runs it, as those of an image.
    """
    if not HOG.exists():
        raise SystemExit(f"{HOG} is missing: cc -static -O2 -o bench/memory/hog bench/memory/hog.c")
    file = Path(shutil.copy(HOG, folder))
    with file.open("rb") as opened:
        os.fsync(opened)
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return file


def pod(case: Case, folder: Path) -> Path:
    """The manifest of a case."""
    key = "qoslet.dev/memory-throttling-factor"
    text = POD.format(
        hog=hog(folder),
        load=case.load,
        amount=case.amount,
        seconds=case.seconds,
        limit=case.limit,
        annotations=f'{key}: "{case.factor}"' if case.factor else "",
    )
    file = folder / "hog.yaml"
    file.write_text(text)
    return file


def measured(case: Case) -> Curve:
    """Run one case."""
    root = f"/qoslet-bench-{secrets.token_hex(3)}"
    qoslet = [sys.executable, "-m", "qoslet"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        words = ["run", str(pod(case, Path(folder))), "--cgroup-root", root, "--keep"]
        words += ["--memory-qos", case.variant, "--guard", case.guard]
        run = subprocess.Popen(
            [*qoslet, *words],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            curve = watched(case, TOP / root[1:])
        finally:
            run.terminate()
            out, _ = run.communicate()
            release = [*qoslet, "release", "--cgroup-root", root, "--force"]
            subprocess.run(release, env=env, stdout=subprocess.DEVNULL, check=False)
    log = [line for line in out.splitlines() if "guard: " in line]
    return msgspec.structs.replace(curve, log=log)


def watched(case: Case, root: Path) -> Curve:
    """Sample the container of a case until it has ended or its time is over."""
    until = time.monotonic() + PATIENCE
    group = None
    while group is None or not (number(group, "memory.current") or 0) > MIB:
        group = next(iter(root.rglob("app")), None)
        if time.monotonic() > until:
            raise SystemExit(f"{case.name}: the container did not come")
        time.sleep(0.02)
    begun = time.monotonic()
    samples: list[Sample] = []
    ended = None
    while ended is None and (at := round(time.monotonic() - begun, 1)) < case.lasts:
        used, high = number(group, "memory.current") or 0, number(group, "memory.high")
        if kills(group) or used < MIB:
            ended = at
        else:
            samples.append(Sample(at, round(used / MIB, 1), high and round(high / MIB, 1)))
        time.sleep(STEP)
    # a cgroup may be gone before its last event is read: what needs more cannot end otherwise
    killed = ended is not None and case.amount > case.limit
    return Curve(case.name, case.limit, changes(samples), ended, killed, [])


def changes(samples: Sequence[Sample]) -> list[Sample]:
    """Those that a line needs: not the ones in between two of the same usage and memory.high."""

    def same(one: Sample, other: Sample) -> bool:
        return (one.used, one.high) == (other.used, other.high)

    last = len(samples) - 1
    return [
        sample
        for place, sample in enumerate(samples)
        if place in (0, last)
        or not (same(samples[place - 1], sample) and same(sample, samples[place + 1]))
    ]


def measure(file: Path, names: Sequence[str]) -> None:
    """Run the cases of these names, or all, and write each result at once."""
    curves: dict[str, Curve] = {}
    if names and file.exists():
        kept = msgspec.json.decode(file.read_bytes(), type=Results)
        curves = {curve.name: curve for curve in kept.curves}
    machine = f"emulated, {os.cpu_count()} CPUs, no swap"
    for case in (case for case in CASES if not names or case.name in names):
        curve = curves[case.name] = measured(case)
        last = curve.samples[-1]
        outcome = "killed" if curve.killed else "ended" if curve.ended else "still there"
        print(f"{case.name}: {outcome} after {last.at} s, {last.used} MiB", flush=True)
        order = [curves[each.name] for each in CASES if each.name in curves]
        results = Results(os.uname().release, machine, f"{datetime.now(UTC):%Y-%m-%d}", order)
        file.write_bytes(msgspec.json.encode(results) + b"\n")


def main(words: list[str]) -> int:
    """Measure or draw."""
    match words:
        case ["draw"]:
            from bench.memory.memqosdraw import draw

            draw(RESULTS, ROOT / "docs/pictures")
        case ["measure", file, *names]:
            measure(Path(file), names)
        case _:
            sys.stderr.write(f"{__doc__}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
