"""``qoslet run``: run pods on this machine and keep their cgroups as planned."""

from __future__ import annotations

import argparse
import os
import sys
from errno import EIO, EPIPE
from typing import TYPE_CHECKING

from msgspec.structs import replace

from qoslet.app.options import RUNTIMES, RunOptions
from qoslet.cli.agent.metrics_arguments import add_metrics_arguments, metrics_options
from qoslet.cli.parser import (
    add_document_arguments,
    add_drawing_arguments,
    add_node_arguments,
    add_output_argument,
    add_schema_argument,
    add_shrink_argument,
    screen,
)
from qoslet.cli.times import duration
from qoslet.core.cgroup.names import DEFAULT_ROOT, checked_root
from qoslet.core.node.flags import flags_of
from qoslet.errors import EXIT_NO, EXIT_OK, EXIT_PIPE, BadInput, CannotDo
from qoslet.render.text.problems import print_problems
from qoslet.render.text.streams import emit, note

if TYPE_CHECKING:
    from qoslet.app.agent.parts import AgentRun
    from qoslet.app.agent.run import DesiredState
    from qoslet.core.status.run_outcome import RunOutcome
    from qoslet.render.text.live.live_view import Output, Watching

USAGE = "[OPTION]... [FILE]..."
EPILOG = """\
examples:
  qoslet run examples/
  qoslet run pods.yaml --simulate --for 10
  qoslet run pods/ --node kubelet.yaml --with runc --images images/
  qoslet run /etc/qoslet/pods --keep --log-format journal

Run creates everything below --cgroup-root and removes it at the end: after --for, when every pod
has ended, at Ctrl-C, or when its output is closed. Ctrl-C stops the pods in their grace periods, a
second Ctrl-C stops them at once.

exit code: 0 every pod succeeded or ran until the run was stopped, 1 a pod failed, was rejected or
was not started, or the plan has an error (with --keep, only such errors count), 2 bad input, 3 not
possible on this machine (--simulate always is), 141 the reader of the output has exited
"""


def options_of(args: argparse.Namespace) -> RunOptions:
    """The command line, decoded. Raises BadInput for what the parser cannot know."""
    flags = flags_of(args)
    root = _root(flags.cgroup_root, args.simulate)
    flags = replace(
        flags,
        cgroup_root=root,
        runtime=flags.runtime or ("process" if args.runs_with == "process" else None),
        cgroup_driver=flags.cgroup_driver or ("cgroupfs" if args.simulate else None),
    )
    options = RunOptions(
        paths=[*args.filename, *args.paths],
        nodes=args.node,
        root=root,
        flags=flags,
        runs_with=args.runs_with,
        expand=args.expand,
        allocated=args.resources == "allocated",
        recursive=args.recursive,
        namespace=args.namespace,
        selector=args.selector,
        seconds=args.seconds,
        interval=args.interval,
        simulate=args.simulate,
        dry_run=args.dry_run,
        unconfined=args.unconfined,
        shrink=args.shrink,
        keep=args.keep,
        guard=args.guard,
        endpoint=args.container_runtime_endpoint,
        images=tuple(args.images),
        rootfs=tuple(args.rootfs),
        storage=args.storage,
        metrics_address=args.metrics_address,
        metrics=metrics_options(args),
        log_format=args.log_format,
    )
    _check(options)
    return options


def _root(given: str | None, simulate: bool) -> str:
    """Where the tree is to be; a simulated one is below no user's cgroup. Raises BadInput."""
    if given is not None or simulate:
        return checked_root(given)
    # imported for a run that has cgroups
    from qoslet.app.tree import default_root

    return default_root()


def _check(options: RunOptions) -> None:
    """What the parser cannot know. Raises BadInput."""
    if not options.paths:
        raise BadInput("no manifests given", hint="name files or directories: qoslet run examples/")
    if not options.by_oci and (options.images or options.rootfs or options.storage):
        hint = "add --with runc or --with crun"
        raise BadInput("--images, --rootfs and --storage need an OCI runtime", hint=hint)
    if options.endpoint is not None and not options.by_cri:
        hint = "add --with containerd or --with cri-o"
        raise BadInput("needs a CRI runtime", where="--container-runtime-endpoint", hint=hint)
    if options.simulate and (options.by_cri or options.by_oci):
        hint = "leave out --simulate or --with; plan --runtime shows what a runtime gets"
        raise BadInput("cannot be combined with --simulate", where="--with", hint=hint)
    if options.runs_with == "process" and options.flags.runtime != "process":
        hint = "leave it out; qoslet plan --runtime shows what another runtime would write"
        raise BadInput("cannot be combined with --with process", where="--runtime", hint=hint)
    if options.simulate and options.flags.cgroup_driver != "cgroupfs":
        hint = "leave out --simulate or --cgroup-driver; plan shows the unit properties"
        raise BadInput("--simulate has no systemd", where="--cgroup-driver", hint=hint)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_document_arguments(parser, positional=True)
    add_node_arguments(
        parser,
        root=f"Root of the tree that run creates and removes (default: {DEFAULT_ROOT}; for a user, qoslet in its delegated cgroup)",
    )
    running = parser.add_argument_group("run options")
    _add_runtime(running)
    _add_running(running)
    _add_output(running)
    add_schema_argument(parser, "run")
    add_drawing_arguments(parser, exact=False)


def _add_runtime(parser: argparse._ArgumentGroup) -> None:
    """The options about who runs the containers."""
    parser.add_argument(
        "--with",
        dest="runs_with",
        default="process",
        choices=RUNTIMES,
        metavar="RUNTIME",
        help=f"Run containers with {', '.join(RUNTIMES[:-1])} or {RUNTIMES[-1]} (default: process)",
    )
    parser.add_argument(
        "--container-runtime-endpoint",
        metavar="SOCKET",
        help="Socket of containerd or CRI-O (default: unix:///run/containerd/containerd.sock)",
    )
    _add_images(parser)


def _add_running(parser: argparse._ArgumentGroup) -> None:
    """The options about the run itself."""
    parser.add_argument(
        "--for",
        dest="seconds",
        type=duration,
        metavar="DURATION",
        help="Stop after this time, such as 90s, 10m or 1h30m",
    )
    parser.add_argument(
        "--interval",
        type=duration,
        default=1.0,
        metavar="SECONDS",
        help="Seconds between checks (default: 1)",
    )
    parser.add_argument(
        "--simulate", action="store_true", help="Use a simulated kernel; needs no privileges"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="Print the commands and change nothing"
    )
    parser.add_argument(
        "--unconfined",
        action="store_true",
        help="Run pods even if the runtime cannot isolate them as they ask",
    )
    add_shrink_argument(parser)
    parser.add_argument(
        "--guard",
        choices=("off", "observe", "act"),
        metavar="MODE",
        help="React to stalls at memory.high and to memory pressure: off, observe (log only) or act "
        "(default: act with --memory-qos qoslet, else observe)",
    )


def _add_output(parser: argparse._ArgumentGroup) -> None:
    """The options about a service, and what is shown of the run."""
    parser.add_argument(
        "--keep",
        action="store_true",
        help="Keep pods running when this process exits; the next run adopts them",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json", "journal"),
        default="text",
        metavar="FORMAT",
        help="Log format with --keep: text, json or journal (default: text)",
    )
    add_metrics_arguments(parser)
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="Print or log each write, mkdir and rmdir"
    )
    parser.add_argument("--logs", action="store_true", help="Show the output of containers")
    parser.add_argument(
        "--plain", action="store_true", help="Print a line for each change instead of a screen"
    )
    add_output_argument(
        parser,
        ("text", "json"),
        "Print text, or only the outcome of each pod at the end as json",
    )


def _add_images(parser: argparse._ArgumentGroup) -> None:
    """The options about what an OCI runtime makes containers of."""
    parser.add_argument(
        "--images",
        action="append",
        default=[],
        metavar="PATH",
        help="An OCI image layout, its archive, or a directory of them, for runc and crun (repeatable)",
    )
    parser.add_argument(
        "--rootfs",
        action="append",
        default=[],
        metavar="IMAGE=DIR",
        help="Root file system of this image, for runc and crun (repeatable)",
    )
    parser.add_argument(
        "--storage",
        metavar="DIR",
        help="Directory of unpacked images and container writes, for runc and crun (default: /var/lib/qoslet)",
    )


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code. Raises QosletError."""
    from qoslet.app.agent import run as agent_run

    options = options_of(args)
    if options.keep:
        _open_streams()
    if sys.stdout is None:
        hint = "redirect it to a file or /dev/null"
        raise CannotDo("closed", where="standard output", hint=hint)
    with agent_run.parts(options) as parts:
        first = parts.source.current()
        if not options.keep or options.dry_run or not parts.source.sound:
            print_problems(parts.problems)
        may = [one for one in first.pods.values() if one.spec.runnable]
        wrong = any(row.severity == "error" for row in first.problems)
        if (wrong and not may and not options.keep) or not parts.source.sound:
            _report(args, parts, agent_run.nothing_started(first))
            return EXIT_NO
        if options.dry_run:
            _dry_run(parts)
            return EXIT_NO if wrong else EXIT_OK
        if options.simulate:
            note("simulated kernel: no process is started")
        lost = None
        if options.keep:
            outcome = _serve(args, parts, first)
        else:
            outcome, lost = _watch(args, parts, first)
        for one in () if options.keep else outcome.failed:
            note(f"{one.pod.key}: {one.why}")
        _report(args, parts, outcome)
        return _exit_code(outcome, lost)


def _open_streams() -> None:
    """Give a service the standard streams that it was started without: ``main`` has opened their
    descriptors on /dev/null."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _report(args: argparse.Namespace, parts: AgentRun, outcome: RunOutcome) -> None:
    """What the run came to, as a document where that was asked for."""
    if args.output == "json":
        from qoslet.render.documents import encode
        from qoslet.render.documents.agent.run import run_document

        emit(encode(run_document(outcome, parts.config.root, parts.problems)))


def _exit_code(outcome: RunOutcome, lost: OSError | None) -> int:
    """The exit code; ``lost`` is why standard output could not be written. Raises CannotDo."""
    if lost is None or lost.errno == EIO or outcome.exit_code != EXIT_OK:
        return outcome.exit_code
    if lost.errno == EPIPE:
        return EXIT_PIPE
    raise CannotDo(f"cannot be written: {lost.strerror}", where="standard output")


def _dry_run(parts: AgentRun) -> None:
    """The shell lines that would make the tree."""
    lines = parts.shell_lines()
    if not lines:
        note("nothing to do: the cgroups are as planned")
    for line in lines:
        sys.stdout.write(f"{line}\n")


def _serve(args: argparse.Namespace, parts: AgentRun, first: DesiredState) -> RunOutcome:
    """Run the loop as a service until it ends."""
    from qoslet.app.agent import run as agent_run
    from qoslet.app.agent import service

    with service.serving(parts, args.log_format, verbose=args.verbose) as surface:
        ended = agent_run.run_agent(parts, first, surface)
    return agent_run.outcome(parts, ended)


def _watch(
    args: argparse.Namespace, parts: AgentRun, first: DesiredState
) -> tuple[RunOutcome, OSError | None]:
    """Run the loop with its screen until it ends; also why standard output was lost."""
    from qoslet.app.agent import run as agent_run
    from qoslet.app.agent import service

    with agent_run.output(parts) as out:
        watching = _screen(args, parts, first, out) if args.output == "text" else None
        surface = watching or service.NoSurface()
        complete = False
        if watching is not None and args.verbose:
            service.follow_steps(parts, lambda command, one: watching.log(command))
        try:
            with service.answering(parts, surface) as answering:
                ended = agent_run.run_agent(parts, first, answering)
            complete = True
        finally:
            if watching is not None:
                watching.end(with_table=complete or bool(watching.snapshots))
            for line in parts.notes():
                note(line)
    return agent_run.outcome(parts, ended), out.lost


def _screen(
    args: argparse.Namespace, parts: AgentRun, first: DesiredState, out: Output
) -> Watching:
    """The screen for this terminal."""
    from qoslet.render.terminal import is_terminal
    from qoslet.render.text.live.live_view import Watching

    tty = is_terminal(sys.stdout) and not args.plain and os.environ.get("TERM") != "dumb"

    def size() -> tuple[int, int]:
        from shutil import get_terminal_size

        return get_terminal_size()

    return Watching(
        out,
        screen(args),
        parts.title,
        size=size if tty else None,
        log_lines=parts.log_lines if args.logs else None,
        told=first.problems,
    )
