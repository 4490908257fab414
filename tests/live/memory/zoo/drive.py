"""Runs rows of the zoo under an agent on this machine's cgroup v2: ``python3 -m tests.live.memory.zoo.drive``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.live.cri.containerd import Containerd
from tests.live.memory.zoo import swaps
from tests.live.memory.zoo.build import build
from tests.live.memory.zoo.judge import RUNNING, Result, Watched, decisions, ends_of, result
from tests.live.memory.zoo.load import ENDING, Load
from tests.live.memory.zoo.meddle import MEDDLING
from tests.live.memory.zoo.outside import HUGE_PAGES, outside
from tests.live.memory.zoo.pods import manifest
from tests.live.memory.zoo.rootfs import IMAGE, rootfs
from tests.live.memory.zoo.scenes import SCENES, Scene

ROOT = os.environ.get("QOSLET_ZOO_ROOT", "/qosletzoo")
PROGRESS = struct.Struct("=4Q3i")
"""What ``zoo.h`` calls ``struct progress``, without the path."""
STARTING_SECONDS = 90.0
WATCHED_SECONDS = 25.0
"""How long loads are watched that do not end by themselves."""
GUEST = "QOSLET_SYSTEM" in os.environ
"""Whether this machine is a guest: elsewhere nothing is made short of memory, swap or huge pages."""
CGROUPS = Path("/sys/fs/cgroup")
LEFT_MIB = 96
"""Of memory that one scene may leave in use: what an interpreter and the kernel keep."""
RESTS = Path("/scratch")


def until(ready: Callable[[], bool], seconds: float, pause: float = 0.2) -> bool:
    """Wait for something, asking after each ``pause``; whether it came."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


class Stage:
    """One scene: its agent, its watcher and the folders of both."""

    def __init__(self, scene: Scene, program: Path, folder: Path) -> None:
        self.scene, self.program, self.folder = scene, program, folder
        self.manifests = folder / "manifests"
        self.manifests.mkdir()
        # in memory: a step must not wait for a disk
        self.progress = Path(tempfile.mkdtemp(dir="/run", prefix="zoo-"))
        self.log = (folder / "agent.log").open("w")
        self.unheld: set[str] = set()
        self.image = IMAGE if scene.runtime else ""
        self.containerd: Containerd | None = None
        if scene.runtime == "containerd":
            self.containerd = Containerd(folder / "containerd", systemd=scene.driver == "systemd")
            self.containerd.__enter__()
            self.containerd.import_tree(IMAGE, rootfs(program, folder))
        self.agent = self.begin(scene.guard)
        self.watcher = subprocess.Popen([program, "watch", self.progress, folder / "watched"])

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "qoslet", *words, "--cgroup-root", ROOT]

    def begin(self, guard: str) -> subprocess.Popen[bytes]:
        """A new agent."""
        words = ["run", str(self.manifests), "--keep", "--guard", guard, "--log-format", "json"]
        words += ["--cgroup-driver", self.scene.driver, *self.scene.options]
        if self.containerd is not None:
            words += ["--with", "containerd"]
            words += ["--container-runtime-endpoint", self.containerd.endpoint]
        elif self.image:
            root = rootfs(self.program, self.folder)
            words += ["--with", self.scene.runtime, "--rootfs", f"{IMAGE}={root}"]
            words += ["--storage", str(self.folder / "storage")]
        return subprocess.Popen(self.command(*words), stdout=self.log, stderr=self.log)

    def states(self) -> dict[str, Any]:
        """``qoslet ps -o json``; empty while no agent answers."""
        done = subprocess.run(
            self.command("ps", "-o", "json"), capture_output=True, text=True, check=False
        )
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {}

    def put(self, loads: Sequence[Load]) -> None:
        """Begin pods, and wait until each container counts steps: those of an earlier one of that name
        are there as well."""
        begun = time.monotonic_ns()
        for load in loads:
            self.write(load)
        names = [name for load in loads for name in parts_of(load)]
        until(lambda: all(self._first(name) >= begun for name in names), STARTING_SECONDS)
        if loads and self.scene.disk:
            swaps.slow_disk(ROOT, self.scene.disk)

    def write(self, load: Load) -> None:
        """The manifest of a load, put in its place as a whole."""
        hidden = self.manifests / f".{load.name}.json"
        hidden.write_text(manifest(load, str(self.program), str(self.progress), self.image))
        hidden.rename(self.manifests / f"{load.name}.json")

    def change(self, loads: Sequence[Load]) -> None:
        """What is to happen to loads, or to the agent, while they run."""
        if any(load.resized for load in loads):
            MEDDLING["resizes"](self, loads)
        if self.scene.meddled:
            MEDDLING[self.scene.meddled](self, loads)
        for seconds in self.scene.killed_after:
            time.sleep(seconds)
            self.agent.kill()
            self.agent.wait(30)
            self.agent = self.begin(self.scene.then or self.scene.guard)
        if self.scene.stopped:
            time.sleep(1.0)
            self.agent.send_signal(signal.SIGSTOP)
            time.sleep(self.scene.stopped)
            self.agent.send_signal(signal.SIGCONT)
        if self.scene.killed_after:
            until(lambda: bool(self.states()), STARTING_SECONDS)
            # a decision, or an end, may come between two readings
            self.unheld = {load.name for load in loads if self._is_unheld(load)}
            time.sleep(2.0)
            self.unheld &= {load.name for load in loads if self._is_unheld(load)}

    def _is_unheld(self, load: Load) -> bool:
        """Whether a container runs without the memory.high of its plan, and the agent does not know."""
        values = {}
        for group in self.groups(load):
            with suppress(OSError):
                value = (group / "memory.high").read_text().strip()
                values[f"/{group.relative_to(CGROUPS)}"] = value
        held = self.states().get("memory", {}).get("guard", {}).get("overrides", ())
        return "max" in [v for at, v in values.items() if at not in {one["cgroup"] for one in held}]

    def _first(self, name: str) -> int:
        """When a container began to count, in ns of the monotonic clock; 0 before."""
        with suppress(OSError, struct.error):
            _, first, *_ = PROGRESS.unpack((self.progress / name).read_bytes()[: PROGRESS.size])
            return int(first)
        return 0

    def is_over(self, load: Load) -> bool:
        """Whether all containers of a load have ended."""
        return not load.restarts and all(self._is_over(name) for name in parts_of(load))

    def _is_over(self, name: str) -> bool:
        with suppress(OSError, struct.error):
            data = (self.progress / name).read_bytes()[: PROGRESS.size]
            *_, pid, state, _ = PROGRESS.unpack(data)
            return state != RUNNING or not _lives(pid)
        return False

    def watch(self, loads: Sequence[Load]) -> dict[str, Any]:
        """Let pods run to their ends, or for the time of the scene; what ``ps`` says then."""
        ending = [load for load in loads if load.expected in ENDING]
        begun = time.monotonic()
        self.change(loads)
        until(lambda: bool(ending) and all(map(self.is_over, ending)), self.scene.seconds)
        if len(ending) < len(loads) or self.scene.neighbours:
            time.sleep(max(5.0, WATCHED_SECONDS - (time.monotonic() - begun)))
        time.sleep(1.0)
        return self.states()

    def end(self, loads: Sequence[Load]) -> None:
        """Remove pods, and wait until nothing of them is left."""
        for load in loads:
            (self.manifests / f"{load.name}.json").unlink()
        groups = [group for load in loads for group in self.groups(load)]
        until(lambda: not any(group.exists() for group in groups), 60)

    def groups(self, load: Load) -> list[Path]:
        """The cgroups in which a load counts, or counted."""
        found = [self._group(name) for name in parts_of(load)]
        return [group for group in found if group is not None]

    def _group(self, name: str) -> Path | None:
        """The cgroup in which a load counts, or counted."""
        try:
            path = (self.progress / name).read_bytes()[PROGRESS.size :].split(b"\0")[0].decode()
        except OSError:
            return None
        return CGROUPS / path.strip("/") if path else None

    def watched(self) -> list[Watched]:
        """End the watcher; what it saw."""
        self.watcher.terminate()
        self.watcher.wait(30)
        return [Watched.of(line) for line in (self.folder / "watched").read_text().splitlines()]

    def close(self) -> None:
        for process in (self.agent, self.watcher):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        try:
            self.agent.wait(60)
        except subprocess.TimeoutExpired:
            self.agent.kill()
        subprocess.run(self.command("release", "--force"), capture_output=True, check=False)
        self.log.close()
        if self.containerd is not None:
            self.containerd.__exit__()
        shutil.rmtree(self.progress)


def parts_of(load: Load) -> list[str]:
    """The names under which a load's containers count."""
    return [f"{load.name}.c{number}" for number in range(load.containers)]


def _lives(pid: int) -> bool:
    """Whether a process is there that is no zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def play(scene: Scene, program: Path, folder: Path) -> Iterator[Result]:
    """The rows of a scene, and of its neighbours, at its end."""
    stage = Stage(scene, program, folder)
    documents: list[tuple[Sequence[Load], dict[str, Any]]] = []
    try:
        until(lambda: bool(stage.states()), STARTING_SECONDS)
        stage.put(scene.neighbours)
        # who ends by itself waits for nobody who does not
        ordered = sorted(scene.loads, key=lambda load: load.expected not in ENDING)
        for at in range(0, len(ordered), scene.at_once):
            loads: Sequence[Load] = ordered[at : at + scene.at_once]
            stage.put(loads)
            document = stage.watch(loads)
            documents.append((loads, document))
            stage.end(loads)
        if scene.neighbours:
            documents.append((scene.neighbours, documents[-1][1]))
        seen = stage.watched()
    finally:
        stage.close()
    for loads, document in documents:
        for load in loads:
            parts = [one for one in seen if one.name in parts_of(load)]
            ends, said = ends_of(document, load.name), decisions(document, load.name)
            row = result(scene.name, scene.bound, load, parts, ends, said)
            if load.name in stage.unheld:
                row = replace(row, faults=(*row.faults, "memory.high stayed raised"))
            # what the kernel does by itself is there to compare with
            acts = "act" in (scene.guard, scene.then)
            yield row if acts else replace(row, faults=())


@contextmanager
def prepared() -> Iterator[None]:
    """What loads need of a machine: a mount point for volumes and a few huge pages."""
    there = RESTS.exists()
    RESTS.mkdir(exist_ok=True)
    before = HUGE_PAGES.read_text() if GUEST and HUGE_PAGES.exists() else ""
    if before:
        HUGE_PAGES.write_text("8")
    try:
        yield
    finally:
        if before:
            HUGE_PAGES.write_text(before)
        if not there:
            RESTS.rmdir()


def available() -> int:
    """MiB that the machine has, once what can be dropped was."""
    if GUEST:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    lines = Path("/proc/meminfo").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))) >> 10


def left_over(program: Path, before: int) -> list[str]:
    """What a scene left for the next one to meet, when ``before`` MiB were available at first."""
    for file in Path("/var/tmp").glob("zoo-[0-9]*-*"):
        if file.is_dir():
            shutil.rmtree(file)
        else:
            file.unlink(missing_ok=True)
    root = ROOT.strip("/")
    found = [str(CGROUPS / one) for one in (root, f"{root}.slice") if (CGROUPS / one).exists()]
    for one in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (one / "exe").readlink() == program:
                found.append(f"process {one.name}")
    found += [line.split()[0] for line in Path("/proc/swaps").read_text().splitlines()[1:]]
    until(lambda: available() > before - LEFT_MIB, 20, 1.0)
    if (lost := before - available()) >= LEFT_MIB:
        found.append(f"{lost} MiB")
    return found


def chosen(words: Sequence[str]) -> list[Scene]:
    """The scenes to play: ``SCENE``, the first words of several, or ``SCENE:LOAD,LOAD``; all without
    words."""
    found = []
    for word in words or [scene.name for scene in SCENES]:
        name, _, loads = word.partition(":")
        scenes = [scene for scene in SCENES if scene.name == name]
        scenes = scenes or [scene for scene in SCENES if scene.name.startswith(name)]
        if not scenes:
            raise SystemExit(f"no scene {name}; there are {', '.join(one.name for one in SCENES)}")
        found += [scene.only(loads.split(",")) if loads else scene for scene in scenes]
    return found


def main() -> int:
    """Play scenes; a line each row, and all as JSON lines in a file. Exit code 1 if a row has faults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scenes", nargs="*")
    parser.add_argument("--out", type=Path, default=Path("/out/zoo.jsonl"))
    parser.add_argument("--times", type=int, default=1, help="how often each scene is played")
    parser.add_argument("--seconds", type=float, help="after which no scene is begun any more")
    options = parser.parse_args()
    bad, begun = 0, time.monotonic()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="zoo-") as folder, prepared():
        program = build(Path(folder))
        if program is None:
            raise SystemExit("no C compiler")
        before = available()
        for number, scene in enumerate(chosen(options.scenes)):
            if options.seconds and number and time.monotonic() - begun > options.seconds:
                break
            if not GUEST and (scene.neighbours or scene.swap[0] or scene.disk):
                raise SystemExit(
                    f"scene {scene.name} takes the whole machine's memory or disk: guests only"
                )
            if lacking := swaps.lacks(scene.swap[0]):
                say(f"{scene.name}: this kernel has no {scene.swap[0]}")
            for again in range(0 if lacking else options.times):
                place = Path(folder) / f"{number}-{again}"
                place.mkdir()
                bad += _played(scene, program, place, options.out)
            say(f"{scene.name}: played after {time.monotonic() - begun:.0f} s, load {load_of()}")
            with options.out.with_name("played").open("a") as played:
                played.write(f"{scene.name}\n")
            if left := left_over(program, before):
                say(f"{scene.name} left {', '.join(left)}: nothing is played after it")
                break
    say(f"{bad} rows with faults")
    return 1 if bad else 0


def _played(scene: Scene, program: Path, place: Path, out: Path) -> int:
    """Play a scene once; how many of its rows have faults."""
    with swaps.swap(*scene.swap), outside(*scene.outside, program):
        rows = list(play(scene, program, place))
    with out.open("a") as file:
        for row in rows:
            file.write(json.dumps(row.document()) + "\n")
            say(line_of(row))
    out.with_name(f"agent-{place.name}.log").write_text((place / "agent.log").read_text())
    return sum(bool(row.faults) for row in rows)


def load_of() -> str:
    """The load of this machine over the last minute."""
    return Path("/proc/loadavg").read_text().split()[0]


def say(line: str) -> None:
    sys.stdout.write(f"{line.rstrip()}\n")
    sys.stdout.flush()


def line_of(row: Result) -> str:
    """A row for a terminal."""
    gaps = f"{row.at_high:6.1f} {row.at_max:6.1f} {row.elsewhere:6.1f}"
    answers = ",".join(row.answers) or "-"
    return f"{row.scene:24} {row.load.name:24} {row.outcome:18} {gaps}  {answers:20} {'; '.join(row.faults)}"


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", "src")
    sys.exit(main())
