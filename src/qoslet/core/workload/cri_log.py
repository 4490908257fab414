"""Container logs as text: ``TIME STREAM TAG LINE``, one entry each, as the CRI defines them.

Source: k8s.io/cri-api logging design (kubelet-cri-logging.md), kubelet pkg/kubelet/kuberuntime/
logs; lines are cut where containerd cuts them.
"""

from __future__ import annotations

from msgspec import Struct

LONGEST = 16 * 1024
"""Bytes of a line in one entry; longer ones come in several, all but the last tagged ``P``."""

FULL, PARTIAL = b"F", b"P"
STREAMS = (b"stdout", b"stderr")
MISSING = "lines may be missing: the log was rotated faster than it was read"


class LogEntry(Struct, frozen=True):
    """One entry. ``at`` is its time as it stands in the log; ``partial``: the line goes on."""

    at: bytes
    stream: bytes
    partial: bool
    text: bytes


def entries(at: bytes, stream: bytes, data: bytes) -> tuple[bytes, bytes]:
    """What was printed as log entries, and the rest of it that is no whole line yet, which is
    shorter than ``LONGEST`` and comes before what is printed next."""
    full = b"%s %s %s " % (at, stream, FULL)
    whole, newline, rest = data.rpartition(b"\n")
    text = b""
    if newline:
        lines = whole.split(b"\n")
        if len(max(lines, key=len)) <= LONGEST:
            text = full + (b"\n" + full).join(lines) + b"\n"
        else:
            text = b"".join(_cut(at, stream, line) for line in lines)
    if len(rest) >= LONGEST:
        keep = len(rest) % LONGEST
        text += _pieces(at, stream, rest[: len(rest) - keep])
        rest = rest[len(rest) - keep :]
    return text, rest


def last(at: bytes, stream: bytes, rest: bytes) -> bytes:
    """The entry of an end without a newline: partial, as nothing follows it."""
    return b"%s %s %s %s\n" % (at, stream, PARTIAL, rest) if rest else b""


def _cut(at: bytes, stream: bytes, line: bytes) -> bytes:
    """One whole line in as many entries as it needs."""
    keep = (len(line) - 1) % LONGEST + 1 if line else 0
    before = _pieces(at, stream, line[: len(line) - keep])
    return before + b"%s %s %s %s\n" % (at, stream, FULL, line[len(line) - keep :])


def _pieces(at: bytes, stream: bytes, data: bytes) -> bytes:
    """Entries of ``LONGEST`` bytes of a line that goes on."""
    head = b"%s %s %s " % (at, stream, PARTIAL)
    found = [data[begin : begin + LONGEST] for begin in range(0, len(data), LONGEST)]
    return b"".join(head + piece + b"\n" for piece in found)


def parse(line: bytes) -> LogEntry | None:
    """An entry without its newline; None where it is none, such as one that was torn."""
    parts = line.split(b" ", 3)
    if len(parts) != 4 or parts[1] not in STREAMS or not parts[2]:
        return None
    at, stream, tags, text = parts
    tag = tags.split(b":", 1)[0]
    if tag not in (FULL, PARTIAL) or not at[:4].isdigit() or b"T" not in at:
        return None
    return LogEntry(at, stream, tag == PARTIAL, text)


def path_of(key: str, uid: str) -> str:
    """The directory of a pod's logs below that of all, at most 255 bytes; ``key`` is
    ``namespace/name``. A UID that leaves no room has its digest there."""
    namespace, _, name = key.partition("/")
    room = 255 - len(namespace) - len(uid) - 2
    if room < 0:
        from hashlib import sha256

        return path_of(key, sha256(uid.encode()).hexdigest())
    return f"{namespace}_{name[:room]}_{uid}"
