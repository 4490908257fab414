"""``qoslet nri`` registered with a real containerd: every value is right in the end, and no container is
refused, whatever becomes of the plugin."""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from tests.cli.fixtures import run
from tests.live.agent.agents import SLOW
from tests.live.cri.containerd import Containerd, need_containerd
from tests.live.cri.nri import NriNode, SystemdNode

pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]

LARGE = "QOSLET_LONG" in os.environ or "QOSLET_SYSTEM" not in os.environ
PODS, EACH = 5, 40 if LARGE else 8


@pytest.fixture(name="v2")
def only_v2() -> None:
    """Only there do runtimes know ``unified``."""
    if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        pytest.skip("NRI sets values on cgroup v2 only; make test-vm-full has it")


@pytest.fixture(scope="module")
def containerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    need_containerd()
    with Containerd(tmp_path_factory.mktemp("nri") / "c", nri=True) as made:
        if not made.nri_socket.exists():
            pytest.skip(f"containerd {made.version} has no NRI")
        yield made


@pytest.fixture
def node(v2: None, containerd: Containerd, tmp_path: Path) -> Iterator[NriNode]:
    made = NriNode(tmp_path, containerd)
    try:
        yield made
    finally:
        made.clean()


def test_v2_values_are_there_before_the_first_process_and_release_undoes_them(
    node: NriNode,
) -> None:
    node.pods = {"a": {"x": (16, 64), "y": (24, 48)}, "b": {"z": (8, 32)}}
    node.publish()
    node.begin()
    node.until(lambda: node.registrations() == 1)
    node.begin_pod("a")
    node.create("a", "x")
    assert node.wrong() == [], "set at creation, not after"
    node.create("a", "y")
    node.remove("a", "y")
    node.resize("a", "x", 32, 128)
    assert node.wrong() == []
    node.end(signal.SIGKILL)
    node.begin_pod("b")
    node.create("b", "z")
    assert len(node.wrong()) == 2, "without a plugin nothing is set"
    node.begin("--keep")
    node.until(lambda: not node.wrong())
    assert node.end() == 0
    assert node.wrong() == []
    root = f"{node.root}/kubepods"
    dry = run("release", "--cgroup-root", root, "--dry-run")
    assert (dry.returncode, dry.stdout.count("\n")) == (0, 4), dry
    done = run("release", "--cgroup-root", root)
    assert done.returncode == 0, done
    for pod, name in node.containers:
        assert node.value(pod, name, "memory.high") == "max"
        assert node.value(pod, name, "memory.low") == "0"
    node.begin()
    node.until(lambda: not node.wrong())
    assert node.end() == 0
    for name, (request, limit) in {"x": (48, 96), "z": (12, 48)}.items():
        node.resize("a" if name == "x" else "b", name, request, limit)
    for pod, name in node.containers:
        assert node.value(pod, name, "memory.high") == "max", node.log.read_text()
        assert node.value(pod, name, "memory.low") == "0", "a resize brings nothing back"


def test_v2_the_agent_takes_values_over_and_gives_them_back(node: NriNode) -> None:
    node.pods = {"a": {"x": (16, 64)}}
    node.publish()
    node.begin("--keep")
    node.until(lambda: node.registrations() == 1)
    node.begin_pod("a")
    node.create("a", "x")
    node.publish()
    agent = node.begin("--interval", "1", command="agent")
    try:
        end = time.monotonic() + 60 * SLOW
        status = ["agent", "--status", "-v", "--cgroup-root", node.root]
        while "memory.high" not in run(*status).stdout:
            assert time.monotonic() < end, node.log.read_text()
            time.sleep(0.5)
        node.end(signal.SIGKILL)
        assert node.wrong() == []
    finally:
        agent.terminate()
        assert agent.wait(60 * SLOW) == 0, node.log.read_text()
    assert node.value("a", "x", "memory.high") == "max"
    assert node.value("a", "x", "memory.low") == "0"


def test_v2_with_the_systemd_driver_plugin_and_agent_agree(v2: None, tmp_path: Path) -> None:
    need_containerd()
    if not Path("/run/systemd/system").exists():
        pytest.skip("systemd is not PID 1 here")
    with Containerd(tmp_path / "c", systemd=True, nri=True) as containerd:
        if not containerd.nri_socket.exists():
            pytest.skip(f"containerd {containerd.version} has no NRI")
        node = SystemdNode(tmp_path, containerd)
        try:
            _plugin_beside_agent(node)
        finally:
            node.clean()


def _plugin_beside_agent(node: SystemdNode) -> None:
    """From the first container to the end of both; a resize brings nothing back."""
    node.pods = {"a": {"x": (16, 64), "y": (24, 48)}}
    node.publish()
    node.begin()
    node.until(lambda: node.registrations() == 1)
    node.begin_pod("a")
    node.create("a", "x")
    assert node.wrong() == [], "set at creation, not after"
    node.end(signal.SIGKILL)
    node.create("a", "y")
    assert len(node.wrong()) == 2, "without a plugin nothing is set"
    node.publish()
    agent = node.begin("--interval", "1", command="agent")
    try:
        node.until(lambda: not node.wrong(), 60)
        node.begin()
        node.until(lambda: node.registrations() == 2)
        node.resize("a", "x", 32, 128)
        node.until(lambda: not node.wrong())
    finally:
        agent.terminate()
        assert agent.wait(60 * SLOW) == 0, node.log.read_text()
    assert node.end() == 0
    for name in ("x", "y"):
        node.resize("a", name, 20, 96)
        assert node.value("a", name, "memory.high") == "max", node.log.read_text()
        assert node.value("a", name, "memory.low") == "0"


def test_v2_no_container_is_refused_while_the_plugin_is_killed_late_and_restarted(
    node: NriNode,
) -> None:
    names = [(f"p{pod}", f"c{number}") for number in range(EACH) for pod in range(PODS)]
    node.pods = {f"p{pod}": {} for pod in range(PODS)}
    for index, (pod, name) in enumerate(names):
        node.pods[pod][name] = 4 + index % 9, 24 + index % 13
    node.publish()
    node.begin("--keep")
    node.until(lambda: node.registrations() == 1)
    for pod in node.pods:
        node.begin_pod(pod)
    acts = cycle(["kill", "stop", "end"])
    stopped, before = None, 0
    for index, (pod, name) in enumerate(names):
        # a start is most of the work of an emulated CPU
        node.create(pod, name, start=index % 4 < 2)
        if index % 5 == 1 and stopped is None:
            # containers are created sooner than the plugin begins
            node.until_registered(before)
        if index % 5 == 4:
            if stopped is not None:
                os.kill(stopped, signal.SIGCONT)
                stopped = None
            match next(acts):
                case "kill":
                    node.end(signal.SIGKILL)
                    before = node.registrations()
                    node.begin("--keep")
                case "stop":
                    assert node.process is not None
                    node.until_registered(before)
                    # stopped while it is told of all containers, it would hold the runtime up for good
                    time.sleep(0.5 * SLOW)
                    stopped = node.process.pid
                    os.kill(stopped, signal.SIGSTOP)
                case "end":
                    node.until_registered(before)
                    assert node.end() == 0
                    before = node.registrations()
                    node.begin("--keep")
        if index % 4 == 1:
            node.resize(pod, name, 6 + index % 9, 40 + index % 11)
        if index % 6 == 5:
            node.remove(pod, name)
            del node.pods[pod][name]
            node.publish()
    if stopped is not None:
        os.kill(stopped, signal.SIGCONT)
    kept = {key: node.kept(id) for key, id in node.created.items()}
    planned = defaultdict[tuple[str, str], dict[str, str]](dict)
    for (pod, name, file), value in node.planned().items():
        planned[pod, name][file] = value
    late = [key for key, values in kept.items() if not values]
    assert {key: values for key, values in kept.items() if values != planned[key]}.keys() == {*late}
    assert len(late) < len(kept), "the plugin was there now and then"
    for pod, name in late:
        node.start(pod, name)
    node.publish()
    node.until(lambda: not node.wrong(), 60)
    typical, slowest = statistics.median(node.seconds), max(node.seconds)
    figures = (
        f"{len(names)} containers created, {len(node.containers)} left that run, {len(late)} of them "
        f"created without the plugin, {len(node.created)} not started; "
        f"{node.registrations()} registrations, {len(node.planned())} values; "
        f"creation: median {typical:.2f} s, slowest {slowest:.2f} s; seconds in "
        + ", ".join(f"{what} {seconds:.0f}" for what, seconds in node.spent.items() if seconds >= 1)
    )
    sys.stderr.write(f"\n{figures}\n")
    assert slowest < typical + 2.0 + 3.0 * SLOW, "no longer than the runtime waits for a plugin"
