"""A pod of two containers through an OCI runtime: from its groups to both running, above what two
bare runs of the same runtime with ready bundles take, begun together. As root; runc, or the one
named in ``QOSLET_OCI``.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.figures import Figure, show
from tests.live.oci.bundles import Bench, found, launch

ROUNDS = 15
MOST_MS = 15.0
SETTLE = 0.3
"""Seconds before each measurement: namespaces and groups go in the background."""
_NAMES = ("a", "b")


def ours(bench: Bench, uid: str) -> float:
    """Milliseconds until both containers of a new pod run."""
    spec = bench.spec(uid, *(launch(name, "exec sleep 600") for name in _NAMES))
    begun = time.perf_counter()
    bench.start(spec)
    waits = select.poll()
    for descriptor in bench.runtime.descriptors():
        waits.register(descriptor, select.POLLIN)
    while not all(one.pid for one in bench.states().values()):
        waits.poll(1000)
    spent = time.perf_counter() - begun
    return spent * 1000


def _copy(bench: Bench, folder: Path, uid: str) -> list[tuple[Path, str]]:
    """The bundles of a pod that runs, to be run by hand: with roots and groups of their own."""
    made = []
    (tree,) = (bench.storage / "images").glob("sha256-*/rootfs")
    for name in _NAMES:
        config = json.loads((bench.folder / f"oci/pods/{uid}/{name}/config.json").read_text())
        bundle = folder / name
        bundle.mkdir()
        shutil.copytree(tree, bundle / "rootfs", symlinks=True)
        config["root"]["path"] = str(bundle / "rootfs")
        config["linux"]["cgroupsPath"] = f"{bench.root}/bare/{name}"
        for space in config["linux"]["namespaces"]:
            space.pop("path", None)
        config["mounts"] = [one for one in config["mounts"] if one["type"] != "bind"]
        (bundle / "config.json").write_text(json.dumps(config))
        made.append((bundle, f"bare-{name}"))
    return made


def bare(bench: Bench, bundles: list[tuple[Path, str]], state: Path) -> float:
    """Milliseconds until both were started by the runtime alone."""
    null = os.open(os.devnull, os.O_RDWR)
    begun = time.perf_counter()
    pids = []
    for bundle, id in bundles:
        words = [bench.engine.program, "--root", str(state), "run", "--detach"]
        words += ["--bundle", str(bundle), "--pid-file", str(bundle / "pid"), id]
        actions = [(os.POSIX_SPAWN_DUP2, null, number) for number in (0, 1, 2)]
        pids.append(os.posix_spawn(words[0], words, dict(os.environ), file_actions=actions))
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    spent = time.perf_counter() - begun
    os.close(null)
    assert codes == [0, 0], codes
    return spent * 1000


def pair(
    bench: Bench, number: int, bundles: list[tuple[Path, str]], state: Path
) -> tuple[float, float]:
    """Both sides once, by turns the one or the other first."""
    sides = [lambda: ours(bench, f"u{number}"), lambda: bare(bench, bundles, state)]
    found = [0.0, 0.0]
    for side in (0, 1) if number % 2 else (1, 0):
        # what the round before has left to the kernel's workers is not this round's
        time.sleep(SETTLE)
        found[side] = sides[side]()
    return found[0], found[1]


def undone(bench: Bench, uid: str, bundles: list[tuple[Path, str]], state: Path) -> None:
    """Both are gone before the next round."""
    for _, id in bundles:
        words = [bench.engine.program, "--root", str(state), "delete", "--force", id]
        os.waitpid(os.posix_spawn(words[0], words, dict(os.environ)), 0)
    bench.runtime.stop(uid, 0)
    bench.over()
    bench.remove(uid)


def main() -> int:
    """Measure and print; the exit code."""
    name = os.environ.get("QOSLET_OCI", "runc")
    runtime = found(name)
    if isinstance(runtime, str):
        print(runtime, file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="qoslet-bench-"))
    bench = Bench(folder, runtime)
    rows = []
    try:
        state = folder / "bare-state"
        ours(bench, "first")
        (folder / "bare").mkdir()
        bundles = _copy(bench, folder / "bare", "first")
        bare(bench, bundles, state)
        undone(bench, "first", bundles, state)
        for number in range(ROUNDS):
            rows.append(pair(bench, number, bundles, state))
            undone(bench, f"u{number}", bundles, state)
    finally:
        bench.clean()
        shutil.rmtree(folder)
    mine, theirs = (statistics.median(row[side] for row in rows) for side in (0, 1))
    above = statistics.median(own - floor for own, floor in rows)
    what = f"a pod of two containers through {name}"
    figures = [
        Figure(what, "ms", mine, theirs, f"{runtime.profile} alone", None),
        Figure(f"{what}, above {name} alone", "ms", above, None, "", MOST_MS),
    ]
    show(figures)
    return 0 if all(one.holds for one in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
