"""Which releases a kubelet may be that did not tell its own: /metrics takes seconds on a busy node."""

from __future__ import annotations

from qoslet.app.node.found_node import RELEASE, FoundNode
from qoslet.core.node.running_kubelet.release import oldest_release
from qoslet.core.versions.kubernetes import NEWEST


def possible_releases(found: FoundNode) -> tuple[str, ...]:
    """The releases that the kubelet may be besides the newest, which is assumed; none where it told its own, or
    nothing tells which they are."""
    if found.note(RELEASE).state == "ok":
        return ()
    configurations = (document.get("kubeletconfig") for _, document in found.documents)
    oldest = next((oldest_release(one) for one in configurations if one is not None), None)
    return () if oldest is None else tuple(f"1.{minor}" for minor in range(oldest, NEWEST))
