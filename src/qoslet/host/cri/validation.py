"""Answers of a runtime, believed only where they are what the CRI says: a message that is too long,
torn, of wrong types or with unknown values is an error that names the field.

Fields that are not known are left out, as protobuf does: a newer runtime may send them.

Source: protobuf encoding (wire types, packed fields); CRI, `cri.proto`.
"""

from __future__ import annotations

import re
from typing import TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from qoslet.errors import QosletError

LONGEST = 16 << 20
"""Bytes of an answer, as a kubelet has it (maxMsgSize)."""

_DEPTH = 32
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_KINDS = {
    _VARINT: "a number",
    _FIXED64: "8 bytes",
    _BYTES: "text or a message",
    _FIXED32: "4 bytes",
}
_FIELDS = {
    FieldDescriptor.TYPE_STRING: _BYTES,
    FieldDescriptor.TYPE_BYTES: _BYTES,
    FieldDescriptor.TYPE_MESSAGE: _BYTES,
    FieldDescriptor.TYPE_DOUBLE: _FIXED64,
}
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,254}")

M = TypeVar("M", bound=Message)


class BadMessage(QosletError):
    """An answer that is not what the CRI says; ``message`` begins with the field."""


def parsed(kind: type[M], data: bytes) -> M:
    """The message in ``data``. Raises ``BadMessage``."""
    # the types know two descriptors that are one
    shape = cast(Descriptor, kind.DESCRIPTOR)
    name = shape.name
    if len(data) > LONGEST:
        most = _largest(shape, data)
        raise BadMessage(f"{name}{most}: {len(data)} bytes, more than {LONGEST} are not read")
    _walk(shape, memoryview(data), name, _DEPTH)
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise BadMessage(f"{name}: {error}") from None


def identifier(text: str, where: str) -> str:
    """An id that may be part of a path. Raises ``BadMessage`` for another."""
    if not _ID.fullmatch(text):
        raise BadMessage(f"{where}: {text[:80]!r} is not an ID")
    return text


def _walk(kind: Descriptor, data: memoryview, path: str, depth: int) -> None:
    """Check one message. Raises ``BadMessage``."""
    if not depth:
        raise BadMessage(f"{path}: messages nested too deeply")
    at = 0
    while at < len(data):
        key, at = _number(data, at, path)
        field = kind.fields_by_number.get(key >> 3)
        where = path if field is None else f"{path}.{field.name}"
        if not 0 < key >> 3 < 1 << 29:
            raise BadMessage(f"{path}: a field has the number {key >> 3}")
        value, at = _value(data, at, key & 7, where)
        if field is None:
            continue
        wanted = _FIELDS.get(field.type, _VARINT)
        packed = field.is_repeated and wanted == _VARINT and key & 7 == _BYTES
        if key & 7 != wanted and not packed:
            raise BadMessage(f"{where}: is {_KINDS[key & 7]}, not {_KINDS[wanted]}")
        _check(field, value, where, depth)


def _check(field: FieldDescriptor, value: memoryview | int, where: str, depth: int) -> None:
    """Check the value of a field that has the right wire type."""
    if isinstance(value, int):
        _check_number(field, value, where)
    elif field.message_type is not None:
        _walk(field.message_type, value, where, depth - 1)
    elif field.type == FieldDescriptor.TYPE_STRING:
        try:
            str(value, "utf-8")
        except UnicodeDecodeError as error:
            raise BadMessage(f"{where}: is not UTF-8: {error.reason}") from None
    elif _FIELDS.get(field.type, _VARINT) == _VARINT:
        at = 0
        while at < len(value):
            number, at = _number(value, at, where)
            _check_number(field, number, where)


def _check_number(field: FieldDescriptor, value: int, where: str) -> None:
    """Check an enumeration's value, and what fits into fewer bits."""
    signed = value - (1 << 64) if value >> 63 else value
    if field.enum_type is not None:
        if signed not in field.enum_type.values_by_number:
            raise BadMessage(f"{where}: {signed} is not a {field.enum_type.name}")
    elif field.type == FieldDescriptor.TYPE_INT32:
        if not -(1 << 31) <= signed < 1 << 31:
            raise BadMessage(f"{where}: {signed} is beyond 32 bits")
    elif field.type == FieldDescriptor.TYPE_UINT32:
        if value >> 32:
            raise BadMessage(f"{where}: {value} is beyond 32 bits")
    elif field.type == FieldDescriptor.TYPE_BOOL and value > 1:
        raise BadMessage(f"{where}: {value} is neither true nor false")


def _number(data: memoryview, at: int, where: str) -> tuple[int, int]:
    """A varint and where it ends. Raises ``BadMessage``."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise BadMessage(f"{where}: the message ends inside this field")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            if value >> 64:
                raise BadMessage(f"{where}: a number beyond 64 bits")
            return value, at
        if shift >= 70:
            raise BadMessage(f"{where}: a number beyond 64 bits")


def _value(data: memoryview, at: int, wire: int, where: str) -> tuple[memoryview | int, int]:
    """The value of a field and where it ends; a number for a varint. Raises ``BadMessage``."""
    if wire == _VARINT:
        return _number(data, at, where)
    if wire == _BYTES:
        size, at = _number(data, at, where)
    elif wire in (_FIXED32, _FIXED64):
        size = 4 if wire == _FIXED32 else 8
    else:
        raise BadMessage(f"{where}: has wire type {wire}, which the CRI does not use")
    if size > len(data) - at:
        raise BadMessage(f"{where}: {size} bytes announced, {len(data) - at} present")
    return data[at : at + size], at + size


def _largest(kind: Descriptor, data: bytes) -> str:
    """The field that takes most of a message, as a part of its name."""
    sizes: dict[str, int] = {}
    view, at = memoryview(data), 0
    try:
        while at < len(view):
            key, begin = _number(view, at, "")
            _, end = _value(view, begin, key & 7, "")
            field = kind.fields_by_number.get(key >> 3)
            name = f".{field.name}" if field is not None else ""
            sizes[name], at = sizes.get(name, 0) + end - at, end
    except BadMessage:
        return ""
    return max(sizes, key=lambda name: sizes[name], default="")
