"""Joins real parts to the loop: the only module of the surfaces that knows the host."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from qoslet.agent.config import Config
from qoslet.agent.cycle import Wheel
from qoslet.agent.loop import Stop
from qoslet.agent.ports import Driver, MemoryParts, Observer
from qoslet.core.basis import basis_of
from qoslet.core.confine import Powers
from qoslet.core.drift import RESET, compare
from qoslet.core.guard import Mode, by_form
from qoslet.core.managers import placing
from qoslet.core.manifest import Options as Reading
from qoslet.core.node import Node
from qoslet.core.nodechecks import host_refusals
from qoslet.core.nodefile import as_written
from qoslet.core.shrink import Shrink
from qoslet.core.steps import Step, ordered
from qoslet.core.tree import Problem
from qoslet.errors import CannotDo
from qoslet.host.clock import Rereading, Signals, WakingClock
from qoslet.host.manifestfiles import ManifestFiles
from qoslet.host.nodefiles import NodeFiles
from qoslet.host.nodes import load_node
from qoslet.surfaces.cli.source import LiveSource, Reader

if TYPE_CHECKING:
    from qoslet.core.nodeflags import Flags
    from qoslet.sim.behaviour import Behaviour
    from qoslet.surfaces.cli.wirecri import Chosen
    from qoslet.surfaces.cli.wireonce import Tree

SERVICE_RESYNC = 10.0
"""Seconds between two looks at everything where nobody watches."""


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
    keep: bool
    guard: Mode | None
    runs_with: str
    by_oci: bool
    by_cri: bool
    endpoint: str | None
    images: tuple[str, ...]
    rootfs: tuple[str, ...]
    storage: str | None


class Parts:
    """A loop ready to turn, and what its surface needs."""

    def __init__(
        self,
        config: Config,
        source: LiveSource,
        wheel: Wheel,
        clock: WakingClock,
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
        self.reload: Callable[[], None] = lambda: None
        self.undo: Callable[[], list[str]] = list
        self.notes: Callable[[], Sequence[str]] = tuple
        self.log_lines: Callable[[], list[tuple[str, str]]] = list
        self.folder = ""


@contextmanager
def parts(choices: Choices) -> Iterator[Parts]:
    """The parts that the command line asks for. Raises QosletError."""
    with closing(NodeFiles(choices.nodes, time.monotonic)) as nodes, _parts(choices, nodes) as made:
        yield made


@contextmanager
def _parts(choices: Choices, nodes: NodeFiles) -> Iterator[Parts]:
    """The same, with the files that describe the node followed."""
    from qoslet.host.drivers import root_path

    node, problems, chosen, reads = _runtime(choices)
    root = root_path(choices.root, node.driver)
    piped = sys.stdin.buffer.read() if "-" in choices.paths else b""
    files = ManifestFiles(
        choices.paths,
        time.monotonic,
        stdin=io.BytesIO(piped),
        strict=not choices.simulate and os.geteuid() == 0,
    )
    source = LiveSource(
        files,
        Reading(choices.expand, choices.allocated, node.name, keep_raw=True),
        node,
        Powers(os.geteuid(), os.getegid(), os.geteuid() == 0),
        unconfined=choices.unconfined,
        problems=problems,
        wakes=nodes.descriptors,
        reads=reads,
    )
    watched = not choices.keep
    config = Config(
        root,
        choices.interval if watched else None,
        choices.seconds,
        resync=choices.interval if watched else SERVICE_RESYNC,
        shrink=choices.shrink,
        keep=choices.keep,
        guard=guard_of(choices, node),
    )
    with Signals(hangs_up=sys.stdout.isatty()) as signals:
        if choices.simulate:
            made = _simulated(config, source, node, signals)
            _follow(choices, made, root, signals, nodes)
            yield made
        else:
            with _real(config, source, choices.root, signals, choices.dry_run, chosen) as made:
                _follow(choices, made, root, signals, nodes)
                yield made


def _runtime(
    choices: Choices,
) -> tuple[Node, tuple[Problem, ...], Chosen | None, Reader | None]:
    """The node as the runtime that was asked for makes it, who that is, and how it wants pods."""
    if choices.by_cri:
        from qoslet.surfaces.cli import wirecri

        chosen = wirecri.choose(choices, load_node(choices.nodes, choices.flags)[0])
        node, problems = _node(choices)
        chosen.fits(node)
        return node, problems, chosen, chosen.read
    if choices.by_oci:
        from qoslet.surfaces.cli import wireoci

        found = wireoci.choose(choices)
        node, problems = _node(choices)
        return node, problems, None, wireoci.reader(choices, found, node).read
    return (*_node(choices), None, None)


def _follow(choices: Choices, made: Parts, root: str, signals: Signals, nodes: NodeFiles) -> None:
    """The loop reads the node's configuration again when it changes, and when it is asked to."""
    made.reload = partial(_reload, choices, made, root)
    made.stop = Rereading(signals, nodes.changed)


def guard_of(choices: Choices, node: Node) -> Mode:
    """What was asked for, or what goes with the form of Memory QoS in force."""
    return choices.guard or by_form(basis_of(node).memory_qos)


def _node(choices: Choices) -> tuple[Node, tuple[Problem, ...]]:
    """The node that documents, flags and this machine describe."""
    node, problems = load_node(choices.nodes, choices.flags)
    node = as_written(node)
    if choices.by_oci:
        from qoslet.surfaces.cli.wireoci import naming

        node = naming(node)
    if not node.kubelet_given:
        kubelets = list(host_refusals(node))
        problems = [row for row in problems if row not in kubelets]
    return node, tuple(problems)


def _reload(choices: Choices, made: Parts, root: str) -> None:
    """Read the node's configuration again; what cannot change while pods run is said and stays.
    Manifests are followed anyway."""
    from qoslet.errors import QosletError
    from qoslet.host.drivers import root_path

    note = made.wheel.shared.say
    old = made.source.live.node
    try:
        node, problems = _node(choices)
        moved = root_path(choices.root, node.driver) != root or node.driver != old.driver
    except QosletError as error:
        said = "; ".join(str(error).splitlines())
        note(f"the configuration cannot be read again: {said}; the last good one stands")
        return
    if (node, problems) == (old, made.source.problems):
        note("the configuration was read again: it says the same")
        return
    fixed = {
        "the cgroup driver": moved,
        "the hierarchy": node.hierarchy != old.hierarchy,
        "cgroupsPerQOS": node.kubelet.cgroups_per_qos != old.kubelet.cgroups_per_qos,
        "what the CPU and memory managers go by": placing(node) != placing(old),
        "the runtime": node.profile.runtime != old.profile.runtime,
    }
    changed = [name for name, differs in fixed.items() if differs]
    if changed:
        note(f"{', '.join(changed)} cannot change while pods run: start qoslet run anew for it")
        return
    before = old, made.source.problems
    made.source.configure(node, problems)
    wrong = made.source.wrong()
    if wrong is not None:
        made.source.configure(*before)
        said = f"{wrong.where}: {wrong.message}"
        note(f"the configuration is not taken: {said}; the last good one stands")
        return
    shared = made.wheel.shared
    shared.config = replace(shared.config, guard=guard_of(choices, node))
    note("the configuration was read again")


def _title(config: Config, node: Node, cores: float) -> str:
    """What the screen is headed with."""
    return f"qoslet {config.root} · {node.hierarchy} · {cores:g} CPUs"


def _simulated(config: Config, source: LiveSource, node: Node, signals: Signals) -> Parts:
    """The loop on a kernel made of values."""
    from qoslet.core.rules.hugetlb import size_text
    from qoslet.sim.behaviour import behaviour_of
    from qoslet.sim.kernel import SimKernel
    from qoslet.sim.memory import SimMemory
    from qoslet.sim.refusals import Facts
    from qoslet.sim.runtime import SimRuntime
    from qoslet.sim.volumes import SimVolumes

    cores = max(node.capacity["cpu"].milli / 1000, 1.0)
    cpus = node.host.cpus or (f"0-{round(cores) - 1}" if cores > 1 else "0")
    kernel = SimKernel(
        node.hierarchy,
        clock=time.monotonic,
        facts=Facts(page_size=node.host.page_size, cpus=cpus),
        swap=node.host.swap_controller,
        hugepages=[size_text(size) for size in node.host.hugepage_sizes],
    )
    for path in _reserved(source, config.root):
        kernel.perform([Step("create", path)])

    documents: dict[str, Mapping[str, Any]] = {}

    def behave(uid: str, name: str, role: str) -> Behaviour:
        # a pod that is ending has no manifest any more
        documents[uid] = source.document(uid) or documents.get(uid, {})
        return behaviour_of(documents[uid], name, role)

    sim = SimRuntime(
        kernel,
        behave,
        time.monotonic,
        config.root,
        cores=cores,
        memory=node.capacity["memory"].value,
    )
    clock = WakingClock(signals, source.descriptors)
    seen = SimMemory(sim, time.monotonic, node.capacity["memory"].value, summed=True)
    memory = MemoryParts(seen, seen, seen)
    wheel = Wheel(config, kernel, sim, sim, SimVolumes(), clock, kernel, machine=sim, memory=memory)
    title = f"{_title(config, node, cores)} · simulated"
    shell = partial(_shell, kernel, kernel, config, source)
    return Parts(config, source, wheel, clock, signals, title, shell)


def _reserved(source: LiveSource, root: str) -> list[str]:
    """The planned groups outside the root: those of reservations."""
    paths = [one.path for one in source.live.upper() if one.path is not None]
    return [path for path in paths if path != root and not path.startswith(f"{root}/")]


def _shell(driver: Driver, observer: Observer, config: Config, source: LiveSource) -> list[str]:
    """The commands that would make the tree true as it stands now."""
    wanted = source.live.plan()
    observer.watch(wanted.files)
    seen = observer.observe(config.root)
    outside = {path: observer.look(path) for path in _reserved(source, config.root)}
    there = {path: one for path, one in outside.items() if one is not None}
    merged = type(seen)(seen.at, {**seen.cgroups, **there})
    theirs = {group.path for group in wanted.cgroups if group.by_runtime}
    rows = [
        row
        for row in compare(wanted, merged)
        if row.path not in theirs
        and (row.path not in outside or (row.verdict == "differs" and row.why != RESET))
    ]
    return [driver.shell(step) for step in ordered(rows, merged, config.shrink)]


@contextmanager
def _real(
    config: Config,
    source: LiveSource,
    root: str,
    signals: Signals,
    dry_run: bool,
    chosen: Chosen | None,
) -> Iterator[Parts]:
    """The loop on this machine. Raises CannotDo where something is missing."""
    node = source.live.node
    from qoslet.host.machine import ThisMachine
    from qoslet.surfaces.cli import wireonce
    from qoslet.surfaces.cli.wirekept import joined

    place = wireonce.place_of(root, node.hierarchy, node.driver)
    machine = ThisMachine()
    if node.driver == "cgroupfs":
        _need_rights([*place.mounts.values()], config.root)
    with wireonce.tree(place, write=not dry_run, verb="run") as tree:
        _need_reserved(tree, _reserved(source, config.root))
        title = _title(config, node, machine.cores)
        if dry_run:
            yield _dry(config, source, tree, signals, title)
        else:
            with joined(config, source, tree, signals, machine, chosen) as real:
                shell = partial(_shell, tree.driver, real.eyes, config, source)
                made = Parts(config, source, real.wheel, real.clock, signals, title, shell)
                made.undo, made.notes, made.log_lines = real.undo, real.notes, real.log_lines
                made.folder = real.folder
                yield made


def _need_reserved(tree: Tree, paths: Sequence[str]) -> None:
    """Raise CannotDo where a group of a reservation that is to be enforced is absent."""
    for path in paths:
        if tree.look(path) is None:
            raise CannotDo(
                "enforceNodeAllocatable wants this group and it does not exist",
                where=path,
                hint="make it (mkdir in each hierarchy, or a systemd slice), or leave its "
                "reservation out of --enforce-node-allocatable",
            )


def _dry(config: Config, source: LiveSource, tree: Tree, signals: Signals, title: str) -> Parts:
    """A loop that is not turned: only its commands are shown."""
    from qoslet.sim.kernel import SimKernel
    from qoslet.sim.runtime import SimRuntime
    from qoslet.sim.volumes import SimVolumes

    clock = WakingClock(signals)
    kernel = SimKernel(tree.place.hierarchy)
    nobody = SimRuntime(kernel, lambda uid, name, role: _still(), time.monotonic, config.root)
    wheel = Wheel(config, kernel, kernel, nobody, SimVolumes(), clock, kernel)
    shell = partial(_shell, tree.driver, tree.eyes, config, source)
    return Parts(config, source, wheel, clock, signals, title, shell)


def _still() -> Behaviour:
    from qoslet.sim.behaviour import Behaviour

    return Behaviour(0.0)


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
