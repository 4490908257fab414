"""Writes ``render/documents/types``: the documents of the library as TypedDicts, from their schemas."""

from __future__ import annotations

import json
import re
from functools import cache
from keyword import iskeyword
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "src" / "qoslet" / "render" / "documents" / "types"
KINDS = ("plan", "explanation", "diff", "conversion", "audit")

HEAD = '''"""The {kind} document as types. Written by ``docs.generate.document_types`` from its schema."""

from __future__ import annotations

from typing import {names}
{more}'''

RULES = '''"""The ids of rules as a type. Written by ``docs.generate.document_types`` from the schema of a plan."""

from __future__ import annotations

from typing import Literal

RuleId = Literal[{ids}]
'''

_PLAIN = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "array": "list[Any]",
    "object": "dict[str, Any]",
}


def _union(hints: list[str]) -> str:
    """The hints as one, None last."""
    distinct = sorted(dict.fromkeys(hints), key=lambda hint: hint == "None")
    return " | ".join(distinct) or "Any"


def _title(kind: str, name: str) -> str:
    return kind.capitalize() + name[:1].upper() + name[1:]


class Types:
    """The types of one schema."""

    def __init__(self, kind: str, schema: dict[str, Any]) -> None:
        self._kind = kind
        self._schema = schema
        self.classes: list[str] = []
        self._aliases: dict[str, str] = {}

    def write(self) -> list[str]:
        """The classes, each after those that it needs."""
        for name, part in self._schema.get("$defs", {}).items():
            if "properties" in part:
                self._class(_title(self._kind, name), part)
        self._class(f"{self._kind.capitalize()}Document", self._schema)
        return self.classes

    def _class(self, title: str, part: dict[str, Any]) -> None:
        required = part.get("required", ())
        hints = {}
        for name, value in part["properties"].items():
            hint = self._hint(value, title + name[:1].upper() + name[1:])
            hints[name] = hint if name in required else f"NotRequired[{hint}]"
        above = "TypedDict"
        if words := [name for name in hints if iskeyword(name)]:
            above = f"_{title}Keywords"
            members = ", ".join(f"{name!r}: {hints.pop(name)!r}" for name in words)
            self.classes.append(f"{above} = TypedDict({above!r}, {{{members}}})\n")
        whole = title.endswith("Document")
        what = self._schema["title"] if whole else f"``{title}`` in the document"
        lines = [f"class {title}({above}):", f'    """{what}."""', ""]
        lines += [f"    {name}: {hint}" for name, hint in hints.items()]
        self.classes.append("\n".join(lines) + "\n")

    def _hint(self, part: dict[str, Any], title: str) -> str:
        if "$ref" in part:
            name = part["$ref"].rpartition("/")[2]
            target = self._schema["$defs"][name]
            return _title(self._kind, name) if "properties" in target else self._hint(target, title)
        if "const" in part:
            return f"Literal[{part['const']!r}]"
        if part.get("enum") == rule_ids():
            return "RuleId"
        if "enum" in part:
            return f"Literal[{', '.join(map(repr, part['enum']))}]"
        for key in ("anyOf", "oneOf"):
            if key in part:
                hints = [self._hint(each, f"{title}{n}") for n, each in enumerate(part[key])]
                return _union(hints)
        kinds = part.get("type", ())
        kinds = [kinds] if isinstance(kinds, str) else list(kinds)
        hints = [self._plain(kind, part, title) for kind in kinds]
        return _union(hints)

    def _plain(self, kind: str, part: dict[str, Any], title: str) -> str:
        if kind == "array" and "items" in part:
            return f"list[{self._hint(part['items'], title)}]"
        if kind == "object" and "properties" in part:
            self._class(title, part)
            return title
        more = part.get("additionalProperties")
        if kind == "object" and isinstance(more, dict):
            return f"dict[str, {self._hint(more, title)}]"
        return _PLAIN[kind]


def schema_of(kind: str) -> dict[str, Any]:
    """The published schema of a document."""
    path = ROOT / "src" / "qoslet" / "schema" / f"{kind}.json"
    schema: dict[str, Any] = json.loads(path.read_text())
    return schema


@cache
def rule_ids() -> list[str]:
    """Every rule, which several documents name."""
    ids: list[str] = schema_of("plan")["$defs"]["rule"]["enum"]
    return ids


def text(kind: str) -> str:
    """The module of one document, before formatting."""
    if kind == "rules":
        return RULES.format(ids=", ".join(map(repr, rule_ids())))
    blocks = Types(kind, schema_of(kind)).write()

    def names(word: str) -> bool:
        return any(re.search(rf"\b{word}\b", block) for block in blocks)

    used = filter(names, ("Any", "Literal", "NotRequired", "TypedDict"))
    more = "\nfrom qoslet.render.documents.types.rules import RuleId\n" if names("RuleId") else ""
    return "\n\n".join([HEAD.format(kind=kind, names=", ".join(used), more=more), *blocks])


if __name__ == "__main__":
    for each in (*KINDS, "rules"):
        (FOLDER / f"{each}.py").write_text(text(each), encoding="utf-8")
