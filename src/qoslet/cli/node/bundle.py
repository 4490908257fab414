"""``qoslet bundle``: this node in one file, to look at it elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from qoslet.cli.cluster_options import add_agent_namespace, add_cluster_arguments, is_plugin
from qoslet.cli.parser import (
    add_document_arguments,
    add_kubelet_arguments,
    add_node_arguments,
    jobs_of,
)
from qoslet.errors import EXIT_OK, BadInput

if TYPE_CHECKING:
    import argparse

    from qoslet.app.bundle.contents import BundleSource

USAGE = "[OPTION]... [FILE]..."
EPILOG = """\
examples:
  qoslet bundle -f pods.json --node kubelet.yaml -o node1.tar.gz
  qoslet bundle --redact -o incident.tar.gz
  ssh node1 sudo qoslet bundle -o - > node1.tar.gz
  qoslet bundle --context production -o bundles/
  qoslet bundle node/node-1 node/node-2 --cluster -o bundles/

It only reads. Without -f it takes the pods and the configuration of the kubelet that runs here, or
the pods of the agent. The file has no
environment, arguments, annotations or secrets, and only its owner can read it.

With --cluster the agents of all nodes make bundles, which are put into a directory.

exit code: 0 done, with a list of what is missing; 1 without some nodes; 2 bad input, 3 not
possible here
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="Write to this file, or - for standard output (default: qoslet-bundle-TIME.tar.gz); with --cluster to this directory",
    )
    parser.add_argument(
        "--redact",
        action="store_true",
        help="Replace the names of pods, containers, nodes, cgroups and images",
    )
    add_document_arguments(parser, positional=True)
    add_node_arguments(parser)
    add_kubelet_arguments(parser, live=True)
    group = add_cluster_arguments(parser)
    add_agent_namespace(group)
    group.add_argument(
        "--jobs",
        type=jobs_of,
        default=8,
        metavar="COUNT",
        help="Nodes that are asked at the same time (default: 8)",
    )


def run(args: argparse.Namespace) -> int:
    """Look, pack and write; the exit code. Raises QosletError."""
    from qoslet.app.cluster_access import cluster_access, current

    of_nodes = all(path.startswith("node/") for path in args.paths) and not args.filename
    access = cluster_access(args) or (current() if of_nodes and is_plugin() else None)
    if access is not None:
        from qoslet.cli.node.bundle_cluster import run_cluster

        return run_cluster(args, access)
    return _run_here(args)


def _run_here(args: argparse.Namespace) -> int:
    """The bundle of this machine. Raises QosletError."""
    from os.path import exists
    from time import gmtime, strftime, time

    from qoslet.app.bundle.write import bundle, write
    from qoslet.render.terminal import is_terminal
    from qoslet.render.text.streams import emit, note

    if args.output == "-" and is_terminal(sys.stdout):
        hint = "name a file, or redirect standard output"
        raise BadInput("a bundle is not written to a terminal", where="-o -", hint=hint)
    for name in () if args.output else args.paths:
        if name.endswith((".tar.gz", ".tgz")) and not exists(name):
            hint = f"a name without an option is that of manifests; to write the bundle there: -o {name}"
            raise BadInput("does not exist", where=name, hint=hint)
    now = time()
    path = args.output or strftime("qoslet-bundle-%Y%m%dT%H%M%SZ.tar.gz", gmtime(now))
    source, data = bundle(args, [*args.filename, *args.paths], now)
    if path == "-":
        emit(data)
    else:
        write(path, data)
    for part, reason in source.missing.items():
        note(f"{part}: {reason}")
    if source.cgroups.unread:
        first = source.cgroups.unread[0]
        count = len(source.cgroups.unread)
        note(f"{count} files could not be read, such as {first.path}/{first.file}: {first.error}")
    said = _summary(source, path, len(data))
    if path == "-":
        note(said)
    else:
        emit(f"{said}\n".encode())
    return EXIT_OK


def _summary(source: BundleSource, path: str, size: int) -> str:
    """What was written, in one line."""
    from qoslet.core.api.schema import shown
    from qoslet.core.problem import plural

    cgroups = len({row.path for row in source.cgroups.rows})
    counts = [plural(len(source.pods or ()), "pod"), plural(cgroups, "cgroup")]
    if source.units is not None:
        counts.append(plural(len(source.units), "unit"))
    place = "standard output" if path == "-" else shown(path)
    return f"{place}: {', '.join(counts)}, {-(-size // 1024)} KiB"
