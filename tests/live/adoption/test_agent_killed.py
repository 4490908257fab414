"""The agent and its keeper killed (-9) at any moment while manifests come, change and go: those that
come after them converge, and no pod is started twice that went on."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from qoslet.app import tree
from qoslet.app.agent import host_run, service
from qoslet.app.agent import run as agent_run
from qoslet.cli import main
from qoslet.cli.agent import run
from qoslet.core.reconcile.journal import JournalState, read
from tests.live.agent.agents import SLOW, Agent
from tests.live.agent.test_run import EMULATED

KILLS = int(os.environ.get("QOSLET_KILLS", "30" if EMULATED else "100"))
"""Agents that are killed; ``QOSLET_KILLS`` is another number."""
ROUND = 5
"""Kills between two looks at whether all is as it should be."""
PATIENCE = 90.0 * SLOW

pytestmark = [pytest.mark.live, pytest.mark.timeout(1500)]
LOADED = (run, agent_run, host_run, tree, service)
"""Modules that a forked agent need not load again."""

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, uid: {name}0}}
spec:
  terminationGracePeriodSeconds: 5
  containers:
    - name: app
      command: [sh, -c, "echo $$$$ >> {starts}/{name}-{version}; exec sleep 1000"]
      resources: {{requests: {{cpu: 10m, memory: 8Mi}}, limits: {{memory: {limit}Mi}}}}
"""


class Machine(Agent):
    """Manifests that are edited at random, and agents that do not live long. ``wanted`` is the
    version of each pod's command and its limit in MiB; ``pids`` those seen by the last look."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.starts = folder / "starts"
        self.starts.mkdir()
        self.words = folder / "words"
        self.words.touch()
        self.some = random.Random(4)
        self.wanted: dict[str, tuple[int, int]] = {}
        self.known: dict[str, int] = {}
        self.agent = 0
        self.number = 0
        self.compared = 0
        self.busy = 0

    def begin_forked(self) -> None:
        """An agent without the time that a Python takes to start."""
        sys.stdout.flush()
        with open(self.words, "a", encoding="utf-8") as words:
            words.write(f"agent begins; {self.wanted}\n")
        self.agent = os.fork()
        if self.agent:
            return
        try:
            out = os.open(self.words, os.O_WRONLY | os.O_APPEND)
            os.dup2(out, 1)
            os.dup2(out, 2)
            sys.stdout = sys.stderr = os.fdopen(out, "w")
            given = ["run", str(self.manifests), "--keep", "--cgroup-root", self.root]
            os._exit(main.run(given))
        except BaseException:  # noqa: BLE001 - whatever it is, the tests' own process goes on
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(99)

    def edit(self) -> None:
        """Some pods come, change and go."""
        for _ in range(self.some.randrange(1, 5)):
            names = sorted(self.wanted)
            what = self.some.random()
            if len(names) < 3 or (what < 0.4 and len(names) < 9):
                self.number += 1
                self._put(f"p{self.number}", 1, 16)
            elif what < 0.6:
                name = self.some.choice(names)
                del self.wanted[name]
                (self.manifests / f"{name}.yaml").unlink()
            else:
                name = self.some.choice(names)
                version, limit = self.wanted[name]
                again = self.some.random() < 0.5
                self._put(name, version + again, limit if again else self.some.choice((16, 32, 64)))

    def _put(self, name: str, version: int, limit: int) -> None:
        text = MANIFEST.format(name=name, version=version, limit=limit, starts=self.starts)
        new = self.manifests / f".{name}"
        new.write_text(text)
        new.rename(self.manifests / f"{name}.yaml")
        self.wanted[name] = version, limit

    def size(self) -> int:
        """Bytes of the journal."""
        try:
            return (self.folder / "journal").stat().st_size
        except FileNotFoundError:
            return 0

    def some_moment(self) -> None:
        """Until the agent has written some of what it does, or for some milliseconds."""
        enough = self.size() + self.some.randrange(200, 5000)
        moment = 0.7 * SLOW if self.some.random() < 0.7 else self.some.uniform(0.0, 0.08)
        deadline = time.monotonic() + moment
        while time.monotonic() < deadline and self.size() < enough:
            time.sleep(0.0005)

    def kill_agent(self) -> None:
        os.kill(self.agent, signal.SIGKILL)
        _, status = os.waitpid(self.agent, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, self.words.read_text()[-2000:]
        self.agent = 0
        self.busy += not self.right()

    def keeper(self) -> int | None:
        """The keeper's process: the one that has its lock open."""
        lock = str(self.folder / "keeper.lock")
        for one in Path("/proc").iterdir():
            if not one.name.isdigit():
                continue
            try:
                if os.readlink(one / "fd" / "3") == lock:
                    return int(one.name)
            except OSError:
                continue
        return None

    def kill_keeper(self) -> bool:
        """Whether there was one."""
        found = self.keeper()
        if found is not None and found != self.agent:
            os.kill(found, signal.SIGKILL)
        return found is not None

    def mains(self) -> dict[str, list[int]]:
        """The processes in each container's group, by pod and version as they said it."""
        found = {}
        for path in self.apps():
            name = path.split("/")[-2].removeprefix("pod").removesuffix("0")
            found[name] = sorted(self.tree.members(path))
        return found

    def right(self) -> bool:
        """Whether groups, limits and processes are as wanted."""
        return not self.wrong()

    def wrong(self) -> str:
        """The first thing that is not as wanted."""
        mains = self.mains()
        if mains.keys() != self.wanted.keys():
            return f"pods {mains.keys() ^ self.wanted.keys()}"
        for name, (version, limit) in self.wanted.items():
            app = f"{self.root}/kubepods/burstable/pod{name}0/app"
            for path in (app, app.removesuffix("/app")):
                if self.limit(path) != limit << 20:
                    return f"{path}: limit {self.limit(path)}, {limit}Mi is wanted"
            started = self.started(name, version)
            if not started or [str(pid) for pid in mains[name]] != started[-1:]:
                return f"{app}: {mains[name]} are in it, {started} were started"
        return ""

    def started(self, name: str, version: int) -> list[str]:
        """The processes that were started of a version of a pod."""
        try:
            return (self.starts / f"{name}-{version}").read_text().split()
        except FileNotFoundError:
            return []

    def named(self) -> bool:
        """Whether the journal names what stands and nothing else."""
        said, ledger = read((self.folder / "journal").read_bytes()), JournalState()
        ledger.add(said.entries)
        standing = {path: self.tree.identity(path) for path in self.groups()}
        return {path: inode for path, (_, inode) in ledger.cgroups.items()} == standing

    def settle(self, once: bool) -> None:
        """All is as it should be before long; who went on was not restarted. ``once``: nobody at
        all was started twice."""
        try:
            self.eventually(self.right, PATIENCE)
            self.eventually(self.named, PATIENCE)
        except AssertionError as error:
            wrong = self.wrong(), self.words.read_text()[-3000:]
            raise AssertionError(f"{wrong}") from error
        mains, said = self.mains(), self.words.read_text()[-3000:]
        assert not self.wrong(), f"right before, and then: {self.wrong()}; {said}"
        found = {f"{name}-{version}": mains[name][0] for name, (version, _) in self.wanted.items()}
        again = {key: pid for key, pid in self.known.items() if found.get(key, pid) != pid}
        assert not again, f"restarted: {again}"
        if once:
            more = {
                p.name: p.read_text()
                for p in self.starts.iterdir()
                if p.read_text().count("\n") > 1
            }
            assert not more, f"started twice: {more}"
        self.compared += 4 * len(found)
        self.known = found


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    assert os.getuid() == 0, "live tests write to this machine's kernel: run them as root"
    made = Machine(tmp_path)
    try:
        yield made
    finally:
        for begun in made.runs:
            if begun.poll() is None:
                begun.kill()
                begun.communicate()
        if made.agent:
            os.kill(made.agent, signal.SIGKILL)
            os.waitpid(made.agent, 0)
        if (made.folder / "journal").exists():
            made.release("--force")
        made.clean()


def undone(machine: Machine) -> None:
    """``release`` leaves nothing."""
    machine.release()
    assert not machine.groups()
    assert not machine.folder.exists(), list(machine.folder.iterdir())


def test_agents_are_killed_at_any_moment(machine: Machine, record_property) -> None:
    for kill in range(1, KILLS + 1):
        machine.edit()
        machine.begin_forked()
        machine.some_moment()
        if kill % 3 == 0:
            machine.edit()
            machine.some_moment()
        machine.kill_agent()
        if kill % ROUND == 0:
            machine.begin_forked()
            machine.settle(once=True)
            machine.kill_agent()
    record_property("compared", machine.compared)
    record_property("busy", machine.busy)
    assert machine.busy >= KILLS // 5, "few kills met an agent at work"
    assert machine.compared > 4 * KILLS // ROUND
    undone(machine)


@pytest.mark.parametrize("both", [False, True], ids=["keeper", "both"])
def test_keepers_are_killed_at_any_moment(machine: Machine, both: bool, record_property) -> None:
    met = kill = 0
    while kill < KILLS // 4 or (met < KILLS // 8 and kill < KILLS):
        kill += 1
        machine.edit()
        if not machine.agent:
            machine.begin_forked()
        machine.some_moment()
        met += machine.kill_keeper()
        if both:
            machine.kill_agent()
        if kill % ROUND == 0:
            if not machine.agent:
                machine.begin_forked()
            machine.settle(once=False)
    assert met >= KILLS // 8
    record_property("compared", machine.compared)
    if machine.agent:
        machine.kill_agent()
    undone(machine)


def test_an_agent_that_was_started_as_one_does(machine: Machine) -> None:
    for _ in range(2):
        machine.edit()
        begun = machine.service()
        machine.some_moment()
        begun.kill()
        begun.communicate()
    begun = machine.service()
    machine.settle(once=True)
    machine.stop(begun)
    machine.settle(once=True)
    undone(machine)
