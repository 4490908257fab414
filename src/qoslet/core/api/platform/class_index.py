"""The RuntimeClasses of many files, updated file by file, and what they make of pods.

Where several files have a class of one name, that of the first file counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from qoslet.core.api.documents import FileOrder
from qoslet.core.api.pod import Pod
from qoslet.core.problem import Problem
from qoslet.errors import BadInput

if TYPE_CHECKING:
    from qoslet.core.api.platform.runtime_class import RuntimeClass


class RuntimeClassIndex:
    """The classes that count, by name."""

    def __init__(self) -> None:
        self._files: dict[FileOrder, Mapping[str, RuntimeClass]] = {}
        self._counting: dict[str, RuntimeClass] = {}

    def replace(self, order: FileOrder, classes: Mapping[str, RuntimeClass]) -> None:
        """Take in the classes of a file as it is now."""
        if classes:
            self._files[order] = classes
        else:
            self._files.pop(order, None)

    def judge(self) -> frozenset[str]:
        """Decide which classes count; the names of those that became others since the last time."""
        if not self._files and not self._counting:
            return frozenset()
        now: dict[str, RuntimeClass] = {}
        for order in sorted(self._files):
            now = {**self._files[order], **now}
        before, self._counting = self._counting, now
        return frozenset(
            name for name in now.keys() | before.keys() if now.get(name) != before.get(name)
        )

    @property
    def any(self) -> bool:
        """Whether a file has one."""
        return bool(self._files)

    def admitted(self, pod: Pod) -> tuple[Pod, BadInput | None]:
        """The pod as admission leaves it, or the first reason why it rejects it."""
        known = self._counting.get(pod.platform.runtime_class or "")
        if known is None:
            return pod, None
        # imported where there is one
        from qoslet.core.api.platform.runtime_class import admitted

        faults: list[BadInput] = []
        found = admitted(pod, known, faults)
        return found, faults[0] if faults else None

    def has(self, order: FileOrder) -> bool:
        """Whether a file has any."""
        return order in self._files

    def rows(self, order: FileOrder, used: Collection[str]) -> list[Problem]:
        """What to know about a file's classes; ``used`` are those that pods name."""
        rows = []
        for name, known in self._files.get(order, {}).items():
            first = self._counting[name]
            if first is not known:
                message = f"{name} is also at {first.where}, which takes precedence"
                hint = "names are unique: remove one of them"
                rows.append(Problem("warning", f"{known.where}: metadata.name", message, hint))
            elif name not in used:
                message = "RuntimeClass skipped: no pod names it"
                rows.append(Problem("info", known.where, message, ""))
        return rows
