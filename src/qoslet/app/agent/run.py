"""Joins real or simulated parts to the loop, as the command line asks for them."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from qoslet.agent.config import Config
from qoslet.agent.desired_state import ManifestSource, SpecReader
from qoslet.agent.loop import RunResult
from qoslet.agent.loop import Surface as Surface
from qoslet.agent.loop import run as run_loop
from qoslet.agent.ports import DesiredState as DesiredState
from qoslet.agent.removals import REMOVAL_SECONDS
from qoslet.app.agent.parts import AgentRun, reserved_cgroups, title_of
from qoslet.app.agent.reload import Reloading, reload
from qoslet.app.node.node import as_delegated, described_node, guard_of, node_of
from qoslet.app.options import RunOptions
from qoslet.app.teardown import refuse_pods_of_others
from qoslet.core.api.manifest import Options as Reading
from qoslet.core.node.node import Node
from qoslet.core.problem import Problem
from qoslet.core.reconcile.drift import lacking
from qoslet.core.status.run_outcome import EndCause, RunOutcome, run_outcome
from qoslet.core.workload.pod_status import PodRow
from qoslet.core.workload.security.context import ProcessRights
from qoslet.errors import EXIT_NO, EXIT_OK, BadInput, CannotDo
from qoslet.host.files.manifest_names import with_directories
from qoslet.host.files.watched_manifests import ManifestFiles
from qoslet.host.files.watched_node import NodeFiles
from qoslet.host.linux.clock import Rereading, Signals
from qoslet.host.linux.descriptors import raise_limit
from qoslet.host.linux.output import OutputWriter
from qoslet.host.state.agents import pods_elsewhere
from qoslet.host.state.folder import folder_of
from qoslet.host.state.keepers import CHECK_SECONDS
from qoslet.host.state.manifest_directories import ManifestDirectories
from qoslet.host.systemd.sd_notify import extend_start

if TYPE_CHECKING:
    from socket import socket

    from qoslet.app.runtimes.cri_run import CriChoice
    from qoslet.app.tree import OwnedTree
    from qoslet.core.resources.cgroup_tree import Cgroup
    from qoslet.host.systemd.bus import Bus

SERVICE_RESYNC = 10.0
"""Seconds between two looks at everything where nobody watches."""


@contextmanager
def parts(options: RunOptions) -> Iterator[AgentRun]:
    """The parts that the command line asks for. Raises QosletError."""
    if not options.simulate:
        raise_limit()
    nodes = NodeFiles(options.nodes, time.monotonic, strict=_is_strict(options))
    with closing(nodes), _parts(options, nodes) as made:
        yield made


@contextmanager
def _parts(options: RunOptions, nodes: NodeFiles) -> Iterator[AgentRun]:
    """The same, with the files that describe the node followed."""
    from qoslet.core.cgroup.names import root_path

    node, problems, chosen, reads = _runtime(options)
    root = root_path(options.root, node.driver)
    directories = _directories(options, root)
    files = ManifestFiles(
        with_directories(options.paths) if options.recursive else options.paths,
        time.monotonic,
        stdin=io.BytesIO(_piped() if "-" in options.paths else b""),
        strict=_is_strict(options),
        progress=partial(extend_start, os.environ),
        earlier=None if directories is None else directories.load(),
    )
    source = ManifestSource(
        files,
        _reading(options, node),
        node,
        _rights(),
        unconfined=options.unconfined,
        problems=problems,
        wakes=nodes.descriptors,
        reads=reads,
        monotonic=time.monotonic,
        removal_seconds=REMOVAL_SECONDS,
    )
    watched = not options.keep
    config = Config(
        root,
        options.interval if watched else None,
        options.seconds,
        resync_seconds=options.interval if watched else SERVICE_RESYNC,
        shrink=options.shrink,
        keep_pods=options.keep,
        guard=guard_of(options, node),
    )
    with Signals(hangs_up=_hangs_up(options)) as signals:
        if options.simulate:
            from qoslet.app.agent.simulate import simulated

            made = simulated(config, source, node, signals)
            _follow(options, made, signals, nodes)
            yield made
        else:
            with _real(config, source, options, signals, chosen) as made:
                if directories is not None:
                    made.mends.append(lambda: directories.save(files.directories))
                _follow(options, made, signals, nodes)
                yield made


def _is_strict(options: RunOptions) -> bool:
    """Whether a file that another user can change is not read."""
    return os.geteuid() == 0 and not options.simulate


def _directories(options: RunOptions, root: str) -> ManifestDirectories | None:
    """Which directories had the manifests of an earlier run of a root on this machine; None where
    there was none."""
    if options.simulate or options.dry_run:
        return None
    try:
        return ManifestDirectories(folder_of(root))
    except CannotDo:
        return None  # joining the machine says what it lacks, of which this is the least


def _reading(options: RunOptions, node: Node) -> Reading:
    """How manifests become pods."""
    return Reading(
        options.expand,
        options.allocated,
        node.name,
        keep_raw=True,
        namespace=options.namespace,
        selector=options.selector,
    )


def _piped() -> bytes:
    """Standard input. Raises BadInput where it is closed."""
    if sys.stdin is None:
        raise BadInput("standard input is closed", where="stdin", hint="name a file")
    return sys.stdin.buffer.read()


def _hangs_up(options: RunOptions) -> bool:
    """Whether SIGHUP says that the terminal is gone: the one that shows a service, or the one
    that a run belongs to, wherever its output goes."""
    if options.keep:
        from qoslet.render.terminal import is_terminal

        return is_terminal(sys.stdout)
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _runtime(
    options: RunOptions,
) -> tuple[Node, tuple[Problem, ...], CriChoice | None, SpecReader | None]:
    """The node as the runtime that was asked for makes it, who that is, and how it wants pods."""
    if options.by_cri:
        from qoslet.app.runtimes import cri_run

        chosen = cri_run.choose(options, described_node(options)[0])
        node, problems = node_of(options)
        chosen.fits(node)
        return node, problems, chosen, chosen.read
    if options.by_oci:
        from qoslet.app.runtimes import oci_run

        found = oci_run.choose(options)
        node, problems = node_of(options)
        return node, problems, None, oci_run.reader(options, found, node).read
    if options.simulate:
        from qoslet.core.workload.simulated_spec import read_simulated

        reads = partial(read_simulated, rights=_rights(), unconfined=options.unconfined)
        return (*node_of(options), None, reads)
    return (*node_of(options), None, None)


def _rights() -> ProcessRights:
    """Who starts the containers."""
    return ProcessRights(os.geteuid(), os.getegid(), os.geteuid() == 0)


def _follow(options: RunOptions, made: AgentRun, signals: Signals, nodes: NodeFiles) -> None:
    """The loop reads the node's configuration again when it changes, and when it is asked to."""
    made.stop = stop = Rereading(signals, nodes.changed)
    note = made.reconciler.context.log_note
    made.reload = Reloading(partial(reload, options, made), note, lambda: stop.is_asked)
    made.hang_up = signals.hang_up


@contextmanager
def _real(
    config: Config,
    source: ManifestSource,
    options: RunOptions,
    signals: Signals,
    chosen: CriChoice | None,
) -> Iterator[AgentRun]:
    """The loop on this machine. Raises CannotDo where something is missing."""
    node = source.live.node
    from qoslet.app import tree as owned_tree
    from qoslet.app.agent.host_run import joined
    from qoslet.host.machine.utilization import MachineUtilization

    place = owned_tree.place_of(options.root, node.hierarchy, node.driver)
    machine = MachineUtilization()
    if node.driver == "cgroupfs" and not options.dry_run:
        _need_rights([*place.mounts.values()], config.root)
    attend = partial(_attend_start, options, signals)
    with owned_tree.tree(place, write=not options.dry_run, verb="run", attend=attend) as tree:
        if missing := tree.reach.missing:
            source.configure(*as_delegated(node, source.problems, missing))
        _need_reserved(tree, reserved_cgroups(source, config.root))
        if options.dry_run:
            from qoslet.app.agent.simulate import dry

            yield dry(config, source, tree, signals, title_of(config, node, machine.cores))
        else:
            if not options.by_cri:
                refuse_pods_of_others(tree, options.runs_with)
            # before anything is written: it is what a second agent fails at
            with (
                _listening(options.metrics_address) as listener,
                joined(config, source, tree, signals, machine, chosen) as made,
            ):
                made.listener, made.metrics = listener, options.metrics
                made.clock.longest = CHECK_SECONDS
                made.undelegated = missing
                yield made


def _attend_start(options: RunOptions, signals: Signals, bus: Bus) -> None:
    """A start that waits for systemd says so as the run logs, and a signal ends it."""
    from qoslet.app.agent.service import Log
    from qoslet.app.waiting import say_waiting

    if options.keep:
        say_waiting(bus, partial(Log(sys.stderr, options.log_format).line, "warning"))
    else:
        say_waiting(bus)
    bus.interrupts = signals.requested


@contextmanager
def _listening(address: str | None) -> Iterator[socket | None]:
    """Listen where metrics are to be served. Raises BadInput, CannotDo."""
    if address is None:
        yield None
        return
    from qoslet.host.questions.http_server import listen

    with closing(listen(address)) as listener:
        yield listener


def _need_reserved(tree: OwnedTree, groups: Mapping[str, Cgroup]) -> None:
    """Raise CannotDo where a group of a reservation that is to be enforced is absent, or on v1
    absent in the hierarchy of a value that is to be written."""
    for path, group in groups.items():
        names = lacking(group, tree.read_cgroup(path))
        if names is None or names:
            where = f" in the hierarchy of {', '.join(names)}" if names else ""
            raise CannotDo(
                f"enforceNodeAllocatable needs this cgroup, which does not exist{where}",
                where=path,
                hint="create it (mkdir in each hierarchy, or a systemd slice), or remove its reservation from --enforce-node-allocatable",
            )


def _need_rights(points: Sequence[str], root: str) -> None:
    """Raise CannotDo where groups cannot be made."""
    for point in points:
        place = point + root
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        if not os.access(place, os.W_OK | os.X_OK):
            raise CannotDo(
                "no permission to create cgroups",
                where=place,
                hint="run as root, or give a cgroup delegated to this user with --cgroup-root; --simulate needs no privileges",
            )


class _First:
    """A source whose first answer was asked for already."""

    def __init__(self, parts: AgentRun, first: DesiredState) -> None:
        self._source = parts.source
        self._mends = parts.mends
        self._first: DesiredState | None = first

    def current(self) -> DesiredState:
        """The first one, then what the source says."""
        for mend in self._mends:
            mend()
        first, self._first = self._first, None
        return first or self._source.current()

    def descriptors(self) -> Sequence[int]:
        """The source's."""
        return self._source.descriptors()


def run_agent(parts: AgentRun, first: DesiredState, surface: Surface) -> RunResult:
    """Run the loop until it ends. ``first`` is what the source said already."""
    if parts.folder:
        names = {uid: one.pod.key for uid, one in first.pods.items()}
        for line in pods_elsewhere(parts.folder, names):
            parts.reconciler.context.log_note(line)
    return run_loop(
        parts.config,
        parts.reconciler,
        _First(parts, first),
        parts.clock,
        parts.stop,
        surface,
        reload=parts.reload,
        undo=parts.undo,
        ending=parts.ending,
    )


@contextmanager
def output(parts: AgentRun) -> Iterator[OutputWriter]:
    """Standard output for a run that somebody watches: where it is lost, the run ends."""
    sys.stdout.flush()
    writer = OutputWriter(sys.stdout.fileno(), sys.stdout.encoding or "ascii", parts.hang_up)
    try:
        yield writer
    finally:
        writer.close()


def outcome(parts: AgentRun, ended: RunResult) -> RunOutcome:
    """What a run came to. The pods of a service go on without it, and count for nothing."""
    errors = any(row.severity == "error" for row in parts.source.current().problems)
    made = run_outcome(ended.pods, ended.cause, errors=errors)
    if parts.config.keep_pods:
        return replace(made, exit_code=EXIT_NO if errors else EXIT_OK)
    return made


def nothing_started(first: DesiredState) -> RunOutcome:
    """The outcome of a run that starts nothing: no pod may run here, or the node has an error."""
    rows = [
        PodRow(
            pod.pod.uid,
            pod.pod.namespace,
            pod.pod.name,
            pod.planned.qos,
            "Pending" if pod.rejection is None else "Failed",
            *(pod.rejection or ("PlanError", "the plan has an error")),
            manifest=pod.manifest,
        )
        for pod in first.pods.values()
    ]
    return run_outcome(rows, EndCause.REQUESTED, errors=True)
