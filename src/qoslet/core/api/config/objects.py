"""A ConfigMap or Secret document as keys and their bytes.

No value of either is ever part of a message. Source: core/v1 ConfigMap, Secret;
pkg/apis/core/validation ValidateConfigMap, ValidateSecret; pkg/registry/core/secret (stringData).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from qoslet.core.api.container_resources import FieldFault, is_label, is_subdomain
from qoslet.errors import BadInput

ConfigKind = Literal["ConfigMap", "Secret"]

BYTES_MAX = 1024 * 1024
"""Bytes of all values of one object."""
_KEY_MAX = 253


class ConfigKey(NamedTuple):
    """Which object."""

    kind: ConfigKind
    namespace: str
    name: str


class ConfigObject(Struct, frozen=True):
    """One object. ``text`` are the values that may become variables, ``binary`` those of
    ``binaryData``, which are files only. ``where`` is its document."""

    key: ConfigKey
    text: Mapping[str, bytes]
    binary: Mapping[str, bytes] = {}
    immutable: bool = False
    where: str = ""

    def __repr__(self) -> str:
        """Without the values."""
        return f"ConfigObject({self.key!r})"

    @property
    def files(self) -> Mapping[str, bytes]:
        """All values."""
        return {**self.text, **self.binary}


ConfigObjects = Mapping[ConfigKey, ConfigObject]


def take_config(
    kind: str,
    document: Mapping[str, Any] | None,
    where: str,
    found: list[ConfigObject],
    add_fault: Callable[[BadInput], None],
) -> None:
    """Add the object of a document to ``found``, and its faults."""
    if document is not None:
        one, faults = config_object(kind, document, where)
        found += one
        for fault in faults:
            add_fault(fault)


def config_object(
    kind: str, document: Mapping[str, Any], where: str
) -> tuple[list[ConfigObject], list[BadInput]]:
    """The object of a document, none where anything is wrong with it, and what."""
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    known: ConfigKind = "Secret" if kind == "Secret" else "ConfigMap"
    key = ConfigKey(known, metadata.get("namespace") or "default", metadata.get("name") or "")
    faults = list(_name_faults(key))
    text = _values(document, "data", faults, encoded=kind == "Secret")
    binary: dict[str, bytes] = {}
    if kind == "Secret":
        text |= _values(document, "stringData", faults, encoded=False)
    else:
        binary = _values(document, "binaryData", faults, encoded=True)
        faults += [
            FieldFault(f"binaryData.{both}", "is also a key of data", "rename one")
            for both in sorted(text.keys() & binary.keys())
        ]
    if sum(map(len, (*text.values(), *binary.values()))) > BYTES_MAX:
        faults.append(FieldFault("data", "is longer than 1 MiB", "split it into several objects"))
    immutable = document.get("immutable")
    if immutable is not None and not isinstance(immutable, bool):
        faults.append(FieldFault("immutable", "must be true or false"))
    if faults:
        return [], [BadInput(f.message, where=f"{where}: {f.path}", hint=f.hint) for f in faults]
    return [ConfigObject(key, text, binary, immutable is True, where)], []


def _name_faults(key: ConfigKey) -> Iterator[FieldFault]:
    """What is wrong with the metadata."""
    if not isinstance(key.namespace, str) or not is_label(key.namespace):
        yield FieldFault("metadata.namespace", "is not a DNS label", "such as default")
    if not key.name:
        yield FieldFault("metadata.name", "is missing", "name it")
    elif not isinstance(key.name, str) or not is_subdomain(key.name):
        yield FieldFault("metadata.name", "is not a DNS name", "such as app-config")


def _values(
    document: Mapping[str, Any], field: str, faults: list[FieldFault], *, encoded: bool
) -> dict[str, bytes]:
    """The values of a map of the document; what is wrong goes to ``faults``."""
    given = document.get(field)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        faults.append(FieldFault(field, "must be an object", "keys with their values"))
        return {}
    made = {}
    for key, value in given.items():
        path = f"{field}.{key}"
        if not is_config_key(key):
            hint = "use letters, digits, '-', '_' and '.'"
            faults.append(FieldFault(f"{field}[{key[:80]!r}]", "is not a valid key", hint))
        elif value is None:
            made[key] = b""
        elif not isinstance(value, str):
            faults.append(FieldFault(path, "must be a string", "put it in quotes"))
        elif encoded:
            data = _decoded(value)
            if data is None:
                hint = "encode it, or use stringData" if field == "data" else "encode it"
                faults.append(FieldFault(path, "is not base64", hint))
            made[key] = data or b""
        else:
            made[key] = value.encode("utf-8", "replace")
    return made


def _decoded(text: str) -> bytes | None:
    """Base64 as Go reads it, line ends left out; None where it is none."""
    from binascii import Error, a2b_base64

    plain = text.replace("\n", "").replace("\r", "")
    try:
        return a2b_base64(plain, strict_mode=True) if plain else b""
    except (Error, ValueError):
        return None


def is_config_key(key: str) -> bool:
    """Whether a key of a ConfigMap or Secret may be called so. Source: IsConfigMapKey."""
    plain = all(char.isascii() and (char.isalnum() or char in "-_.") for char in key)
    return plain and 0 < len(key) <= _KEY_MAX and key != "." and not key.startswith("..")
