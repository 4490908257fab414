"""What the plugin needs of its surroundings, besides ``agent.ports`` and ``agent.guest.ports``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from qoslet.core.guest.nri_container import Unified
from qoslet.core.reconcile.journal import Entry


class ValuesJournal(Protocol):
    """What was set, on disk before it is set; to be used from several threads."""

    def paths(self) -> Sequence[str]:
        """The cgroups in which something was set."""

    def values_of(self, path: str) -> Mapping[str, str | None]:
        """The files of a cgroup that were set, with what they would hold otherwise (None: what the
        kernel begins with)."""

    def record(self, entries: Sequence[Entry]) -> None:
        """Append entries. Raises QosletError; then nothing may be set."""


class CgroupValues(Protocol):
    """Files of cgroups, for several threads."""

    def read(self, path: str, files: Iterable[str]) -> dict[str, str]:
        """What those of the files hold that can be read."""

    def write(self, path: str, file: str, value: str) -> None:
        """Write a file. Raises OSError."""


class KeptValues(Protocol):
    """What the runtime keeps of each container, and writes again whenever its resources change."""

    def give_back(self, values: Mapping[str, Unified]) -> Mapping[str, str]:
        """Have containers, by ID, hold and keep these values where the runtime keeps others of those
        files; why each that failed has not. One that is gone has not failed."""


class RuntimeLink(Protocol):
    """The connection with the runtime, which may come and go."""

    def connect(self) -> str:
        """Register where there is no connection, and it is time to try again; what there is to say of
        it, empty for nothing new."""

    @property
    def is_connected(self) -> bool:
        """Whether the runtime has us registered."""

    def next_at(self) -> float | None:
        """When ``connect`` is due, in monotonic seconds."""

    def close(self) -> None:
        """End the registration."""


class PluginSurface(Protocol):
    """Shows what happens."""

    def synced(self, summary: str) -> None:
        """A sync of the loop is done."""

    def log(self, line: str, *, wrong: bool = False) -> None:
        """One line."""
