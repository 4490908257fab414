"""Files, directories and standard input to documents; all faults of all files at once.

Files are opened without blocking and looked at before they are read: only regular files, and
pipes that the caller opened itself (``-``, ``/dev/stdin``, ``/dev/fd/N``). Large ones are
mapped, so that hundreds of megabytes of JSON cost little more than what is kept of them; a
mapped file must not be truncated while it is read.
"""

from __future__ import annotations

import gc
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import IO, Any

import msgspec
from msgspec import UNSET

from qoslet.core.api.documents import Document, Text, json_documents, plain_value, value_document
from qoslet.core.api.kinds import no_pod
from qoslet.core.api.manifest import Loaded, Options, pods_from
from qoslet.core.api.schema import DECODE_ERRORS, shown, shown_path
from qoslet.errors import BadInput, BadInputs, FaultCode
from qoslet.host.files.bounds import READ_ONCE, FileLimits, too_many
from qoslet.host.files.encoding import encoding_fault

FAULTS_MAX = 100
"""Faults that are listed; the rest is counted."""

_MAP_FROM = 16 * 1024 * 1024
_CHUNK = 4 * 1024 * 1024
STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
_INPUTS = "give a file or a directory, or - for standard input"


def load(
    paths: Sequence[str],
    options: Options,
    *,
    stdin: IO[bytes] | None = None,
    root_check: bool = False,
    recursive: bool = False,
) -> Loaded:
    """The pods of all ``paths``: files, directories (``recursive``: with those below) or ``-``.

    ``stdin`` is what ``-`` reads, the process's own by default. With ``root_check`` a path that
    another user can change is refused while running as root. Raises BadInputs with all faults.
    """
    strict = root_check and os.geteuid() == 0
    loaded = _loaded(documents_of(paths, stdin, strict, recursive=recursive), options)
    if loaded.faults and loaded.faults[0].fault_code is FaultCode.NO_POD:
        from qoslet.host.files.manifest_names import searched

        loaded.faults[0] = no_pod(loaded.problems, *searched(paths, recursive), loaded.files)
    return _sound(loaded)


def load_text(
    text: str | bytes, options: Options, *, name: str = "text", bounds: FileLimits = READ_ONCE
) -> Loaded:
    """The pods of YAML or JSON ``text``, called ``name`` in messages. Raises BadInputs."""
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    return _sound(_loaded(text_documents(data, shown(name), bounds), options), shown(name))


def values_of(path: str, *, stdin: IO[bytes] | None = None) -> list[tuple[str, Any]]:
    """The documents of a file or ``-`` as plain values, whatever their kind, each with its place;
    YAML or JSON. Raises BadInputs; a file without a document is one, too."""
    found: list[tuple[str, Any]] = []
    for document in documents_of([path], stdin, False):
        if isinstance(document, BadInput):
            raise BadInputs([document])
        found.append((document.where, plain_value(document.data, document.where)))
    if not found:
        raise BadInputs([BadInput("contains no document", where=shown_path(path))])
    return found


def value_of(text: str | bytes, name: str) -> Any:
    """The one document of YAML or JSON text, as an object; ``name`` is its name in messages. Raises
    BadInput."""
    try:
        given = msgspec.json.decode(text)
    except DECODE_ERRORS:
        data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
        found = list(text_documents(data, shown(name)))
        if len(found) != 1 or isinstance(found[0], BadInput):
            fault = next((one for one in found if isinstance(one, BadInput)), None)
            raise fault or BadInput("contains no document", where=shown(name)) from None
        given = plain_value(found[0].data, found[0].where)
    if not isinstance(given, dict):
        raise BadInput("expected `object`", where=shown(name))
    return given


def _loaded(documents: Iterator[Document | BadInput], options: Options) -> Loaded:
    """What the documents hold, their faults included."""
    collecting = gc.isenabled()
    # nothing here makes cycles, and collecting while a cluster is read only costs
    gc.disable()
    try:
        return pods_from(documents, options)
    finally:
        if collecting:
            gc.enable()


def _sound(loaded: Loaded, name: str = "") -> Loaded:
    """The same; ``name`` is what has no pod. Raises BadInputs where there is a fault."""
    if loaded.faults:
        if name and loaded.faults[0].fault_code is FaultCode.NO_POD:
            loaded.faults[0].where = name
        raise BadInputs(_capped(loaded))
    return loaded


def _capped(loaded: Loaded) -> list[BadInput]:
    more = len(loaded.faults) - FAULTS_MAX + loaded.more_faults
    rest = BadInput(f"... and {more} more faults", hint="fix these first")
    return loaded.faults if more <= 0 else [*loaded.faults[:FAULTS_MAX], rest]


def documents_of(
    paths: Sequence[str],
    stdin: IO[bytes] | None,
    strict: bool,
    bounds: FileLimits = READ_ONCE,
    *,
    recursive: bool = False,
) -> Iterator[Document | BadInput]:
    """The documents of all paths, and the faults of those that cannot be read. With ``strict`` a
    path that another user can change is a fault; ``recursive`` enters directories below."""
    seen_stdin = False
    for path in paths:
        if path == "-":
            if seen_stdin:
                yield BadInput("standard input can be read once", where="-f -")
                continue
            seen_stdin = True
            yield from _stdin_documents(stdin)
        elif os.path.isdir(path):
            yield from _directory_documents(path, strict, bounds, recursive)
        else:
            yield from _file_documents(path, path.startswith(STREAMS), strict, bounds)


def _stdin_documents(stdin: IO[bytes] | None) -> Iterator[Document | BadInput]:
    stream = stdin or getattr(sys.stdin, "buffer", None)
    if stream is None:
        yield BadInput("standard input is closed", where="stdin", hint="name a file")
        return
    try:
        data = _spooled(stream)
    except (OSError, ValueError) as error:
        yield unreadable("stdin", error)
        return
    yield from text_documents(data, "stdin")


def _directory_documents(
    path: str, strict: bool, bounds: FileLimits, recursive: bool
) -> Iterator[Document | BadInput]:
    from qoslet.host.files.manifest_names import CHART_FILE, directory_entries

    try:
        names, below = directory_entries(path, strict, recursive)
        if CHART_FILE in names:
            from qoslet.core.api.input.unrendered import chart_fault

            raise chart_fault(shown_path(path))
    except BadInput as fault:
        yield fault
        return
    except (OSError, ValueError) as error:
        yield unreadable(path, error)
        return
    for name in sorted({*names, *below}):
        full = os.path.join(path, name)
        if name in below:
            yield from _directory_documents(full, strict, bounds, recursive)
        elif not os.path.isdir(full):
            yield from _file_documents(full, False, strict, bounds)


def stream_documents(path: str, stdin: IO[bytes] | None) -> Iterator[Document | BadInput]:
    """The documents of ``-`` or of a pipe of ``STREAMS``: they can be read once."""
    return _stdin_documents(stdin) if path == "-" else _file_documents(path, True, False)


def _file_documents(
    path: str, stream: bool, strict: bool, bounds: FileLimits = READ_ONCE
) -> Iterator[Document | BadInput]:
    try:
        data = _read(path, stream, strict)
    except BadInput as fault:
        yield fault
        return
    except (OSError, ValueError) as error:
        yield unreadable(path, error)
        return
    yield from text_documents(data, shown_path(path), bounds)


def unreadable(path: str, error: Exception) -> BadInput:
    """The fault of a path that the system would not give."""
    if isinstance(error, FileNotFoundError):
        if os.path.islink(path):
            hint = "fix or remove the link"
            return BadInput("is a dangling link", where=shown_path(path), hint=hint)
        if path.startswith(("https://", "http://")):
            hint = f"pipe it in: curl -sL {shown_path(path)} | qoslet plan -f -"
            return BadInput("is an address, no file", where=shown_path(path), hint=hint)
        return BadInput("does not exist", where=shown_path(path), hint="check the path")
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return BadInput(f"cannot be read: {shown(reason or 'unknown error')}", where=shown_path(path))


_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a directory"),
)


def _read(path: str, stream: bool, strict: bool) -> Text:
    """The content of a regular file, or of a pipe where ``stream`` allows it."""
    fd = open_file(path, strict and not stream)
    try:
        mode = os.fstat(fd).st_mode
        if stream and not stat.S_ISREG(mode) and not stat.S_ISBLK(mode):
            os.set_blocking(fd, True)
            with open(fd, "rb", buffering=0, closefd=False) as pipe:
                return _spooled(pipe)
        check_file(path, fd)
        return _content(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def open_file(path: str, strict: bool) -> int:
    """A file opened for reading without waiting, whatever it is. Raises OSError, and with
    ``strict`` BadInput where another user can change its path."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    if not strict:
        return os.open(path, flags)
    from qoslet.host.files.trusted_path import open_trusted

    return open_trusted(path, flags)


def check_file(path: str, fd: int, hint: str = _INPUTS) -> None:
    """Raise BadInput for what is no regular file, or one of the kernel's that may never end: reading /proc/kmsg
    waits, and takes its lines from others."""
    facts = os.fstat(fd)
    for test, called in _KINDS:
        if test(facts.st_mode):
            raise BadInput(f"is {called}", where=shown_path(path), hint=hint)
    if not facts.st_size and not os.fstatvfs(fd).f_blocks:
        message = "is the kernel's, whose size is unknown"
        raise BadInput(message, where=shown_path(path), hint=hint)


def _content(fd: int, size: int) -> Text:
    if size >= _MAP_FROM:
        import mmap

        return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
    with open(fd, "rb", closefd=False) as file:
        return file.read()


def _spooled(stream: Any) -> Text:
    """All that a stream has; beyond a bound it goes to an unnamed file, not to memory."""
    chunks: list[bytes] = []
    size = 0
    while chunk := stream.read(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size >= _MAP_FROM:
            return _spooled_to_file(chunks, stream)
    return b"".join(chunks)


def _spooled_to_file(chunks: list[bytes], stream: Any) -> Text:
    from tempfile import TemporaryFile

    with TemporaryFile() as file:
        file.writelines(chunks)
        chunks.clear()
        while chunk := stream.read(_CHUNK):
            file.write(chunk)
        file.flush()
        return _content(file.fileno(), file.tell())


def text_documents(
    data: Text, file: str, bounds: FileLimits = READ_ONCE
) -> Iterator[Document | BadInput]:
    """The documents of a text, JSON or YAML by its content; ``file`` is its name as shown. A bound
    that is exceeded is a fault and ends it."""
    count = 0
    for document in _text_documents(data, file, bounds):
        if isinstance(document, Document):
            items = document.envelope.items
            count += 1 if items is UNSET else 1 + len(items or ())
        if bounds.documents and count > bounds.documents:
            yield too_many(bounds.documents, "documents and list items", file)
            return
        yield document


def _text_documents(data: Text, file: str, bounds: FileLimits) -> Iterator[Document | BadInput]:
    view = memoryview(data)
    if bytes(view[:3]) == b"\xef\xbb\xbf":
        view = view[3:]
    if fault := encoding_fault(view, file):
        yield fault
        return
    if bytes(view[:4096]).lstrip()[:1] in (b"{", b"["):
        found = _json_or_yaml(view, file, bounds)
        if found is not None:
            yield from found
            return
    if view.nbytes > bounds.yaml_size:
        limit = bounds.yaml_size >> 20
        message = f"is {view.nbytes >> 20} MiB of YAML, at most {limit} are read"
        yield BadInput(message, where=file, hint="use JSON: kubectl ... -o json")
        return
    yield from _rendered(_yaml_documents(bytes(view), file, bounds), view, file)


def _rendered(
    found: Iterator[Document | BadInput], view: memoryview, file: str
) -> Iterator[Document | BadInput]:
    """The same; the first fault of a text that is no manifest says what it is, and ends it."""
    for each in found:
        if isinstance(each, BadInput):
            instead = _no_manifest(bytes(view[:_CHUNK]), file)
            if instead is not None:
                yield instead
                return
            yield from chain((each,), found)
            return
        yield each


def _no_manifest(head: bytes, file: str) -> Document | BadInput | None:
    """What a text with a fault is: the fault of a template or of another format, or flags of a
    kubelet as a document."""
    from qoslet.core.api.input.other_formats import other_format
    from qoslet.core.api.input.unrendered import is_template, template_fault
    from qoslet.core.node.command_line.flag_text import flags_document, is_flags

    if is_template(head):
        return template_fault(file)
    if is_flags(head):
        flags = flags_document(head.decode(errors="replace"))
        return None if flags is None else value_document(flags, file, 0)
    return other_format(head, file)


def _json_or_yaml(
    view: memoryview, file: str, bounds: FileLimits
) -> Iterator[Document | BadInput] | None:
    """The documents of a text that begins like JSON; None where it is YAML after all."""
    found = json_documents(view, file)
    first = next(found)
    broken = isinstance(first, BadInput) and first.fault_code is FaultCode.BROKEN_JSON
    if broken and not file.endswith(".json") and view.nbytes <= bounds.yaml_size:
        flow = list(_yaml_documents(bytes(view), file, bounds))
        if not any(isinstance(each, BadInput) for each in flow):
            return iter(flow)
    return _rendered(chain((first,), found), view, file)


def _yaml_documents(data: bytes, file: str, bounds: FileLimits) -> Iterator[Document | BadInput]:
    from qoslet.host.files.yaml import documents

    waiting = None
    for found in documents(data, file, bounds):
        if isinstance(found, BadInput):
            yield found
            continue
        if waiting is not None:
            yield value_document(waiting.value, file, waiting.number)
        elif found.number == 1:
            # whether the first of a file is its only one shows when the second is there
            waiting = found
            continue
        yield value_document(found.value, file, found.number)
        waiting = None
    if waiting is not None:
        yield value_document(waiting.value, file, 0)
