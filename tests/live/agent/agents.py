"""One root on this machine's kernel with the agents in it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.fixtures import answer
from tests.live.agent.test_run import EMULATED, Live, ended

SLOW = 5.0 if EMULATED else 1.0
MIB = 1 << 20


class Agent(Live):
    """One root with the agents in it, each left to itself."""

    @property
    def v2(self) -> bool:
        return self.tree.hierarchy == "v2"

    @property
    def limit_file(self) -> str:
        return "memory.max" if self.v2 else "memory.limit_in_bytes"

    def service(self, *options: str) -> subprocess.Popen[str]:
        return self.begin("--keep", *options)

    def apps(self) -> set[str]:
        return {path for path in self.groups() if path.endswith("/app")}

    def read(self, path: str, file: str) -> str:
        tree = self.tree.layout.tree_of(file.partition(".")[0])
        assert tree is not None
        return tree.read(path, file)

    def value(self, path: str, file: str) -> str:
        """As ``read``, empty where the group is not there (yet)."""
        try:
            return self.read(path, file)
        except OSError:
            return ""

    def limit(self, path: str) -> int:
        text = self.value(path, self.limit_file)
        return int(text) if text.isdigit() else 0

    def eventually(self, ready: Callable[[], bool], seconds: float = 15 * SLOW) -> None:
        """As ``until``, whether an agent runs or not."""
        deadline = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < deadline, f"not reached; groups: {self.groups()}"
            time.sleep(0.02)

    def until(self, ready: Callable[[], bool], seconds: float = 15 * SLOW) -> None:
        super().until(ready, seconds)

    def release(self, *options: str, code: int = 0) -> str:
        done = answer("release", "--cgroup-root", self.root, *options)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def rows(self) -> list[dict[str, object]]:
        """The pods as ``qoslet ps`` tells them."""
        done = answer("ps", "-o", "json", "--cgroup-root", self.root)
        return list(json.loads(done.stdout)["items"]) if done.returncode == 0 else []

    def stop(self, run: subprocess.Popen[str], code: int = 0) -> str:
        """End an agent; what it said."""
        run.send_signal(signal.SIGTERM)
        return "".join(ended(run, code))

    def answers(self) -> bool:
        """Whether an agent turns and tells so."""
        with socket.socket(socket.AF_UNIX) as asked:
            try:
                asked.connect(str(self.folder / "agent.sock"))
                asked.settimeout(5 * SLOW)
                asked.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                return b" 200 " in asked.recv(100)
            except OSError:
                return False

    @property
    def folder(self) -> Path:
        return Path("/run/qoslet") / self.root[1:]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    assert os.getuid() == 0, "live tests write to this machine's kernel: run them as root"
    made = Agent(tmp_path)
    try:
        yield made
    finally:
        for run in made.runs:
            if run.poll() is None:
                run.kill()
                run.communicate()
        if (made.folder / "journal").exists():
            made.release("--force")
        made.clean()


def identities(agent: Agent) -> dict[str, int | None]:
    return {path: agent.tree.identity(path) for path in agent.groups()}


def _command(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
