"""``qoslet logs``: the logs of the agent's containers."""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

from qoslet.app import inspect
from qoslet.cli.agent.log_choice import location_of
from qoslet.cli.times import span
from qoslet.core.cgroup.names import DEFAULT_ROOT
from qoslet.errors import EXIT_OK, CannotDo
from qoslet.render.terminal import is_terminal, printable
from qoslet.render.text.streams import emit, note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from qoslet.app.inspect import LogLine, LogRun

USAGE = "[OPTION]... POD[/CONTAINER]"
EPILOG = """\
examples:
  qoslet logs web
  qoslet logs web/busy -f --tail 20
  qoslet logs deployment/web
  qoslet logs web --previous --timestamps

On a terminal, control characters are printed as escapes. A pipe or a file gets every byte
unchanged.

exit code: 0 done, 2 bad input, 3 the pod, container or run does not exist, or may not be read
"""

LOOK_SECONDS = 0.1
"""Between two reads of a log that is followed."""

_PIECE = 1 << 16


def _count(text: str) -> int:
    """A number of lines."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command, named as kubectl's."""
    parser.add_argument(
        "pod", metavar="POD[/CONTAINER]", help="The pod, and the container if the pod has several"
    )
    parser.add_argument("-c", "--container", metavar="NAME", help="The same as POD/NAME")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="Namespace of the pod")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="Follow until the container exits"
    )
    parser.add_argument(
        "-p", "--previous", action="store_true", help="Print the log of the previous run"
    )
    parser.add_argument("--tail", type=_count, metavar="NUMBER", help="Print only the last lines")
    parser.add_argument(
        "--since",
        type=span,
        metavar="DURATION",
        help="Print only lines younger than this, such as 5m",
    )
    parser.add_argument("--timestamps", action="store_true", help="Begin each line with its time")
    parser.add_argument(
        "--cgroup-root",
        metavar="NAME",
        help=f"Root of the agent's tree (default: {DEFAULT_ROOT}, or the only one that has an agent)",
    )


def run(args: argparse.Namespace) -> int:
    """Show it; the exit code. Raises QosletError."""
    args.cgroup_root = inspect.agent_root(args.cgroup_root)
    folder = inspect.log_folder(args.cgroup_root)
    place = location_of(args, folder)
    runs = place.runs()
    if not runs:
        raise CannotDo(
            f"{place.pod}/{place.container} has no logs",
            hint="it is being started or removed: see qoslet ps",
        )
    number = runs[-1] - 1 if args.previous else runs[-1]
    if number not in runs:
        raise CannotDo(
            f"{place.pod}/{place.container} has no previous run",
            hint=f"runs by restart count: {', '.join(map(str, runs))}",
        )
    one = inspect.log_run(place, number, folder)
    begin = b"" if args.since is None else _stamp(time.time() - args.since)
    show = _Out(args.timestamps, is_terminal(sys.stdout))
    over = not args.follow or args.previous or one.over()
    one.lines.whole = args.tail is not None
    lines = (line for line in _lines(one, over) if line.at >= begin)
    show.lines(lines if args.tail is None else deque(lines, maxlen=args.tail))
    one.lines.whole = False
    while not over:
        time.sleep(LOOK_SECONDS)
        over, gaps = one.over(), one.lines.gaps
        show.lines(one.lines.more())
        if one.lines.gaps > gaps:
            from qoslet.core.workload.cri_log import MISSING

            note(MISSING)
        show.lines(one.lines.rest() if over else ())
    return EXIT_OK


def _lines(one: LogRun, over: bool) -> Iterator[LogLine]:
    """What there is by now; of a run that is over also a last line without an end."""
    yield from one.lines.more()
    yield from one.lines.rest() if over else ()


def _stamp(seconds: float) -> bytes:
    """A time as it stands in logs, which sorts as it does."""
    return inspect.log_stamp(int(max(0.0, seconds) * 1e9))


class _Out:
    """Standard output for lines: escaped on a terminal, else as they are."""

    def __init__(self, timed: bool, terminal: bool) -> None:
        self._timed = timed
        self._terminal = terminal

    def lines(self, lines: Iterable[LogLine]) -> None:
        """Print lines, each with the time at which it began."""
        piece: list[bytes] = []
        size = 0
        for line in lines:
            shown = self._harmless(line.text) if self._terminal else line.text
            time_of_line = line.at + b" " if self._timed and line.begins else b""
            piece.append(time_of_line + shown + (b"\n" if line.ends else b""))
            size += len(shown)
            if size > _PIECE:
                emit(b"".join(piece))
                piece, size = [], 0
        if piece:
            emit(b"".join(piece))

    def _harmless(self, text: bytes) -> bytes:
        """Without what a terminal would obey; tabs stay."""
        parts = text.decode("utf-8", "replace").split("\t")
        return "\t".join(map(printable, parts)).encode(sys.stdout.encoding, "backslashreplace")
