"""A ``PodStates`` document narrowed down to some of its pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TEXTS = ("pending", "waiting", "errors")
"""Lists of sentences, each about a cgroup or a pod."""

_ROWS = ("groups", "events", "watched")


def only(document: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The document with these of its pods, and of the rest what is about them."""
    if len(items) == len(document.get("items", ())):
        return {**document, "items": list(items)}
    chosen = _Chosen(items, document.get("memory", {}).get("groups", ()))
    memory = dict(document.get("memory", {}))
    for name in _ROWS:
        memory[name] = [row for row in memory.get(name, ()) if chosen.has(row)]
    for name in ("guard", "pressure"):
        memory[name] = {
            key: [row for row in rows if chosen.has(row)]
            for key, rows in memory.get(name, {}).items()
        }
    texts = {
        name: [text for text in document.get(name, ()) if chosen.mentioned(text)] for name in _TEXTS
    }
    problems = [row for row in document.get("problems", ()) if chosen.mentioned(row["where"])]
    return {**document, "items": list(items), **texts, "problems": problems, "memory": memory}


class _Chosen:
    """The pods by what other parts of the document call them."""

    def __init__(
        self, items: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]]
    ) -> None:
        self._uids = {str(item["uid"]) for item in items}
        self._keys = {f"{item['namespace']}/{item['name']}" for item in items}
        self._cgroups = {
            str(container["cgroup"]) for item in items for container in item["containers"]
        } | {str(row["cgroup"]) for row in groups if row.get("uid") in self._uids}

    def has(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is about one of the pods."""
        if "uid" in row:
            return row["uid"] in self._uids
        return row.get("cgroup") in self._cgroups or row.get("pod") in self._keys

    def mentioned(self, text: str) -> bool:
        """Whether a sentence names one of the pods, or a cgroup of one."""
        words = text.replace(":", " ").split()
        names = {word.strip(",;()") for word in words}
        if names & self._keys or names & self._cgroups:
            return True
        paths = [name for name in names if name.startswith("/")]
        return any(path.startswith(f"{cgroup}/") for path in paths for cgroup in self._cgroups)
