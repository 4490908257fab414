"""By chance, with processes of this machine: manifests come, change and go while agents and keepers
are killed. Whenever it gets calm, what is wanted runs exactly once, and nothing else."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from qoslet.host.state.keepers import keepers_of
from tests.live.agent.agents import SLOW, Agent
from tests.live.agent.agents import agent as agent
from tests.live.agent.test_run import PATIENCE

pytestmark = [pytest.mark.live, pytest.mark.timeout(8 * PATIENCE)]

WALKS = 8 if os.environ.get("QOSLET_LONG") == "1" else 2
STEPS, CALM_EVERY = 60, 20
STAY = "exec sleep 1000"
KINDS: dict[str, dict[str, str]] = {
    "Always": {"app": STAY, "more": STAY},
    "OnFailure": {"app": STAY},
    "Never": {"job": "echo $POD >> {ran}; exit {code}"},
}
"""The containers of a pod, by its ``restartPolicy``."""


class Walk:
    """One root, and what is wanted in it: by name the file, the kind and the edit of a pod."""

    def __init__(self, agent: Agent, seed: int) -> None:
        self.agent, self.some = agent, random.Random(seed)
        self.ran = agent.manifests.parent / "ran"
        self.ran.touch()
        self.wanted: dict[str, tuple[Path, str, int]] = {}
        self.edits = Counter[str]()
        self.run: subprocess.Popen[str] | None = None

    def step(self) -> None:
        chosen = self.some.choices(
            (self.edit, self.remove, self.rename, self.begin, self.end, self.kill_keeper),
            (9, 3, 2, 6, 3, 1),
        )[0]
        chosen()

    def edit(self) -> None:
        """A manifest comes, or has other containers: what has the name then is another pod."""
        name, kind = f"p{self.some.randrange(6)}", self.some.choice(sorted(KINDS))
        file = (
            self.wanted[name][0] if name in self.wanted else self.agent.manifests / f"{name}.json"
        )
        self.edits[name] += 1
        self.wanted[name] = file, kind, self.edits[name]
        text = {"ran": self.ran, "code": self.some.choice((0, 3))}
        env = [{"name": "POD", "value": f"{self.agent.root} {name} {self.edits[name]}"}]
        containers = [
            {"name": one, "command": ["/bin/sh", "-c", does.format(**text)], "env": env}
            for one, does in KINDS[kind].items()
        ]
        spec = {"restartPolicy": kind, "terminationGracePeriodSeconds": 1, "containers": containers}
        meta = {"name": name, "uid": f"{name}-uid"}
        self.write(file, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def write(self, file: Path, document: dict[str, Any]) -> None:
        new = self.agent.manifests / ".new"
        new.write_text(json.dumps(document))
        new.rename(file)

    def remove(self) -> None:
        if self.wanted:
            self.wanted.pop(self.some.choice(sorted(self.wanted)))[0].unlink()

    def rename(self) -> None:
        if self.wanted:
            name = self.some.choice(sorted(self.wanted))
            file, kind, edit = self.wanted[name]
            new = self.agent.manifests / f"{name}-{self.some.randrange(100)}.json"
            self.wanted[name] = file.rename(new), kind, edit

    def begin(self) -> None:
        if self.run is None or self.run.poll() is not None:
            self.run = self.agent.service()

    def end(self) -> None:
        if self.run is not None and self.run.poll() is None:
            self.run.send_signal(self.some.choice((signal.SIGTERM, signal.SIGKILL)))
            self.run.communicate(timeout=PATIENCE)

    def kill_keeper(self) -> None:
        for pid in keepers_of(str(self.agent.folder)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def running(self) -> Counter[str]:
        """How often each pod's edit runs a container."""
        found = Counter[str]()
        for one in Path("/proc").iterdir():
            with suppress(OSError):
                words = (one / "environ").read_bytes().decode(errors="replace").split("\0")
                found.update(
                    word[4:] for word in words if word.startswith("POD=" + self.agent.root)
                )
        return found

    def expected(self) -> Counter[str]:
        rows = self.wanted.items()
        return Counter(
            {
                f"{self.agent.root} {name} {edit}": len(KINDS[kind])
                for name, (_, kind, edit) in rows
                if kind != "Never"
            }
        )

    def is_calm(self) -> bool:
        if self.running() != self.expected():
            return False
        phases = {str(one["name"]): one["phase"] for one in self.agent.rows()}
        over = {name for name, (_, kind, _) in self.wanted.items() if kind == "Never"}
        return phases.keys() == self.wanted.keys() and all(
            (phase in ("Succeeded", "Failed")) == (name in over) for name, phase in phases.items()
        )

    def calm(self) -> None:
        self.begin()
        self.agent.until(self.is_calm, 60 * SLOW)
        ran = Counter(self.ran.read_text().splitlines())
        assert not [pod for pod, times in ran.items() if times > 1]
        for name, (_, kind, edit) in self.wanted.items():
            assert kind != "Never" or ran[f"{self.agent.root} {name} {edit}"] == 1, name
        uids = {f"pod{name}-uid" for name, (_, kind, _) in self.wanted.items() if kind != "Never"}
        pods = {part for path in self.agent.groups() for part in path.split("/") if "-uid" in part}
        assert pods == uids


@pytest.mark.parametrize("seed", range(WALKS))
def test_whenever_it_is_calm_what_is_wanted_runs_once(agent: Agent, seed: int) -> None:
    walk = Walk(agent, seed)
    for number in range(1, STEPS + 1):
        walk.step()
        if number % CALM_EVERY == 0:
            walk.calm()
    walk.end()
    agent.release()
    assert not walk.running()
    assert not agent.groups()
    assert not agent.folder.exists()
