"""What a bundle tells of the work of the kubelet of its node, so that an audit of it waits for the same as
one of the node did."""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.audit.kubelet_work import KubeletWork
from qoslet.core.bundle.fields import Rename


class KubeletState(Struct, rename="camel"):
    """The field ``kubelet`` of ``bundle.json``, with pods by their UIDs."""

    running: list[str] = []
    ready: list[str] | None = None
    older: list[str] | None = None
    is_new: bool = False
    has_changed: bool = False

    def work(self) -> KubeletWork:
        """The same for an audit."""
        return KubeletWork(
            running=frozenset(self.running),
            ready=None if self.ready is None else frozenset(self.ready),
            is_new=self.is_new,
            has_changed=self.has_changed,
            older=None if self.older is None else frozenset(self.older),
        )


def kubelet_state(work: KubeletWork, rename: Rename) -> KubeletState:
    """What goes into a bundle; ``rename`` gives names others."""

    def uids(found: frozenset[str]) -> list[str]:
        return [rename("uid", uid) for uid in sorted(found)]

    return KubeletState(
        running=uids(work.running),
        ready=None if work.ready is None else uids(work.ready),
        older=None if work.older is None else uids(work.older),
        is_new=work.is_new,
        has_changed=work.has_changed,
    )
