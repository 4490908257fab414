"""What a machine offers, as one value: the hierarchy, its controllers, the kernel, our rights.

None means unknown, which is an answer of its own. ``host.machine.doctor_facts`` reads it; ``doctor`` judges it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from qoslet.core.node.lookup import Probed
from qoslet.core.node.node import Hierarchy

Layout = Literal["v1", "hybrid", "v2"]


class Controller(Struct, frozen=True):
    """One controller: where it is bound and whether it reaches the groups that we would make.

    ``where`` is a mount point. ``delegated``: on v2 it is in ``cgroup.subtree_control`` of every
    group above ours, on v1 always true. ``writable`` by this process at ``where``.
    """

    name: str
    where: str
    hierarchy: Hierarchy
    delegated: bool | None = None
    writable: bool | None = None


KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"
"""Where kubeadm puts a kubelet's configuration."""


class NodeProgram(Struct, frozen=True):
    """A kubelet or a container runtime. ``pid`` is its process, None where only its ``socket`` was
    found; ``usable``: this user may use the socket."""

    kind: Literal["kubelet", "runtime"]
    name: str
    pid: int | None = None
    socket: str = ""
    usable: bool | None = None


class OciProgram(Struct, frozen=True):
    """An OCI runtime: runc or crun, with the version that it tells, empty where it does not."""

    name: str
    version: str


class Machine(Struct, frozen=True):
    """The answer of one look. Bytes; ``own_cgroup`` by hierarchy (``""`` for v2).

    ``capabilities`` are the effective ones by name, None where unknown. ``bus`` tells whether
    systemd's bus can be reached. ``files`` names optional files that groups have here.
    """

    probed: Probed
    layout: Layout | None = None
    controllers: tuple[Controller, ...] = ()
    options: tuple[str, ...] = ()
    own_cgroup: Mapping[str, str] = {}
    user: int = 0
    capabilities: frozenset[str] | None = None
    bus: bool | None = None
    user_bus: bool | None = None
    files: frozenset[str] = frozenset()
    read_only: bool | None = None
    lru_gen: bool | None = None
    """Whether the multi-gen LRU is switched on; None where the kernel has none."""
    dying: int | None = None
    """Removed groups that the kernel still holds (v2 ``nr_dying_descendants``)."""

    programs: tuple[NodeProgram, ...] = ()
    oci_programs: tuple[OciProgram, ...] = ()
    runc_fix: Literal["fixed", "missing", "unknown"] = "fixed"
    """Whether runc has the fix of CVE-2024-21626."""
    kubelet_trees: tuple[str, ...] = ()
    """Top cgroups that look like a kubelet's."""
    kubelet_config: bool | None = None
    """Whether this user may read KUBELET_CONFIG; None where there is none."""
    agents: tuple[str, ...] | None = ()
    """The cgroup roots of root's agents."""
    left_roots: tuple[str, ...] = ()
    """The cgroup roots with pods that no agent of root's has now."""
    silent_roots: tuple[str, ...] = ()
    """The cgroup roots of root's agents that start or end, and answer nobody."""
    bfq: tuple[str, ...] | None = None
    """Block devices with the BFQ scheduler."""
    device_bpf: bool | None = None
    """Whether eBPF can guard devices (CONFIG_CGROUP_BPF)."""
    cgroup_namespaces: bool | None = None

    def bound(self, name: str) -> Controller | None:
        """The controller by name; None where it is bound nowhere."""
        return next((one for one in self.controllers if one.name == name), None)
