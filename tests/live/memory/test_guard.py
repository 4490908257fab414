"""A stall at memory.high on this kernel: it is there, it is ended in time, and nobody else is touched.

``QOSLET_LONG=1`` hangs for longer and repeats more.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest

from qoslet.host.cgroupfs.proactive_reclaim import KernelReclaim
from tests.contract.drivers import mounts_of
from tests.live.agent import test_agent
from tests.live.agent.agents import Agent
from tests.live.agent.test_run import EMULATED, PATIENCE
from tests.live.memory import cgroups as grounds
from tests.live.memory.cgroups import Ground
from tests.live.systemd import slices
from tests.paths import REPO

agent = test_agent.agent
ground = grounds.ground

LONG = bool(os.environ.get("QOSLET_LONG"))
HANGS = 65 if LONG else 20
"""Seconds for which a process hangs that nobody guards."""
RUNS = 50 if LONG else 3

pytestmark = [pytest.mark.live, pytest.mark.timeout((RUNS + 2) * (PATIENCE + HANGS))]

HOGS = Path(__file__).with_name("hogs.py")
SWAP = Path("/var/tmp/qoslet-test-swap")
MIB = 1 << 20

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, uid: {name}, annotations: {{{notes}}}}}
spec:
  terminationGracePeriodSeconds: 1
  restartPolicy: Never
  containers:
    - name: app
      command: [{python}, {hogs}, {words}]
      resources: {{requests: {{cpu: 10m, memory: {request}Mi}}, limits: {{{limits}}}}}
"""


def manifest(name: str, words: Sequence[object], request: int, limit: int, high: str) -> str:
    """A pod that runs ``hogs`` with these words; amounts in MiB, 0: no limit."""
    return POD.format(
        name=name,
        notes=f'qoslet.dev/memory-high: "{high}"' if high else "",
        python=sys.executable,
        hogs=HOGS,
        words=", ".join(f'"{word}"' for word in words),
        request=request,
        limits=f"memory: {limit}Mi" if limit else "",
    )


class Guarded:
    """An agent whose pods are hogs. ``lines`` are what it says, each with the time when."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.lines: list[tuple[float, str]] = []
        self.run: subprocess.Popen[str] | None = None

    def begin(self, mode: str, *options: str) -> None:
        """An agent with the form of 1.27, whose protection is not in the way."""
        self.run = self.agent.service("--memory-qos", "1.27", "--guard", mode, *options)
        for stream in (self.run.stdout, self.run.stderr):
            threading.Thread(target=self._listen, args=(stream,), daemon=True).start()
        self.agent.until(self.agent.answers)

    def _listen(self, stream: IO[str]) -> None:
        with suppress(ValueError):  # it is closed with the test
            for line in stream:
                self.lines.append((time.time(), line.rstrip()))

    def pod(
        self, name: str, *words: object, request: int = 64, limit: int = 256, high: str = ""
    ) -> str:
        """Write a pod's manifest; the path of its container once that runs."""
        before = {*self.agent.apps()}
        self.agent.write(name, manifest(name, words, request, limit, high))
        self.agent.until(lambda: bool(self.agent.apps() - before))
        (path,) = self.agent.apps() - before
        return path

    def progress(self, name: str) -> list[tuple[int, float]]:
        """How far a pod's container came, and when."""
        found = []
        for log in sorted((self.agent.folder / "logs").rglob(f"*_{name}_*/app/*.log")):
            for line in log.read_text().splitlines():
                with suppress(ValueError, IndexError):
                    number, at = line.split(" ", 3)[3].split()
                    found.append((int(number), float(at)))
        return found

    def came(self, name: str) -> int:
        return max((number for number, _ in self.progress(name)), default=0)

    def said(self, *words: str) -> list[tuple[float, str]]:
        """What the guard said with these words in it."""
        return [
            (at, line)
            for at, line in list(self.lines)
            if "guard: " in line and all(word in line for word in words)
        ]

    def eventually(self, ready: Callable[[], bool], seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < deadline, (self.lines, self.agent.groups())
            time.sleep(0.05)

    def runs(self, path: str) -> bool:
        return bool(self.agent.value(path, "cgroup.procs").strip())

    def event(self, path: str, name: str) -> int:
        rows = dict(map(str.split, self.agent.value(path, "memory.events").splitlines()))
        return int(rows.get(name, 0))

    def gone_at(self, name: str, path: str) -> float:
        """Wait for the end of a container's processes; when that was."""
        self.eventually(lambda: bool(self.progress(name)))
        self.eventually(lambda: not self.runs(path))
        return time.time()

    def end(self, name: str, path: str) -> None:
        """Remove a pod's manifest and wait until its groups are gone."""
        (self.agent.manifests / f"{name}.yaml").unlink()
        self.eventually(lambda: path not in self.agent.groups())

    def last_before(self, name: str, at: float) -> float:
        """When the last progress before a time was made."""
        return max(when for _, when in self.progress(name) if when <= at)


@pytest.fixture(autouse=True, scope="module")
def files() -> Iterator[None]:
    """What hogs read is removed with them."""
    yield
    for file in Path("/var/tmp").glob("qoslet-hog-*"):
        file.unlink()


@pytest.fixture
def guarded(agent: Agent) -> Guarded:
    if not agent.v2:
        pytest.skip("memory.high is a file of cgroup v2")
    return Guarded(agent)


@contextmanager
def swap(amount: int) -> Iterator[None]:
    """A swap file of so many MiB."""
    with SWAP.open("wb") as file:
        file.writelines(bytes(MIB) for _ in range(amount))
        os.fsync(file.fileno())
    SWAP.chmod(0o600)
    subprocess.run(["mkswap", SWAP], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["swapon", SWAP], check=True)
    try:
        yield
    finally:
        subprocess.run(["swapoff", SWAP], check=True)
        SWAP.unlink()


def test_v2_unguarded_it_hangs_at_memory_high(guarded: Guarded, record_property) -> None:
    guarded.begin("off")
    path = guarded.pod("hog", "grow", 300, high="205Mi")
    guarded.eventually(lambda: guarded.came("hog") >= 203)
    time.sleep(HANGS)
    assert guarded.runs(path), "it hangs"
    assert guarded.came("hog") < 250, "and is far from its limit"
    assert guarded.event(path, "oom_kill") == 0
    assert guarded.event(path, "high") > 100
    assert guarded.said() == []
    record_property("compared", 4)


def test_v2_observed_it_is_said_and_nothing_is_done(guarded: Guarded, record_property) -> None:
    guarded.begin("observe")
    path = guarded.pod("hog", "grow", 300, high="205Mi")
    guarded.eventually(lambda: bool(guarded.said("would remove memory.high")))
    assert guarded.agent.value(path, "memory.high").strip() == str(205 * MIB)
    assert guarded.runs(path)
    record_property("compared", 2)


@pytest.mark.parametrize("high", ["205Mi", ""])
def test_v2_guarded_it_is_decided_and_over_in_time(
    guarded: Guarded, high: str, record_property
) -> None:
    guarded.begin("act")
    path = guarded.pod("hog", "grow", 300, high=high, request=128)
    over = guarded.gone_at("hog", path)
    guarded.eventually(lambda: bool(guarded.said("stalled at memory.high")))
    ((decided, line),) = guarded.said("stalled at memory.high")
    progress = guarded.last_before("hog", decided)
    # the pod has the same limit, which the processes beside this one count against, too
    assert "stalled at memory.high: up to memory.max 256.0 MiB" in line
    assert decided - progress <= 3, (decided - progress, line)
    assert over - progress <= 8, (over - progress, line)
    record_property("decided", f"{decided - progress:.2f} s")
    record_property("over", f"{over - progress:.2f} s")
    record_property("compared", 2)


def took(guarded: Guarded, name: str, seconds: float, **more: object) -> float:
    """How long a process takes that would take ``seconds`` by itself, from its first step on."""
    guarded.pod(name, "grow", 240, seconds, limit=280, **more)  # type: ignore[arg-type]
    guarded.eventually(lambda: guarded.came(name) == 240, 5 * seconds + PATIENCE)
    times = [at for _, at in guarded.progress(name)]
    return times[-1] - times[0]


def test_v2_what_fits_its_limit_finishes_in_time(guarded: Guarded, record_property) -> None:
    guarded.begin("act")
    free = took(guarded, "free", 20, high="max")
    held = took(guarded, "held", 20, high="205Mi")
    assert held <= 1.5 * free + 5, (held, free)
    assert len(guarded.said("held/app: stalled")) == 1
    assert len(guarded.said("stalled")) == 1
    record_property("took", f"{held:.1f} s, without memory.high {free:.1f} s")
    record_property("compared", 2)


def test_v2_without_a_limit_it_is_raised_until_it_fits(guarded: Guarded, record_property) -> None:
    guarded.begin("act")
    path = guarded.pod("hog", "idle", 300, limit=0, high="100Mi")
    guarded.eventually(lambda: guarded.came("hog") >= 300)
    said = [line for _, line in guarded.said("stalled")]
    assert 2 <= len(said) <= 8, said
    assert all(
        "raised memory.high of default/hog/app: stalled at memory.high: to " in one for one in said
    )
    high = int(guarded.agent.value(path, "memory.high"))
    assert 300 * MIB < high < 600 * MIB
    assert guarded.runs(path)
    record_property("raised", f"{len(said)} times, to {high // MIB} MiB")
    record_property("compared", len(said) + 2)


def test_v2_nobody_else_is_touched(guarded: Guarded, record_property) -> None:
    guarded.begin("act")
    reader = guarded.pod("reader", "read", 150, limit=96, high="64Mi")
    quiet = [guarded.pod(f"quiet{one}", "idle", 8, request=16, limit=32) for one in range(10)]
    others = [reader, *quiet]
    high = [guarded.agent.value(path, "memory.high") for path in others]
    guarded.eventually(lambda: guarded.came("reader") >= 1)
    for number in range(RUNS):
        name, before = f"hog{number}", guarded.came("reader")
        path = guarded.pod(name, "grow", 300, high="205Mi")
        guarded.gone_at(name, path)
        assert guarded.said(f"{name}/app", "removed memory.high")
        guarded.eventually(lambda before=before: guarded.came("reader") > before)  # type: ignore[misc]
        guarded.end(name, path)
    victims = [line for _, line in guarded.said() if not re.search(r"hog\d+/app", line)]
    assert victims == []
    assert [guarded.agent.value(path, "memory.high") for path in others] == high
    assert all(guarded.runs(path) for path in others)
    assert all(guarded.event(path, "oom_kill") == 0 for path in others)
    assert guarded.event(reader, "high") > 100, "it was throttled all the time"
    record_property("innocent victims", f"0 of {len(others)} in {RUNS} runs")
    record_property("compared", 3 * len(others))


@pytest.mark.skipif(not EMULATED, reason="swap is the guest's own affair only in a guest")
def test_v2_with_swap_it_is_left_alone_until_that_is_full(
    guarded: Guarded, record_property
) -> None:
    with swap(128):
        # a Burstable pod's share of the swap is that of its request in the machine's memory
        guarded.begin("act", "--fail-swap-on=false", "--memory-swap-behavior=LimitedSwap")
        swapper = guarded.pod("swapper", "fill", 120, request=1200, limit=1300, high="100Mi")
        guarded.agent.until(lambda: guarded.agent.value(swapper, "memory.swap.max").isdecimal())
        assert int(guarded.agent.value(swapper, "memory.swap.max")) > 40 * MIB
        guarded.eventually(lambda: guarded.event(swapper, "high") > 50)
        time.sleep(10)
        assert guarded.said() == [], "it swaps, and gets on"
        guarded.end("swapper", swapper)
        hog = guarded.pod("hog", "grow", 250, request=1200, limit=1300, high="100Mi")
        guarded.eventually(lambda: guarded.came("hog") == 250)
        ((at, line),) = guarded.said("stalled")
        assert "removed memory.high of default/hog/app: stalled at memory.high" in line
        assert at - guarded.last_before("hog", at) <= 3
        guarded.end("hog", hog)
    record_property("compared", 3)


@pytest.fixture
def sliced() -> Iterator[slices.Live]:
    made = slices.Live()
    try:
        yield made
    finally:
        made.close()


def test_v2_systemd_is_told_of_memory_high(
    sliced: slices.Live, tmp_path: Path, record_property
) -> None:
    folder = tmp_path / "pods"
    folder.mkdir(mode=0o755)
    (folder / "job.yaml").write_text(manifest("job", ("grow", 240), 64, 280, "205Mi"))
    words = [sys.executable, "-m", "qoslet", "run", str(folder), "--cgroup-root", sliced.name]
    words += ["--cgroup-driver", "systemd", "--memory-qos", "1.27", "--guard", "act", "--plain"]
    run = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=REPO
    )
    try:
        assert run.stdout is not None
        lines = []
        for line in iter(run.stdout.readline, ""):
            lines.append(line)
            if "removed memory.high" in line:
                break
        assert "removed memory.high" in lines[-1], lines
        scopes = [path for path in sliced.driver.below(sliced.root) if path.endswith(".scope")]
        (scope,) = (path for path in scopes if "job" in path)
        unit = scope.rpartition("/")[2]
        slices.until(lambda: sliced.text(scope, "memory.high").strip() == "max", 30)
        shown = slices.run("systemctl", "show", "--property=MemoryHigh", unit)
        assert shown == "MemoryHigh=infinity"
        record_property("compared", 2)
    finally:
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=PATIENCE)


def test_v2_what_is_cold_is_taken_back_and_nobody_waits(ground: Ground, record_property) -> None:
    if ground.hierarchy != "v2":
        pytest.skip("memory.reclaim is a file of cgroup v2")
    path = ground.make("app", 256 * MIB)
    one = ground.begin(path, f"exec {sys.executable} {HOGS} read 60")
    ground.until(lambda: ground.memory(path) > 50 * MIB, "the file is in memory", PATIENCE)
    ground.kill(one)
    before = ground.memory(path)
    cold = KernelReclaim("v2", mounts_of("v2"))
    begun = time.monotonic()
    assert cold.begin(path, 16 * MIB) == ""
    assert time.monotonic() - begun < 0.5 * (10 if EMULATED else 1)
    ground.until(lambda: ground.memory(path) <= before - 12 * MIB, "it is taken back")
    said = KernelReclaim("v2", mounts_of("v2")).begin(f"{ground.root}/none", 1)
    assert said == "memory.reclaim: No such file or directory"
    record_property("compared", 2)
