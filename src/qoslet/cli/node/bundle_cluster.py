"""``qoslet bundle --cluster``: bundles of the nodes of a cluster, by the agents that run on them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from qoslet.cli.cluster_options import node_named
from qoslet.errors import EXIT_CANNOT, EXIT_NO, EXIT_OK, BadInput, CannotDo

if TYPE_CHECKING:
    import argparse

    from qoslet.app.cluster_access import ClusterAccess


def run_cluster(args: argparse.Namespace, access: ClusterAccess) -> int:
    """Ask, write and print; the exit code. Raises QosletError."""
    from qoslet.app.bundle.of_node import bundles_of_nodes
    from qoslet.app.cluster_agents import ClusterAgents
    from qoslet.core.api.schema import shown
    from qoslet.render.text.live.progress import Progress
    from qoslet.render.text.streams import emit, note

    names = _names(args)
    folder = args.output
    if folder in (None, "-"):
        raise BadInput("must name a directory for the bundles of a cluster", where="-o")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise CannotDo(f"cannot be made: {error.strerror}", where=shown(folder)) from None
    agents = ClusterAgents(access, args.agent_namespace)
    with Progress(sys.stderr) as progress:
        found = list(
            bundles_of_nodes(agents, names, folder, progress, jobs=args.jobs, redact=args.redact)
        )
    for one in sorted(found, key=lambda one: one.node):
        if one.fault:
            note(one.fault)
    made = [one for one in found if one.path]
    size = -(-sum(one.size for one in made) // 1024)
    emit(f"{shown(folder)}: bundles of {len(made)} of {len(found)} nodes, {size} KiB\n".encode())
    if len(made) == len(found):
        return EXIT_OK
    return EXIT_NO if made else EXIT_CANNOT


def _names(args: argparse.Namespace) -> list[str]:
    """The nodes that are named. Raises BadInput for what describes a machine."""
    if args.filename or args.node:
        message = "takes no -f and no --node: each agent knows its node"
        raise BadInput(message, where="--cluster")
    usage = "qoslet bundle node/NAME --cluster -o DIR"
    return [node_named(word, usage) for word in args.paths]
