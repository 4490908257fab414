"""Several KubeletConfigurations as one, as a kubelet merges its drop-ins over its file.

Source: RFC 7396; cmd/kubelet/app/server.go mergeKubeletConfigurations (jsonpatch.MergePatch), 1.28 on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Document = dict[str, Any]


def merge(target: Mapping[str, Any], patch: Mapping[str, Any]) -> Document:
    """``target`` with ``patch`` over it: maps merge, null removes, all else replaces."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            before = result.get(key)
            result[key] = merge(before if isinstance(before, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def entries(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """The keys of a map, each with its place; ``where`` is that of the map."""
    if isinstance(value, Mapping):
        for key in value:
            yield key, f"{where}.{key}"
