"""``qoslet replay``: what a policy of the guard would have done on a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.cli.parser import (
    add_drawing_arguments,
    add_output_argument,
    add_schema_argument,
    emit_lines,
    screen,
)
from qoslet.core.pressure.guard_mode import MODES
from qoslet.errors import EXIT_OK, BadInput
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse

FORMS = ("table", "json")
USAGE = "[OPTION]... FILE"
EPILOG = """\
examples:
  qoslet replay node1.rec --policy act
  qoslet replay node1.rec --policy act --set patience_seconds=5 -o json
  qoslet replay --settings

exit code: 0 done, 2 bad input
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="A recording of qoslet record, read with FILE.1"
    )
    parser.add_argument(
        "--policy",
        choices=MODES,
        default="act",
        metavar="MODE",
        help="Guard mode of pods that choose none: off, observe or act (default: act)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="rows",
        metavar="KEY=VALUE",
        help="Decide with another number, such as patience_seconds=5 (repeatable)",
    )
    parser.add_argument(
        "--settings", action="store_true", help="List the keys of --set with their values, and end"
    )
    add_output_argument(parser, FORMS)
    add_schema_argument(parser, "replay")
    add_drawing_arguments(parser, exact=False)


def run(args: argparse.Namespace) -> int:
    """Replay and print; the exit code. Raises QosletError."""
    from qoslet.core.recording.replay.policy import ReplayPolicy, settings, with_settings

    policy = with_settings(ReplayPolicy(args.policy), args.rows)
    shown = screen(args)
    if args.settings:
        emit_lines([f"{name}={value:.10g}" for name, value in settings(policy).items()], shown)
        return EXIT_OK
    if args.file is None:
        raise BadInput("FILE is required", hint="qoslet record FILE writes one")
    from qoslet.app.top.recording import load
    from qoslet.core.recording.replay.run import replay
    from qoslet.render.text.streams import note

    recording = load(args.file, note)
    result = replay(recording, policy)
    if args.output == "json":
        from qoslet.render.documents import encode
        from qoslet.render.documents.replay import replay_document

        emit(encode(replay_document(recording, policy, result)))
        return EXIT_OK
    from qoslet.render.text.live.replay import draw

    emit_lines(list(draw(recording, policy, result)), shown)
    return EXIT_OK
