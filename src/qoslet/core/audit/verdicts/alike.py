"""Values that no plan names and that runtimes or systemd give to all containers alike: whoever changed one
by hand made it differ from those that were created before and after.

Source: CRI LinuxContainerResources, which has no limit of processes; runc libcontainer cgroups/fs/pids.go, which
leaves ``max`` where there is none; systemd-system.conf(5) DefaultTasksMax=; containerd docs/man
containerd-config.toml.5.md base_runtime_spec, for each runtime handler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.inner_cgroups import INNER
from qoslet.core.reconcile.file_writers import Level
from qoslet.core.resources.cgroup_tree import Cgroup

_FILES = ("pids.max",)
_LEVELS: tuple[Level, ...] = ("sandbox", "container")
_LEAST = 3
"""How many have to have the same."""

_Kind = tuple[str, str]
"""A level and a RuntimeClass: what a runtime gives alike."""


def alike_files(level: Level) -> tuple[str, ...]:
    """The files of a cgroup of ``level`` that all others of its kind have alike."""
    return _FILES if level in _LEVELS else ()


class AlikeValues:
    """What the cgroups of an audit have alike; ``planned`` are those that are matched, sandboxes among
    them."""

    def __init__(self, context: AuditContext, planned: Mapping[str, Cgroup]) -> None:
        self._context = context
        self._planned = planned
        self._usual: dict[str, dict[str, str]] = {}

    def usual(self, path: str, file: str) -> str | None:
        """What a file of a cgroup would have as the others do; None where they do not tell: neither those
        that were created before nor those after it tell of a default that was changed meanwhile."""
        if self._context.is_own:
            return None
        if file not in self._usual:
            self._usual[file] = {}
            for rows in self._rows(file).values():
                self._usual[file].update(_usual(rows))
        return self._usual[file].get(path)

    def _rows(self, file: str) -> Mapping[_Kind, list[tuple[int, str, str]]]:
        """Identity, path and value of the cgroups of each kind; identities rise with the time."""
        rows: dict[_Kind, list[tuple[int, str, str]]] = {}
        for path, cgroup in self._planned.items():
            live = self._context.live.cgroups.get(path)
            is_told = cgroup.level in _LEVELS and not path.endswith(f"/{INNER}")
            if is_told and cgroup.pod is not None and live is not None:
                kind = cgroup.level, cgroup.pod.platform.runtime_class or ""
                if file in live.values:
                    rows.setdefault(kind, []).append((live.identity, path, live.values[file]))
        return rows


def _usual(rows: list[tuple[int, str, str]]) -> Mapping[str, str]:
    """The value that most have, by path: for them, and for those between them."""
    ((usual, count),) = Counter(value for *_, value in rows).most_common(1)
    if count < _LEAST or 2 * count <= len(rows):
        return {}
    rows.sort()
    places = [at for at, (*_, value) in enumerate(rows) if value == usual]
    return {path: usual for _, path, _ in rows[places[0] : places[-1] + 1]}
