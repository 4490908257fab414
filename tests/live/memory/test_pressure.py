"""Memory pressure on a whole node, in a guest of its own kernel: a best-effort hog takes what there
is, beside pods with warm page cache. The guest has 2 GiB and no swap."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from statistics import median

import pytest

from tests.cli.fixtures import answer
from tests.live.agent.agents import Agent
from tests.live.agent.test_run import PATIENCE
from tests.live.memory import pulse
from tests.live.systemd.slices import need_guest

MIB = 1 << 20
PROGRAM = Path(__file__).with_name("node_load.py")
pytestmark = [pytest.mark.live, pytest.mark.timeout(6 * PATIENCE)]

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, uid: {name}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      command: {command}
      resources: {resources}
"""
BURSTABLE = "{requests: {cpu: 100m, memory: 400Mi}}"
GUARANTEED = "{requests: {cpu: 900m, memory: 300Mi}, limits: {cpu: 900m, memory: 300Mi}}"
LEFT = 50
"""MiB that a hog leaves to the machine."""
TIMED = bool(os.environ.get("QOSLET_LONG"))
"""Whether the times must hold: in the long matrix. Beside other guests an emulated one stands still
for seconds, with whoever watches over its memory; what is decided must be right there, too."""


def manifest(name: str, words: list[str], resources: str = "{}") -> str:
    """A pod that runs a program of ``pressing``; its UID is its name."""
    command = json.dumps([sys.executable, "-ISs", str(PROGRAM), *words])
    return POD.format(name=name, command=command, resources=resources)


class Pressed:
    """An agent with two pods that serve from page cache, and the node's pulse."""

    def __init__(self, agent: Agent, folder: Path) -> None:
        self.agent = agent
        self.folder = folder
        self._pulse: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "pulse"

    def serving(self) -> None:
        """Manifests of the pods that are to stay."""
        sizes = {"b": (200, BURSTABLE), "g": (100, GUARANTEED)}
        for name, (size, resources) in sizes.items():
            words = ["serve", f"/var/tmp/qoslet-serve-{size}", str(size), "60"]
            self.agent.write(name, manifest(name, [*words, str(self.folder / name)], resources))

    def hog(self) -> None:
        """The manifest of the hog."""
        self.agent.write("hog", manifest("hog", ["hog", str(LEFT), "8"]))

    def take_pulse(self) -> None:
        group = f"/sys/fs/cgroup{self.agent.root}/kubepods/besteffort/podhog"
        command = [sys.executable, "-ISs", str(PROGRAM), "pulse", str(self.log), group]
        self._pulse = subprocess.Popen(command)

    def took(self, name: str) -> list[float]:
        """How long the reads of a serving pod took, in seconds."""
        lines = (line.split() for line in (self.folder / name).read_text().splitlines())
        return [float(words[1]) for words in lines if len(words) == 2]

    def until(self, ready: Callable[[], bool]) -> None:
        self.agent.until(ready, 4 * PATIENCE)

    def end(self) -> None:
        if self._pulse is not None:
            self._pulse.kill()
            self._pulse.wait()


@pytest.fixture
def pressed(tmp_path: Path) -> Iterator[Pressed]:
    need_guest()
    agent = Agent(tmp_path)
    made = Pressed(agent, tmp_path)
    try:
        yield made
    finally:
        made.end()
        for run in agent.runs:
            if run.poll() is None:
                run.kill()
                run.communicate()
        if (agent.folder / "journal").exists():
            agent.release("--force")
        agent.clean()


def said(out: str) -> list[tuple[float, str]]:
    """What the agent said of memory, with wall-clock seconds."""
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    words = ("memory is short", "decision")
    return [
        (datetime.fromisoformat(row["time"]).timestamp(), row["message"])
        for row in rows
        if any(word in row["message"] for word in words)
    ]


def verdicts(agent: Agent) -> list[str]:
    """What was decided because memory was short, as ``qoslet ps`` tells it."""
    done = answer("ps", "-o", "json", "--cgroup-root", agent.root)
    memory = json.loads(done.stdout)["memory"] if done.returncode == 0 else {}
    return [row["verdict"] for row in memory.get("pressure", {}).get("decisions", ())]


def test_a_hog_is_ended_and_nobody_else_on_v2(
    pressed: Pressed, record_property: Callable[[str, object], None]
) -> None:
    agent = pressed.agent
    pressed.serving()
    run = agent.service("--guard", "act", "--log-format", "json")
    pressed.until(lambda: all((pressed.folder / name).exists() for name in "bg"))
    serving = agent.pids()
    pressed.take_pulse()
    pressed.until(lambda: all(len(pressed.took(name)) >= 40 for name in "bg"))
    pressed.hog()
    pressed.until(lambda: pulse.rows(pressed.log)[-1]["left"][0])
    pressed.until(lambda: (found := _times(pressed)).gone is not None and found.relief is not None)
    pressed.until(lambda: "ended" in verdicts(agent))
    found, rows = _times(pressed), pulse.rows(pressed.log)
    assert found.onset is not None
    assert found.gone is not None
    assert found.relief is not None
    kept = agent.pids() >= serving
    out = agent.stop(run)
    lines = said(out)
    ahead = rows[0]["wall"] - rows[0]["at"]
    (decided,) = [
        at - ahead
        for at, text in lines
        if text.startswith("evicting ") and "/hog: memory is short" in text
    ]
    report = {
        "psi": rows[0]["some"] is not None,
        "kernel": os.uname().release,
        "decision": round(decided - found.onset, 2),
        "gone": round(found.gone - found.onset, 2),
        "relief": round(found.relief - found.onset, 2),
        "least": found.least // MIB,
        "full": found.full,
        "median_read_ms": {name: round(1000 * median(pressed.took(name)), 2) for name in "bg"},
        "said": [text for _, text in lines],
    }
    if os.path.isdir("/out"):
        Path("/out/pressure.json").write_text(json.dumps(report, indent=1))
        shutil.copy(pressed.log, "/out/pulse.jsonl")
    assert kept, "the guaranteed and the burstable pod go on"
    assert report["relief"] <= 30.0, report
    if TIMED:
        assert report["decision"] <= 2.0, report
        assert report["relief"] <= 6.0, report
    assert any("/hog was removed" in text for _, text in lines), report
    record_property("compared", len(rows))


def _times(pressed: Pressed) -> pulse.Times:
    return pulse.times(pulse.rows(pressed.log))
