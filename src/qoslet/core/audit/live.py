"""What was read from a node for an audit: cgroups, their processes, and units.

The sources are this machine (``host.cgroupfs.observe.audit_reader``) and whatever else keeps the same
values. A file that is absent is not the same as one that could not be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from qoslet.core.audit.finding import Unread

SUBTREE = "cgroup.subtree_control"
"""The v2 file that names the controllers of the cgroups below."""


class LiveCgroup(Struct, frozen=True, gc=False):
    """One cgroup. ``values`` are the files that could be read, without their last newline; of the
    files asked for, ``unread`` could not be read, and the others are absent.

    ``processes`` counts those in this cgroup, not below, None if it is not known; ``pids`` are theirs where they are known,
    ``partial`` those that are here in some v1 hierarchies only. ``oom_score_adj`` holds the
    processes' distinct values, the first process' first. ``strangers`` are those of a container's
    processes that its runtime did not start there, ``away`` those that started some of them and are in no cgroup
    of the container, with where they are. ``missing``: v1 controllers in whose hierarchy
    the cgroup is absent.
    """

    path: str
    identity: int
    values: Mapping[str, str] = {}
    unread: Mapping[str, str] = {}
    missing: tuple[str, ...] = ()
    processes: int | None = None
    pids: tuple[int, ...] = ()
    partial: tuple[int, ...] = ()
    strangers: tuple[int, ...] = ()
    away: Mapping[int, str] = {}
    commands: Mapping[int, str] = {}
    """The names of processes that were looked up."""
    oom_score_adj: tuple[int, ...] | None = None


class LiveTree(Struct, frozen=True):
    """The cgroups by path, parents first, and what could not be read of them. ``controllers`` are
    those that the machine has, None if not known. ``least_oom_score_adj``: what processes can have
    at least, on a machine that nobody may go below; None: nothing bounds it."""

    cgroups: Mapping[str, LiveCgroup]
    unread: tuple[Unread, ...] = ()
    controllers: frozenset[str] | None = None
    least_oom_score_adj: int | None = None


class ReadRequest(Struct, frozen=True):
    """What an audit reads. ``walk``: subtrees of which every cgroup is read; ``cgroups``: others,
    read alone. ``files`` by path; ``default`` for cgroups that it does not name; ``oom`` are the
    containers."""

    walk: tuple[str, ...]
    cgroups: tuple[str, ...]
    files: Mapping[str, tuple[str, ...]]
    default: tuple[str, ...]
    oom: frozenset[str]

    def wants_scores(self, path: str) -> bool:
        """Whether ``oom_score_adj`` of a cgroup's processes is read: of containers, and of what is not
        named where containers are, which may be sandboxes."""
        if path in self.oom or path in self.files:
            return path in self.oom
        parent = path.rpartition("/")[0]
        return parent in self.files and parent not in self.oom


class LiveSource(Protocol):
    """A node to read."""

    def read(self, request: ReadRequest) -> LiveTree:
        """The cgroups of a request; those that are absent are not in the result."""

    def units(self, names: Sequence[str], properties: Iterable[str]) -> Mapping[str, Units]:
        """The properties of units, as ``systemctl show`` prints them; units that do not exist, and
        all where there is no systemd, are not in the result."""


Units = Mapping[str, str]
"""The properties of one unit."""
