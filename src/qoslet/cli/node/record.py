"""``qoslet record``: what the cgroups of a node do, in a file, to look at it later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.cli.parser import add_document_arguments, add_kubelet_arguments, add_node_arguments
from qoslet.cli.times import check_interval, duration
from qoslet.errors import EXIT_OK, BadInput

if TYPE_CHECKING:
    import argparse

    from qoslet.app.top.recording import Recorder

DEFAULT_SIZE = "64Mi"
MIN_SIZE = 1 << 20
MAX_SIZE = 1 << 30
"""Bytes that --max-size can name: both halves are read into memory."""
USAGE = "[OPTION]... FILE"
EPILOG = """\
examples:
  qoslet record /var/tmp/node1.rec
  qoslet record --interval 1 --for 10m incident.rec
  qoslet record -f pods.yaml --cgroup-root /qoslet pods.rec
  nohup qoslet record --max-size 200Mi node1.rec &

It only reads the node. FILE continues where it exists; FILE.1 is its older half. Only their owner
can read them. qoslet top plays it, qoslet replay tries a guard policy on it.

exit code: 0 done, also by a signal; 2 bad input, 3 not possible here or the disk is full
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("file", metavar="FILE", help="Append to this file")
    parser.add_argument(
        "--interval",
        type=duration,
        default=5.0,
        metavar="DURATION",
        help="Time between two looks (default: 5s)",
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        type=duration,
        metavar="DURATION",
        help="Stop after this time, such as 90s, 10m or 1h30m",
    )
    parser.add_argument(
        "--max-size",
        default=DEFAULT_SIZE,
        metavar="SIZE",
        help=f"Most bytes on disk; at that the oldest half is deleted (1Mi to 1Gi; default: {DEFAULT_SIZE})",
    )
    parser.set_defaults(bundle=None)
    add_document_arguments(parser, positional=False)
    add_node_arguments(parser)
    add_kubelet_arguments(parser, live=True)


def run(args: argparse.Namespace) -> int:
    """Record until asked to end; the exit code. Raises QosletError."""
    from qoslet.app.top.recording import Recorder
    from qoslet.render.text.streams import emit, note

    check_interval(args, 0.1)
    args.max_size = _size(args.max_size)
    recorder = Recorder(args)
    try:
        for line in recorder.file.notes:
            note(line)
        note(f"recording every {args.interval:g} s: {recorder.describe()}")
        recorder.follow(args.seconds, note)
    finally:
        recorder.close()
    emit(f"{_summary(recorder)}\n".encode())
    return EXIT_OK


def _size(text: str) -> int:
    """Bytes of a quantity. Raises BadInput."""
    from qoslet.core.quantity import QuantityError, parse

    try:
        size = parse(text).value
    except QuantityError as error:
        raise BadInput(str(error), where="--max-size", hint="such as 64Mi") from None
    if not MIN_SIZE <= size <= MAX_SIZE:
        raise BadInput("must be 1Mi to 1Gi", where="--max-size")
    return size


def _summary(recorder: Recorder) -> str:
    """What was recorded, in one line."""
    from qoslet.core.api.schema import shown
    from qoslet.core.problem import plural

    kibibytes = -(-recorder.file.written // 1024)
    return f"{shown(recorder.file.path)}: {plural(recorder.moments, 'moment')}, {kibibytes} KiB"
