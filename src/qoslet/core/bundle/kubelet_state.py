"""What a bundle tells of the work of the kubelet of its node, so that an audit of it waits for the same as
one of the node did, of the CPUs and memory that the kubelet has handed out, and of the releases that it may be."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from qoslet.core.bundle.fields import Rename
from qoslet.core.managers.container_manager import Assignments
from qoslet.core.managers.memory_manager import MemoryBlock
from qoslet.core.node.fields import cpus as cpus_of
from qoslet.core.node.running_kubelet.work import KubeletWork
from qoslet.core.node.topology import NO_CPUS, listed


class AssignedResources(Struct, omit_defaults=True):
    """The exclusive CPUs of a container, in list format, and its memory."""

    cpus: str = ""
    memory: list[MemoryBlock] = []


class HeldValue(Struct):
    """A value that qoslet's agent keeps beside the kubelet."""

    path: str
    file: str
    value: str


class KubeletState(Struct, rename="camel"):
    """The field ``kubelet`` of ``bundle.json``, with pods by their UIDs; ``assigned`` by UID and container.
    ``releases`` are those that it may be besides the node's, where it did not tell its own."""

    running: list[str] = []
    ready: list[str] | None = None
    older: list[str] | None = None
    is_new: bool = False
    has_changed: bool = False
    is_assigning: bool = False
    assigned: dict[str, dict[str, AssignedResources]] = {}
    releases: list[str] = []
    held: list[HeldValue] = []

    def work(self) -> KubeletWork:
        """The same for an audit."""
        return KubeletWork(
            running=frozenset(self.running),
            ready=None if self.ready is None else frozenset(self.ready),
            is_new=self.is_new,
            has_changed=self.has_changed,
            older=None if self.older is None else frozenset(self.older),
            is_assigning=self.is_assigning,
        )

    def assignments(self) -> Assignments:
        """What is assigned, for a plan."""
        rows = [
            ((uid, name), one)
            for uid, containers in self.assigned.items()
            for name, one in containers.items()
        ]
        return Assignments(
            {holder: frozenset(cpus_of(one.cpus) or ()) for holder, one in rows if one.cpus},
            {holder: tuple(one.memory) for holder, one in rows if one.memory},
        )


def kubelet_state(
    work: KubeletWork,
    kept: Assignments | None,
    rename: Rename,
    releases: Sequence[str] = (),
    held: Sequence[HeldValue] = (),
) -> KubeletState:
    """What goes into a bundle; ``rename`` gives names others, but for those of the cgroups of ``held``."""

    def uids(found: frozenset[str]) -> list[str]:
        return [rename("uid", uid) for uid in sorted(found)]

    return KubeletState(
        running=uids(work.running),
        ready=None if work.ready is None else uids(work.ready),
        older=None if work.older is None else uids(work.older),
        is_new=work.is_new,
        has_changed=work.has_changed,
        is_assigning=work.is_assigning,
        assigned={} if kept is None else _assigned(kept, rename),
        releases=list(releases),
        held=list(held),
    )


def _assigned(kept: Assignments, rename: Rename) -> dict[str, dict[str, AssignedResources]]:
    found: dict[str, dict[str, AssignedResources]] = {}
    for holder in sorted({*kept.cpus, *kept.memory}):
        uid, name = rename("uid", holder[0]), rename("container", holder[1])
        cpus = listed(kept.cpus.get(holder, NO_CPUS))
        memory = list(kept.memory.get(holder, ()))
        found.setdefault(uid, {})[name] = AssignedResources(cpus, memory)
    return found
