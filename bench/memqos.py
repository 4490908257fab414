"""What memory.high does to a process over time, under each form of Memory QoS, with and without guard.

``python -m bench.memqos measure FILE`` runs each case as a pod of ``qoslet run`` on this kernel (root,
cgroup v2) and writes what was read; ``python -m bench.memqos draw`` makes the pictures of
``docs/explanation/memory-qos.md`` from what is kept in ``docs/pictures/memory-qos.json``.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from msgspec import Struct, to_builtins

MIB = 1 << 20
ROOT = Path(__file__).parents[1]
TOP = Path("/sys/fs/cgroup")
STEP = 0.2
"""Seconds between two looks at the group."""
PATIENCE = 60.0
"""Seconds within which the container has to be there."""

HOG = """
import mmap, time, sys
amount, seconds = int(sys.argv[1]), float(sys.argv[2])
held = mmap.mmap(-1, amount << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block, begun = bytes(range(256)) * 4096, time.monotonic()
for one in range(amount):
    held[one << 20 : (one + 1) << 20] = block
    time.sleep(max(0.0, begun + seconds * (one + 1) / amount - time.monotonic()))
"""

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: hog, uid: hog, annotations: {{{notes}}}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      command: ["{python}", "{hog}", "{amount}", "{seconds}"]
      resources: {{requests: {{memory: 128Mi}}, limits: {{memory: {limit}Mi}}}}
"""


class Case(Struct, frozen=True):
    """A process that touches ``amount`` MiB within ``seconds`` under a limit (MiB), looked at for
    ``lasts`` seconds; ``options`` are those of ``qoslet run``, ``factor`` is the pod's own."""

    name: str
    options: tuple[str, ...]
    amount: int = 300
    seconds: float = 5.0
    limit: int = 256
    lasts: float = 60.0
    factor: float | None = None


def form(name: str, guard: str) -> tuple[str, ...]:
    """A form, and the guard's mode."""
    return ("--memory-qos", name, "--guard", guard)


FORMS = {"1.22": 0.8, "1.27": 0.9, "design": 0.9, "1.36": 0.9, "1.37": None, "qoslet": 0.9}
"""Each form with the factor that its release has; ``qoslet`` with one that a pod asks for."""

CASES = (
    Case("off", form("off", "off")),
    *(
        Case(f"{name}{word}", form(name, guard), factor=factor)
        for name, factor in FORMS.items()
        for guard, word in (("off", ""), ("act", " guarded"))
    ),
    Case("job off", form("off", "off"), 240, 20.0, 280, 40.0),
    Case("job 1.22", form("1.22", "off"), 240, 20.0, 280, factor=0.7),
    Case("job 1.22 guarded", form("1.22", "act"), 240, 20.0, 280, factor=0.7),
)


class Look(Struct, frozen=True):
    """The group after ``at`` seconds: MiB in use, and what memory.high was (None: max)."""

    at: float
    used: float
    high: float | None


class Curve(Struct, frozen=True):
    """A case as it went. ``ended``: the process was gone before the looking ended; ``killed`` by
    the kernel at its limit."""

    name: str
    limit: int
    looks: list[Look]
    ended: bool
    killed: bool
    said: list[str] = []


def number(group: Path, file: str) -> int | None:
    """A file's number; None for ``max`` or where it is gone."""
    try:
        text = (group / file).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def kills(group: Path) -> int:
    """How often the kernel killed in the group; 0 where it is gone."""
    try:
        rows = (group / "memory.events").read_text().split()
    except OSError:
        return 0
    return int(rows[rows.index("oom_kill") + 1])


def measured(case: Case) -> Curve:
    """Run one case."""
    root = f"/qoslet-bench-{secrets.token_hex(3)}"
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        hog = Path(folder, "hog.py")
        hog.write_text(HOG)
        pod = Path(folder, "hog.yaml")
        pod.write_text(
            POD.format(
                python=sys.executable,
                hog=hog,
                amount=case.amount,
                seconds=case.seconds,
                limit=case.limit,
                notes=f'qoslet.dev/memory-throttling-factor: "{case.factor}"'
                if case.factor
                else "",
            )
        )
        command = [sys.executable, "-m", "qoslet", "run", str(pod), "--cgroup-root", root]
        command += ["--keep", *case.options]
        paths = os.pathsep.join(sys.path)
        run = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            curve = watched(case, TOP / root[1:])
        finally:
            run.terminate()
            out, _ = run.communicate()
            release = [sys.executable, "-m", "qoslet", "release", "--cgroup-root", root, "--force"]
            subprocess.run(release, env={**os.environ, "PYTHONPATH": paths}, check=False)
    lines = [line for line in out.splitlines() if "guard: " in line]
    return Curve(curve.name, curve.limit, curve.looks, curve.ended, curve.killed, lines)


def watched(case: Case, root: Path) -> Curve:
    """Look at the container of a case until it has ended or its time is over."""
    until = time.monotonic() + PATIENCE
    group = None
    while group is None or not (number(group, "memory.current") or 0) > MIB:
        group = next(iter(root.rglob("app")), None)
        if time.monotonic() > until:
            raise SystemExit(f"{case.name}: the container did not come")
        time.sleep(0.02)
    begun = time.monotonic()
    looks: list[Look] = []
    killed = ended = False
    while not ended and time.monotonic() - begun < case.lasts:
        used, high = number(group, "memory.current"), number(group, "memory.high")
        killed = killed or kills(group) > 0
        ended = used is None or used < MIB
        at = round(time.monotonic() - begun, 2)
        if not ended:
            looks.append(Look(at, round((used or 0) / MIB, 1), high and round(high / MIB, 1)))
        time.sleep(STEP)
    # a group may be gone before its last event is read: what needs more cannot end otherwise
    killed = killed or (ended and case.amount > case.limit)
    return Curve(case.name, case.limit, looks, ended, killed)


def main(words: list[str]) -> int:
    """Measure or draw."""
    if words[:1] == ["draw"]:
        from bench.memqosdraw import draw

        draw(ROOT / "docs/pictures")
        return 0
    if words[:1] != ["measure"] or len(words) < 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    curves = []
    for case in CASES if len(words) == 2 else [one for one in CASES if one.name in words[2:]]:
        curves.append(measured(case))
        last = curves[-1].looks[-1]
        how = "killed" if curves[-1].killed else "ended" if curves[-1].ended else "still there"
        print(f"{case.name}: {how}, {last.used} MiB after {last.at} s", flush=True)
        document = {"kernel": os.uname().release, "curves": to_builtins(curves)}
        Path(words[1]).write_text(json.dumps(document, indent=None, separators=(",", ":")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
