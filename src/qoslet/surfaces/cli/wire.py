"""Joins real parts to the loop: the only module of the surfaces that knows the host."""

from __future__ import annotations

import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from qoslet.agent.config import Config
from qoslet.agent.cycle import Wheel, Work
from qoslet.agent.loop import Stop
from qoslet.agent.ports import Clock, Driver, Observer
from qoslet.core.confine import Powers
from qoslet.core.drift import compare
from qoslet.core.manifest import Options as Reading
from qoslet.core.node import Node
from qoslet.core.nodechecks import host_refusals
from qoslet.core.observed import Observed
from qoslet.core.pod import Pod
from qoslet.core.podlife import ContainerState
from qoslet.core.shrink import Shrink, eased
from qoslet.core.steps import ordered
from qoslet.core.tree import Plan
from qoslet.errors import CannotDo
from qoslet.host.clock import Signals, WakingClock
from qoslet.host.manifests import load
from qoslet.host.nodes import load_node
from qoslet.surfaces.cli.desired import ManifestSource

if TYPE_CHECKING:
    from qoslet.core.nodeflags import Flags
    from qoslet.host.cgroupfs import Cgroupfs
    from qoslet.host.machine import ThisMachine
    from qoslet.sim.behaviour import Behaviour

STATE = "/run/qoslet"
"""Where journals and logs are: it ends with the boot, as cgroups do."""


class Choices(Protocol):
    """What of the command line decides here."""

    paths: list[str]
    nodes: list[str]
    root: str
    seconds: float | None
    interval: float
    simulate: bool
    dry_run: bool
    unconfined: bool
    expand: bool
    allocated: bool
    flags: Flags
    shrink: Shrink


class Parts:
    """A loop ready to turn, and what its surface needs."""

    def __init__(
        self,
        config: Config,
        source: ManifestSource,
        wheel: Wheel,
        clock: Clock,
        stop: Stop,
        title: str,
        shell_lines: Callable[[], list[str]],
    ) -> None:
        self.config = config
        self.source = source
        self.wheel = wheel
        self.clock = clock
        self.stop = stop
        self.title = title
        self.shell_lines = shell_lines
        self.notes: Callable[[], Sequence[str]] = tuple
        self.log_lines: Callable[[], list[tuple[str, str]]] = list


def work_of(shrink: Shrink, plan: Plan, observed: Observed) -> Work:
    """Differences, the steps that end them, and what waits."""
    differences = compare(plan, observed)
    steps = ordered(differences, observed, shrink)
    _, waiting = eased(differences, observed, shrink)
    return Work(len(differences), steps, tuple(row.describe() for row in waiting))


@contextmanager
def parts(choices: Choices) -> Iterator[Parts]:
    """The parts that the command line asks for. Raises QosletError."""
    from qoslet.host.drivers import root_path

    node, problems = load_node(choices.nodes, choices.flags)
    root = root_path(choices.root, node.driver)
    if not node.kubelet_given:
        kubelets = list(host_refusals(node))
        problems = [row for row in problems if row not in kubelets]
    piped = sys.stdin.buffer.read() if "-" in choices.paths else b""
    source = ManifestSource(
        lambda: load(
            choices.paths,
            Reading(choices.expand, choices.allocated, node.name, keep_raw=True),
            stdin=io.BytesIO(piped),
            root_check=not choices.simulate,
        ),
        lambda: _stamp(choices.paths),
        node,
        Powers(os.geteuid(), os.getegid(), os.geteuid() == 0),
        root,
        unconfined=choices.unconfined,
        problems=tuple(problems),
    )
    config = Config(root, choices.interval, choices.seconds, shrink=choices.shrink)
    with Signals() as signals:
        if choices.simulate:
            yield _simulated(config, source, node, signals)
        else:
            with _real(config, source, node, signals, choices.dry_run) as made:
                yield made


def _stamp(paths: Sequence[str]) -> tuple[object, ...]:
    """Changes when a file changes, comes or goes. Standard input is read once."""
    found: list[object] = []
    for path in paths:
        if path == "-":
            continue
        entries = [path]
        if os.path.isdir(path):
            entries += sorted(entry.path for entry in os.scandir(path))
        for entry in entries:
            try:
                facts = os.stat(entry)
            except OSError:
                found.append((entry, None))
                continue
            found.append((entry, facts.st_mtime_ns, facts.st_size, facts.st_ino))
    return tuple(found)


def _title(config: Config, node: Node, cores: float) -> str:
    """What the screen is headed with."""
    return f"qoslet {config.root} · {node.hierarchy} · {cores:g} CPUs"


def _simulated(config: Config, source: ManifestSource, node: Node, signals: Signals) -> Parts:
    """The loop on a kernel made of values."""
    from qoslet.core.rules.hugetlb import size_text
    from qoslet.sim.behaviour import behaviour_of
    from qoslet.sim.kernel import SimKernel
    from qoslet.sim.refusals import Facts
    from qoslet.sim.runtime import SimRuntime

    cores = max(node.capacity["cpu"].milli / 1000, 1.0)
    cpus = node.host.cpus or (f"0-{round(cores) - 1}" if cores > 1 else "0")
    kernel = SimKernel(
        node.hierarchy,
        clock=time.monotonic,
        facts=Facts(page_size=node.host.page_size, cpus=cpus),
        swap=node.host.swap_controller,
        hugepages=[size_text(size) for size in node.host.hugepage_sizes],
    )

    def behave(uid: str, name: str) -> Behaviour:
        roles = {launch.name: launch.role for launch in source.specs[uid].launches}
        return behaviour_of(source.documents[uid], name, roles[name])

    sim = SimRuntime(
        kernel,
        lambda uid: source.specs[uid],
        behave,
        time.monotonic,
        config.root,
        cores=cores,
        memory=node.capacity["memory"].value,
    )
    clock = WakingClock(signals)
    wheel = Wheel(config, kernel, sim, sim, clock, partial(work_of, config.shrink), machine=sim)
    title = f"{_title(config, node, cores)} · simulated"
    return Parts(
        config, source, wheel, clock, signals, title, lambda: _shell(kernel, kernel, config, source)
    )


def _shell(driver: Driver, observer: Observer, config: Config, source: ManifestSource) -> list[str]:
    """The commands that would make the tree true as it stands now."""
    wanted = source.current().plan
    observer.watch(wanted.files)
    work = work_of(config.shrink, wanted, observer.observe(config.root))
    return [driver.shell(step) for step in work.steps]


class _Nobody:
    """A runtime that starts nothing: of a dry run."""

    def start(self, pod: Pod, cgroups: dict[str, str]) -> None:
        """Nothing."""

    def poll(self) -> list[ContainerState]:
        """Nobody."""
        return []

    def stop(self, pod_uid: str, grace_seconds: float) -> None:
        """Nothing."""

    def forget(self, pod_uid: str) -> None:
        """Nothing."""


@contextmanager
def _real(
    config: Config, source: ManifestSource, node: Node, signals: Signals, dry_run: bool
) -> Iterator[Parts]:
    """The loop on this machine. Raises CannotDo where something is missing."""
    from qoslet.host.drivers import opened
    from qoslet.host.machine import ThisMachine
    from qoslet.host.slow import SlowWrites

    driver, eyes = opened(node.driver, node.hierarchy, _mounts(node), config.root)
    machine = ThisMachine()
    clock = WakingClock(signals)
    title = _title(config, node, machine.cores)
    try:
        if dry_run:
            wheel = Wheel(config, driver, eyes, _Nobody(), clock, partial(work_of, config.shrink))
            shell = partial(_shell, driver, eyes, config, source)
            yield Parts(config, source, wheel, clock, signals, title, shell)
        else:
            if node.driver == "cgroupfs":
                _need_rights([tree.point for tree in driver.layout.trees], config.root)
            driver.slow = SlowWrites()
            with _owned(driver, config.root) as said:
                yield _running(config, source, driver, eyes, signals, machine, title, said)
    finally:
        driver.close()


def _running(
    config: Config,
    source: ManifestSource,
    driver: Cgroupfs,
    eyes: Observer,
    signals: Signals,
    machine: ThisMachine,
    title: str,
    said: list[str],
) -> Parts:
    """The loop with the process runtime in an owned tree."""
    from qoslet.host.runtimes.logs import Logs
    from qoslet.host.runtimes.process import ProcessRuntime

    logs = Logs(_logs(config.root))
    runtime = ProcessRuntime(driver, lambda uid: source.specs[uid], logs, adopts=True)
    clock = WakingClock(signals, runtime.descriptors)
    wheel = Wheel(
        config, driver, eyes, runtime, clock, partial(work_of, config.shrink), machine=machine
    )
    shell = partial(_shell, driver, eyes, config, source)
    made = Parts(config, source, wheel, clock, signals, title, shell)
    made.notes = lambda: [*said, *driver.notes, *runtime.notes]
    made.log_lines = lambda: list(logs.fresh())
    return made


@contextmanager
def _owned(driver: Cgroupfs, root: str) -> Iterator[list[str]]:
    """The tree ours alone while it lasts, with its journal; the lines say what was cleaned."""
    from qoslet.host.journalfile import claim

    journal = claim(root, driver, state=STATE)
    driver.journal = journal
    # those of a run that was killed
    shutil.rmtree(_logs(root), ignore_errors=True)
    try:
        yield journal.notes
    finally:
        shutil.rmtree(_logs(root), ignore_errors=True)
        journal.close(gone=not driver.below(root))


def _logs(root: str) -> Path:
    """Where the containers' logs are: beside the journal of their root."""
    from qoslet.host.journalfile import escaped

    return Path(STATE) / escaped(root) / "logs"


def _mounts(node: Node) -> Mapping[str, str] | str:
    """Where this machine's hierarchies are: v1 controller to mount point, the mount point of v2.
    Raises CannotDo where the node is another one."""
    from qoslet.host.probe import probe

    here = probe()
    if here.hierarchy != node.hierarchy:
        raise CannotDo(
            f"the node is described with cgroup {node.hierarchy}, this machine has "
            f"{here.hierarchy or 'none'}",
            hint="leave host.hierarchy out, or use --simulate",
        )
    if here.hierarchy == "v2":
        return here.unified or ""
    return here.mounts or {}


def _need_rights(points: Sequence[str], root: str) -> None:
    """Raise CannotDo where groups cannot be made."""
    for point in points:
        place = point + root
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        if not os.access(place, os.W_OK | os.X_OK):
            raise CannotDo(
                "no right to make cgroups",
                where=place,
                hint="run as root, or below a group delegated to this user with --cgroup-root; "
                "--simulate needs no rights",
            )
