"""``qoslet logs``: what the containers of a running agent printed."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from typing import TYPE_CHECKING

from qoslet.app import inspect
from qoslet.errors import EXIT_OK, CannotDo
from qoslet.render.terminal import printable
from qoslet.render.text.streams import emit, note

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qoslet.app.inspect import Place

USAGE = "[OPTION]... POD[/CONTAINER]"
EPILOG = """\
examples:
  qoslet logs web
  qoslet logs web/busy -f --tail 20
  qoslet logs web --previous --timestamps

On a terminal control characters are shown as escapes; a pipe or a file gets every byte as it was
printed.

exit code: 0 shown, 3 there is no such pod, container or run, or no right to read it
"""

DEFAULT_ROOT = "/qoslet"
LOOK_SECONDS = 0.1
"""How often a log is looked at that is followed."""

_PIECE = 1 << 16
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")


def _duration(text: str) -> float:
    """Seconds of ``90s``, ``1h30m``."""
    if not _DURATION.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 10s, 5m or 1h30m")
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _count(text: str) -> int:
    """A number of lines."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of lines")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb, named as kubectl's."""
    parser.add_argument("pod", metavar="POD[/CONTAINER]", help="by default its only container")
    parser.add_argument("-c", "--container", metavar="NAME", help="the same as POD/NAME")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="the pod's namespace")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run is over")
    parser.add_argument("-p", "--previous", action="store_true", help="of the run before the last")
    parser.add_argument("--tail", type=_count, metavar="N", help="the last N lines only")
    parser.add_argument("--since", type=_duration, metavar="DURATION", help="younger lines only")
    parser.add_argument("--timestamps", action="store_true", help="begin each line with its time")
    parser.add_argument("--cgroup-root", metavar="NAME", help="the root of the tree (/qoslet)")


def run(args: argparse.Namespace) -> int:
    """Show it; the exit code. Raises QosletError."""
    folder = inspect.log_folder(args.cgroup_root or DEFAULT_ROOT)
    place = _place(args, folder)
    runs = place.runs()
    number = runs[-1] - 1 if args.previous else runs[-1]
    if number not in runs:
        raise CannotDo(
            f"{place.pod}/{place.container} has no run before this one",
            hint=f"there are: {', '.join(map(str, runs))} (numbers of restarts)",
        )
    one = inspect.log_run(place, number, folder)
    begin = b"" if args.since is None else _stamp(time.time() - args.since)
    show = _Out(args.timestamps, sys.stdout is not None and sys.stdout.isatty())
    over = not args.follow or args.previous or one.over()
    lines = [line for line in one.lines.more() if line[0] >= begin]
    if over:
        lines += one.lines.rest()
    show.lines(lines if args.tail is None else lines[len(lines) - min(args.tail, len(lines)) :])
    while not over:
        time.sleep(LOOK_SECONDS)
        over = one.over()
        show.lines(one.lines.more())
        show.lines(one.lines.rest() if over else ())
    return EXIT_OK


def _stamp(seconds: float) -> bytes:
    """A time as it stands in logs, which sorts as it does."""
    return inspect.log_stamp(int(max(0.0, seconds) * 1e9))


class _Out:
    """Standard output for lines: escaped on a terminal, else as they are."""

    def __init__(self, timed: bool, terminal: bool) -> None:
        self._timed = timed
        self._terminal = terminal

    def lines(self, lines: Iterable[tuple[bytes, bytes]]) -> None:
        """Print lines, each with the time at which it began."""
        piece: list[bytes] = []
        size = 0
        for at, text in lines:
            shown = self._harmless(text) if self._terminal else text
            piece.append(at + b" " + shown if self._timed else shown)
            size += len(shown)
            if size > _PIECE:
                emit(b"\n".join(piece) + b"\n")
                piece, size = [], 0
        if piece:
            emit(b"\n".join(piece) + b"\n")

    def _harmless(self, text: bytes) -> bytes:
        """Without what a terminal would obey; tabs stay."""
        parts = text.decode("utf-8", "replace").split("\t")
        return "\t".join(map(printable, parts)).encode(sys.stdout.encoding, "backslashreplace")


def _place(args: argparse.Namespace, folder: str) -> Place:
    """The logs that are meant. Raises CannotDo."""
    pod, _, container = args.pod.partition("/")
    container = args.container or container
    try:
        os.listdir(folder)
    except OSError as error:
        raise CannotDo(
            f"no agent keeps logs here: {error.strerror}",
            where=folder,
            hint="--cgroup-root names the agent's root; only its user and root may read them",
        ) from error
    found = inspect.log_places(folder)
    named = [one for one in found if one.pod == pod and args.namespace in (None, one.namespace)]
    if not named:
        known = ", ".join(dict.fromkeys(one.pod for one in found)) or "none"
        raise CannotDo(f"there are no logs of a pod {pod}", hint=f"there are: {known}")
    if len({one.namespace for one in named}) > 1:
        spaces = ", ".join(sorted({one.namespace for one in named}))
        raise CannotDo(f"there is a pod {pod} in {spaces}", hint="-n tells which one")
    newest = max(named, key=lambda one: one.age())
    return _container([one for one in named if one.uid == newest.uid], container)


def _container(places: Sequence[Place], name: str) -> Place:
    """One container of a pod. Raises CannotDo."""
    known = ", ".join(one.container for one in places)
    for one in places:
        if name == one.container and one.runs():
            return one
    if name:
        raise CannotDo(f"{places[0].pod} has no logs of a container {name}", hint=f"of: {known}")
    if len(places) > 1:
        note(f"container {places[0].container}, by default, of: {known}")
    return places[0]
