"""The ConfigMaps and Secrets of many files, updated file by file.

Where several documents have an object of the same kind, namespace and name, that of the first
file counts, and in it the last document: what ``kubectl apply`` leaves of one file.
"""

from __future__ import annotations

from collections.abc import Iterable

from qoslet.core.api.config.objects import ConfigKey, ConfigObject
from qoslet.core.api.documents import FileOrder
from qoslet.core.problem import Problem


class ConfigIndex:
    """``objects`` are those that count; it is one mapping for ever."""

    def __init__(self) -> None:
        self.objects: dict[ConfigKey, ConfigObject] = {}
        self._found: dict[ConfigKey, dict[FileOrder, ConfigObject]] = {}
        self._by_file: dict[FileOrder, frozenset[ConfigKey]] = {}
        self._refused: dict[FileOrder, tuple[Problem, ...]] = {}
        self._changed: set[ConfigKey] = set()

    def replace(self, order: FileOrder, objects: Iterable[ConfigObject]) -> None:
        """Take in the objects of a file as it is now."""
        found: dict[ConfigKey, ConfigObject] = {}
        refused = []
        for one in objects:
            if one.key in found:
                refused.append(_twice_row(one))
            found[one.key] = one
        before = self._by_file.get(order, frozenset())
        if not found and not before:
            return
        for key in before - found.keys():
            del self._found[key][order]
        for key, one in found.items():
            old = self._found.setdefault(key, {}).get(order)
            if old is not None and _edits_immutable(old, one):
                refused.append(_immutable_row(one))
            else:
                self._found[key][order] = one
        self._by_file[order] = frozenset(found)
        self._refused[order] = tuple(refused)
        if not found:
            del self._by_file[order], self._refused[order]
        for key in sorted(before | found.keys()):
            self._judge(key)

    def _judge(self, key: ConfigKey) -> None:
        """Decide which of the objects of a name counts."""
        found = self._found[key]
        before = self.objects.pop(key, None)
        if found:
            self.objects[key] = found[min(found)]
        else:
            del self._found[key]
        now = self.objects.get(key)
        if (before is None) is not (now is None) or (now and before and _differ(now, before)):
            self._changed.add(key)

    def take_changed(self) -> frozenset[ConfigKey]:
        """The objects that came, changed or went since the last call."""
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def has(self, order: FileOrder) -> bool:
        """Whether a file has any."""
        return bool(self._by_file.get(order))

    def rows(self, order: FileOrder) -> list[Problem]:
        """The problems of a file's objects."""
        rows = list(self._refused.get(order, ()))
        for key in sorted(self._by_file.get(order, ())):
            found = self._found[key]
            first = found[min(found)]
            if order != min(found):
                own = found[order]
                message = (
                    f"{key.namespace}/{key.name} is also at {first.where}, which takes precedence"
                )
                hint = "names are unique in a namespace: remove one of them"
                rows.append(Problem("warning", f"{own.where}: metadata.name", message, hint))
        return rows


def _differ(one: ConfigObject, other: ConfigObject) -> bool:
    """Whether pods get other values of them."""
    return one.text != other.text or one.binary != other.binary


def _edits_immutable(old: ConfigObject, new: ConfigObject) -> bool:
    """Whether an edit may not count. Source: ValidateConfigMapUpdate, ValidateSecretUpdate."""
    return old.immutable and (_differ(old, new) or not new.immutable)


def _immutable_row(edited: ConfigObject) -> Problem:
    message = "is immutable: the edit does not count, pods keep its values"
    return Problem("error", edited.where, message, "remove it first, or use another name")


def _twice_row(again: ConfigObject) -> Problem:
    message = (
        f"{again.key.namespace}/{again.key.name} occurs twice in this file: the last one counts"
    )
    return Problem("warning", f"{again.where}: metadata.name", message, "remove one of them")
