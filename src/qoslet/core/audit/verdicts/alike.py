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
"""How many cgroups have to have one value before it counts as usual."""

_Kind = tuple[str, str]
"""A level and a RuntimeClass: what a runtime gives alike."""


def alike_files(level: Level) -> tuple[str, ...]:
    """The files of a cgroup of ``level`` that all others of its kind have alike."""
    return _FILES if level in _LEVELS else ()


class AlikeValues:
    """The usual values of the cgroups of an audit. ``planned`` are the live cgroups that the plan explains,
    including sandboxes, by path."""

    def __init__(self, context: AuditContext, planned: Mapping[str, Cgroup]) -> None:
        self._context = context
        self._planned = planned
        self._usual: dict[str, dict[str, str]] = {}

    def usual(self, path: str, file: str) -> str | None:
        """The value that most cgroups of the kind have in a file; None if there is none, or if the cgroup was
        created before or after all of those: the runtime's default may have been another then."""
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
            is_of_runtime = cgroup.level in _LEVELS and not path.endswith(f"/{INNER}")
            if not is_of_runtime or cgroup.pod is None or live is None or file not in live.values:
                continue
            kind = cgroup.level, cgroup.pod.platform.runtime_class or ""
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
