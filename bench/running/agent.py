"""The agent as a service on this kernel: manifests that come, change and go, and an idle node.

A real ``qoslet run DIR --keep`` in a root of its own; nothing of it is in this process, which only
renames manifests and watches groups. The floor of making groups is the same directories and
values by bare calls, in the same run. A kubelet's own figures on such a machine are given beside
ours as they were measured there, not in this run.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.figures import Figure, show
from qoslet.host.machine.probe import probe

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, uid: "{uid}"}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: x
    command: [sleep, "3600"]
    resources: {{requests: {{cpu: 10m, memory: 16Mi}}, limits: {{memory: {memory}Mi}}}}
"""
IDLE_SECONDS = 30
ROUNDS = int(os.environ.get("QOSLET_BENCH_ROUNDS", "10"))


class Agent:
    """A running agent, its manifests and the groups that it is to make."""

    def __init__(self, folder: Path) -> None:
        self.root = f"/qoslet-bench-{secrets.token_hex(4)}"
        self.manifests = folder / "manifests"
        self.manifests.mkdir(mode=0o700)
        self.aside = folder / "aside"
        self.aside.mkdir()
        found = probe()
        mounts = dict(found.mounts or {})
        self.v1 = found.hierarchy == "v1"
        self.memory = Path((mounts["memory"] if self.v1 else found.unified or "") + self.root)
        self.cpu = Path((mounts["cpu"] if self.v1 else found.unified or "") + self.root)
        command = [sys.executable, "-m", "qoslet", "run", str(self.manifests), "--keep"]
        command += ["--cgroup-root", self.root, "--cgroup-driver", "cgroupfs", "--max-pods", "1000"]
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        self._wait(lambda: (self.cpu / "kubepods/besteffort").is_dir(), 30)

    def group(self, uid: str) -> Path:
        """The pod's group where its memory limit is."""
        return self.memory / "kubepods/burstable" / f"pod{uid}"

    def written(self, uid: str, memory: int) -> bool:
        """Whether the last value of a pod's group stands."""
        file = "memory.limit_in_bytes" if self.v1 else "memory.max"
        return _text(f"{self.group(uid)}/{file}") == b"%d\n" % (memory << 20)

    def manifest(self, name: str, memory: int) -> tuple[str, Path]:
        """A manifest beside the directory, ready to be renamed into it."""
        uid = f"{abs(hash(name)):032x}"
        path = self.aside / f"{name}.yaml"
        path.write_text(POD.format(name=name, uid=uid, memory=memory))
        return uid, path

    def add(self, names: list[str], memory: int = 64) -> float:
        """Seconds from the last rename until every pod's group is written."""
        made = [self.manifest(name, memory) for name in names]
        for _, path in made:
            path.rename(self.manifests / path.name)
        begun = time.perf_counter()
        for uid, _ in made:
            self._wait(lambda uid=uid: self.written(uid, memory), 60)
        return time.perf_counter() - begun

    def remove(self, names: list[str]) -> float:
        """Seconds from the end of the pods' processes until their groups are gone."""
        groups = [self.group(self.manifest(name, 64)[0]) for name in names]
        members = [[str(one) for one in group.glob("*/cgroup.procs")] for group in groups]
        for name in names:
            (self.manifests / f"{name}.yaml").unlink()
        ended = [0.0] * len(groups)
        gone = [0.0] * len(groups)
        while not all(gone):
            now = time.perf_counter()
            for at, group in enumerate(groups):
                if not ended[at] and not any(map(_text, members[at])):
                    ended[at] = now
                if ended[at] and not gone[at] and not os.path.isdir(group):
                    gone[at] = now
            time.sleep(0.001)
        return max(end - begin for begin, end in zip(ended, gone, strict=True))

    def settled(self, count: int) -> None:
        """Wait until this many pods run."""
        self._wait(lambda: self.running() == count, 120)

    def running(self) -> int:
        """How many pods run, as the agent says."""
        command = [sys.executable, "-m", "qoslet", "ps", "--cgroup-root", self.root, "-o", "json"]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            return -1
        return sum(item["phase"] == "Running" for item in json.loads(done.stdout)["items"])

    def spent(self) -> float:
        """CPU seconds of the agent's threads so far, to the nanosecond."""
        times = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(_text(str(one)).split()[0]) for one in times) / 1e9

    def resident(self) -> float:
        """MB of the agent."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise SystemExit("the agent is gone")

    def _wait(self, true: object, seconds: float) -> None:
        deadline = time.perf_counter() + seconds
        assert callable(true)
        while not true():
            if self.process.poll() is not None or time.perf_counter() > deadline:
                self.process.kill()
                raise SystemExit(f"the agent does not do it: {self.log.read_text()[-2000:]}")
            time.sleep(0.0003)

    def close(self) -> None:
        """End all of it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        command = [sys.executable, "-m", "qoslet", "release", "--cgroup-root", self.root]
        subprocess.run(command, capture_output=True, check=True)


def _text(path: str) -> bytes:
    """A short file, empty where it is gone. Who watches must not take the CPU of who is watched."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 64)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


@contextmanager
def agent() -> Iterator[Agent]:
    """One, and nothing left of it."""
    with tempfile.TemporaryDirectory() as folder:
        made = Agent(Path(folder))
        try:
            yield made
        finally:
            made.close()


def names(prefix: str, count: int) -> list[str]:
    """Names of pods."""
    return [f"{prefix}{at}" for at in range(count)]


def percentile(values: list[float], share: float) -> float:
    """The value below which that share lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def many(one: Agent) -> tuple[list[float], list[float]]:
    """Fifty manifests at once and gone again, a few times: milliseconds of both."""
    made, gone = [], []
    for at in range(ROUNDS):
        some = names(f"r{at}x", 50)
        made.append(one.add(some) * 1000)
        one.settled(50)
        gone.append(one.remove(some) * 1000)
        one.settled(0)
    return made, gone


def single(one: Agent, prefix: str, count: int) -> tuple[list[float], list[float], float]:
    """One manifest at a time beside what runs: milliseconds until written, until gone, and the
    agent's CPU milliseconds for a pod, p50: now and then a look at everything falls into one,
    which is no pod's cost (``idle`` has it)."""
    made, gone, costs = [], [], []
    for at in range(count):
        before = one.spent()
        made.append(one.add([f"{prefix}{at}"]) * 1000)
        time.sleep(0.1)
        gone.append(one.remove([f"{prefix}{at}"]) * 1000)
        time.sleep(0.05)
        costs.append((one.spent() - before) * 1000)
    return made, gone, median(costs)


def idle(one: Agent) -> float:
    """Percent of a core that the agent takes while nothing happens."""
    time.sleep(3)
    before, begun = one.spent(), time.perf_counter()
    time.sleep(IDLE_SECONDS)
    return (one.spent() - before) / (time.perf_counter() - begun) * 100


def measured() -> list[Figure]:
    """Every figure of the agent."""
    with agent() as one:
        made, gone = many(one)
        some = names("kept", 50)
        one.add(some)
        one.settled(50)
        alone, ended, cost50 = single(one, "s", 40)
        resting, resident = idle(one), one.resident()
        one.add(names("more", 450))
        one.settled(500)
        alone500, _, cost500 = single(one, "t", 40)
        one.remove([*some, *names("more", 450)])
    print(f"50 at once: {[round(ms) for ms in made]} ms; gone: {[round(ms) for ms in gone]} ms")
    return [
        Figure("50 manifests at once, p50", "ms", median(made), None, "", 80),
        Figure("50 manifests at once, p99", "ms", percentile(made, 0.99), None, "", 150),
        Figure("one manifest, p50", "ms", median(alone), None, "", 5),
        Figure("one pod ended, its groups gone, p50", "ms", median(ended), None, "", 100),
        Figure("50 pods ended, their groups gone, worst", "ms", max(gone), None, "", 100),
        Figure("idle with 50 pods", "% of a core", resting, None, "", 0.5),
        Figure("resident with 50 pods", "MB", resident, None, "", 55),
        Figure("one manifest beside 500 pods", "ms", median(alone500), median(alone), "50", 1.5),
        Figure("CPU of a pod that comes and goes, 500", "ms", cost500, cost50, "50 pods", 1.5),
    ]


if __name__ == "__main__":
    show(measured())
