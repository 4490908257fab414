"""Values to the JSON documents of `qoslet/v1`: what every one has, and how it is written as JSON or YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import json

from qoslet.core.api.schema import encode_json, escaped

if TYPE_CHECKING:
    from qoslet.core.problem import Problem

API_VERSION = "qoslet/v1"

Document = dict[str, object]

_UNSAFE = {
    code: f"\\u{code:04x}"
    for code in (
        *range(0x7F, 0xA0),
        0x061C,
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        0xFEFF,
    )
}
"""Characters that JSON allows raw and a terminal may obey: DEL, C1, direction marks."""


def problem_row(problem: Problem) -> Document:
    """One row of ``problems``."""
    return {
        "severity": problem.severity,
        "where": problem.where,
        "message": problem.message,
        "hint": problem.hint,
    }


def encode(document: Document, pretty: bool = True) -> bytes:
    """The document as UTF-8 JSON that is safe on a terminal, with a final newline."""
    data = encode_json(document)
    if pretty:
        data = json.format(data, indent=2)
    if not data.isascii() or b"\x7f" in data:
        data = data.decode().translate(_UNSAFE).encode()
    return data + b"\n"


def encode_yaml(document: Document) -> bytes:
    """The same document as block YAML; where a character could move a terminal, every one
    beyond ASCII is escaped."""
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: object) -> bool:
            return True

    def dumped(readable: bool) -> str:
        return str(
            yaml.dump(
                escaped(document),
                Dumper=Dumper,
                sort_keys=False,
                allow_unicode=readable,
                default_flow_style=False,
                width=100,
            )
        )

    text = dumped(True)
    if not text.isascii() and any(ord(char) in _UNSAFE for char in text):
        text = dumped(False)
    return text.encode()


def encoded(document: Document, form: str) -> bytes:
    """The document as ``-o yaml`` or ``-o json`` has it."""
    return encode_yaml(document) if form == "yaml" else encode(document)
