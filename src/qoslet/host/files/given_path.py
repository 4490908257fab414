"""A path that the command line names, and what is known of it while it is watched."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from shlex import quote

from msgspec import Struct

from qoslet.core.api.documents import Document
from qoslet.core.api.schema import shown
from qoslet.core.problem import Problem, ProblemCode, Severity
from qoslet.errors import BadInput, FaultCode
from qoslet.host.files.manifests import STREAMS, unreadable
from qoslet.host.files.stable_read import Stamp

NOWHERE = (0, 0)
"""The identity of no directory."""

LONG_OPEN = 10.0
"""Seconds after which a file that is still open for writing is worth a warning."""


class GivenPath(Struct):
    """A path of the command line: a directory, one file in it (``only``), or a ``stream`` that
    can be read once. ``known`` are the files that were told, with the stamp they had; ``busy``
    how often those were tried that are being written, ``busy_since`` when each of them was first; ``links``
    the directories that links among them lead into. ``absent``: its ``fault`` is that it is not there.
    ``recalled``: only an earlier agent knows the directory. ``place`` is where a directory is, whatever becomes
    of the working directory."""

    number: int
    path: str
    directory: str
    only: str = ""
    stream: bool = False
    known: dict[str, Stamp] = {}
    busy: dict[str, int] = {}
    busy_since: dict[str, float] = {}
    links: dict[str, str] = {}
    fault: BadInput | None = None
    absent: bool = False
    recalled: bool = False
    identity: tuple[int, int] = NOWHERE
    had_files: bool = False
    place: str = ""

    def full(self, name: str) -> str:
        """The path of a file, as it is shown."""
        return self.path if self.only or self.stream else os.path.join(self.path, name)


def row_of(given: GivenPath, fault: BadInput) -> Problem:
    """What keeps a path from being read."""
    code = ProblemCode.OTHER if given.absent else ProblemCode.UNREAD
    stay = "its pods keep running unchanged" if given.known and not given.absent else ""
    hint = "; ".join(filter(None, (fault.hint, stay)))
    return Problem("error", fault.where, fault.message, hint, code)


def rows_of_busy(given: GivenPath, now: float) -> list[Problem]:
    """The files that are being written; a warning once that takes long."""
    found = []
    for name in sorted(given.busy):
        message = "is open for writing; qoslet reads it when it is closed"
        path = given.full(name)
        long = now - given.busy_since.get(name, now) >= LONG_OPEN
        hint = f"fuser -v {quote(path)} lists the processes" if long else ""
        severity: Severity = "warning" if long else "info"
        found.append(Problem(severity, shown(path), message, hint, ProblemCode.UNREAD))
    return found


def is_gone(path: str, error: Exception) -> bool:
    """Whether a file was removed from its directory, which is there. A link that leads nowhere was
    not."""
    absent = isinstance(error, FileNotFoundError | NotADirectoryError)
    return absent and not os.path.islink(path) and os.path.isdir(os.path.dirname(path) or ".")


def empty(path: str) -> BadInput:
    """The fault of a file that says nothing: who writes it may not be done."""
    hint = "to end its pods, remove it"
    return BadInput("is empty", where=shown(path), hint=hint)


def finished(document: Document | BadInput) -> Document | BadInput:
    """A document, or the fault of a list that ends after ``items:``: who writes it may not be done."""
    if isinstance(document, BadInput) or document.envelope.items is not None:
        return document
    hint = "write an empty list as items: []"
    return BadInput("is null", where=f"{document.where}: items", hint=hint)


def replaced(given: GivenPath, names: Sequence[str]) -> BadInput | None:
    """The fault of a directory that had files, and is another one without any now: what was
    mounted there may be gone. Takes note of which it is."""
    if given.only:
        return None
    try:
        facts = os.stat(given.directory)
    except OSError as error:
        return unreadable(given.path, error)
    identity = facts.st_dev, facts.st_ino
    if given.had_files and not names and identity != given.identity:
        hint = (
            "mount or move the directory with the manifests back; to end its pods, put a List with "
            "items: [] into this one"
        )
        what = "is another directory now, and empty"
        return BadInput(what, where=shown(given.path), hint=hint, fault_code=FaultCode.REPLACED)
    given.had_files = bool(names)
    if names:
        given.identity = identity
    return None


def lost(given: GivenPath) -> BadInput:
    """The fault of a directory that only an earlier agent knows, and that is not there."""
    hint = "make it again or mount it; to end its pods, put a List with items: [] into it"
    return BadInput(
        "does not exist", where=shown(given.path), hint=hint, fault_code=FaultCode.REPLACED
    )


def recalled(
    paths: Sequence[str], earlier: Mapping[str, tuple[int, int]], number: int
) -> list[GivenPath]:
    """The directories of an earlier agent below those of ``paths`` that are not there, as they
    would be shown; numbered from ``number`` on."""
    found = {
        path + place[len(top) :]
        for path in paths
        if os.path.isdir(path)
        for top in [absolute(path)]
        for place in earlier
        if place.startswith(f"{top}/") and not os.path.isdir(place)
    }
    return [
        GivenPath(number + count, path, path, recalled=True, place=absolute(path))
        for count, path in enumerate(sorted(found))
    ]


def absolute(path: str) -> str:
    """The absolute path; one below a working directory that was removed as it is."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        return path


def given_path(number: int, path: str) -> GivenPath:
    """The path with this number on the command line, before anything of it was read."""
    if path == "-" or path.startswith(STREAMS):
        return GivenPath(number, path, "", stream=True)
    if os.path.isdir(path):
        return GivenPath(number, path, path, place=absolute(path))
    directory, name = os.path.split(path)
    return GivenPath(number, path, directory or ".", only=name or path)
