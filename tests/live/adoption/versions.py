"""One installation of qoslet that is replaced while its pods run: first an earlier version, then this."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import qoslet
from tests.live.agent.agents import SLOW, Agent
from tests.live.cri.containerd import IMAGE, Containerd
from tests.live.oci.bundles import busybox
from tests.paths import DATA

SOURCE = DATA / "state-0f4d162" / "source.tar.xz"
NEW = Path(qoslet.__file__).parent
UNANSWERED = "no container runtime answers"
COUNTS = "trap 'exit 0' TERM; i=0; while :; do echo $i; i=$((i+1)); sleep 0.2 & wait $!; done"
"""What ends at once when it is asked to, and prints numbers until then."""


class Installed(Agent):
    """One root with agents from a directory of its own. ``words`` name what runs the containers,
    ``image`` is what a container is made of, empty where it is a plain process."""

    def __init__(self, folder: Path, words: tuple[str, ...] = (), image: str = "") -> None:
        super().__init__(folder)
        self.site = folder / "site"
        self.words, self.image = words, image
        self.log = folder / "agent.log"
        self.agents: list[subprocess.Popen[bytes]] = []
        with tarfile.open(SOURCE) as archive:
            members = [one for one in archive if one.name.startswith("src/qoslet/")]
            archive.extractall(self.site, members, filter="data")
        (self.site / "src" / "qoslet").rename(self.site / "qoslet")

    def upgrade(self) -> None:
        """Put this version in place of the other, file by file in the same directory."""
        shutil.rmtree(self.site / "qoslet")
        shutil.copytree(NEW, self.site / "qoslet", ignore=shutil.ignore_patterns("__pycache__"))

    def call(self, *words: str, code: int = 0) -> str:
        """A verb of what is installed; what it printed."""
        done = subprocess.run(
            self.verb(*words),
            env=self._environment,
            cwd=self.site,
            capture_output=True,
            text=True,
            timeout=60 * SLOW,
            check=False,
        )
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr, self.said())
        return done.stdout

    @property
    def _environment(self) -> dict[str, str]:
        own = [path for path in sys.path if not (Path(path) / "qoslet" / "__init__.py").exists()]
        paths = os.pathsep.join([str(self.site), *filter(None, own)])
        return {**os.environ, "PYTHONPATH": paths}

    def serve(self) -> None:
        """Begin an agent that keeps its pods."""
        command = self.verb("run", str(self.manifests), "--interval", "0.2", "--keep", *self.words)
        with self.log.open("ab") as log:
            self.agents.append(
                subprocess.Popen(
                    command, env=self._environment, cwd=self.site, stdout=log, stderr=log
                )
            )

    def part(self, number: int) -> None:
        """End the agent; its pods stay."""
        agent = self.agents[-1]
        agent.send_signal(number)
        code = agent.wait(60 * SLOW)
        assert code == (0 if number == signal.SIGTERM else -number), self.said()

    def said(self) -> str:
        """What all agents printed, and the keepers' last words."""
        errors = self.folder / "keeper.err"
        words = errors.read_text() if errors.exists() else ""
        return self.log.read_text() + words

    def pods(self) -> dict[str, dict[str, Any]]:
        """What the agent tells of its pods, by name."""
        items = json.loads(self.call("ps", "-o", "json"))["items"]
        return {one["name"]: one for one in items}

    def containers(self) -> dict[str, dict[str, Any]]:
        """The containers of all pods, by ``POD/NAME``."""
        return {
            f"{name}/{one['name']}": one
            for name, pod in self.pods().items()
            for one in pod["containers"]
        }

    def soon(self, ready: Callable[[], object], what: str, seconds: float = 40) -> None:
        """Wait for something that has to come while an agent serves."""
        deadline = time.monotonic() + seconds * SLOW
        while not (self.answers() and ready()):
            if self.agents[-1].poll() == 3 and UNANSWERED in self.said().splitlines()[-1]:
                # a containerd on a busy machine; a service manager begins the agent again, too
                self.serve()
            assert self.agents[-1].poll() is None, (what, self.said())
            assert time.monotonic() < deadline, (what, self.said(), self.containers())
            time.sleep(0.1)

    def printed(self, pod: str, container: str = "app") -> list[int]:
        """The numbers that a container has printed since it was started last."""
        return [int(line) for line in self.call("logs", pod, "-c", container).split()]

    def mains(self) -> dict[str, int]:
        """The main processes of the containers that run."""
        return {name: one["pid"] for name, one in self.containers().items() if one["running"]}

    def up(self, count: int) -> dict[str, int]:
        """The main processes, once so many containers run and the tree is as planned."""
        self.soon(lambda: len(self.mains()) == count, f"{count} containers run")
        return self.mains()

    def put(self, pod: Mapping[str, Any]) -> None:
        """Write a manifest."""
        place = self.manifests / f"{pod['metadata']['name']}.json"
        new = place.with_suffix(".new")
        new.write_text(json.dumps(pod))
        new.rename(place)

    def container(self, name: str, **more: Any) -> dict[str, Any]:
        """A container that counts."""
        made: dict[str, Any] = {"name": name, "command": ["sh", "-c", COUNTS], **more}
        return {**made, "image": self.image, "imagePullPolicy": "Never"} if self.image else made

    def clean(self) -> None:
        for agent in self.agents:
            if agent.poll() is None:
                agent.kill()
                agent.wait()
        if (self.folder / "journal").exists():
            self.release("--force")
        super().clean()


@contextmanager
def installed(folder: Path, runtime: str) -> Iterator[Installed]:
    """An installation whose containers are processes, an OCI runtime's or those of a containerd of our own."""
    folder.chmod(0o755)
    if runtime == "containerd":
        # a unix socket's path has 104 characters at most, which a test's own folder may take
        with Containerd(Path(mkdtemp(prefix="qoslet-cri-", dir="/tmp"))) as containerd:
            words = ("--with", runtime, "--container-runtime-endpoint", containerd.endpoint)
            with _cleaned(Installed(folder, words, IMAGE)) as made:
                yield made
        return
    made = Installed(folder)
    if runtime != "process":
        where = ("--images", str(busybox(folder)), "--storage", str(folder / "storage"))
        made.words, made.image = ("--with", runtime, *where), "busybox:1"
    with _cleaned(made):
        yield made
    shutil.rmtree(folder / "storage", ignore_errors=True)


@contextmanager
def _cleaned(made: Installed) -> Iterator[Installed]:
    try:
        yield made
    finally:
        made.clean()
