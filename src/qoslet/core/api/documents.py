"""Splits JSON text into documents, and decodes the envelope of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from qoslet.core.api.kinds import CLUSTER_SCOPED
from qoslet.core.api.pod import Pod
from qoslet.core.api.schema import (
    DECODE_ERRORS,
    SHOWN_MAX,
    Envelope,
    Metadata,
    child,
    collect,
    decode_envelope,
    shown,
    type_name,
)
from qoslet.errors import BadInput, FaultCode

Text = bytes | memoryview

FileOrder = tuple[int, str]
"""Where a file stands among many: the place of its path on the command line, then its name."""


class Document(Struct, frozen=True):
    """One document of a file.

    ``file`` is the file's name as it may be shown; ``number`` counts from 1 where the file has
    several documents, else 0; ``data`` is its JSON text. ``first`` is the number of its first item,
    where it is a part of a list. ``item_of`` is the place of a list that is an item itself.
    """

    file: str
    number: int
    envelope: Envelope
    data: Text
    first: int = 0
    item_of: str = ""

    @property
    def where(self) -> str:
        """File and document, for messages about a document without a name."""
        if self.item_of:
            return self.item_of
        return f"{self.file}: document {self.number}" if self.number else self.file


class Options(Struct, frozen=True):
    """How documents become pods.

    ``expand`` makes as many pods of a template as it asks for, else it counts once.
    ``allocated`` takes resources from the status, where they are actuated. ``node_name`` leaves
    out the pods of other nodes, ``namespace`` and ``selector`` those that are not chosen.
    ``keep_raw`` keeps the documents of the pods in ``Loaded.raw`` and reads ConfigMaps and Secrets.
    """

    expand: bool = False
    allocated: bool = False
    node_name: str | None = None
    keep_raw: bool = False
    namespace: str | None = None
    selector: str | None = None


def options_of(values: object, node_name: str | None, *, allocated: bool | None = None) -> Options:
    """The options among the attributes of ``values``, as the command line has them, for a node's pods;
    ``allocated`` stands over its ``--resources``. The namespace of a command with a target is that one's:
    it reads the pods of all."""
    names = ("expand", "resources", "namespace", "selector")
    expand, resources, namespace, selector = (getattr(values, name) for name in names)
    return Options(
        expand,
        resources == "allocated" if allocated is None else allocated,
        node_name,
        namespace=None if hasattr(values, "target") else namespace,
        selector=selector,
    )


class Spot(Struct, frozen=True, gc=False):
    """A document, or an item of a list in it."""

    document: Document
    item: int = -1

    @property
    def where(self) -> str:
        """The place without a name."""
        if self.item < 0:
            return self.document.where
        between = "." if self.document.item_of else ": "
        number = self.document.first + self.item
        return f"{self.document.where}{between}items[{number}]"

    def named(self, kind: str, meta: Metadata | None, default: str = "default") -> str:
        """File, kind and name, as messages begin; the position where there is no name.
        ``default`` is the namespace of an object that gives none; empty where it has none."""
        if meta is None or not meta.name:
            return self.where
        namespace = "" if kind in CLUSTER_SCOPED else meta.namespace or default
        place = f"{kind} {namespace}/{meta.name}" if namespace else f"{kind} {meta.name}"
        if len(place) > SHOWN_MAX or not place.isprintable():
            above = f"{shown(namespace)}/" if namespace else ""
            place = f"{shown(kind)} {above}{shown(meta.name)}"
        return f"{self.document.file}: {place}"


TOO_DEEP = "is nested too deeply"
_TRAILING = "trailing characters (byte "


def json_documents(data: Text, file: str) -> Iterator[Document | BadInput]:
    """The JSON documents of ``data``, each starting on a new line.

    The first syntax error ends the text.
    """
    start, number, whole = 0, 0, memoryview(data)
    while True:
        try:
            yield Document(file, number, decode_envelope(whole[start:]), whole[start:])
            return
        except DECODE_ERRORS as error:
            follows = _next(error) or _next(_untyped_error(whole[start:]))
        end = start + follows if follows else len(whole)
        number = number or (1 if follows else 0)
        document = _open(whole[start:end], file, number)
        if isinstance(document, BadInput) and not document.where:
            yield _syntax(whole, start, document, file)
            return
        yield document
        if not follows:
            return
        if b"\n" not in bytes(whole[start:end]).rpartition(b"}")[2]:
            where = f"{file}: {_position(whole, end)}"
            hint = "start each document on a new line, or use a List"
            yield BadInput("two JSON documents on one line", where=where, hint=hint)
            return
        start, number = end, number + 1


def _next(error: Exception | None) -> int:
    """Where the next document begins, in the words of the decoder's ``error``; 0: nowhere."""
    message = str(error)
    at = message.rfind(_TRAILING)
    # the decoder has read that byte already
    return int(message[at + len(_TRAILING) :].rstrip(")")) - 1 if at >= 0 else 0


def _untyped_error(data: memoryview) -> Exception | None:
    try:
        msgspec.json.decode(data)
    except DECODE_ERRORS as error:
        return error
    return None


def _open(data: memoryview, file: str, number: int) -> Document | BadInput:
    """The document of one JSON value; a fault of syntax has no place yet."""
    try:
        return Document(file, number, decode_envelope(data), data)
    except msgspec.ValidationError:
        pass
    except RecursionError:
        return BadInput(
            TOO_DEEP, hint="Kubernetes documents are not", fault_code=FaultCode.TOO_DEEP
        )
    except DECODE_ERRORS as error:
        return BadInput(str(error))
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        return BadInput(
            TOO_DEEP, hint="Kubernetes documents are not", fault_code=FaultCode.TOO_DEEP
        )
    except DECODE_ERRORS as error:
        return BadInput(str(error))
    place = f"{file}: document {number}" if number else file
    if not isinstance(value, dict):
        hint = "a document is an object; put several into a List or on separate lines"
        return BadInput(f"must be an object, is {type_name(value)}", where=place, hint=hint)
    path, message = collect(value, Envelope)[1][0]
    return BadInput(message, where=f"{place}: {path}")


def _syntax(whole: memoryview, start: int, fault: BadInput, file: str) -> BadInput:
    """The fault with a line instead of a byte where the decoder named one."""
    text = fault.message
    if fault.fault_code is FaultCode.TOO_DEEP:
        return BadInput(text, where=file, hint=fault.hint, fault_code=fault.fault_code)
    hint = "check it with: python3 -m json.tool"
    half = _half_pair(whole[start:]) if text.startswith(_ENDS_EARLY) else -1
    if half >= 0:
        where = f"{file}: {_position(whole, start + half)}"
        return BadInput(
            "broken JSON: half of a surrogate pair",
            where=where,
            hint="use UTF-8",
            fault_code=FaultCode.BROKEN_JSON,
        )
    if text.startswith("Input data"):
        text = "ends in the middle of a value" if whole.nbytes - start else "is empty"
        return BadInput(
            f"broken JSON: {text}", where=file, hint=hint, fault_code=FaultCode.BROKEN_JSON
        )
    head, separator, byte = text.partition(" (byte ")
    if not separator:
        return BadInput(
            f"broken JSON: {shown(text)}", where=file, hint=hint, fault_code=FaultCode.BROKEN_JSON
        )
    place = f"{file}: {_position(whole, start + int(byte.rstrip(')')))}"
    return BadInput(
        f"broken JSON: {head.rpartition(': ')[2]}",
        where=place,
        hint=hint,
        fault_code=FaultCode.BROKEN_JSON,
    )


_ENDS_EARLY = ("Input data", "JSON is malformed: unexpected end of hex escape")
"""What the decoder says, too, where only the second half of a pair is missing."""


def _half_pair(data: memoryview) -> int:
    r"""Where the first ``\ud800`` stands without its second half; -1 where there is none."""
    from re import search

    match = search(rb"(?<!\\)(?:\\\\)*(\\u[dD][89abAB]..)(?!\\u[dD][c-fC-F])", data)
    return match.start(1) if match else -1


def _position(data: memoryview, at: int) -> str:
    before = bytes(data[:at])
    return f"line {before.count(10) + 1} column {at - before.rfind(10)}"


def value_document(value: Any, file: str, number: int) -> Document | BadInput:
    """The document of an already decoded ``value`` (from YAML)."""
    place = f"{file}: document {number}" if number else file
    try:
        data = memoryview(msgspec.json.encode(value))
    except UnicodeError:
        return BadInput("holds half of a surrogate pair", where=place, hint="use UTF-8")
    except RecursionError:
        return BadInput(TOO_DEEP, where=place, hint="Kubernetes documents are not")
    document = _open(data, file, number)
    if isinstance(document, BadInput) and not document.where:
        return BadInput(document.message, where=place, hint=document.hint)
    return document


def plain_value(data: Text | str, where: str) -> Any:
    """The value of JSON text that is called ``where`` in messages. Raises BadInput."""
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise BadInput(TOO_DEEP, where=where, fault_code=FaultCode.TOO_DEEP) from None
    except msgspec.ValidationError:
        raise _unreadable(data, where) from None
    except DECODE_ERRORS as error:
        message = f"broken JSON: {shown(str(error))}"
        raise BadInput(message, where=where, fault_code=FaultCode.BROKEN_JSON) from None


class _OutOfRange:
    """A number that no decoder keeps."""


def _number(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except DECODE_ERRORS:
        return _OutOfRange


def _unreadable(data: Text | str, where: str) -> BadInput:
    """The fault of a number that is out of range, at its place."""
    from json import loads

    text = data if isinstance(data, str) else bytes(data)
    hint = "use a 64-bit integer or a number below 1.8e308"
    try:
        decoded = loads(text, parse_int=_number, parse_float=_number)
    except (ValueError, RecursionError):
        return BadInput("contains a number out of range", where=where, hint=hint)
    place = _place_out_of_range(decoded)
    return BadInput(
        "is a number out of range", where=f"{where}: {place}" if place else where, hint=hint
    )


def _place_out_of_range(value: Any) -> str:
    """The path of the first number out of range."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        path, item = waiting.pop()
        if item is _OutOfRange:
            return path
        inner: list[tuple[str, Any]] = []
        if isinstance(item, dict):
            inner = [(child(path, key), member) for key, member in item.items()]
        elif isinstance(item, list):
            inner = [(f"{path}[{number}]", member) for number, member in enumerate(item)]
        waiting += reversed(inner)
    return ""


def run_document(value: Any, pod: Pod, owner: Any) -> dict[str, Any]:
    """The pod's document as the process runtime reads it."""
    metadata = dict(value.get("metadata") or {})
    metadata.update(name=pod.name, namespace=pod.namespace, uid=pod.uid)
    return {"metadata": metadata, "spec": value.get("spec") or {}, "kind": owner.get("kind")}
