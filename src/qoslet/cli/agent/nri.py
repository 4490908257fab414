"""``qoslet nri``: have the container runtime set the agent's values as it creates containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.cli.agent.agent import add_policy_arguments, add_service_arguments, shared_options
from qoslet.cli.cluster_options import add_cluster_arguments
from qoslet.cli.parser import add_kubelet_arguments, add_node_arguments
from qoslet.errors import EXIT_OK, BadInput
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse

USAGE = "[OPTION]..."
EPILOG = """\
examples:
  qoslet nri --check
  qoslet nri --policy /etc/qoslet/policy.yaml --keep
  qoslet nri --mode protect --memory-qos qoslet --log-format journal

The plugin registers with a container runtime that has NRI, containerd 1.7 or later. It has
memory.min, memory.low and memory.high set in each container as it is created, where qoslet agent
would write them right after the start. Give both the same policy. A plugin that is late, ends or
fails refuses no container: the agent writes what is missing. When it ends, its values go, unless
--keep is given.

exit code: 0 the plugin ended as it was asked to, 2 bad input, 3 not possible on this machine
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    acting = parser.add_argument_group("plugin options")
    acting.add_argument(
        "--check",
        action="store_true",
        help="Say whether a runtime with NRI listens, and how to switch it on",
    )
    acting.add_argument(
        "--nri-socket",
        metavar="PATH",
        help="Socket of the runtime (default: /var/run/nri/nri.sock)",
    )
    acting.add_argument(
        "--container-runtime-endpoint",
        metavar="SOCKET",
        help="CRI socket, over which values are taken out of containers (default: as the kubelet has it)",
    )
    acting.add_argument(
        "--index",
        default="99",
        metavar="NN",
        help="Order among the plugins, two digits: of several that set one file the first has it (default: 99)",
    )
    add_policy_arguments(acting)
    add_service_arguments(acting)
    add_node_arguments(parser)
    add_kubelet_arguments(parser)
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the plugin, or check the runtime; the exit code. Raises QosletError."""
    from qoslet.app.guest import nri_run

    if len(args.index) != 2 or not (args.index.isascii() and args.index.isdecimal()):
        raise BadInput("must be two digits", where="--index", hint="such as 99")
    options = nri_run.NriOptions(
        socket=args.nri_socket, index=args.index, endpoint=args.container_runtime_endpoint
    )
    if args.check:
        emit(f"{nri_run.check(options)}\n".encode())
        return EXIT_OK
    nri_run.run(shared_options(args), options)
    return EXIT_OK
