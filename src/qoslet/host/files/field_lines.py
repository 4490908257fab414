"""The lines of fields in manifests, for who shows findings beside the text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

_SIZE_MAX = 4 << 20
"""Larger files are printed, not written by hand."""
_STEP = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")
_TEMPLATES = ("", "spec.template.", "spec.jobTemplate.spec.template.", "template.")
"""Where a pod stands in an object."""


class FieldLines:
    """Reads each file once. A file that is not there, too large or no YAML has no lines."""

    def __init__(self) -> None:
        self._files: dict[str, list[Any]] = {}

    def line(self, file: str, name: str, field: str) -> int | None:
        """The line of a field, or of what it would stand in; None where it is not known. ``name`` is
        the object as messages name it, such as ``Deployment default/web``; empty: that of the file."""
        found = [one for one in self._objects(file) if not name or name in _names(one)]
        if not found:
            return None
        ways = [_way(found[0], prefix + field) for prefix in _TEMPLATES]
        return max(ways, key=len)[-1]

    def _objects(self, file: str) -> list[Any]:
        known = self._files.get(file)
        if known is None:
            known = self._files[file] = list(_read(file))
        return known


def _read(file: str) -> Iterator[Any]:
    """The objects of a file, as nodes of YAML."""
    import yaml

    try:
        if not os.path.isfile(file) or os.path.getsize(file) > _SIZE_MAX:
            return
        with open(file, "rb") as opened:
            loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            documents = list(yaml.compose_all(opened.read(), Loader=loader))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return
    while documents:
        one = documents.pop(0)
        inner = _children(_child(one, "items")) if isinstance(one, yaml.MappingNode) else []
        if inner:
            documents[:0] = inner
        elif one is not None:
            yield one


def _children(node: Any) -> Sequence[Any]:
    return node.value if node is not None and node.id == "sequence" else ()


def _pair(node: Any, key: str) -> Sequence[Any] | None:
    """The key and the value of a field."""
    pairs = node.value if node.id == "mapping" else ()
    return next((pair for pair in pairs if pair[0].value == key), None)


def _child(node: Any, key: str) -> Any:
    pair = None if node is None else _pair(node, key)
    return None if pair is None else pair[1]


def _text(node: Any) -> str:
    return node.value if node is not None and node.id == "scalar" else ""


def _names(node: Any) -> tuple[str, ...]:
    """An object as messages name it; items of a list may have no kind."""
    meta = _child(node, "metadata")
    kind = _text(_child(node, "kind")) or "Pod"
    name = _text(_child(meta, "name"))
    return f"{kind} {_text(_child(meta, 'namespace')) or 'default'}/{name}", f"{kind} {name}"


def _way(node: Any, field: str) -> list[int]:
    """The lines of an object and of each step to a field, as far as there are any."""
    lines = [node.start_mark.line + 1]
    for key, index in _STEP.findall(field):
        items = _children(node)
        if index.isdigit() and int(index) < len(items):
            node = items[int(index)]
            lines.append(node.start_mark.line + 1)
            continue
        pair = _pair(node, key or index)
        if pair is None:
            break
        lines.append(pair[0].start_mark.line + 1)
        node = pair[1]
    return lines
