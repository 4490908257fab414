"""A container as the runtime tells its plugins, and what a plugin asks of it.

Source: containerd/nri pkg/api/api.proto (Container, PodSandbox, LinuxResources).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.api.schema import shown

NO_VALUES: Mapping[str, str] = {}

Unified = Mapping[str, str]
"""``linux.resources.unified`` of the OCI: files of cgroup v2 with their values."""


class NriContainer(Struct, frozen=True):
    """``uid`` and ``pod`` (namespace/name) are of its pod, ``path`` is its cgroup (None: not below the
    kubelet's tree, or not readable), ``handler`` the runtime handler of its pod. ``memory_limit`` in
    bytes, None without one. ``unified`` is what plugins that were asked before have set: runtimes do not tell what
    the spec has otherwise."""

    id: str
    uid: str
    name: str
    pod: str = ""
    path: str | None = None
    handler: str = ""
    memory_limit: int | None = None
    unified: Unified = NO_VALUES

    def __str__(self) -> str:
        """For people."""
        return shown(f"container {self.name} of {self.pod} ({self.id[:12]})", 300)


class NriUpdate(Struct, frozen=True):
    """Values for a container that exists; ``returned`` are files that are given back with it."""

    id: str
    unified: Unified
    returned: frozenset[str] = frozenset()

    @property
    def given_back(self) -> Unified:
        """The values of those files."""
        return {file: self.unified[file] for file in sorted(self.returned)}
