"""``qoslet agent``: the agent beside a kubelet: watch, protect, guard."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from qoslet.cli.cluster_options import add_agent_namespace, add_cluster_arguments, is_plugin
from qoslet.cli.parser import (
    add_drawing_arguments,
    add_kubelet_arguments,
    add_node_arguments,
    add_output_argument,
    add_schema_argument,
    emit_lines,
    screen,
)
from qoslet.cli.times import duration
from qoslet.errors import EXIT_OK, BadInput
from qoslet.render.text.streams import emit, note

if TYPE_CHECKING:
    import argparse

    from qoslet.app.guest.run import GuestOptions
    from qoslet.core.guest.policy import Ends

USAGE = "[OPTION]..."
EPILOG = """\
examples:
  qoslet agent
  qoslet agent --mode protect --memory-qos qoslet --dry-run
  qoslet agent --mode guard --memory-qos qoslet --log-format journal
  qoslet agent --policy /etc/qoslet/policy.yaml
  qoslet agent --status
  qoslet agent --status --context production
  qoslet agent --dry-run --cluster --policy policy.yaml

The agent runs beside the kubelet of this machine. watch only reads: it audits the node and serves
what it finds. protect writes memory.min, memory.low and memory.high of pods as the plan has them,
each write in a journal. guard also reacts to stalls at memory.high. When the agent ends, every file
holds again what it held before, unless --keep is given; after a crash the next agent takes its
values up, or qoslet release restores them.

exit code: 0 the agent ended as it was asked to, 1 some agents do not answer, 2 bad input,
3 not possible on this machine, or a file could not be restored
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    acting = parser.add_argument_group("agent options")
    add_policy_arguments(acting)
    acting.add_argument(
        "--evict",
        choices=("none", "container", "pod"),
        metavar="WHAT",
        help="What the guard may end where nothing else helps: none, a container as an OOM kill does, or its pod by an eviction through the API server (default: none)",
    )
    acting.add_argument(
        "--dry-run",
        action="store_true",
        help="Print the commands and change nothing, with --cluster a line for each node",
    )
    acting.add_argument(
        "--status",
        action="store_true",
        help="Print what the running agent is doing, with --cluster a line for each node",
    )
    _add_running(acting)
    add_output_argument(
        acting, ("text", "json"), "With --status or --dry-run: print as text or json"
    )
    add_schema_argument(parser, "agentstatus")
    add_node_arguments(parser)
    add_kubelet_arguments(parser)
    add_agent_namespace(add_cluster_arguments(parser))
    add_drawing_arguments(parser, exact=False)


def add_policy_arguments(parser: argparse._ArgumentGroup) -> None:
    """The options about pods and policy, of whatever acts beside a kubelet."""
    parser.add_argument(
        "--mode",
        choices=("watch", "protect", "guard"),
        metavar="MODE",
        help="What the agent may do: watch, protect or guard (default: watch)",
    )
    parser.add_argument(
        "--policy",
        metavar="FILE",
        help="Read mode, files and variant from an AgentPolicy, again whenever it changes; options stand over it",
    )
    parser.add_argument(
        "--pods-from",
        default="auto",
        metavar="SOURCE",
        help="Take pods from kubelet, api, cri, the best of them that answers (auto), or a file that "
        "holds a PodList (default: auto)",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="Keep values when this process ends; the next one takes them up",
    )


def add_service_arguments(parser: argparse._ArgumentGroup) -> None:
    """The options of a process that runs on."""
    parser.add_argument(
        "--for",
        dest="seconds",
        type=duration,
        metavar="DURATION",
        help="Stop after this time, such as 90s, 10m or 1h30m",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json", "journal"),
        default="text",
        metavar="FORMAT",
        help="Log format: text, json or journal (default: text)",
    )


def _add_running(parser: argparse._ArgumentGroup) -> None:
    """The options about the run itself."""
    parser.add_argument(
        "--interval",
        type=duration,
        default=10.0,
        metavar="SECONDS",
        help="Seconds between two checks where nothing happens (default: 10)",
    )
    add_service_arguments(parser)
    parser.add_argument(
        "--metrics-bind-address",
        dest="metrics_address",
        metavar="[HOST:]PORT",
        help="Serve /metrics over TCP too; without HOST at 127.0.0.1",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="Log each value, show all rows"
    )


def options_of(args: argparse.Namespace) -> GuestOptions:
    """The command line, decoded. Raises BadInput for what the parser cannot know."""
    if args.interval < 1:
        raise BadInput("must be at least 1 second", where="--interval")
    return replace(
        shared_options(args, args.evict),
        interval=args.interval,
        verbose=args.verbose,
        metrics_address=args.metrics_address,
    )


def shared_options(args: argparse.Namespace, ends: Ends | None = None) -> GuestOptions:
    """Pods, policy and run, decoded."""
    from qoslet.app.cluster_access import cluster_access
    from qoslet.app.guest.run import GuestOptions
    from qoslet.app.node.found_node import kubelet_options
    from qoslet.core.guest.policy_document import PolicyFlags
    from qoslet.core.node.flags import flags_of

    return GuestOptions(
        pods_from=args.pods_from,
        documents=args.node,
        flags=flags_of(args),
        kubelet=kubelet_options(args),
        access=cluster_access(args),
        policy=args.policy,
        policy_flags=PolicyFlags(args.mode, args.memory_qos, args.memory_throttling_factor, ends),
        seconds=args.seconds,
        keep=args.keep,
        log_format=args.log_format,
    )


def run(args: argparse.Namespace) -> int:
    """Run the agent, or ask the one that runs; the exit code. Raises QosletError."""
    if args.status:
        return _status(args)
    options = options_of(args)
    if args.dry_run and (is_plugin() or (args.cluster and args.pods_from == "auto")):
        from qoslet.cli.agent.agents_of_nodes import dry_run_of_nodes

        return dry_run_of_nodes(args, options)
    if args.dry_run:
        return _dry_run(args, options)
    if args.output == "json":
        raise BadInput("needs --status or --dry-run", where="-o json", hint="--log-format json")
    if is_plugin():
        hint = "on a node: qoslet agent"
        raise BadInput("needs --status or --dry-run", where="kubectl qoslet agent", hint=hint)
    from qoslet.app.guest.run import run as run_agent
    from qoslet.render.text.live.progress import working

    run_agent(options, lambda: working(sys.stderr, "asking for the pods of this node"))
    return EXIT_OK


def _dry_run(args: argparse.Namespace, options: GuestOptions) -> int:
    """The commands that would write what the policy names, and what the guard may end."""
    from qoslet.app.guest.dry_run import would_write

    found = would_write(options)
    if args.output == "json":
        from qoslet.render.documents import encode
        from qoslet.render.documents.agent.guest import dry_run_document

        emit(encode(dry_run_document(found.commands, found.note, found.ends)))
        return EXIT_OK
    if not found.commands:
        note(found.note or "nothing to do: every value is as planned")
    lines = [*found.commands, *(f"# {one}" for one in found.ends)]
    emit("".join(f"{line}\n" for line in lines).encode())
    return EXIT_OK


def _status(args: argparse.Namespace) -> int:
    """What the running agent says; with a cluster, what all of its agents say."""
    from qoslet.app.cluster_access import cluster_access, current
    from qoslet.app.node.asked_guest import agent_status

    access = cluster_access(args) or (current() if is_plugin() else None)
    if access is not None:
        from qoslet.cli.agent.agents_of_nodes import status_of_nodes

        return status_of_nodes(args, access)
    document = agent_status(args.cgroup_root)
    if args.output == "json":
        from qoslet.render.documents import encode

        emit(encode(document))
        return EXIT_OK
    from qoslet.render.text.guest.status import status_lines

    emit_lines(status_lines(document, screen(args), args.verbose), screen(args))
    return EXIT_OK
