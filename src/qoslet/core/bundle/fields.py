"""Takes of a document what the list of allowed fields names, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from qoslet.core.bundle.allowed import (
    ANNOTATIONS,
    CONTAINER,
    HIGH,
    NODE_FIELDS,
    POD_FIELDS,
    Allowed,
)

Rename = Callable[[str, str], str]
"""From a kind (``Kind``, ``resource``) and a name to what stands for it."""

Tree = dict[str, Any]
"""By field: a kind, or what is allowed below it; of a list under ``[]``."""

_UIDS = ("kubernetes.io/config.hash", "kubernetes.io/config.mirror")
_LONGEST = 512
"""Characters of a text that is taken."""


def keep(_kind: str, name: str) -> str:
    """The name as it is."""
    return name


def pod_fields(document: Mapping[str, Any], rename: Rename = keep) -> dict[str, Any]:
    """A pod without what may not be in a bundle."""
    return _taken(document, _pods(), rename)


def node_fields(document: Mapping[str, Any], rename: Rename = keep) -> dict[str, Any]:
    """A Node of the API without what may not be in a bundle."""
    return _taken(document, _nodes(), rename)


@cache
def _pods() -> Tree:
    return _tree(POD_FIELDS)


@cache
def _nodes() -> Tree:
    return _tree(NODE_FIELDS)


def _tree(rows: Iterable[Allowed]) -> Tree:
    top: Tree = {}
    for row in rows:
        inner = top
        for step in filter(None, row.below.replace("[]", ".[]").split(".")):
            inner = inner.setdefault(step, {})
        inner.update(dict.fromkeys(row.fields.split(), row.kind))
    return top


def _taken(value: Any, tree: Tree, rename: Rename) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if not isinstance(value, Mapping):
        return found
    for name, below in tree.items():
        given = value.get(name)
        taken: Any = None
        if isinstance(below, str):
            taken = _leaf(given, below, rename)
        elif "[]" in below:
            if isinstance(given, list):
                taken = [_taken(item, below["[]"], rename) for item in given]
        else:
            taken = _taken(given, below, rename)
        if taken not in (None, {}, []):
            found[name] = taken
    return found


def _leaf(value: Any, kind: str, rename: Rename) -> Any:
    """A plain value, renamed by its kind; None for what may not be taken."""
    if kind == "amounts":
        return _amounts(value, rename)
    if kind == "annotations":
        return _annotations(value, rename)
    if not isinstance(value, str):
        return value if isinstance(value, bool | int | float) and not kind else None
    if len(value) > _LONGEST:
        return None
    if kind == "container ID":
        runtime, mark, identity = value.rpartition("://")
        return f"{runtime}{mark}{rename(kind, identity)}"
    return rename(kind, value) if kind and value else value


def _amounts(value: Any, rename: Rename) -> dict[str, Any] | None:
    """Resource names to quantities."""
    if not isinstance(value, Mapping):
        return None
    return {
        rename("resource", name): amount
        for name, amount in value.items()
        if isinstance(amount, str | int | float)
        and not isinstance(amount, bool)
        and len(str(amount)) <= 64
    }


def _annotations(value: Any, rename: Rename) -> dict[str, str] | None:
    if not isinstance(value, Mapping):
        return None
    found = {}
    for name, text in value.items():
        begin, _, container = name.partition(f"{HIGH}.")
        of_container = not begin and re.fullmatch(CONTAINER, container) is not None
        allowed = ANNOTATIONS.get(HIGH if of_container else name)
        if allowed is None or not isinstance(text, str) or not re.fullmatch(allowed, text):
            continue
        if of_container:
            found[f"{HIGH}.{rename('container', container)}"] = text
        else:
            found[name] = rename("uid", text) if name in _UIDS else text
    return found
