"""``qoslet web``: the node as a page for a browser, live, that only reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.cli.parser import (
    add_bundle_argument,
    add_document_arguments,
    add_kubelet_arguments,
    add_node_arguments,
)
from qoslet.cli.times import check_interval, span
from qoslet.errors import EXIT_OK
from qoslet.render.text.streams import emit, note

if TYPE_CHECKING:
    import argparse

USAGE = "[OPTION]..."
EPILOG = """\
examples:
  qoslet web
  qoslet web --listen 127.0.0.1:9754
  qoslet web -f pods.yaml --cgroup-root /qoslet
  qoslet web --bundle node1.tar.gz --listen 127.0.0.1:9754

Without --listen it serves at a unix socket that only its user can open. From elsewhere:
  ssh -L 9754:/run/qoslet/web.sock root@NODE, then open http://localhost:9754/
SIGINT, SIGTERM and SIGHUP end it.

exit code: 0 done, 2 bad input, 3 not possible here
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "--listen",
        default="",
        metavar="ADDRESS",
        help="Listen at unix:PATH or HOST:PORT, which takes a token (default: unix:STATE/web.sock)",
    )
    parser.add_argument(
        "--interval",
        type=span,
        default=2.0,
        metavar="SECONDS",
        help="Time between two looks (default: 2)",
    )
    add_bundle_argument(parser)
    add_document_arguments(parser, positional=False)
    add_node_arguments(parser)
    add_kubelet_arguments(parser, live=True)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal asks to end. Raises QosletError."""
    check_interval(args, 0.1)
    from qoslet.app.web.serve import serve

    serve(args, _announce)
    return EXIT_OK


def _announce(address: str, warning: str) -> None:
    emit(f"{address}\n".encode())
    if warning:
        note(warning)
